import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import { seal } from "#testing/server/seal"
import { rules } from "#testing/server/responses/wire"
import { hello, post } from "./http.ts"
import { refusals } from "./refusals.ts"

const user = { role: "user", content: "2 + 3?" }
const call = (call_id: string, id?: string) => ({
  type: "function_call",
  call_id,
  name: "add",
  arguments: "{}",
  ...(id === undefined ? {} : { id })
})
const output = (call_id: string) => ({ type: "function_call_output", call_id, output: "5" })
const reasoning = (id: string, encrypted_content: string | null = seal("outlast", id)) => ({
  type: "reasoning",
  id,
  summary: [],
  encrypted_content
})
const said = { role: "assistant", content: [{ type: "output_text", text: "Five." }] }
const input = (...input: ReadonlyArray<object>) => ({ input })
const tool = (name = "add", fields: object = {}) => ({
  type: "function",
  name,
  parameters: { type: "object" },
  ...fields
})
const format = (schema: object, strict = true) => ({
  text: { format: { type: "json_schema", name: "out", strict, schema } }
})
const plain = { model: "gpt-4.1" }

refusals({
  api: "responses",
  rules,
  server: { windows: { "gpt-small": 10 } },
  error: ({ param = null, code = null }) => ({ type: "invalid_request_error", param, code }),
  cases: [
    {
      rule: "moved-field",
      body: { max_tokens: 100 },
      message: /^Unsupported parameter: 'max_tokens'\. .* has moved to 'max_output_tokens'/,
      error: { param: "max_tokens", code: "unsupported_parameter" },
      fine: [{ max_output_tokens: 100 }]
    },
    {
      rule: "unknown-field",
      body: { foo: 1 },
      message: "Unknown parameter: 'foo'.",
      error: { param: "foo", code: "unknown_parameter" },
      fine: [{ metadata: {} }]
    },
    {
      rule: "input-missing",
      body: { input: undefined },
      message: /^One of "input" or "previous_response_id"/,
      error: { param: "input", code: "missing_required_parameter" },
      fine: [{ input: "hello" }]
    },
    {
      rule: "previous-or-conversation",
      body: { previous_response_id: "resp_x", conversation: "conv_x" },
      message: /^Mutually exclusive parameters\./,
      error: { param: "previous_response_id", code: "mutually_exclusive_parameters" }
    },
    {
      rule: "previous-response",
      body: { previous_response_id: "resp_x" },
      message: "Previous response with id 'resp_x' not found.",
      error: { param: "previous_response_id", code: "previous_response_not_found" },
      fine: [{ previous_response_id: null }]
    },
    {
      rule: "conversation",
      body: { conversation: "conv_x" },
      status: 404,
      message: "Conversation with id 'conv_x' not found.",
      error: { param: "conversation" }
    },
    {
      rule: "tools-count",
      body: { tools: Array.from({ length: 129 }, (_, i) => tool(`t${i}`)) },
      message: /maximum length 128/,
      error: { param: "tools", code: "array_above_max_length" }
    },
    {
      rule: "tool-name",
      body: { tools: [tool("a.b")] },
      message: /^Invalid 'tools\[0\]\.name': string does not match pattern/,
      error: { param: "tools[0].name", code: "invalid_value" },
      fine: [{ tools: [tool("a".repeat(64)), { type: "web_search" }] }]
    },
    {
      rule: "tool-strict",
      body: { tools: [tool("add", { strict: true })] },
      message: /^Invalid schema for function 'add': .*additionalProperties/,
      error: { param: "tools[0].parameters", code: "invalid_function_parameters" },
      fine: [{ tools: [tool("add", { strict: false })] }]
    },
    {
      rule: "tool-choice",
      body: { tools: [tool("add")], tool_choice: { type: "function", name: "sub" } },
      message: /^Tool choice 'function' not found in 'tools' parameter/,
      error: { param: "tool_choice" },
      fine: [{ tools: [tool("add")], tool_choice: { type: "function", name: "add" } }]
    },
    {
      rule: "max-output-tokens",
      body: { max_output_tokens: 15 },
      message: /integer below minimum value. Expected a value >= 16, but got 15/,
      error: { param: "max_output_tokens", code: "integer_below_min_value" },
      fine: [{ max_output_tokens: 16 }]
    },
    {
      rule: "sampling",
      body: { temperature: 0.5 },
      message: "Unsupported parameter: 'temperature' is not supported with this model.",
      error: { param: "temperature" },
      fine: [
        { ...plain, temperature: 0.5 },
        { model: "gpt-5.4", temperature: 0.5, reasoning: { effort: "none" } }
      ]
    },
    {
      rule: "reasoning",
      body: { ...plain, reasoning: { effort: "low" } },
      message: "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
      error: { param: "reasoning.effort", code: "unsupported_parameter" },
      fine: [{ reasoning: { effort: "low" } }]
    },
    {
      rule: "include-encrypted",
      body: { ...plain, include: ["reasoning.encrypted_content"] },
      message: "Encrypted content is not supported with this model.",
      error: { param: "include" },
      fine: [{ include: ["reasoning.encrypted_content"] }]
    },
    {
      rule: "stream-options",
      body: { stream_options: {} },
      message: /only allowed when 'stream' is enabled/,
      error: { param: "stream_options" }
    },
    {
      rule: "format-strict",
      body: format({ type: "object", properties: { a: {} }, additionalProperties: false }),
      message: /^Invalid schema for response_format 'out': .*Missing 'a'/,
      error: { param: "text.format.schema", code: "invalid_json_schema" },
      fine: [format({ type: "object", properties: { a: {} } }, false)]
    },
    {
      rule: "format-word",
      body: { text: { format: { type: "json_object" } } },
      message: /must contain the word 'json'/,
      error: { param: "input" },
      fine: [{ text: { format: { type: "json_object" } }, input: "say JSON" }]
    },
    {
      rule: "window",
      body: { model: "gpt-small", input: "a".repeat(44) },
      message: "Your input exceeds the context window of this model. Please adjust your input and try again.",
      error: { param: "input", code: "context_length_exceeded" },
      fine: [
        { model: "gpt-small", input: "a".repeat(40) },
        { model: "gpt-small", input: "a".repeat(44), truncation: "auto" }
      ]
    },
    {
      rule: "id-length",
      body: input(user, call("c".repeat(65)), output("c".repeat(65))),
      message: /^Invalid 'input\[1\]\.call_id': string too long\. .*maximum length 64/,
      error: { param: "input[1].call_id", code: "string_above_max_length" },
      fine: [input(user, call("c".repeat(64)), output("c".repeat(64)))]
    },
    {
      rule: "call-name",
      body: input(user, { ...call("c"), name: "a.b" }, output("c")),
      message: /^Invalid 'input\[1\]\.name': string does not match pattern\./,
      error: { param: "input[1].name", code: "invalid_value" }
    },
    {
      rule: "id-prefix",
      body: input(user, call("c", "toolu_x"), output("c")),
      message: "Invalid 'input[1].id': 'toolu_x'. Expected an ID that begins with 'fc'.",
      error: { param: "input[1].id", code: "invalid_value" },
      // The id that the output refers to may have any format.
      fine: [input(user, call("toolu_x", "fc_x"), output("toolu_x"))]
    },
    {
      rule: "content-parts",
      body: input({ role: "assistant", content: [{ type: "input_text", text: "Five." }] }, user),
      message: "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
      error: { param: "input[0].content[0]", code: "invalid_value" },
      fine: [input(said, user), input({ role: "user", content: [{ type: "input_text", text: "" }] })]
    },
    {
      rule: "item-unknown",
      why: "a reference",
      body: input(user, { type: "item_reference", id: "rs_x" }, said, user),
      status: 404,
      message: /^Item with id 'rs_x' not found\. Items are not persisted when `store` is set to false\./,
      error: { param: "input" }
    },
    {
      rule: "item-unknown",
      why: "reasoning without its encrypted content",
      body: input(user, reasoning("rs_x", null), said, user),
      status: 404,
      message: /^Item with id 'rs_x' not found/,
      error: { param: "input" },
      fine: [input(user, reasoning("rs_x"), said, user)]
    },
    {
      rule: "encrypted-content",
      why: "edited",
      body: input(user, reasoning("rs_x", "bm9uZXNlbnNl"), said, user),
      message: /^The encrypted content could not be verified\. Reason: .*could not be decrypted/,
      error: { code: "invalid_encrypted_content" }
    },
    {
      rule: "encrypted-content",
      why: "of another organisation",
      body: input(user, reasoning("rs_x", seal("elsewhere", "rs_x")), said, user),
      message: /^The encrypted content could not be verified\. Reason: .*organization_id did not match/,
      error: { code: "invalid_encrypted_content" }
    },
    {
      rule: "encrypted-content",
      why: "of another item",
      body: input(user, reasoning("rs_x", seal("outlast", "rs_y")), said, user),
      message: /^The encrypted content could not be verified\. Reason: .*item_id did not match/,
      error: { code: "invalid_encrypted_content" }
    },
    {
      rule: "reasoning-alone",
      body: input(user, reasoning("rs_x"), user),
      message: "Item 'rs_x' of type 'reasoning' was provided without its required following item.",
      error: { param: "input" },
      fine: [input(user, reasoning("rs_x"), call("c"), output("c"))]
    },
    {
      rule: "output-orphan",
      body: input(user, output("c")),
      message: "No tool call found for function call output with call_id c.",
      error: { param: "input" }
    },
    {
      rule: "output-orphan",
      why: "in front of its call",
      body: input(user, output("c"), call("c")),
      message: "No tool call found for function call output with call_id c.",
      error: { param: "input" }
    },
    {
      rule: "call-answered",
      body: input(user, call("a"), call("b"), output("a")),
      message: "No tool output found for function call b.",
      error: { param: "input" },
      fine: [input(user, call("a"), call("b"), output("b"), user, output("a"))]
    }
  ]
})

describe("OpenAI Responses", () => {
  const answers: FaultPlan.FaultPlan["answers"] = [
    { reasoning: "I add.", toolCalls: [{ name: "add", params: {} }] },
    { text: "Five." }
  ]

  it.live("stores responses and items for the organisation of the key", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers },
        organisation: (key) => (key === "sk-other" ? "other" : "mine")
      })
      const ask = (fields: object, key = "sk-a") =>
        post(server, "responses", { ...hello["responses"], ...fields }, { authorization: `Bearer ${key}` })
      const first = yield* ask({})
      const [thought, asked] = first.body.output
      const answered = [output(asked.call_id)]
      const following = yield* ask({ previous_response_id: first.body.id, input: answered }, "sk-b")
      assert.strictEqual(following.body.output[0].content[0].text, "Five.")
      const references = [thought, asked].map(({ id }) => ({ type: "item_reference", id }))
      const referring = { input: [user, ...references, ...answered] }
      assert.strictEqual((yield* ask(referring)).body.output[0].content[0].text, "Five.")
      // Stored reasoning needs no encrypted content.
      assert.isNull(thought.encrypted_content)
      assert.strictEqual((yield* ask({ input: [user, thought, asked, ...answered] })).status, 200)
      assert.strictEqual((yield* ask(referring, "sk-other")).status, 404)
      const foreign = yield* ask({ previous_response_id: first.body.id, input: answered }, "sk-other")
      assert.strictEqual(foreign.body.error.code, "previous_response_not_found")
      // The answer to a chain of responses is the last of that chain.
      const last = yield* ask({ previous_response_id: following.body.id, input: "Thanks." })
      assert.match(last.body.error.message, /has run out: .* asks for answer 3\./)
    }).pipe(Effect.scoped)
  )

  it.live("stores nothing for `store: false`, and no answer that broke off", () =>
    Effect.gen(function* () {
      const faults: FaultPlan.FaultPlan["faults"] = [{ skip: 1, fault: { type: "cut", after: 1 } }]
      const server = yield* FakeProvider.make({ plan: { answers, faults } })
      const first = yield* post(server, "responses", { ...hello["responses"], store: false })
      const following = { previous_response_id: first.body.id, input: "and?" }
      const ask = (body: object) => post(server, "responses", { ...hello["responses"], ...body })
      assert.strictEqual((yield* ask(following)).body.error.code, "previous_response_not_found")
      yield* Effect.exit(ask({}))
      const cut = { ...following, previous_response_id: first.body.id.replace(/0$/, "2") }
      assert.strictEqual((yield* ask(cut)).body.error.code, "previous_response_not_found")
    }).pipe(Effect.scoped)
  )

  it.live("accepts encrypted reasoning only from its own organisation", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers }, organisation: (key) => key })
      const ask = (fields: object, key: string) =>
        post(
          server,
          "responses",
          { ...hello["responses"], store: false, ...fields },
          { authorization: `Bearer ${key}` }
        )
      const first = yield* ask({ include: ["reasoning.encrypted_content"] }, "sk-a")
      const [thought, asked] = first.body.output
      const next = { input: [user, thought, asked, output(asked.call_id)] }
      assert.strictEqual((yield* ask(next, "sk-a")).status, 200)
      assert.strictEqual((yield* ask(next, "sk-b")).body.error.code, "invalid_encrypted_content")
    }).pipe(Effect.scoped)
  )

  it.live("refuses keys and models like Chat Completions", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers },
        keys: { openai: ["good"] },
        models: { openai: ["gpt-5"] }
      })
      const error = (headers: Record<string, string | undefined>, body: unknown = hello.responses) =>
        Effect.map(post(server, "responses", body, headers), ({ status, body }) => [status, body.error.code])
      const good = { authorization: "Bearer good" }
      assert.deepStrictEqual(yield* error({ authorization: undefined }), [401, null])
      assert.deepStrictEqual(yield* error({}), [401, "invalid_api_key"])
      assert.deepStrictEqual(yield* error(good, { ...hello.responses, model: "gpt-9" }), [
        404,
        "model_not_found"
      ])
      assert.deepStrictEqual(yield* error(good, "{nonsense"), [400, null])
      assert.deepStrictEqual(yield* error(good, { ...hello.responses, input: [{ type: "odd" }] }), [
        400,
        "invalid_value"
      ])
      assert.deepStrictEqual(yield* error(good, { ...hello.responses, input: [{ ...call("a"), name: 1 }] }), [
        400,
        "invalid_type"
      ])
    }).pipe(Effect.scoped)
  )
})
