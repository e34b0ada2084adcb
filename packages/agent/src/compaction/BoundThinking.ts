/**
 * Thinking that holds only behind the very messages that it followed: where these were edited, all thinking behind the
 * edit goes, whole, because its maker would refuse it. Before the edit it stays as it was. Pure.
 *
 * Which models bind it, their `ModelInfo` says: `capabilities.bindsThinking`.
 */
import type { Prompt } from "effect/ai"

type Messages = ReadonlyArray<Prompt.Message>

/** The messages without thinking behind the first that is not as it was. The same array where there is none. */
export const drop = (after: Messages, before: Messages): Messages => {
  let edit = 0
  while (edit < after.length && after[edit] === before[edit]) edit++
  if (!after.some((message, i) => i >= edit && thinks(message))) return after
  return after.flatMap((message, i): Messages => {
    if (i < edit || message.role !== "assistant" || !thinks(message)) return [message]
    const content = message.content.filter(({ type }) => type !== "reasoning")
    // Nothing was said behind the thinking.
    return content.length === 0 ? [] : [{ ...message, content }]
  })
}

const thinks = (message: Prompt.Message): boolean =>
  message.role === "assistant" && message.content.some(({ type }) => type === "reasoning")
