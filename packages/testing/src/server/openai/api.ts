/** Keys, headers and errors that both APIs of OpenAI share. */
import type { ReadOptions, Refusal, Wire } from "../Wire.ts"
import type { OpenAiError } from "./errors.ts"
import * as Errors from "./errors.ts"
import { type } from "./problems.ts"

export const api: Pick<Wire, "provider" | "base" | "key" | "refuseKey" | "headers" | "error"> = {
  provider: "openai",
  base: "/openai/v1",
  key: ({ headers }) => /^Bearer (.+)$/i.exec(headers["authorization"] ?? "")?.[1],
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

  headers: ({ requestId, organisation }) => ({
    "x-request-id": requestId,
    "openai-organization": organisation,
    "openai-processing-ms": "42",
    "openai-version": "2020-10-01",
    ...rateLimits
  }),
  error: Errors.errorOf
}

export const badJson = (): Refusal =>
  refuse("json", 400, { type, message: "We could not parse the JSON body of your request." })

/** Refuses an unknown model. */
export const refuseModel = (model: string, { models }: ReadOptions): Refusal | undefined =>
  models === undefined || models.includes(model)
    ? undefined
    : refuse("model", 404, {
        type,
        message: `The model \`${model}\` does not exist or you do not have access to it.`,
        code: "model_not_found"
      })

export const refuse = (rule: string, status: number, error: OpenAiError): Refusal => ({
  refused: true,
  rule,
  status,
  message: error.message,
  body: () => Errors.bodyOf(error)
})

/** The API echoes both ends of a wrong key. */
const masked = (key: string): string =>
  `${key.slice(0, 3)}${"*".repeat(Math.max(0, key.length - 7))}${key.slice(-4)}`

const rateLimits: Readonly<Record<string, string>> = Object.fromEntries(
  ["requests", "tokens"].flatMap((kind) => [
    [`x-ratelimit-limit-${kind}`, "10000"],
    [`x-ratelimit-remaining-${kind}`, "9999"],
    [`x-ratelimit-reset-${kind}`, "6m0s"]
  ])
)
