import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { FakeProvider } from "@outlast/testing"
import { rules } from "#testing/server/google/wire"
import { hello, post } from "./http.ts"
import { refusals } from "./refusals.ts"

const sentinel = "skip_thought_signature_validator"
const user = (...parts: ReadonlyArray<object>) => ({ role: "user", parts })
const model = (...parts: ReadonlyArray<object>) => ({ role: "model", parts })
const text = (text: string) => ({ text })
const ask = user(text("2 + 3?"))
const call = (name = "add", signature: string | undefined = sentinel) => ({
  functionCall: { name, args: { a: 2 } },
  ...(signature === undefined ? {} : { thoughtSignature: signature })
})
const unsigned = (name = "add") => ({ functionCall: { name, args: {} } })
const result = (name = "add", id?: string) => ({
  functionResponse: { name, response: { result: "5" }, ...(id === undefined ? {} : { id }) }
})
const contents = (...contents: ReadonlyArray<object>) => ({ contents })
const declared = (...names: ReadonlyArray<string>) => ({
  tools: [{ functionDeclarations: names.map((name) => ({ name, parametersJsonSchema: { type: "object" } })) }]
})
const json = { generationConfig: { responseMimeType: "application/json" } }
const mode = (mode: string) => ({ toolConfig: { functionCallingConfig: { mode } } })

const unequal =
  "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
const corrupted = "Corrupted thought signature."
const older = { model: "gemini-2.5-flash" }

refusals({
  api: "google",
  rules,
  server: { windows: { "gemini-small": 10 } },
  error: (_, __, status) => ({ code: status, status: "INVALID_ARGUMENT" }),
  cases: [
    {
      rule: "unknown-field",
      body: { maxTokens: 5 },
      message: `Invalid JSON payload received. Unknown name "max_tokens": Cannot find field.`,
      fine: [{ safetySettings: [] }]
    },
    {
      rule: "unknown-config",
      body: { generationConfig: { maxTokens: 5 } },
      message: `Invalid JSON payload received. Unknown name "max_tokens" at 'generation_config': Cannot find field.`,
      fine: [{ generationConfig: { maxOutputTokens: 5, seed: 1 } }]
    },
    {
      rule: "function-name",
      body: declared("2add"),
      message:
        /^\* GenerateContentRequest\.tools\[0\]\.function_declarations\[0\]\.name: Invalid function name\./,
      fine: [declared("_my.tool:v-1")]
    },
    {
      rule: "function-names-unique",
      body: declared("add", "add"),
      message: "Duplicate function declaration found: add",
      fine: [declared("add", "sub")]
    },
    {
      rule: "json-with-tools",
      why: "before Gemini 3",
      body: { ...older, ...declared("add"), ...json },
      message: "Function calling with a response mime type: 'application/json' is unsupported",
      fine: [
        { ...older, ...json },
        { ...declared("add"), ...json }
      ]
    },
    {
      rule: "json-with-tools",
      why: "when a call is forced",
      body: { ...declared("add"), ...json, ...mode("ANY") },
      message: "Function calling with a response mime type: 'application/json' is unsupported",
      fine: [{ ...declared("add"), ...json, ...mode("AUTO") }]
    },
    {
      rule: "max-output-tokens",
      body: { generationConfig: { maxOutputTokens: 0 } },
      message:
        "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive"
    },
    {
      rule: "thinking-level",
      body: { ...older, generationConfig: { thinkingConfig: { thinkingLevel: "low" } } },
      message: "Thinking level is not supported for this model.",
      fine: [
        { ...older, generationConfig: { thinkingConfig: { thinkingBudget: 1_024 } } },
        { generationConfig: { thinkingConfig: { thinkingLevel: "low" } } }
      ]
    },
    {
      rule: "thinking-one",
      body: { generationConfig: { thinkingConfig: { thinkingLevel: "low", thinkingBudget: 1_024 } } },
      message: "You can only set only one of thinking budget and thinking level."
    },
    {
      rule: "window",
      body: { model: "gemini-small", ...contents(user(text("a".repeat(44)))) },
      message: "The input token count (11) exceeds the maximum number of tokens allowed (10).",
      fine: [{ model: "gemini-small", ...contents(user(text("a".repeat(40)))) }]
    },
    {
      rule: "contents-empty",
      body: contents(),
      message: "* GenerateContentRequest.contents: contents is not specified"
    },
    {
      rule: "contents-empty",
      why: "a system instruction alone",
      body: { contents: undefined, systemInstruction: { parts: [text("Be brief.")] } },
      message: "* GenerateContentRequest.contents: contents is not specified",
      fine: [{ systemInstruction: { parts: [text("Be brief.")] } }]
    },
    {
      rule: "role",
      body: contents({ role: "assistant", parts: [text("a")] }),
      message: "Please use a valid role: user, model.",
      fine: [contents({ parts: [text("a")] })]
    },
    {
      rule: "parts-empty",
      body: contents(ask, model(), ask),
      message: "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty."
    },
    {
      rule: "part-data",
      why: "none",
      body: contents(user({ thought: true })),
      message: /contents\[0\]\.parts\[0\]\.data: required oneof field 'data' must have one initialized field/
    },
    {
      rule: "part-data",
      why: "two",
      body: contents(user({ text: "a", functionCall: { name: "add" } })),
      message: /oneof field 'data' is already set. Cannot set 'function_call'/
    },
    {
      rule: "text-empty",
      body: contents(user(text(""))),
      message: /must have a text parameter/,
      fine: [contents(ask, model({ text: "", thoughtSignature: "a" }), ask)]
    },
    {
      rule: "call-place",
      why: "at the start",
      body: contents(model(call()), user(result())),
      message:
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
    },
    {
      rule: "call-place",
      why: "behind a text of the model",
      body: contents(ask, model(text("Let me see.")), model(call()), user(result())),
      message:
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
      fine: [
        contents(ask, model(text("Let me see."), call()), user(result())),
        contents(ask, model(call()), user(result()), model(call()), user(result()))
      ]
    },
    {
      rule: "response-place",
      body: contents(ask, model(text("Five.")), user(result())),
      message: "Please ensure that function response turn comes immediately after a function call turn."
    },
    {
      rule: "responses-count",
      why: "fewer than calls",
      body: contents(ask, model(call(), unsigned("sub")), user(result())),
      message: unequal,
      fine: [contents(ask, model(call(), unsigned("sub")), user(result(), result("sub")))]
    },
    {
      rule: "responses-count",
      why: "in two contents",
      body: contents(ask, model(call(), unsigned("sub")), user(result()), user(result("sub"))),
      message: unequal
    },
    {
      rule: "responses-count",
      why: "none at all",
      body: contents(ask, model(call()), ask),
      message: unequal
    },
    {
      rule: "responses-name",
      why: "another function",
      body: contents(ask, model(call()), user(result("sub"))),
      message: unequal
    },
    {
      rule: "responses-name",
      why: "another id",
      body: contents(
        ask,
        model({ functionCall: { name: "add", args: {}, id: "a" }, thoughtSignature: sentinel }),
        user(result("add", "b"))
      ),
      message: unequal,
      fine: [
        contents(
          ask,
          model({ functionCall: { name: "add", args: {}, id: "a" }, thoughtSignature: sentinel }),
          user(result("add", "a"))
        )
      ]
    },
    {
      rule: "last-turn",
      body: contents(ask, model(text("Fi"))),
      message: /end with a user turn/,
      fine: [contents(ask, model(text("Fi")), user(text("Go on.")))]
    },
    {
      rule: "signature-missing",
      body: contents(ask, model(text("Let me see."), unsigned()), user(result())),
      message:
        /^Function call is missing a thought_signature in functionCall parts\..* function call `default_api:add` , position 2\./,
      fine: [
        // Older models do not sign.
        { ...older, ...contents(ask, model(unsigned()), user(result())) },
        // Only the first of parallel calls is signed.
        contents(ask, model(call(), unsigned("sub")), user(result(), result("sub"))),
        // Calls before the last text of the user are not checked.
        contents(ask, model(unsigned()), user(result()), model(text("Five.")), ask)
      ]
    },
    {
      rule: "signature-missing",
      why: "in a later step of the same turn",
      body: contents(ask, model(call()), user(result()), model(unsigned("sub")), user(result("sub"))),
      message: /`default_api:sub` , position 4\./
    },
    {
      rule: "signature-corrupted",
      body: contents(ask, model(call("add", "bm9uZXNlbnNl")), user(result())),
      message: corrupted,
      fine: [contents(ask, model(call("add", "bm9uZXNlbnNl")), user(result()), model(text("Five.")), ask)]
    }
  ],
  elsewhere: ["signature-other"]
})

describe("Gemini", () => {
  const add = {
    toolCalls: [
      { name: "add", params: { a: 2 } },
      { name: "sub", params: {} }
    ]
  }

  it.live("accepts its own signatures where they were created", () =>
    Effect.gen(function* () {
      for (const strict of [true, false]) {
        const server = yield* FakeProvider.make({ strict, plan: { answers: [add, { text: "Five." }] } })
        const first = yield* post(server, "google", hello.google)
        const given = first.body.candidates[0].content
        assert.deepStrictEqual(
          given.parts.map(({ thoughtSignature }: any) => thoughtSignature !== undefined),
          [true, false]
        )
        const results = user(result("add", given.parts[0].functionCall.id), result("sub"))
        const said = (content: unknown, id = "gemini-3-flash") =>
          post(server, "google", { model: id, contents: [hello.google["contents"], content, results].flat() })
        assert.strictEqual((yield* said(given)).status, 200)
        const spoiled = structuredClone(given)
        spoiled.parts[0].thoughtSignature = given.parts[0].thoughtSignature.replace(/^..../, "AAAA")
        assert.strictEqual((yield* said(spoiled)).body.error.message, corrupted)
        // Reports disagree about signatures of another model, so only a strict server refuses them.
        assert.strictEqual((yield* said(given, "gemini-3.1-pro")).status, strict ? 400 : 200)
      }
    }).pipe(Effect.scoped)
  )

  it.live("does not sign calls before Gemini 3, and sends no ids for them", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [add] } })
      const { body } = yield* post(server, "google", { ...hello.google, ...older })
      assert.deepStrictEqual(body.candidates[0].content.parts, [
        { functionCall: { name: "add", args: { a: 2 } } },
        { functionCall: { name: "sub", args: {} } }
      ])
    }).pipe(Effect.scoped)
  )

  it.live("refuses keys, models and JSON with Google's messages", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ text: "hi" }] },
        keys: { google: ["good"] },
        models: { google: ["gemini-3-flash"] }
      })
      const error = (headers: Record<string, string | undefined>, body: unknown = hello.google) =>
        Effect.map(post(server, "google", body, headers), ({ status, body }) => [status, body.error.status])
      assert.deepStrictEqual(yield* error({ "x-goog-api-key": undefined }), [403, "PERMISSION_DENIED"])
      assert.deepStrictEqual(yield* error({}), [400, "INVALID_ARGUMENT"])
      const wrong = yield* post(server, "google", hello.google)
      assert.strictEqual(wrong.body.error.details[0].reason, "API_KEY_INVALID")
      const good = { "x-goog-api-key": "good" }
      assert.deepStrictEqual(yield* error(good, { ...hello.google, model: "gemini-9" }), [404, "NOT_FOUND"])
      assert.deepStrictEqual(yield* error(good, "{nonsense"), [400, "INVALID_ARGUMENT"])
      assert.deepStrictEqual(yield* error(good, { contents: [{ parts: [{ text: 1 }] }] }), [
        400,
        "INVALID_ARGUMENT"
      ])
      const requests = yield* server.requests
      assert.strictEqual(requests[3]?.model, "gemini-9")
    }).pipe(Effect.scoped)
  )

  it.live("accepts the key in the query too, and does not record it", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { answers: [{ text: "hi" }] },
        keys: { google: ["sk-very-secret"] }
      })
      const url = `${server.baseUrl("google")}/models/gemini-3-flash:streamGenerateContent?alt=sse&key=sk-very-secret`
      const { model: _, ...body } = hello.google
      const answer = yield* Effect.promise(() => fetch(url, { method: "POST", body: JSON.stringify(body) }))
      assert.strictEqual(answer.status, 200)
      yield* Effect.promise(() => answer.text())
      assert.notInclude(JSON.stringify(yield* server.requests), "very-secret")
    }).pipe(Effect.scoped)
  )

  it.live("states the plan's `retry-after` in the body", () =>
    Effect.gen(function* () {
      const fault = { type: "status", status: 429, headers: { "Retry-After": "7" } } as const
      const plan = { faults: [{ fault }, { fault: { type: "status", status: 429 } as const }], answers: [] }
      const server = yield* FakeProvider.make({ plan })
      const delay = Effect.map(post(server, "google", hello.google), ({ body }) => {
        assert.strictEqual(body.error.status, "RESOURCE_EXHAUSTED")
        return body.error.details.find((detail: any) => "retryDelay" in detail).retryDelay
      })
      assert.strictEqual(yield* delay, "7s")
      assert.strictEqual(yield* delay, "1.4s")
    }).pipe(Effect.scoped)
  )

  it.live("supports no other method, and no stream as one array", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "hi" }] } })
      const status = (path: string, method = "POST") =>
        Effect.promise(async () => {
          const response = await fetch(server.baseUrl("google") + path, { method })
          await response.text()
          return response.status
        })
      assert.strictEqual(yield* status("/models/gemini-3-flash:streamGenerateContent"), 404)
      assert.strictEqual(yield* status("/models/gemini-3-flash:countTokens"), 404)
      assert.strictEqual(yield* status("/models/gemini-3-flash:generateContent", "GET"), 404)
    }).pipe(Effect.scoped)
  )
})
