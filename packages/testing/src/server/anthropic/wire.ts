/**
 * Anthropic Messages: `POST /anthropic/v1/messages`.
 *
 * Supports the versions `2023-06-01` and `2026-10-21`. Not supported: token counting, batches, files, tools that run at
 * the provider.
 */
import { Result } from "effect"
import { tokensOf } from "../../plan/Conversation.ts"
import * as Answer from "./answer.ts"
import { bodyOf, conversationOf } from "./body.ts"
import * as Errors from "./errors.ts"
import { messageRules } from "./messageRules.ts"
import { rulesOf } from "./models.ts"
import type { Input } from "./rules.ts"
import { parameterRules } from "./rules.ts"
import { thinkingRules } from "./thinkingRules.ts"
import { firstBroken } from "../Rule.ts"
import { parse } from "../shape.ts"
import type { Refusal, Wire } from "../Wire.ts"

/** All rules, in the order in which they are checked. */
export const rules = [...parameterRules, ...messageRules, ...thinkingRules]

const versions = ["2023-06-01", "2026-10-21"]
const maxBytes = 32 * 1024 * 1024

export const anthropic: Wire = {
  provider: "anthropic",
  base: "/anthropic/v1",
  paths: ["/messages"],
  serves: ({ path }) => path === "/messages",
  key: ({ headers }) => headers["x-api-key"] ?? /^Bearer (.+)$/i.exec(headers["authorization"] ?? "")?.[1],
  refuseKey: (key) =>
    refuse(
      "key",
      401,
      "authentication_error",
      key === undefined ? "x-api-key header is required" : "invalid x-api-key"
    ),

  read: ({ headers, body: text }, options) => {
    if (Buffer.byteLength(text) > maxBytes) {
      return refuse("size", 413, "request_too_large", "Request exceeds the maximum size")
    }
    const version = headers["anthropic-version"]
    if (version === undefined) return invalid("version", "anthropic-version: header is required")
    if (!versions.includes(version)) {
      return invalid("version", `anthropic-version: "${version}" is not a valid version`)
    }
    const json = parse(text)
    if (json === undefined) return invalid("json", "The request body is not valid JSON")
    const decoded = bodyOf(json)
    if (Result.isFailure(decoded)) return invalid("shape", decoded.failure)
    const body = decoded.success
    if (options.models !== undefined && !options.models.includes(body.model)) {
      return refuse("model", 404, "not_found_error", `model: ${body.model}`)
    }
    const messages = conversationOf(body)
    const tokens = tokensOf(messages, body.raw["tools"])
    const input: Input = {
      body,
      model: rulesOf(body.model),
      version,
      betas: (headers["anthropic-beta"] ?? "")
        .split(",")
        .map((beta) => beta.trim())
        .filter((beta) => beta !== ""),
      tokens,
      window: options.window(body.model),
      organisation: options.organisation
    }
    const broken = firstBroken(rules, input, options.strict)
    if (broken !== undefined) return invalid(broken.rule, broken.problem)
    return {
      refused: false,
      model: body.model,
      streaming: body.stream ?? false,
      messages,
      maxOutputTokens: body.max_tokens,
      inputTokens: tokens,
      answer: (speech, context) => Answer.answer(body, speech, context),
      stream: (speech, context) => Answer.stream(body, speech, context)
    }
  },

  headers: ({ requestId, now }) => ({
    "request-id": requestId,
    "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
    ...rateLimits(now)
  }),
  error: Errors.errorOf,
  keepAlive: Answer.event("ping", {})
}

const refuse = (rule: string, status: number, type: string, message: string): Refusal => ({
  refused: true,
  rule,
  status,
  message,
  body: (requestId) => Errors.bodyOf({ type, message }, requestId)
})

const invalid = (rule: string, message: string): Refusal =>
  refuse(rule, 400, "invalid_request_error", message)

const rateLimits = (now: number): Readonly<Record<string, string>> => {
  const reset = new Date(now + 60_000).toISOString().replace(/\.\d+Z$/, "Z")
  return Object.fromEntries(
    ["requests", "tokens", "input-tokens", "output-tokens"].flatMap((kind) => [
      [`anthropic-ratelimit-${kind}-limit`, "100000"],
      [`anthropic-ratelimit-${kind}-remaining`, "99000"],
      [`anthropic-ratelimit-${kind}-reset`, reset]
    ])
  )
}
