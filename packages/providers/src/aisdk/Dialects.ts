/**
 * Dialects of the wire formats: the parts of a conversation that a target accepts, given its format and model.
 *
 * An unknown capability counts as missing, so a conversation may be sent in a plainer form than necessary.
 */
import { Dialect } from "@outlast/agent/conversation"
import type { ModelInfo } from "@outlast/agent"

/** Gives the dialect of a wire format for a model with these capabilities, at a server with this base URL. */
export type DialectOf = (
  model: string,
  capabilities: ModelInfo.Capabilities,
  endpoint?: string
) => Dialect.Dialect

const name64 = /^[a-zA-Z0-9_-]{1,64}$/

/** Images that Anthropic and OpenAI accept. The client resolves the asterisk. */
const pictures = ["image/jpeg", "image/png", "image/gif", "image/webp", "image/*"]
/** Further media types that the client packages for Chat Completions send. */
const documents = ["application/pdf", "audio/wav", "audio/mp3", "audio/mpeg"]

/** Media types of links that Gemini fetches, in addition to images. */
const links = ["application/", "audio/", "video/", "text/"]

/** Media types to send: no images if the model is known not to read them. */
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

/** OpenAI Chat Completions. The format has no field for reasoning, so reasoning is left out. */
export const chat: DialectOf = (_, capabilities) => ({
  ...openai,
  format: "openai-chat",
  thinking: "plain",
  callId: /^.{1,40}$/s,
  files: files(capabilities, documents),
  linkedFiles: ["image/"]
})

/** OpenAI Responses. Reasoning and item ids are valid only in the organisation that created them. */
export const responses: DialectOf = (_, capabilities) => ({
  ...openai,
  format: "openai-responses",
  callId: /^.{1,64}$/s,
  providerCalls: /^(?:ws|fs|ci|ig|cu|mcp|mcpr|apc|sh|tsc)_/,
  files: files(capabilities, ["application/pdf"])
})

/**
 * Chat Completions at other vendors. Each provider refuses other things, so no two share a format.
 *
 * Thinking goes into the field `reasoning_content`. Cerebras, Groq and Mistral refuse a request with that field.
 * DeepSeek, Kimi and Qwen, when they think, refuse a tool call without it. Chat templates of open models refuse late
 * system messages and two consecutive messages of one role.
 */
export const compatible: DialectOf = (model, capabilities, endpoint = "") => ({
  ...openai,
  namespaces: ["openaiCompatible"],
  thinking: refusesThinking.test(endpoint) ? "none" : wantsThinking.test(model) ? "required" : "plain",
  callId: Dialect.defaults.callId,
  system: "leading",
  alternates: true,
  files: files(capabilities, [...documents, "text/"]),
  linkedFiles: ["image/"],
  ...(isMistral(model, endpoint) ? mistral : undefined),
  ...(/^https:\/\/api\.perplexity\./.test(endpoint) ? ({ ending: "user" } as const) : undefined)
})

/**
 * Mistral's own checks, also of its models behind other servers: ids of nine letters and digits, no fields that it does
 * not know, no user message right after results, and a last message that is not the assistant's.
 */
const mistral = {
  thinking: "none",
  callId: /^[a-zA-Z0-9]{9}$/,
  ending: "user",
  afterResults: "I have the results."
} as const

const isMistral = (model: string, endpoint: string): boolean =>
  /^https:\/\/(?:api|codestral)\.mistral\./.test(endpoint) ||
  /(?:mis|mix|minis|magis|codes|devs|pix|vox)tral/i.test(model)

const refusesThinking = /^https:\/\/api\.(?:cerebras|groq)\./
const wantsThinking = /deepseek|kimi|qwen|qwq/i

/** Gemini. From version 3 on, a tool call is sent back with its signature, or with the placeholder for a lost one. */
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
  // A link needs its whole media type: the client cannot read it from the content.
  linkedFiles: [...pictures.filter((type) => !type.includes("*")), "image/hei", ...links],
  assistantFiles: true
})

/**
 * The dialect of a custom client, known only by the name of its provider. The client leaves out, with a warning, the
 * parts that it cannot send.
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
