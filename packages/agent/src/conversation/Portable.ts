/**
 * A conversation made legal for the target that it goes to, whoever made its parts.
 *
 * Pure, and the same object where there is nothing to do. What is done to a message depends on what stands before
 * it, not on what comes later, as far as the target allows that: caches of prompts stay good, and thinking that is
 * bound to all that stands before it stays valid from turn to turn.
 *
 * No text of the user is lost. What is done at which target is in `docs/providers.md`. It does not shorten a
 * conversation, does not rename the tools that are offered (`ToolNames` does), and does not fetch files.
 *
 * **Example** (What a target would be sent)
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
import type { ToolNames } from "./ToolNames.ts"
import * as Wordings from "./Wording.ts"
import type { Wording } from "./Wording.ts"

export interface Options {
  readonly ref: TargetRef
  /** Default: {@link Dialects.defaults}. */
  readonly dialect?: Dialect | undefined
  /** Default: in English. */
  readonly wording?: Wording | undefined
  /** Images and files that are said in words although the dialect takes their type. Default: none. */
  readonly refuses?: ((file: Prompt.FilePart) => boolean) | undefined
  /** What the tools that are offered are called there. Default: as here, if the dialect takes it. */
  readonly names?: ToolNames | undefined
}

export const adapt = (prompt: Prompt.Prompt, options: Options): Prompt.Prompt => {
  const to: Parts.Destination = {
    ref: options.ref,
    dialect: options.dialect ?? Dialects.defaults,
    wording: options.wording ?? Wordings.defaults,
    names: options.names,
    refuses: options.refuses
  }
  const prefilled = prompt.content.at(-1)?.role === "assistant"
  const messages = Roles.fit(Pairs.fit(Parts.fit(prompt.content, to), to), to, prefilled)
  return messages === prompt.content ? prompt : Prompt.fromMessages(messages)
}
