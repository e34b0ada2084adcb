/**
 * A parsed conversation: the result of a codec for a request body, and helpers that the codecs share. The codecs are
 * `AnthropicMessages`, `ChatCompletions`, `Gemini` and `EffectPrompt`.
 *
 * The prompt in a transcript is for measuring and cutting. It is not meant to be sent.
 */
import { Prompt, Tool } from "effect/ai"
import { Marks } from "@outlast/agent/compaction"
import type { JsonObject } from "./Json.ts"
import type { JsonCursor } from "./JsonCursor.ts"
import type { Sources } from "./Sources.ts"

/** Names of the formats in `--json`. */
export type Format = "anthropic-messages" | "openai-chat" | "gemini" | "effect-ai"

export interface Transcript {
  readonly format: Format
  readonly prompt: Prompt.Prompt
  readonly sources: Sources
  /** Tools offered in the body. */
  readonly tools: ReadonlyArray<Tool.Any>
  /** Model named in the body. */
  readonly model: string | undefined
  /** Maximum tokens of the answer, and the field that states it. */
  readonly outputLimit: { readonly tokens: number; readonly field: string } | undefined
  /** Name of the list of messages in the body. */
  readonly list: "messages" | "contents" | "content"
  /** Number of messages in the body. */
  readonly size: number
  /** Returns the body with the messages of this prompt, which compaction made from the one that was read. */
  readonly write: (prompt: Prompt.Prompt) => JsonObject
}

export const names: Readonly<Record<Format, string>> = {
  "anthropic-messages": "Anthropic Messages",
  "openai-chat": "OpenAI Chat Completions",
  gemini: "Gemini",
  "effect-ai": "effect/ai"
}

/** A tool for the token counter. A tool that is not a function is described by its whole JSON. */
export const tool = (name: string, description: JsonCursor | undefined, parameters: unknown): Tool.Any =>
  Tool.dynamic(name, {
    description: typeof description?.value === "string" ? description.value : undefined,
    // The parameters of the body. The tool is never called here.
    parameters: (parameters ?? {}) as JsonObject
  })

/** Returns the output limit of the body, if it states one. */
export const limitIn = (place: JsonCursor | undefined): Transcript["outputLimit"] => {
  if (place === undefined) return undefined
  const { value, path } = place
  return typeof value === "number" && Number.isInteger(value) && value >= 0
    ? { tokens: value, field: path }
    : place.broken("expected a whole number of tokens")
}

/**
 * Creates a user message. A summary from an earlier compaction is recognised by its text, because these formats have no
 * field for a mark. A summary is not a goal of the user, and its content is kept when it is compacted again.
 */
export const userMessage = (content: ReadonlyArray<Prompt.UserMessagePart>): Prompt.UserMessage => {
  const [first, second] = content
  const text = first?.type === "text" && second === undefined ? first.text : ""
  const messages = summary.exec(text)?.[1]
  return Prompt.makeMessage("user", {
    content,
    ...(messages === undefined ? {} : { options: Marks.summary(Number(messages.replaceAll(",", ""))) })
  })
}

/** Start of a summary by the default policy. */
const summary = /^\[(?:Summary of )?(\d[\d,]*) earlier messages\b/

/** Returns the whole text of a message. */
export const saidIn = (message: Prompt.Message): string => {
  if (message.role === "system") return message.content
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
}

/** Returns an unknown block or part as text, which counts by its length and is passed through unchanged. */
export const opaque = (value: unknown): string => JSON.stringify(value) ?? ""
