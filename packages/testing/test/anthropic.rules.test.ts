import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import { rules } from "#testing/server/anthropic/wire"
import { hello, post } from "./http.ts"

const plan = { answers: () => ({ reasoning: "Let me think.", text: "Fine." }) }

const user = (content: unknown) => ({ role: "user", content })
const assistant = (content: unknown) => ({ role: "assistant", content })
const use = (id: string) => ({ type: "tool_use", id, name: "add", input: {} })
const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "5" })
const text = (said: string) => ({ type: "text", text: said })
const tool = (fields: object = {}) => ({ name: "add", input_schema: { type: "object" }, ...fields })
const marked = { cache_control: { type: "ephemeral" } }

interface Case {
  readonly rule: string
  readonly why?: string
  readonly body: Record<string, unknown>
  readonly headers?: Record<string, string>
  readonly message: string | RegExp
  /** A similar request that is accepted. */
  readonly fine?: Record<string, unknown>
}

const cases: ReadonlyArray<Case> = [
  {
    rule: "beta",
    body: {},
    headers: { "anthropic-beta": "nonsense" },
    message: /Unexpected value.*nonsense/
  },
  {
    rule: "unknown-field",
    body: { foo: 1 },
    message: "foo: Extra inputs are not permitted",
    fine: { metadata: { user_id: "x" } }
  },
  {
    rule: "max-tokens",
    body: { max_tokens: 128000 },
    message:
      "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    fine: { max_tokens: 64000 }
  },
  {
    rule: "sampling-version",
    body: { temperature: 1 },
    headers: { "anthropic-version": "2026-10-21" },
    message: /^temperature: /
  },
  {
    rule: "sampling-model",
    body: { model: "claude-opus-4-7", temperature: 0.2 },
    message: "`temperature` is deprecated for this model.",
    fine: { model: "claude-opus-4-7", temperature: 1 }
  },
  {
    rule: "sampling-one",
    body: { temperature: 0.2, top_p: 0.9 },
    message: /cannot both be specified/,
    fine: { top_p: 0.9 }
  },
  {
    rule: "sampling-thinking",
    body: { temperature: 0.2, thinking: { type: "enabled", budget_tokens: 1024 }, max_tokens: 2048 },
    message: /may only be set to 1/,
    fine: { temperature: 1, thinking: { type: "enabled", budget_tokens: 1024 }, max_tokens: 2048 }
  },
  {
    rule: "thinking-budget",
    why: "too small",
    body: { thinking: { type: "enabled", budget_tokens: 1023 }, max_tokens: 2048 },
    message: /1024/
  },
  {
    rule: "thinking-budget",
    why: "not under max_tokens",
    body: { thinking: { type: "enabled", budget_tokens: 1024 } },
    message: /must be greater than/
  },
  {
    rule: "thinking-kind",
    why: "adaptive too early",
    body: { thinking: { type: "adaptive" } },
    message: /adaptive.* not supported/
  },
  {
    rule: "thinking-kind",
    why: "enabled too late",
    body: { model: "claude-opus-5", max_tokens: 4096, thinking: { type: "enabled", budget_tokens: 1024 } },
    message: "`thinking.type.enabled` is not supported for this model",
    fine: { model: "claude-sonnet-4-6", max_tokens: 4096, thinking: { type: "enabled", budget_tokens: 1024 } }
  },
  {
    rule: "thinking-disabled",
    why: "never",
    body: { model: "claude-opus-5-5", thinking: { type: "disabled" } },
    message: /disabled/
  },
  {
    rule: "thinking-disabled",
    why: "with much effort",
    body: { model: "claude-opus-5", thinking: { type: "disabled" }, output_config: { effort: "max" } },
    message: "effort 'max' is not supported when thinking is disabled",
    fine: { model: "claude-opus-5", thinking: { type: "disabled" }, output_config: { effort: "high" } }
  },
  {
    rule: "between-tools-effort",
    body: {
      model: "claude-sonnet-5-5",
      thinking: { type: "between_tools" },
      output_config: { effort: "max" }
    },
    message: /between_tools/,
    fine: {
      model: "claude-sonnet-5-5",
      thinking: { type: "between_tools" },
      output_config: { effort: "high" }
    }
  },
  {
    rule: "forced-tool-thinking",
    body: {
      max_tokens: 4096,
      thinking: { type: "enabled", budget_tokens: 1024 },
      tools: [tool()],
      tool_choice: { type: "any" }
    },
    message: "Thinking may not be enabled when tool_choice forces tool use."
  },
  {
    rule: "forced-tool-model",
    body: { model: "claude-opus-5-5", tools: [tool()], tool_choice: { type: "tool", name: "add" } },
    message: /not supported on this model/,
    fine: { model: "claude-opus-5-5", tools: [tool()], tool_choice: { type: "auto" } }
  },
  {
    rule: "output-schema",
    body: {
      output_config: { format: { type: "json_schema", schema: { type: "array", items: { type: "object" } } } }
    },
    message: /additionalProperties/,
    fine: {
      output_config: {
        format: { type: "json_schema", schema: { type: "object", additionalProperties: false } }
      }
    }
  },
  {
    rule: "tool-name",
    body: { tools: [tool(), tool({ name: "a.b" })] },
    message: "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
  },
  {
    rule: "tool-names-unique",
    body: { tools: [tool(), tool()] },
    message: "tools: Tool names must be unique."
  },
  {
    rule: "tool-schema",
    why: "missing",
    body: { tools: [{ name: "add" }] },
    message: "tools.0.custom.input_schema: Field required"
  },
  {
    rule: "tool-schema",
    why: "no type",
    body: { tools: [tool({ input_schema: {} })] },
    message: "tools.0.custom.input_schema.type: Field required"
  },
  {
    rule: "tool-schema",
    why: "no object",
    body: { tools: [tool({ input_schema: { type: "string" } })] },
    message: /should be 'object'/
  },
  {
    rule: "tool-schema",
    why: "a union",
    body: { tools: [tool({ input_schema: { type: "object", anyOf: [] } })] },
    message:
      "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
  },
  {
    rule: "tools-defined",
    body: { messages: [user("2+3?"), assistant([use("a")]), user([result("a")])] },
    message: /must define tools/,
    fine: {
      messages: [user("2+3?"), assistant([use("a")]), user([result("a"), text("go on")])],
      tools: [tool()]
    }
  },
  {
    rule: "cache-control-count",
    body: {
      system: [{ ...text("a"), ...marked }],
      messages: [user([1, 2, 3, 4].map(() => ({ ...text("b"), ...marked })))]
    },
    message: "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    fine: { messages: [user([1, 2, 3, 4].map(() => ({ ...text("b"), ...marked })))] }
  },
  {
    rule: "cache-control-empty",
    body: { messages: [user([text("a"), { ...text(""), ...marked }])] },
    message: "messages.0.content.1.text: cache_control cannot be set for empty text blocks"
  },
  {
    rule: "cache-control-thinking",
    body: {
      messages: [
        user("a"),
        assistant([{ type: "redacted_thinking", data: "x", ...marked }, text("b")]),
        user("c")
      ]
    },
    message: /cache_control/
  },
  {
    rule: "image-size",
    body: {
      messages: [
        user([
          { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(7_000_000) } }
        ])
      ]
    },
    message: /image exceeds 5 MB maximum: 5250000 bytes > 5242880 bytes/
  },
  {
    rule: "window",
    body: { messages: [user("x".repeat(4_004))] },
    message: "prompt is too long: 1001 tokens > 1000 maximum",
    fine: { messages: [user("x".repeat(4_000))] }
  },
  { rule: "messages-empty", body: { messages: [] }, message: "messages: at least one message is required" },
  {
    rule: "content-empty",
    body: { messages: [user(""), assistant("a"), user("b")] },
    message:
      "messages.0: all messages must have non-empty content except for the optional final assistant message",
    fine: { messages: [user("a"), assistant("")] }
  },
  {
    rule: "text-empty",
    body: { messages: [user([text("")])] },
    message: "messages: text content blocks must be non-empty"
  },
  {
    rule: "text-blank",
    body: { messages: [user("a"), assistant([text("\n\n")]), user("b")] },
    message: "messages: text content blocks must contain non-whitespace text",
    fine: { messages: [user("a"), assistant([text("\n\n"), text("hi")]), user("b")] }
  },
  {
    rule: "system-empty",
    body: { system: [text("")] },
    message: "system: text content blocks must be non-empty",
    fine: { system: "" }
  },
  {
    rule: "block-role",
    body: { messages: [user([use("a")])], tools: [tool()] },
    message: /`tool_use` blocks can only be in `assistant`/
  },
  {
    rule: "assistant-document",
    body: { messages: [user("a"), assistant([{ type: "document", source: {} }]), user("b")] },
    headers: { "anthropic-version": "2026-10-21" },
    message: /document/,
    fine: { messages: [user("a"), assistant([{ type: "document", source: {} }]), user("b")] }
  },
  {
    rule: "user-citations",
    body: { messages: [user([{ ...text("a"), citations: [{}] }])] },
    headers: { "anthropic-version": "2026-10-21" },
    message: /citations/,
    fine: { messages: [user([{ ...text("a"), citations: [] }])] }
  },
  {
    rule: "system-model",
    body: { messages: [user("a"), { role: "system", content: "b" }] },
    message: "role 'system' is not supported on this model"
  },
  {
    rule: "system-follows",
    body: { model: "claude-opus-5", messages: [user("a"), assistant("b"), { role: "system", content: "c" }] },
    message: /messages.2: role 'system' must follow/,
    fine: { model: "claude-opus-5", messages: [user("a"), { role: "system", content: "b" }] }
  },
  {
    rule: "system-precedes",
    body: { model: "claude-opus-5", messages: [user("a"), { role: "system", content: "b" }, user("c")] },
    message: /messages.1: role 'system' must precede/,
    fine: {
      model: "claude-opus-5",
      messages: [user("a"), { role: "system", content: "b" }, assistant("c"), user("d")]
    }
  },
  {
    rule: "tool-use-id",
    body: { messages: [user("a"), assistant([use("a.b")]), user([result("a.b")])], tools: [tool()] },
    message: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    fine: { messages: [user("a"), assistant([use("call_a-b")]), user([result("call_a-b")])], tools: [tool()] }
  },
  {
    rule: "tool-use-name",
    body: {
      messages: [user("a"), assistant([{ ...use("a"), name: "a.b" }]), user([result("a")])],
      tools: [tool()]
    },
    message: "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
  },
  {
    rule: "tool-use-ids-unique",
    body: {
      tools: [tool()],
      messages: [
        user("a"),
        assistant([use("a")]),
        user([result("a")]),
        assistant([use("a")]),
        user([result("a")])
      ]
    },
    message: "messages.3.content.0: `tool_use` ids must be unique"
  },
  {
    rule: "tool-result-orphan",
    why: "first message",
    body: { messages: [user([result("x")])], tools: [tool()] },
    message: /^messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: x\. /
  },
  {
    rule: "tool-result-orphan",
    why: "one turn late",
    body: {
      tools: [tool()],
      messages: [user("a"), assistant([use("a")]), user([result("a")]), assistant("b"), user([result("a")])]
    },
    message: /^messages.4.content.0: unexpected/
  },
  {
    rule: "tool-use-answered",
    why: "never",
    body: { messages: [user("a"), assistant([use("a"), use("b")]), user([result("a")])], tools: [tool()] },
    message: /^messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b\. /
  },
  {
    rule: "tool-use-answered",
    why: "after text",
    body: { messages: [user("a"), assistant([use("a")]), user([text("b"), result("a")])], tools: [tool()] },
    message: /without `tool_result` blocks immediately after: a/,
    fine: {
      messages: [user("a"), assistant([use("a"), use("b")]), user([result("b")]), user([result("a")])],
      tools: [tool()]
    }
  },
  {
    rule: "tool-result-single",
    body: { messages: [user("a"), assistant([use("a")]), user([result("a"), result("a")])], tools: [tool()] },
    message: /each tool_use must have a single result. Found multiple `tool_result` blocks with id: a/
  },
  {
    rule: "prefill",
    body: { model: "claude-opus-4-6", messages: [user("a"), assistant("b")] },
    message:
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    fine: { messages: [user("a"), assistant("b")] }
  },
  {
    rule: "prefill-whitespace",
    body: { messages: [user("a"), assistant("b ")] },
    message: "messages: final assistant content cannot end with trailing whitespace"
  },
  {
    rule: "thinking-signature",
    body: {
      messages: [
        user("a"),
        assistant([{ type: "thinking", thinking: "b", signature: "forged" }, text("c")]),
        user("d")
      ]
    },
    message: "messages.1.content.0: Invalid `signature` in `thinking` block"
  },
  {
    rule: "thinking-first",
    body: {
      max_tokens: 4096,
      thinking: { type: "enabled", budget_tokens: 1024 },
      tools: [tool()],
      messages: [user("a"), assistant([use("a")]), user([result("a")])]
    },
    message: /^messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`/,
    fine: {
      max_tokens: 4096,
      thinking: { type: "enabled", budget_tokens: 1024 },
      messages: [user("a"), assistant("b"), user("c")]
    }
  },
  {
    rule: "shape",
    why: "a missing field",
    body: { max_tokens: undefined },
    message: "max_tokens: Field required"
  },
  {
    rule: "shape",
    why: "a missing field of a block",
    body: { messages: [user("a"), assistant([{ type: "thinking", thinking: "b" }]), user("c")] },
    message: "messages.1.content.0.thinking.signature: Field required"
  },
  {
    rule: "shape",
    why: "an unknown block",
    body: { messages: [user([{ type: "foo" }])] },
    message: /^messages.0.content.0: Input tag 'foo'/
  },
  {
    rule: "shape",
    why: "arguments that are no object",
    body: { messages: [user("a"), assistant([{ ...use("a"), input: "x" }])] },
    message: /^messages.1.content.0.tool_use.input: /
  },
  { rule: "version", body: {}, headers: { "anthropic-version": "2020-01-01" }, message: /anthropic-version/ }
]

const withServer = <A>(
  options: Partial<FakeProvider.Options>,
  use: (server: FakeProvider.FakeProvider) => Effect.Effect<A>
) => Effect.scoped(Effect.flatMap(FakeProvider.make({ plan, ...options }), use))

const expect = (message: string, wanted: string | RegExp) =>
  typeof wanted === "string" ? assert.strictEqual(message, wanted) : assert.match(message, wanted)

describe("Anthropic refuses", () => {
  for (const { rule, why, body, headers, message, fine } of cases) {
    it.live(`${rule}${why === undefined ? "" : ` (${why})`}`, () =>
      withServer({ windows: rule === "window" ? { "claude-sonnet-4-5": 1_000 } : {} }, (server) =>
        Effect.gen(function* () {
          const refused = yield* post(server, "anthropic", { ...hello.anthropic, ...body }, headers)
          assert.strictEqual(refused.status, 400, refused.text)
          expect(refused.body.error.message, message)
          assert.deepStrictEqual(refused.body, {
            type: "error",
            error: { type: "invalid_request_error", message: refused.body.error.message },
            request_id: refused.headers.get("request-id")
          })
          const [recorded] = yield* server.requests
          assert.strictEqual(recorded?.outcome.type === "refused" ? recorded.outcome.rule : "", rule)
          if (fine !== undefined) {
            const accepted = yield* post(server, "anthropic", { ...hello.anthropic, ...fine })
            assert.strictEqual(accepted.status, 200, accepted.text)
          }
        })
      )
    )
  }

  it("every rule has a case", () => {
    const elsewhere = ["thinking-edited", "thinking-account", "thinking-bound"]
    const covered = new Set([...cases.map(({ rule }) => rule), ...elsewhere])
    assert.deepStrictEqual(
      rules.map(({ name }) => name).filter((name) => !covered.has(name)),
      []
    )
    assert.strictEqual(new Set(rules.map(({ name }) => name)).size, rules.length)
  })

  it.live("accepts betas with dates in both spellings", () =>
    withServer({}, (server) =>
      Effect.gen(function* () {
        const headers = { "anthropic-beta": "claude-code-20250219, context-1m-2025-08-07" }
        const { status } = yield* post(server, "anthropic", hello.anthropic, headers)
        assert.strictEqual(status, 200)
      })
    )
  )

  it.live("ignores disputed rules when not strict", () =>
    withServer({ strict: false }, (server) =>
      Effect.gen(function* () {
        for (const { rule, body } of cases) {
          const disputed = rules.find(({ name }) => name === rule)?.disputed ?? false
          if (!disputed) continue
          const accepted = yield* post(server, "anthropic", { ...hello.anthropic, ...body })
          assert.strictEqual(accepted.status, 200, accepted.text)
        }
        const undisputed = yield* post(server, "anthropic", { ...hello.anthropic, messages: [] })
        assert.strictEqual(undisputed.status, 400)
      })
    )
  )
})

describe("Anthropic keys, models and versions", () => {
  const refusal = (options: Partial<FakeProvider.Options>, headers: Record<string, string | undefined>) =>
    withServer(options, (server) =>
      Effect.map(post(server, "anthropic", hello.anthropic, headers), ({ status, body }) => [
        status,
        body.error?.type,
        body.error?.message
      ])
    )

  it.live("refuses a request without a key", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* refusal({}, { "x-api-key": undefined }), [
        401,
        "authentication_error",
        "x-api-key header is required"
      ])
    })
  )
  it.live("refuses a wrong key, and accepts a right one as a bearer token too", () =>
    Effect.gen(function* () {
      const options = { keys: { anthropic: ["good"] } }
      assert.deepStrictEqual(yield* refusal(options, {}), [401, "authentication_error", "invalid x-api-key"])
      const bearer = { "x-api-key": undefined, authorization: "Bearer good" }
      assert.deepStrictEqual((yield* refusal(options, bearer))[0], 200)
    })
  )
  it.live("refuses an unknown model", () =>
    Effect.gen(function* () {
      const options = { models: { anthropic: ["claude-opus-5"] } }
      assert.deepStrictEqual(yield* refusal(options, {}), [
        404,
        "not_found_error",
        "model: claude-sonnet-4-5"
      ])
    })
  )
  it.live("refuses a request without a version", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* refusal({}, { "anthropic-version": undefined }), [
        400,
        "invalid_request_error",
        "anthropic-version: header is required"
      ])
    })
  )
  it.live("refuses a body that is not JSON", () =>
    withServer({}, (server) =>
      Effect.gen(function* () {
        const { status, body } = yield* post(server, "anthropic", "{nonsense")
        assert.deepStrictEqual([status, body.error.type], [400, "invalid_request_error"])
      })
    )
  )
})

describe("Anthropic thinking blocks", () => {
  /** Makes a request, lets `change` alter the second one, and returns the second answer. */
  const second = (
    model: string,
    change: (body: { system: string; messages: Array<any> } & Record<string, unknown>) => void,
    headers: Record<string, string> = {},
    strict = true
  ) =>
    withServer({ strict }, (server) =>
      Effect.gen(function* () {
        const body = {
          ...hello.anthropic,
          model,
          system: "Be brief.",
          messages: [user("hello")] as Array<any>
        }
        const first = yield* post(server, "anthropic", body)
        assert.strictEqual(first.body.content[0].type, "thinking")
        const next = { ...body, messages: [...body.messages, assistant(first.body.content), user("and?")] }
        change(next)
        return yield* post(server, "anthropic", next, headers)
      })
    )

  it.live("are accepted unchanged", () =>
    Effect.gen(function* () {
      for (const model of ["claude-sonnet-4-5", "claude-opus-5-5"]) {
        assert.strictEqual((yield* second(model, () => {})).status, 200)
      }
    })
  )
  it.live("are refused when edited, unless the server is not strict", () =>
    Effect.gen(function* () {
      const edit = (body: { messages: Array<any> }) =>
        (body.messages[1].content[0].thinking = "Other thoughts.")
      const { status, body } = yield* second("claude-sonnet-4-5", edit)
      assert.strictEqual(status, 400)
      assert.match(body.error.message, /^messages.1.content.0: .*latest assistant message cannot be modified/)
      assert.strictEqual((yield* second("claude-sonnet-4-5", edit, {}, false)).status, 200)
    })
  )
  it.live("are bound to everything before them, on models that bind", () =>
    Effect.gen(function* () {
      const change = (body: { system: string }) => (body.system = "Be long.")
      const { status, body } = yield* second("claude-opus-5-5", change)
      assert.strictEqual(status, 400)
      assert.match(body.error.message, /bound to a different conversation/)
      assert.strictEqual((yield* second("claude-sonnet-4-5", change)).status, 200)
      const dropping = (body: { system: string; thinking?: unknown }) => {
        change(body)
        body.thinking = { type: "adaptive", block_binding: { prefix_mismatch_behavior: "drop_block" } }
      }
      const beta = { "anthropic-beta": "thinking-binding-controls-2026-08-01" }
      assert.strictEqual((yield* second("claude-opus-5-5", dropping, beta)).status, 200)
      assert.strictEqual((yield* second("claude-opus-5-5", dropping)).status, 400)
    })
  )
  it.live("ignore cache markers and formatting in their prefix", () =>
    Effect.gen(function* () {
      const { status, text: answer } = yield* second("claude-opus-5-5", (body) => {
        body["system"] = [{ ...text("Be brief."), ...marked }] as any
        body.messages[0] = user([{ ...text("hello"), ...marked }])
      })
      assert.strictEqual(status, 200, answer)
    })
  )
  it.live("are refused for another account, on models that bind them to one", () =>
    withServer({ organisation: (key) => key }, (server) =>
      Effect.gen(function* () {
        const statuses = Effect.fnUntraced(function* (model: string) {
          const body = { ...hello.anthropic, model, messages: [user("hello")] as Array<any> }
          const first = yield* post(server, "anthropic", body)
          body.messages.push(assistant(first.body.content), user("and?"))
          const own = yield* post(server, "anthropic", body)
          const other = yield* post(server, "anthropic", body, { "x-api-key": "sk-other" })
          return [own.status, other.status]
        })
        assert.deepStrictEqual(yield* statuses("claude-sonnet-5-5"), [200, 400])
        assert.deepStrictEqual(yield* statuses("claude-opus-5-5"), [200, 200])
      })
    )
  )
  it.live("are dropped without an error when they come from another model", () =>
    Effect.gen(function* () {
      const { status } = yield* second("claude-fable-5-1", (body) => {
        body["model"] = "claude-opus-5-5"
        body.system = "Be long."
      })
      assert.strictEqual(status, 200)
    })
  )
})
