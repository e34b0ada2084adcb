/**
 * Identifiers that a summary must not lose. Pure.
 */
import type { Prompt } from "effect/ai"
import * as Transcribed from "./Transcribed.ts"

type Messages = ReadonlyArray<Prompt.Message>

/** Required identifiers that occur in the removed messages and not in the remaining ones. */
export const atRisk = (
  required: ReadonlyArray<string>,
  gone: Messages,
  kept: Messages
): ReadonlyArray<string> => {
  if (required.length === 0) return []
  const staying = kept.map(Transcribed.bodyOf)
  const going = gone.map(Transcribed.bodyOf)
  return [...new Set(required)].filter(
    (id) => going.some((text) => text.includes(id)) && !staying.some((text) => text.includes(id))
  )
}

export const missing = (required: ReadonlyArray<string>, text: string): ReadonlyArray<string> =>
  required.filter((id) => !text.includes(id))

/** Number of characters of context before and after an identifier. */
const around = 60

/** The identifiers, each with the text around its last occurrence. */
export const inContext = (
  ids: ReadonlyArray<string>,
  gone: Messages
): ReadonlyArray<{ readonly id: string; readonly context: string }> => {
  const texts = gone.map(Transcribed.bodyOf)
  return ids.map((id) => {
    const text = texts.findLast((text) => text.includes(id)) ?? id
    const at = text.lastIndexOf(id)
    const context = text.slice(Math.max(0, at - around), at + id.length + around)
    return { id, context: Transcribed.summary(context).replace(/\s+/g, " ") }
  })
}
