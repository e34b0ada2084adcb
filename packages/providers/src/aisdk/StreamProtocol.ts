/**
 * Decides which event of a provider's stream is the last. Pure, one instance per stream.
 *
 * The path of the request selects the protocol: every client appends it to its base URL. A few characters of its data
 * classify most events. The rest, which is rare, is parsed.
 *
 * - The last event ends the body: `[DONE]`, `message_stop`, `response.completed`, `.incomplete`, `.failed`.
 * - A finish reason of Chat Completions or Gemini, or a stop reason of Anthropic, makes the answer complete. Usage may
 *   follow.
 * - Events that the client does not know are skipped, because the client would fail on them. Never skipped are events
 *   named `error`, data with an error object, and an incomplete object. An `error` of `null` is not an error object.
 * - `[DONE]` of Responses after the ends of all items: the last event is added, without usage.
 * - `[DONE]` without a finish reason: some servers of Chat Completions omit it. An answer with text and without
 *   tool calls gets the finish reason {@link unknownFinish}. With tool calls, or without text, it stays unfinished.
 *
 * Limits: streams at other paths pass unchanged, up to `[DONE]`.
 */
import { EventFacts } from "@outlast/agent/failure"

/**
 * - `last`: no event follows.
 * - `complete`: the answer is complete, and events may follow.
 * - `error`: an error in a form that is not the protocol's own. Some clients would hide its reason.
 */
type Verdict = "pass" | "skip" | "complete" | "last" | "error"

export interface StreamProtocol {
  readonly judge: (name: string, data: string) => Verdict
  /** Data of an event that the server left out: to insert before the last one, or at the end of a complete answer. */
  readonly missing: () => string | undefined
}

/** The finish reason of an answer whose server gave none. */
export const unknownFinish = "unknown"

export const of = (url: string): StreamProtocol => {
  const path = (URL.canParse(url) ? new URL(url).pathname : url).replace(/\/+$/, "")
  if (path.endsWith("/chat/completions")) return chat()
  if (path.endsWith("/messages") || path.endsWith(":streamRawPredict")) return anthropic()
  if (path.endsWith("/responses")) return responses()
  return path.endsWith(":streamGenerateContent") ? gemini : other
}

const done = "[DONE]"
const nothing = () => undefined

/** The protocol with the verdicts of `known`, after the rules that all protocols share. */
const protocol = (
  known: StreamProtocol["judge"],
  missing: StreamProtocol["missing"] = nothing
): StreamProtocol => ({
  judge: (name, data) => {
    if (data === done) return "last"
    // A keep-alive without content, which every client reads as broken JSON.
    if (data.trim() === "") return "skip"
    return known(name, data)
  },
  missing
})

const other = protocol(() => "pass")

/** The verdict on an event that the protocol does not know. */
const unknown = (name: string, data: string): Verdict => {
  if (isError(data)) return "error"
  if (name === "error") return "pass"
  // Every event is an object. Other data is a keep-alive in plain words.
  if (!data.trimStart().startsWith("{")) return "skip"
  const value = data.includes('"error"') || name === "" || name === "message" ? parsed(data) : null
  return typeof value !== "object" || hasError(value) ? "pass" : "skip"
}

/** True for any known form of an error: `base_resp`, `code` and `message`, exceptions of AWS. */
const isError = (data: string): boolean =>
  EventFacts.partsOf(`data: ${data.replaceAll("\n", "\ndata: ")}`).some((part) => part.isError)

/** True when a field `error` at any depth has a value. */
const hasError = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.entries(value).some(([name, field]) => (name === "error" ? field !== null : hasError(field)))

const parsed = (data: string): unknown => {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

const typeStart = '{"type":"'

/** The field `type`, if the data has one. */
const typeOf = (data: string): string | undefined => {
  if (data.startsWith(typeStart)) return data.slice(typeStart.length, data.indexOf('"', typeStart.length))
  const value = parsed(data)
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string"
    ? value.type
    : undefined
}

const ofAnthropic: ReadonlySet<string> = new Set([
  "message_start",
  "content_block_start",
  "content_block_delta",
  "content_block_stop",
  "message_delta",
  "message_stop",
  "ping",
  "error"
])

/** The beginning of most events. */
const deltas = {
  anthropic: `${typeStart}content_block_delta"`,
  responses: `${typeStart}response.output_text.delta"`
} as const

/** Without `message_stop`, the client reads an answer as cut. */
const anthropic = (): StreamProtocol => {
  let hasReason = false
  let isStopped = false
  return protocol(
    (name, data) => {
      if (data.startsWith(deltas.anthropic)) return "pass"
      const type = typeOf(data)
      if (type === "message_stop") {
        isStopped = true
        return "last"
      }
      if (type === "message_delta" && textOf(data, "stop_reason", 0) !== undefined) {
        hasReason = true
        return "complete"
      }
      return type !== undefined && ofAnthropic.has(type) ? "pass" : unknown(name, data)
    },
    () => (hasReason && !isStopped ? stopOfAnthropic : undefined)
  )
}

const stopOfAnthropic = JSON.stringify({ type: "message_stop" })

const endsOfResponses: ReadonlySet<string> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed"
])

/** The client of Responses skips types that it does not know. */
const responses = (): StreamProtocol => {
  let begun = 0
  let ended = 0
  let isLast = false
  return protocol(
    (name, data) => {
      if (data.startsWith(deltas.responses)) return "pass"
      const type = typeOf(data)
      if (type === undefined) return unknown(name, data)
      if (type === "response.output_item.added") begun++
      if (type === "response.output_item.done") ended++
      isLast = endsOfResponses.has(type)
      return isLast ? "last" : "pass"
    },
    () => (!isLast && ended > 0 && ended >= begun ? endOfResponses : undefined)
  )
}

const endOfResponses = JSON.stringify({ type: "response.completed", response: {} })

/**
 * The position of a field, or -1. Quotes inside of texts are escaped, so quotes on both sides mark a field name. The
 * search looks for the name first, because a search for a quote would stop at every field.
 */
const indexOfField = (data: string, name: string, from = 0): number => {
  for (let at = data.indexOf(name, from); at !== -1; at = data.indexOf(name, at + 1)) {
    if (data.charCodeAt(at - 1) === quote && data.charCodeAt(at + name.length) === quote) return at
  }
  return -1
}

/** The text of a field, if it has content. */
const textOf = (data: string, name: string, from: number): string | undefined => {
  for (let at = indexOfField(data, name, from); at !== -1; at = indexOfField(data, name, at)) {
    at = behindSpace(data, at + name.length + 1)
    if (data.charCodeAt(at) !== colon) continue
    at = behindSpace(data, at + 1)
    if (data.charCodeAt(at) !== quote) continue
    const end = data.indexOf('"', at + 1)
    if (end > at + 1) return data.slice(at + 1, end)
  }
  return undefined
}

const colon = 58
const quote = 34

const behindSpace = (data: string, at: number): number => {
  while (data.charCodeAt(at) <= 32) at++
  return at
}

const gemini = protocol((name, data) => {
  const at = indexOfField(data, "candidates")
  if (at === -1) {
    const isKnown = indexOfField(data, "usageMetadata") !== -1 || indexOfField(data, "promptFeedback") !== -1
    return isKnown ? "pass" : unknown(name, data)
  }
  const reason = textOf(data, "finishReason", at)
  // The client continues such an answer with another request.
  return reason === undefined || reason === "CONTINUATION" ? "pass" : "complete"
})

const chat = (): StreamProtocol => {
  let hasText = false
  let hasCall = false
  let isFinished = false
  return protocol(
    (name, data) => {
      const at = indexOfField(data, "choices")
      if (at === -1) return unknown(name, data)
      hasText ||= text.test(data)
      hasCall ||= data.includes("_call", at) && call.test(data)
      if (textOf(data, "finish_reason", at) === undefined) return "pass"
      isFinished = true
      return "complete"
    },
    () => (hasText && !hasCall && !isFinished ? finishOfChat : undefined)
  )
}

const text = /"(?:content|refusal)"\s*:\s*(?:"[^"]|\[\s*\{)/
const call = /"(?:tool_calls"\s*:\s*\[\s*\{|function_call"\s*:\s*\{)/

const finishOfChat = JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: unknownFinish }] })
