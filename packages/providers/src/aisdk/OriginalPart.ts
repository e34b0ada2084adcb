/**
 * Messages and parts of a prompt of the AI SDK, beside those of effect/ai that stand for them.
 *
 * effect/ai has no custom parts, no files of the reasoning, no denials and no references to files. So each message and
 * each part carries its original under a symbol, through all that a conversation goes through on its way to a target: a
 * part that nothing has changed is sent as the AI SDK has it. What stores a conversation, or writes a part anew, loses
 * the original: then the part of effect/ai is sent.
 */
import type { LanguageModelV4Message } from "@ai-sdk/provider"
import type { Prompt } from "effect/ai"

export type Part = Exclude<LanguageModelV4Message["content"], string>[number]

const key = Symbol("@outlast/providers/aisdk/OriginalPart")

interface Kept<Original> {
  readonly original: Original
  /** What was made of it. */
  readonly made: object
}

/** The message with its original, and with those of its parts, which stand in the same places. */
export const attach = (
  made: Prompt.Message,
  original: LanguageModelV4Message | undefined
): Prompt.Message => {
  if (original === undefined) return made
  if (made.role === "system" || typeof original.content === "string") return carrying(made, original)
  const parts: ReadonlyArray<Part> = original.content
  const content = made.content.map((part, i) => {
    const from = parts[i]
    return from === undefined ? part : carrying(part, from)
  })
  // Each part is what it was.
  return carrying({ ...made, content } as Prompt.Message, original)
}

/** Stands for a file that lies at a provider, of which only the original knows where. */
export const reference = new URL("reference:")

export const isReference = (data: unknown): boolean => String(data) === reference.href

const carrying = <A extends object, Original>(made: A, original: Original): A => {
  const kept: Kept<Original> = { original, made }
  return { ...made, [key]: kept }
}

/** The original of a part in which nothing has changed but its options. */
export const ofPart = (part: Prompt.Part): Part | undefined => {
  const kept = keptIn<Part>(part)
  if (kept === undefined) return undefined
  const isSame = Object.entries(kept.made).every(
    ([field, value]) => field === "options" || Reflect.get(part, field) === value
  )
  return isSame ? kept.original : undefined
}

/** The original of a message, whatever became of its parts. */
export const ofMessage = (message: Prompt.Message): LanguageModelV4Message | undefined =>
  keptIn<LanguageModelV4Message>(message)?.original

/** `attach` writes it, and nothing else. */
const keptIn = <Original>(self: object): Kept<Original> | undefined =>
  (self as { readonly [key]?: Kept<Original> })[key]
