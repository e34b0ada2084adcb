import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import { rules } from "#testing/server/openai/rules"
import { hello, post } from "./http.ts"

const plan = { answers: () => ({ text: "Fine." }) }

const user = { role: "user", content: "2 + 3?" }
const call = (id: string) => ({ id, type: "function", function: { name: "add", arguments: "{}" } })
const calls = (...ids: ReadonlyArray<string>) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map(call)
})
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "5" })
const tool = (name = "add", fields: object = {}) => ({
  type: "function",
  function: { name, parameters: { type: "object" }, ...fields }
})
const format = (schema: object) => ({
  type: "json_schema",
  json_schema: { name: "out", strict: true, schema }
})

interface Case {
  readonly rule: string
  readonly why?: string
  readonly body: Record<string, unknown>
  readonly error: { readonly message: string | RegExp; readonly param?: string; readonly code?: string }
  /** A similar request that is accepted. */
  readonly fine?: Record<string, unknown>
}

const cases: ReadonlyArray<Case> = [
  {
    rule: "unknown-field",
    body: { foo: 1 },
    error: { message: "Unknown parameter: 'foo'.", param: "foo", code: "unknown_parameter" },
    fine: { seed: 1 }
  },
  {
    rule: "messages-empty",
    body: { messages: [] },
    error: { message: /^Invalid 'messages': empty array\./, param: "messages", code: "empty_array" }
  },
  {
    rule: "tools-empty",
    body: { tools: [] },
    error: { message: /^Invalid 'tools': empty array\./, param: "tools", code: "empty_array" }
  },
  {
    rule: "tools-count",
    body: { tools: Array.from({ length: 129 }, (_, i) => tool(`t${i}`)) },
    error: { message: /maximum length 128/, param: "tools", code: "array_above_max_length" },
    fine: { tools: Array.from({ length: 128 }, (_, i) => tool(`t${i}`)) }
  },
  {
    rule: "tool-name",
    why: "characters",
    body: { tools: [tool("a.b")] },
    error: { message: /does not match pattern/, param: "tools[0].function.name", code: "invalid_value" }
  },
  {
    rule: "tool-name",
    why: "length",
    body: { tools: [tool("a".repeat(65))] },
    error: { message: /maximum length 64/, param: "tools[0].function.name", code: "string_above_max_length" },
    fine: { tools: [tool("a".repeat(64))] }
  },
  {
    rule: "tool-strict",
    body: { tools: [tool("add", { strict: true })] },
    error: {
      message: /additionalProperties/,
      param: "tools[0].function.parameters",
      code: "invalid_function_parameters"
    },
    fine: { tools: [tool("add", { strict: false })] }
  },
  {
    rule: "tools-reasoning",
    why: "with an effort",
    body: { model: "gpt-5.4", tools: [tool()], reasoning_effort: "low" },
    error: {
      message: /^Function tools with reasoning_effort are not supported for gpt-5.4/,
      param: "reasoning_effort"
    },
    fine: { model: "gpt-5.4", tools: [tool()] }
  },
  {
    rule: "tools-reasoning",
    why: "by default",
    body: { model: "gpt-5.6-terra", tools: [tool()] },
    error: { message: /gpt-5.6-terra/, param: "reasoning_effort" },
    fine: { model: "gpt-5.6-terra", tools: [tool()], reasoning_effort: "none" }
  },
  {
    rule: "max-tokens",
    body: { model: "gpt-5", max_tokens: 10 },
    error: {
      message:
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      param: "max_tokens",
      code: "unsupported_parameter"
    },
    fine: { max_tokens: 10 }
  },
  {
    rule: "sampling",
    body: { model: "o3", temperature: 0 },
    error: { message: /Unsupported value: 'temperature'/, param: "temperature", code: "unsupported_value" },
    fine: { model: "o3", temperature: 1 }
  },
  {
    rule: "stream-options",
    body: { stream_options: { include_usage: true } },
    error: { message: /'stream_options'/, param: "stream_options" },
    fine: { stream: true, stream_options: { include_usage: true } }
  },
  {
    rule: "response-format-strict",
    why: "open object",
    body: { response_format: format({ type: "object", properties: {} }) },
    error: { message: /'additionalProperties' is required/, param: "response_format" }
  },
  {
    rule: "response-format-strict",
    why: "optional property",
    body: {
      response_format: format({
        type: "object",
        properties: { a: { type: "string" } },
        additionalProperties: false
      })
    },
    error: { message: /Missing 'a'/, param: "response_format" },
    fine: {
      response_format: format({
        type: "object",
        properties: { a: { type: "string" } },
        required: ["a"],
        additionalProperties: false
      })
    }
  },
  {
    rule: "response-format-word",
    body: { response_format: { type: "json_object" } },
    error: { message: /must contain the word 'json'/, param: "messages" },
    fine: {
      response_format: { type: "json_object" },
      messages: [{ role: "user", content: "As JSON, please" }]
    }
  },
  {
    rule: "content-parts",
    body: {
      messages: [
        user,
        calls("a"),
        { ...result("a"), content: [{ type: "image_url", image_url: { url: "data:," } }] }
      ]
    },
    error: {
      message: /Invalid value: 'image_url'/,
      param: "messages[2].content[0].type",
      code: "invalid_value"
    },
    fine: {
      messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://a.b/c.png" } }] }]
    }
  },
  {
    rule: "file-name",
    body: { messages: [{ role: "user", content: [{ type: "file", file: { file_data: "data:," } }] }] },
    error: {
      message: /filename/,
      param: "messages[0].content[0].file.filename",
      code: "missing_required_parameter"
    }
  },
  {
    rule: "assistant-empty",
    body: { messages: [user, { role: "assistant", content: null }] },
    error: { message: /'content'/, param: "messages.[1].content" },
    fine: { messages: [user, { role: "assistant", content: "" }] }
  },
  {
    rule: "tool-calls-empty",
    body: { messages: [user, { role: "assistant", content: "a", tool_calls: [] }] },
    error: { message: /empty array/, param: "messages[1].tool_calls", code: "empty_array" }
  },
  {
    rule: "tool-call-id",
    body: { messages: [user, calls("a".repeat(41)), result("a".repeat(41))] },
    error: {
      message: /maximum length 40.*length 41/,
      param: "messages[1].tool_calls[0].id",
      code: "string_above_max_length"
    },
    fine: { messages: [user, calls("a".repeat(40)), result("a".repeat(40))] }
  },
  {
    rule: "tool-call-name",
    body: {
      messages: [
        user,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ ...call("a"), function: { name: "a.b", arguments: "{}" } }]
        },
        result("a")
      ]
    },
    error: {
      message: /does not match pattern/,
      param: "messages[1].tool_calls[0].function.name",
      code: "invalid_value"
    }
  },
  {
    rule: "tool-message-orphan",
    body: { messages: [user, result("a")] },
    error: {
      message:
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
      param: "messages.[1].role"
    }
  },
  {
    rule: "tool-calls-answered",
    body: { messages: [user, calls("a", "b"), result("b"), user] },
    error: { message: /did not have response messages: a$/, param: "messages.[3].role" },
    fine: { messages: [user, calls("a", "b"), result("b"), result("a"), user] }
  },
  {
    rule: "window",
    body: { messages: [{ role: "user", content: "x".repeat(4_004) }] },
    error: {
      message: /maximum context length is 1000 tokens. However, your messages resulted in 1001 tokens/,
      param: "messages",
      code: "context_length_exceeded"
    },
    fine: { messages: [{ role: "user", content: "x".repeat(4_000) }] }
  },
  {
    rule: "shape",
    why: "a missing field",
    body: { model: undefined },
    error: {
      message: "Missing required parameter: 'model'.",
      param: "model",
      code: "missing_required_parameter"
    }
  }
]

const withServer = <A>(
  options: Partial<FakeProvider.Options>,
  use: (server: FakeProvider.FakeProvider) => Effect.Effect<A>
) => Effect.scoped(Effect.flatMap(FakeProvider.make({ plan, ...options }), use))

describe("OpenAI refuses", () => {
  for (const { rule, why, body, error, fine } of cases) {
    it.live(`${rule}${why === undefined ? "" : ` (${why})`}`, () =>
      withServer({ windows: rule === "window" ? { "gpt-4.1": 1_000 } : {} }, (server) =>
        Effect.gen(function* () {
          const refused = yield* post(server, "openai", { ...hello.openai, ...body })
          assert.strictEqual(refused.status, 400, refused.text)
          const { message } = refused.body.error
          if (typeof error.message === "string") assert.strictEqual(message, error.message)
          else assert.match(message, error.message)
          assert.deepStrictEqual(refused.body, {
            error: {
              message,
              type: "invalid_request_error",
              param: error.param ?? null,
              code: error.code ?? null
            }
          })
          const [recorded] = yield* server.requests
          assert.strictEqual(recorded?.outcome.type === "refused" ? recorded.outcome.rule : "", rule)
          if (fine !== undefined) {
            const accepted = yield* post(server, "openai", { ...hello.openai, ...fine })
            assert.strictEqual(accepted.status, 200, accepted.text)
          }
        })
      )
    )
  }

  it("every rule has a case", () => {
    const covered = new Set(cases.map(({ rule }) => rule))
    assert.deepStrictEqual(
      rules.map(({ name }) => name).filter((name) => !covered.has(name)),
      []
    )
  })

  it.live("missing or wrong keys and models", () =>
    withServer({ keys: { openai: ["good"] }, models: { openai: ["gpt-5"] } }, (server) =>
      Effect.gen(function* () {
        const error = (headers: Record<string, string | undefined>) =>
          Effect.map(post(server, "openai", hello.openai, headers), ({ status, body }) => [
            status,
            body.error.type,
            body.error.code
          ])
        const type = "invalid_request_error"
        assert.deepStrictEqual(yield* error({ authorization: undefined }), [401, type, null])
        assert.deepStrictEqual(yield* error({}), [401, type, "invalid_api_key"])
        assert.deepStrictEqual(yield* error({ authorization: "Bearer good" }), [404, type, "model_not_found"])
      })
    )
  )

  it.live("no field that only the other API refuses", () =>
    withServer({}, (server) =>
      Effect.gen(function* () {
        const messages = [
          { role: "system", content: "a" },
          { role: "assistant", content: "b" },
          { role: "developer", content: "c" },
          { role: "user", content: "" },
          { role: "assistant", content: "" }
        ]
        const { status, text } = yield* post(server, "openai", { ...hello.openai, messages })
        assert.strictEqual(status, 200, text)
      })
    )
  )
})
