/**
 * Gemini: `POST /google/v1beta/models/{model}:generateContent` and `:streamGenerateContent?alt=sse`.
 *
 * Fields are read in camel case only. Not supported: streams that are one JSON array (without `alt=sse`), caches,
 * continuation tokens, token counting, tools that run at the provider, several candidates.
 */
import { Result } from "effect"
import { tokensOf } from "../../plan/Conversation.ts"
import * as Answer from "./answer.ts"
import { bodyOf, conversationOf } from "./body.ts"
import type { GoogleError } from "./errors.ts"
import * as Errors from "./errors.ts"
import { contentRules } from "./contentRules.ts"
import { requestRules } from "./requestRules.ts"
import { signatureRules } from "./signatureRules.ts"
import { firstBroken } from "../Rule.ts"
import { parse } from "../shape.ts"
import type { Refusal, Wire } from "../Wire.ts"

/** All rules, in the order in which they are checked. */
export const rules = [...requestRules, ...contentRules, ...signatureRules]

const endpoint = /^\/models\/([^/:]+):(generateContent|streamGenerateContent)$/

export const google: Wire = {
  provider: "google",
  base: "/google/v1beta",
  paths: ["/models/{model}:generateContent", "/models/{model}:streamGenerateContent?alt=sse"],
  serves: ({ path, query }) => {
    const method = endpoint.exec(path)?.[2]
    return method === "generateContent" || (method !== undefined && query.get("alt") === "sse")
  },
  modelIn: (path) => endpoint.exec(path)?.[1],
  key: ({ headers, query }) => headers["x-goog-api-key"] ?? query.get("key") ?? undefined,
  refuseKey: (key) =>
    key === undefined
      ? refuse("key", {
          code: 403,
          message:
            "Method doesn't allow unregistered callers (callers without established identity). Please use API Key " +
            "or other form of API consumer identity to call this API."
        })
      : refuse("key", {
          code: 400,
          message: "API key not valid. Please pass a valid API key.",
          details: [
            {
              "@type": "type.googleapis.com/google.rpc.ErrorInfo",
              reason: "API_KEY_INVALID",
              domain: "googleapis.com",
              metadata: { service: "generativelanguage.googleapis.com" }
            }
          ]
        }),

  read: ({ path, body: text }, options) => {
    const [, model = "", method = ""] = endpoint.exec(path) ?? []
    const json = parse(text)
    if (json === undefined) {
      return refuse("json", { code: 400, message: "Invalid JSON payload received. Expected a value." })
    }
    const decoded = bodyOf(json)
    if (Result.isFailure(decoded)) return refuse("shape", { code: 400, message: decoded.failure })
    const body = decoded.success
    if (options.models !== undefined && !options.models.includes(model)) {
      return refuse("model", { code: 404, message: Errors.unknownModel(model, method) })
    }
    const messages = conversationOf(body)
    const tokens = tokensOf(messages, body.raw["tools"])
    const input = { body, model, tokens, window: options.window(model) }
    const broken = firstBroken(rules, input, options.strict)
    if (broken !== undefined) return refuse(broken.rule, { code: 400, message: broken.problem })
    return {
      refused: false,
      model,
      streaming: method === "streamGenerateContent",
      messages,
      maxOutputTokens: body.generationConfig?.maxOutputTokens,
      inputTokens: tokens,
      answer: (speech, context) => Answer.answer(body, model, speech, context),
      stream: (speech, context) => Answer.stream(body, model, speech, context)
    }
  },

  headers: () => ({ "x-gemini-service-tier": "standard" }),
  error: Errors.errorOf,
  // The API sends no keep-alives. Gateways send comments.
  keepAlive: ": keep-alive\n\n"
}

const refuse = (rule: string, error: GoogleError): Refusal => ({
  refused: true,
  rule,
  status: error.code,
  message: error.message,
  body: () => Errors.bodyOf(error)
})
