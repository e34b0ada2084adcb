/**
 * OpenAI Chat Completions: `POST /openai/v1/chat/completions`.
 *
 * Not spoken: the old `functions`, several choices, audio, log probabilities.
 */
import { Result } from "effect"
import { tokensOf } from "../plan/Conversation.ts"
import * as Answer from "./openai/answer.ts"
import { bodyOf, conversationOf } from "./openai/body.ts"
import type { OpenAiError } from "./openai/errors.ts"
import * as Errors from "./openai/errors.ts"
import { rules } from "./openai/rules.ts"
import { firstBroken } from "./Rule.ts"
import { parse } from "./shape.ts"
import type { Refusal, Wire } from "./Wire.ts"

const type = "invalid_request_error"

export const openai: Wire = {
  provider: "openai",
  base: "/openai/v1",
  path: "/chat/completions",
  key: (headers) => /^Bearer (.+)$/i.exec(headers["authorization"] ?? "")?.[1],
  refuseKey: (key) =>
    key === undefined
      ? refuse("key", 401, {
          type,
          message:
            "You didn't provide an API key. You need to provide your API key in an Authorization header using " +
            "Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
        })
      : refuse("key", 401, {
          type,
          message: `Incorrect API key provided: ${masked(key)}.`,
          code: "invalid_api_key"
        }),

  read: ({ body: text }, options) => {
    const json = parse(text)
    if (json === undefined) {
      return refuse("json", 400, { type, message: "We could not parse the JSON body of your request." })
    }
    const decoded = bodyOf(json)
    if (Result.isFailure(decoded)) return refuse("shape", 400, decoded.failure)
    const body = decoded.success
    if (options.models !== undefined && !options.models.includes(body.model)) {
      return refuse("model", 404, {
        type,
        message: `The model \`${body.model}\` does not exist or you do not have access to it.`,
        code: "model_not_found"
      })
    }
    const messages = conversationOf(body)
    const tokens = tokensOf(messages, body.raw["tools"])
    const broken = firstBroken(rules, { body, tokens, window: options.window(body.model) }, options.strict)
    if (broken !== undefined) return refuse(broken.rule, 400, broken.problem)
    return {
      refused: false,
      model: body.model,
      streaming: body.stream ?? false,
      messages,
      maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
      inputTokens: tokens,
      answer: (speech, context) => Answer.answer(body, speech, context),
      stream: (speech, context) => Answer.stream(body, speech, context)
    }
  },

  headers: ({ requestId }) => ({
    "x-request-id": requestId,
    "openai-organization": "outlast",
    "openai-processing-ms": "42",
    "openai-version": "2020-10-01",
    ...rateLimits
  }),
  error: Errors.errorOf,
  streamError: (error) => Answer.line(Errors.bodyOfWireError(error)),
  // The API sends none of its own; gateways send comments.
  keepAlive: ": keep-alive\n\n"
}

const refuse = (rule: string, status: number, error: OpenAiError): Refusal => ({
  refused: true,
  rule,
  status,
  message: error.message,
  body: () => Errors.bodyOf(error)
})

/** The API echoes the ends of a wrong key. */
const masked = (key: string): string =>
  `${key.slice(0, 3)}${"*".repeat(Math.max(0, key.length - 7))}${key.slice(-4)}`

const rateLimits: Readonly<Record<string, string>> = Object.fromEntries(
  ["requests", "tokens"].flatMap((kind) => [
    [`x-ratelimit-limit-${kind}`, "10000"],
    [`x-ratelimit-remaining-${kind}`, "9999"],
    [`x-ratelimit-reset-${kind}`, "6m0s"]
  ])
)
