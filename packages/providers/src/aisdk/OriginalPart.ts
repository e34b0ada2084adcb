/**
 * Original messages and parts of an AI SDK prompt, attached to their effect/ai counterparts.
 *
 * effect/ai has no custom parts, no reasoning files, no denials and no file references. Each message and each part
 * therefore carries its original under a symbol until it reaches a target. An unchanged part is sent as the AI SDK
 * wrote it. Storing a conversation, or rewriting a part, loses the original: then the effect/ai part is sent.
 */
import type { LanguageModelV4Message } from "@ai-sdk/provider"
import type { Prompt } from "effect/ai"

export type Part = Exclude<LanguageModelV4Message["content"], string>[number]

const key = Symbol("@outlast/providers/aisdk/OriginalPart")

interface Kept<Original> {
  readonly original: Original
  /** The effect/ai counterpart, to detect changes. */
  readonly made: object
}

/** The message with its original. Each part gets the original at the same position. */
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
  // Spreading keeps the type of each part.
  return carrying({ ...made, content } as Prompt.Message, original)
}

/** Placeholder for a file stored at a provider. Only the original has its location. */
export const reference = new URL("reference:")

export const isReference = (data: unknown): boolean => String(data) === reference.href

const carrying = <A extends object, Original>(made: A, original: Original): A => {
  const kept: Kept<Original> = { original, made }
  return { ...made, [key]: kept }
}

/** The original of a part, if only the options of the part have changed. */
export const ofPart = (part: Prompt.Part): Part | undefined => {
  const kept = keptIn<Part>(part)
  if (kept === undefined) return undefined
  const isSame = Object.entries(kept.made).every(
    ([field, value]) => field === "options" || Reflect.get(part, field) === value
  )
  return isSame ? kept.original : undefined
}

/** The original of a message, even if its parts have changed. */
export const ofMessage = (message: Prompt.Message): LanguageModelV4Message | undefined =>
  keptIn<LanguageModelV4Message>(message)?.original

/** Only `attach` writes this field. */
const keptIn = <Original>(self: object): Kept<Original> | undefined =>
  (self as { readonly [key]?: Kept<Original> })[key]
