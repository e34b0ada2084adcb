/**
 * A conversation as a program keeps it, read: what a codec gives for a body. The codecs are `AnthropicMessages`,
 * `ChatCompletions`, `Gemini` and `EffectPrompt`; here is what they share.
 *
 * A prompt that was read from a body is for measuring and cutting. It is not meant to be sent.
 */
import { Prompt, Tool } from "effect/ai"
import { Marks } from "@outlast/agent/compaction"
import type { JsonObject } from "./Json.ts"
import type { Place } from "./Place.ts"
import type { Sources } from "./Sources.ts"

/** As `--json` names them. */
export type Format = "anthropic-messages" | "openai-chat" | "gemini" | "effect-ai"

export interface Transcript {
  readonly format: Format
  readonly prompt: Prompt.Prompt
  readonly sources: Sources
  /** What the body offers. */
  readonly tools: ReadonlyArray<Tool.Any>
  /** As the body names it. */
  readonly model: string | undefined
  /** Tokens that the answer may have, and the field that says it. */
  readonly outputLimit: { readonly tokens: number; readonly field: string } | undefined
  /** The name of the list in the body. */
  readonly list: "messages" | "contents" | "content"
  /** How many messages the body has. */
  readonly size: number
  /** The body with the messages of this prompt, which compaction has made of the one that was read. */
  readonly write: (prompt: Prompt.Prompt) => JsonObject
}

export const names: Readonly<Record<Format, string>> = {
  "anthropic-messages": "Anthropic Messages",
  "openai-chat": "OpenAI Chat Completions",
  gemini: "Gemini",
  "effect-ai": "effect/ai"
}

/** A tool for the counter. What is no function is described by all that is said of it. */
export const tool = (name: string, description: Place | undefined, parameters: unknown): Tool.Any =>
  Tool.dynamic(name, {
    description: typeof description?.value === "string" ? description.value : undefined,
    // The body's own: nobody calls the tool here.
    parameters: (parameters ?? {}) as JsonObject
  })

/** A limit that the body may state. */
export const limitIn = (place: Place | undefined): Transcript["outputLimit"] => {
  if (place === undefined) return undefined
  const { value, path } = place
  return typeof value === "number" && Number.isInteger(value) && value >= 0
    ? { tokens: value, field: path }
    : place.broken("expected a whole number of tokens")
}

/**
 * A message of the user. One that an earlier compaction has made is known by its words, for these formats have no place
 * for a mark: it is no goal of the user, and what it says is not lost when it is compacted itself.
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

/** As the wording of the default policy begins. */
const summary = /^\[(?:Summary of )?(\d[\d,]*) earlier messages\b/

/** All that a text part or a message says. */
export const saidIn = (message: Prompt.Message): string => {
  if (message.role === "system") return message.content
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
}

/** What a block or part of which nothing is known says: it counts by its length and goes through as it is. */
export const opaque = (value: unknown): string => JSON.stringify(value) ?? ""
