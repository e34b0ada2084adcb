/**
 * Drops thinking that is bound to the messages before it. Some models reject thinking when an earlier message was
 * edited. All thinking after the first edit is therefore removed whole; thinking before the edit stays. Pure.
 *
 * `ModelInfo` names these models: `capabilities.bindsThinking`.
 */
import type { Prompt } from "effect/ai"

type Messages = ReadonlyArray<Prompt.Message>

/** Removes thinking after the first message that differs from `before`. Returns the same array when there is none. */
export const drop = (after: Messages, before: Messages): Messages => {
  let edit = 0
  while (edit < after.length && after[edit] === before[edit]) edit++
  if (!after.some((message, i) => i >= edit && thinks(message))) return after
  return after.flatMap((message, i): Messages => {
    if (i < edit || message.role !== "assistant" || !thinks(message)) return [message]
    const content = message.content.filter(({ type }) => type !== "reasoning")
    // The message held only thinking, so nothing of it is left.
    return content.length === 0 ? [] : [{ ...message, content }]
  })
}

const thinks = (message: Prompt.Message): boolean =>
  message.role === "assistant" && message.content.some(({ type }) => type === "reasoning")
