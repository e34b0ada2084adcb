/**
 * Makes a conversation legal for the target that it is sent to, whichever models wrote it.
 *
 * Pure. Returns the same object when nothing changes. Where the target allows it, each message is changed depending
 * only on the messages before it. Prompt caches stay valid, and so does thinking that is bound to earlier messages.
 *
 * No text of the user is lost. `docs/lookup/providers.md` lists the changes for each target. It does not shorten a
 * conversation, does not rename offered tools (`ToolNames` does), and does not fetch files.
 *
 * **Example** (The prompt that a target receives)
 *
 * ```ts
 * Portable.adapt(prompt, { ref, dialect: Dialect.defaults })
 * ```
 */
import { Prompt } from "effect/ai"
import type { TargetRef } from "./TargetRef.ts"
import * as Dialects from "./Dialect.ts"
import type { Dialect } from "./Dialect.ts"
import * as Pairs from "./Pairs.ts"
import * as Parts from "./Parts.ts"
import * as Roles from "./Roles.ts"
import type { Ids } from "./CallIds.ts"
import type { ToolNames } from "./ToolNames.ts"
import * as Wordings from "./Wording.ts"
import type { Wording } from "./Wording.ts"

export interface Options {
  readonly ref: TargetRef
  /** Default: {@link Dialects.defaults}. */
  readonly dialect?: Dialect | undefined
  /** Texts for the model. Default: English. */
  readonly wording?: Wording | undefined
  /** Selects images and files to describe in words although the dialect accepts their type. Default: none. */
  readonly refuses?: ((file: Prompt.FilePart) => boolean) | undefined
  /** Leaves out thinking, signatures and item ids, also the target's own. Default: false. */
  readonly omitsThinking?: boolean | undefined
  /** Names of the offered tools at the target. Default: unchanged, when the dialect accepts them. */
  readonly names?: ToolNames | undefined
}

export const adapt = (prompt: Prompt.Prompt, options: Options): Prompt.Prompt => {
  const to = destinationOf(options)
  const messages = ended(fit(prompt.content, to, whole), to, isPrefilled(prompt))
  return messages === prompt.content ? prompt : Prompt.fromMessages(messages)
}

/** The options with their defaults. */
export const destinationOf = ({
  ref,
  dialect,
  wording,
  names,
  refuses,
  omitsThinking = false
}: Options): Parts.Destination => ({
  ref,
  dialect: dialect ?? Dialects.defaults,
  wording: wording ?? Wordings.defaults,
  names,
  refuses,
  omitsThinking
})

/** Part of a conversation: consecutive messages of it. */
export interface Piece {
  /** False when other messages stand before these. */
  readonly begins: boolean
  /** True for all messages of the conversation. */
  readonly isWhole: boolean
  /** Call ids of the messages before, where these take theirs. Default: none. */
  readonly ids?: Ids | undefined
}

const whole: Piece = { begins: true, isWhole: true }

/** The messages of a piece without the end of the conversation, for which {@link ended} is. */
export const fit = (
  messages: ReadonlyArray<Prompt.Message>,
  to: Parts.Destination,
  { begins, isWhole, ids }: Piece
): ReadonlyArray<Prompt.Message> =>
  Roles.fit(Pairs.fit(Parts.fit(messages, to, isWhole), to, ids), to, begins)

export const ended = Roles.ended

/** True when the program began the answer. */
export const isPrefilled = ({ content }: Prompt.Prompt): boolean => content.at(-1)?.role === "assistant"
