/** Rejections of an output limit in the words of many providers, from which the stated limit is read. */
import { assert, describe, it } from "@effect/vitest"
import { Classifier, RecoveryPolicy } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"

const openai = (message: string, param: string | null = null) =>
  JSON.stringify({ error: { message, type: "invalid_request_error", param, code: null } })
const pydantic = (message: object | string) =>
  JSON.stringify({ object: "error", message, type: "invalid_request_error", param: null, code: null })

interface Refusal {
  readonly status?: number
  readonly body: string
  /** Output limit in tokens; `undefined` if the text states none. */
  readonly limit: number | undefined
}

const refusals: Readonly<Record<string, Refusal>> = {
  "OpenAI (diffbot/code-gpt-docs#284)": {
    body: openai(
      "max_tokens is too large: 6000. This model supports at most 4096 completion tokens, whereas you provided 6000.",
      "max_tokens"
    ),
    limit: 4_096
  },
  "OpenAI Responses": {
    body: openai(
      "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 20000 instead.",
      "max_output_tokens"
    ),
    limit: 16_384
  },
  "Anthropic (anthropics/claude-code#24451)": {
    body: JSON.stringify({
      type: "error",
      error: {
        type: "invalid_request_error",
        message:
          "max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens for claude-opus-4-5-20251101"
      }
    }),
    limit: 64_000
  },
  "Bedrock (vercel/ai#2772)": {
    body: JSON.stringify({
      __type: "ValidationException",
      message:
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."
    }),
    limit: 4_096
  },
  "Gemini, whose range excludes its end (stackblitz-labs/bolt.diy#955)": {
    body: JSON.stringify({
      error: {
        code: 400,
        message:
          "Unable to submit request because it has a maxOutputTokens value of 655360 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again.",
        status: "INVALID_ARGUMENT"
      }
    }),
    limit: 8_192
  },
  "Groq (Alishahryar1/free-claude-code#955)": {
    body: openai(
      "max_completion_tokens must be less than or equal to 40960, the maximum value for max_completion_tokens is less than the context_window for this model",
      "max_completion_tokens"
    ),
    limit: 40_960
  },
  "Groq, in quotes": {
    body: openai(
      "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model"
    ),
    limit: 8_192
  },
  "DeepSeek (deepseek-ai/DeepSeek-V3#69)": {
    body: openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    limit: 8_192
  },
  "Qwen (open-webui/open-webui#10507)": {
    body: JSON.stringify({
      error: {
        code: "invalid_parameter_error",
        param: null,
        message: "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
        type: "invalid_request_error"
      }
    }),
    limit: 8_192
  },
  "Volcengine (yiliqi78/TOKENICODE#3)": {
    body: JSON.stringify({
      error: {
        code: "InvalidParameter",
        message:
          "The parameter max_tokens specified in the request is not valid: integer above maximum value, expected a value <= 32768, but got 64000 instead. Request id: 0217724325966514",
        param: "max_tokens",
        type: "BadRequest"
      }
    }),
    limit: 32_768
  },
  // The shape is that of editor-code-assistant/eca#231: `loc` names the field, the sentence does not.
  "Mistral, Pydantic's form (openclaw/openclaw#53006)": {
    status: 422,
    body: pydantic({
      detail: [
        {
          type: "less_than_equal",
          loc: ["body", "max_tokens"],
          msg: "Input should be less than or equal to 131072",
          input: 262_144,
          ctx: { le: 131_072 }
        }
      ]
    }),
    limit: 131_072
  },
  "Mistral, the same as a string of JSON (llm-edge/hal-9100#86)": {
    status: 422,
    body: pydantic(
      JSON.stringify({
        detail: [
          {
            type: "less_than_equal",
            loc: ["body", "max_tokens"],
            msg: "Input should be less than or equal to 131072"
          }
        ]
      })
    ),
    limit: 131_072
  },
  "a sentence that names a range": {
    body: openai("max_tokens must be between 1 and 4096, got 64000"),
    limit: 4_096
  },
  "a sentence with a comma in its number": {
    body: openai("max_tokens cannot exceed 16,384 for this model"),
    limit: 16_384
  },
  "a sentence without a number": { body: openai("max_tokens is too large for this model"), limit: undefined }
}

describe("an output limit that a provider rejects", () => {
  for (const [who, { status = 400, body, limit }] of Object.entries(refusals)) {
    it(`is read from the words of ${who}`, () => {
      const { reason } = Classifier.failureOf({
        message: "Bad Request",
        statusCode: status,
        responseBody: body
      })
      assert.strictEqual(reason._tag, "Format")
      assert.strictEqual(reason._tag === "Format" && reason.outputLimit, limit)
    })
  }

  const others: Readonly<Record<string, string>> = {
    "another field that is too large": openai("temperature must be less than or equal to 2", "temperature"),
    "a parameter of another name": openai(
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      "max_tokens"
    ),
    "another field of Pydantic's": pydantic({
      detail: [
        { type: "less_than_equal", loc: ["body", "top_p"], msg: "Input should be less than or equal to 1" }
      ]
    })
  }
  for (const [what, body] of Object.entries(others)) {
    it(`is not read from ${what}`, () => {
      const { reason } = Classifier.failureOf({ message: "", statusCode: 400, responseBody: body })
      assert.deepInclude(reason, { _tag: "Format", side: "request" })
      assert.notProperty(reason, "outputLimit")
    })
  }
})

describe("an output limit that does not fit after the input", () => {
  const windows: Readonly<Record<string, readonly [message: string, lowered: number | undefined]>> = {
    "vLLM (claude-code-best/claude-code#272)": [
      "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 64001 tokens and your request has 24235 input tokens (64000 > 64001 - 24235). None",
      64_001 - 24_235 - 1_000
    ],
    // vLLM counted only the part of the input that proves that both are too long.
    "vLLM, with a part of the input (vllm-project/vllm#42474)": [
      "This model's maximum context length is 128000 tokens. However, you requested 65535 output tokens and your prompt contains at least 62466 input tokens, for a total of at least 128001 tokens.",
      32_767
    ],
    "Text Generation Inference": [
      "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 1097 `inputs` tokens and 8000 `max_new_tokens`",
      8_193 - 1_097 - 1_000
    ],
    "OpenAI's old form (ogx-ai/ogx#4534)": [
      "This model's maximum context length is 16048 tokens. However, you requested 16616 tokens (568 in the messages, 16048 in the completion). Please reduce the length of the messages or completion.",
      16_048 - 568 - 1_000
    ]
  }
  for (const [who, [message, lowered]] of Object.entries(windows)) {
    it(`is lowered to the remaining tokens: ${who}`, () => {
      const failure = Classifier.failureOf({ message: "", statusCode: 400, responseBody: openai(message) })
      assert.strictEqual(failure.reason._tag, "ContextOverflow")
      assert.strictEqual(OutputLimit.lowered(RecoveryPolicy.interactive.outputRoom, failure), lowered)
    })
  }
})
