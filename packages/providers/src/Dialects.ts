/**
 * What the wire formats take of a conversation, with the habits of the model where it has any.
 *
 * What is not known of a model counts as not there: a conversation then is a little plainer than it need be.
 */
import { Dialect } from "@outlast/agent/conversation"
import type { ModelInfo } from "@outlast/agent"

/** What a wire format takes, of a model with these capabilities, at a server with this base URL. */
export type DialectOf = (
  model: string,
  capabilities: ModelInfo.Capabilities,
  endpoint?: string
) => Dialect.Dialect

const name64 = /^[a-zA-Z0-9_-]{1,64}$/

/** Images that Anthropic and OpenAI take; an asterisk is for the client to find out. */
const pictures = ["image/jpeg", "image/png", "image/gif", "image/webp", "image/*"]
/** Further media types that the client packages for Chat Completions send. */
const documents = ["application/pdf", "audio/wav", "audio/mp3", "audio/mpeg"]

/** Models that are known to see nothing get no images. */
const files = ({ images }: ModelInfo.Capabilities, others: ReadonlyArray<string>): ReadonlyArray<string> =>
  images === false ? others : [...pictures, ...others]

/** Anthropic Messages. */
export const anthropic: DialectOf = (_, capabilities) => ({
  ...Dialect.defaults,
  format: "anthropic-messages",
  namespaces: ["anthropic"],
  bound: capabilities.bindsAccount === true ? "target" : "model",
  providerCalls: /^(?:srvtoolu|mcptoolu)_/,
  callId: /^[a-zA-Z0-9_-]+$/,
  toolName: name64,
  system: capabilities.systemMessages === true ? "between" : "leading",
  ending: capabilities.prefill === true ? "prefill" : "user",
  callsFollowUser: false,
  alternates: false,
  files: files(capabilities, ["application/pdf", "text/plain"])
})

const openai: Dialect.Dialect = {
  ...Dialect.defaults,
  namespaces: ["openai"],
  toolName: name64,
  system: "anywhere",
  ending: "any",
  callsFollowUser: false,
  alternates: false
}

/** OpenAI Chat Completions: reasoning is not sent, so that none is wrong. */
export const chat: DialectOf = (_, capabilities) => ({
  ...openai,
  format: "openai-chat",
  thinking: "plain",
  callId: /^.{1,40}$/s,
  files: files(capabilities, documents),
  linkedFiles: ["image/"]
})

/** OpenAI Responses: reasoning and items are good in the organisation that they were made for. */
export const responses: DialectOf = (_, capabilities) => ({
  ...openai,
  format: "openai-responses",
  callId: /^.{1,64}$/s,
  providerCalls: /^(?:ws|fs|ci|ig|cu|mcp|mcpr|apc|sh|tsc)_/,
  files: files(capabilities, ["application/pdf"])
})

/**
 * Chat Completions of anybody else. Each provider refuses other things, so none shares a format with another.
 *
 * Thinking goes into the field `reasoning_content`. Cerebras and Groq refuse a request with that field; DeepSeek, Kimi and
 * Qwen refuse, while they think, a tool call without it. Chat templates of open models refuse late system messages and
 * two messages of one role in a row.
 */
export const compatible: DialectOf = (model, capabilities, endpoint = "") => ({
  ...openai,
  namespaces: ["openaiCompatible"],
  thinking: refusesThinking.test(endpoint) ? "none" : wantsThinking.test(model) ? "required" : "plain",
  callId: Dialect.defaults.callId,
  system: "leading",
  alternates: true,
  files: files(capabilities, [...documents, "text/"]),
  linkedFiles: ["image/"]
})

const refusesThinking = /^https:\/\/api\.(?:cerebras|groq)\./
const wantsThinking = /deepseek|kimi|qwen|qwq/i

/** Gemini. From version 3 on, calls come back with a signature, or with the word that stands for a lost one. */
export const google: DialectOf = (model) => ({
  ...Dialect.defaults,
  format: "gemini",
  namespaces: ["google"],
  callId: /^.+$/s,
  alternates: false,
  toolName: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
  unsignedCall: signs.test(model)
    ? { namespace: "google", field: "thoughtSignature", value: "skip_thought_signature_validator" }
    : undefined,
  assistantFiles: true
})

/**
 * A client of the program's own, of which only the name of its provider is known. The client leaves out, with a warning,
 * what it cannot send.
 */
export const client = (provider: string): Dialect.Dialect => ({
  ...Dialect.defaults,
  namespaces: [
    ...new Set([provider, provider.replace(/[-_.](\w)/g, (_, letter: string) => letter.toUpperCase())])
  ],
  thinking: "plain",
  providerCalls: /^/
})

const signs = /gemini-(?:[3-9]|\d\d)/
