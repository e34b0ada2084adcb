/** Converts a `Prompt` to the messages that a plan reads. */
import type { Prompt } from "effect/ai"
import type { Message } from "./Conversation.ts"
import { tokensOf } from "./Conversation.ts"

export const messagesOf = (prompt: Prompt.Prompt): ReadonlyArray<Message> => prompt.content.flatMap(messageOf)

const messageOf = (message: Prompt.Message): ReadonlyArray<Message> => {
  switch (message.role) {
    case "system":
      return [{ role: "system", text: message.content }]
    case "user":
      return [{ role: "user", text: textOf(message.content) }]
    case "assistant":
      return [
        {
          role: "assistant",
          text: textOf(message.content),
          toolCalls: message.content.flatMap((part) =>
            part.type === "tool-call" ? [{ id: part.id, name: part.name, params: part.params }] : []
          )
        }
      ]
    case "tool":
      return message.content.flatMap((part) =>
        part.type === "tool-result" ? [{ role: "tool", id: part.id, text: resultText(part.result) }] : []
      )
  }
}

const textOf = (parts: ReadonlyArray<Prompt.UserMessagePart | Prompt.AssistantMessagePart>): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("")

const resultText = (result: unknown): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "")

/** Estimates the size of the prompt in tokens. */
export const estimate = (prompt: Prompt.Prompt): number => tokensOf(messagesOf(prompt))
