/**
 * Conversations that go on: a call converts only the messages that are new since the call before.
 *
 * The AI SDK makes new objects for all messages of each call. Here they are compared, field by field, with those of the
 * call before that began with the same text. A message that is the same stays the same object of effect/ai, by which the
 * call machine and `SpecPrompt` recognise what they have already done for it.
 *
 * Messages are compared with copies of them, down to the arguments of a call, because a program may change each of them in
 * place. Objects without fields to compare, such as bytes and URLs, are the same only by identity.
 *
 * **Bounds.** The garbage collector may take a conversation at any time: it is converted again. {@link maxConversations} are
 * known, and the one that was used longest ago is dropped first. Short conversations are not kept.
 */
import type { LanguageModelV4Prompt } from "@ai-sdk/provider"
import { Prompt } from "effect/ai"
import { copied, isSame } from "./Copies.ts"
import * as ServedPrompt from "./ServedPrompt.ts"

/** Conversations to keep, for one model. */
const maxConversations = 32

/** Converting fewer messages costs less than looking for them. */
const shortest = 16

interface Kept {
  /** Copies of the messages. */
  readonly given: Array<unknown>
  readonly made: Array<Prompt.Message>
}

export class ServedConversations {
  /** In the order of use. A conversation that has ended, with its files, leaves with the next garbage collection. */
  readonly #kept = new Map<string, WeakRef<Kept>>()

  decode(prompt: LanguageModelV4Prompt): Prompt.Prompt {
    const key = prompt.length < shortest ? undefined : keyOf(prompt)
    if (key === undefined) return ServedPrompt.decode(prompt)
    const kept = this.#kept.get(key)?.deref() ?? { given: [], made: [] }
    advance(kept, prompt)
    this.#kept.delete(key)
    this.#kept.set(key, new WeakRef(kept))
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > maxConversations && oldest !== undefined) this.#kept.delete(oldest)
    return Prompt.fromMessages(kept.made.slice())
  }
}

/** Converts the messages that are new. */
const advance = ({ given, made }: Kept, prompt: LanguageModelV4Prompt): void => {
  const same = sameIn(prompt, given)
  const rest = prompt.slice(same)
  const messages = ServedPrompt.decode(rest).content
  given.length = same
  made.length = same
  for (const message of rest) given.push(copied(message))
  for (const message of messages) made.push(message)
}

/** The text with which a conversation begins. */
const keyOf = (prompt: LanguageModelV4Prompt): string | undefined => {
  const first = prompt.find(({ role }) => role !== "system")
  const part = first?.role === "user" ? first.content[0] : undefined
  return part?.type === "text" ? part.text : undefined
}

/** Number of messages at the beginning that are the same. */
const sameIn = (prompt: LanguageModelV4Prompt, before: ReadonlyArray<unknown>): number => {
  let same = 0
  while (same < before.length && same < prompt.length && isSame(prompt[same], before[same])) same++
  return same
}
