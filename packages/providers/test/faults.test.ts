import { assert, describe, it } from "@effect/vitest"
import { Anthropic, OpenAi } from "@outlast/providers"
import type { FaultPlan } from "@outlast/testing"
import { FakeProvider } from "@outlast/testing"
import { Duration, Effect, Fiber, Stream } from "effect"
import { IdGenerator } from "effect/ai"
import { answers, cases, Weather } from "./cases.ts"
import * as Support from "./support.ts"

describe.each(cases)("$name when it fails", ({ name, target }) => {
  interface Expected {
    readonly fault: FaultPlan.Fault
    readonly reason: string
  }
  const faults: Record<string, Expected> = {
    "401": { fault: { type: "status", status: 401 }, reason: "Auth" },
    "404": { fault: { type: "status", status: 404 }, reason: "ModelNotFound" },
    "429": { fault: { type: "status", status: 429, headers: { "retry-after": "7" } }, reason: "RateLimit" },
    "500": { fault: { type: "status", status: 500 }, reason: "ServerError" },
    ...(name === "anthropic" && { "529": { fault: { type: "status", status: 529 }, reason: "Overloaded" } }),
    "a 502 page": {
      fault: { type: "status", status: 502, body: "<html>Bad Gateway</html>" },
      reason: "Overloaded"
    },
    "a reset before the headers": { fault: { type: "reset" }, reason: "Network" },
    "a reset in mid answer": { fault: { type: "reset", after: 3 }, reason: "Network" },
    "a garbled 200": {
      fault: { type: "garbage", body: "<html>log in</html>" },
      reason: "Format"
    }
  }

  for (const [what, { fault, reason }] of Object.entries(faults)) {
    it.effect(`fails once with ${reason} on ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan: { faults: [{ fault, times: "always" }], answers } })
        const failure = yield* Effect.flip(Support.generate(target(server)))
        assert.strictEqual(failure.reason._tag, reason)
        assert.lengthOf(yield* server.requests, 1)
        const stream = yield* Support.collect(target(server))
        assert.strictEqual(stream.failure?.reason._tag, reason)
        assert.lengthOf(yield* server.requests, 2)
      })
    )
  }

  it.effect("keeps the wait that the server asked for", () =>
    Effect.gen(function* () {
      const fault = { type: "status", status: 429, headers: { "retry-after": "7" } } as const
      const server = yield* FakeProvider.make({ plan: { faults: [{ fault }], answers } })
      const { retryAfter, evidence } = yield* Effect.flip(Support.generate(target(server)))
      assert.strictEqual(retryAfter === undefined ? undefined : Duration.toSeconds(retryAfter), 7)
      assert.strictEqual(evidence.status, 429)
    })
  )

  it.effect("fails with Network when a stream is cut cleanly in the middle of an answer", () =>
    Effect.gen(function* () {
      const plan = { faults: [{ fault: { type: "cut", after: 3 } as const }], answers }
      const server = yield* FakeProvider.make({ plan })
      const { parts, failure } = yield* Support.collect(target(server))
      assert.strictEqual(Support.text(parts), "The meeting is")
      assert.strictEqual(failure?.reason._tag, "Network")
      assert.deepInclude(failure?.evidence, { rule: "stream/cut", signal: "local" })
      assert.isUndefined(parts.find(({ type }) => type === "finish"))
    })
  )

  it.effect("fails with Network when a stream ends before any content", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { faults: [{ fault: { type: "cut", after: 0 } }], answers }
      })
      const { failure } = yield* Support.collect(target(server))
      assert.strictEqual(failure?.reason._tag, "Network")
    })
  )

  it.effect("makes no runnable tool call from arguments that were cut", () =>
    Effect.gen(function* () {
      const params = { city: "a city with a rather long name" }
      const plan = {
        faults: [{ fault: { type: "cut", after: 2 } as const }],
        answers: [{ toolCalls: [{ name: "weather", params }] }]
      }
      const server = yield* FakeProvider.make({ plan })
      const { parts, failure } = yield* Support.collect(target(server), "hello", {
        tools: Object.values(Weather.tools)
      })
      assert.strictEqual(failure?.reason._tag, "Network")
      assert.isUndefined(parts.find((part) => part.type === "tool-call" && typeof part.params !== "string"))
      const begun = parts.some(({ type }) => type === "tool-params-delta")
      // Gemini sends a call complete, or not at all.
      assert.strictEqual(begun, name !== "google")
    })
  )

  it.effect("makes no runnable tool call from arguments that the output limit cut", () =>
    Effect.gen(function* () {
      const params = { city: "a city with a rather long name".repeat(10) }
      const server = yield* FakeProvider.make({
        plan: { answers: [{ toolCalls: [{ name: "weather", params }] }] }
      })
      const { parts, failure } = yield* Support.collect(target(server), "hello", {
        tools: Object.values(Weather.tools),
        maxOutputTokens: 16
      })
      assert.isUndefined(failure)
      assert.isUndefined(parts.find((part) => part.type === "tool-call" && typeof part.params !== "string"))
      const finish = parts.at(-1)
      assert(finish?.type === "finish")
      assert.strictEqual(finish.reason, "length")
    })
  )

  for (const after of [0, 3]) {
    it.effect(`classifies an error inside a stream, ${after} deltas in`, () =>
      Effect.gen(function* () {
        const error = { type: "overloaded_error", message: "Overloaded" }
        const server = yield* FakeProvider.make({
          plan: { faults: [{ fault: { type: "stream-error", after, error } }], answers }
        })
        const { parts, failure } = yield* Support.collect(target(server))
        assert.strictEqual(failure?.reason._tag, "Overloaded")
        assert.isUndefined(parts.find(({ type }) => type === "error" || type === "finish"))
      })
    )
  }

  const streamErrors: Record<string, string> = {
    rate_limit_error: "RateLimit",
    api_error: "ServerError",
    authentication_error: "Auth",
    invalid_request_error: "Format"
  }
  for (const [type, reason] of Object.entries(streamErrors)) {
    it.effect(`calls ${type} in mid answer ${reason}`, () =>
      Effect.gen(function* () {
        const fault = { type: "stream-error", after: 2, error: { type, message: "It went wrong." } } as const
        const server = yield* FakeProvider.make({ plan: { faults: [{ fault, times: "always" }], answers } })
        const { parts, failure } = yield* Support.collect(target(server))
        assert.strictEqual(failure?.reason._tag, reason)
        assert.strictEqual(Support.text(parts), "The meeting")
        const whole = yield* Effect.flip(Support.generate(target(server)))
        assert.strictEqual(whole.reason._tag, reason)
      })
    )
  }

  it.effect(
    "calls a wrong key Auth, an unknown model ModelNotFound, and too long an input ContextOverflow",
    () =>
      Effect.gen(function* () {
        const spec = target(yield* FakeProvider.make({ plan: { answers } }))
        const refused: Record<string, Partial<FakeProvider.Options>> = {
          Auth: { keys: { anthropic: ["other"], openai: ["other"], google: ["other"] } },
          ModelNotFound: { models: { anthropic: [], openai: [], google: [] } },
          ContextOverflow: { windows: { [spec.model]: 10 } }
        }
        for (const [reason, options] of Object.entries(refused)) {
          const server = yield* FakeProvider.make({ plan: { answers }, ...options })
          const failure = yield* Effect.flip(Support.generate(target(server), "hello ".repeat(20)))
          assert.strictEqual(failure.reason._tag, reason)
          const stream = yield* Support.collect(target(server), "hello ".repeat(20))
          assert.strictEqual(stream.failure?.reason._tag, reason)
        }
      })
  )

  it.effect("keeps the text of cut arguments when the finish reason says complete", () =>
    Effect.gen(function* () {
      const params = { city: "a city with a rather long name" }
      const plan = {
        faults: [{ fault: { type: "finish", reason: "tool-calls", after: 2 } as const }],
        answers: [{ toolCalls: [{ name: "weather", params }] }]
      }
      const server = yield* FakeProvider.make({ plan })
      const { parts, failure } = yield* Support.collect(target(server), "hello", {
        tools: Object.values(Weather.tools)
      })
      assert.isUndefined(failure)
      const call = parts.find((part) => part.type === "tool-call")
      // Gemini sends complete calls only, so the call is absent.
      assert.strictEqual(typeof call?.params, name === "google" ? "undefined" : "string")
    })
  )

  it.effect("reports an answer that a filter ended", () =>
    Effect.gen(function* () {
      const fault = { type: "finish", reason: "content-filter", after: 2 } as const
      const server = yield* FakeProvider.make({ plan: { faults: [{ fault, times: "always" }], answers } })
      const { parts } = yield* Support.collect(target(server))
      const whole = yield* Support.generate(target(server))
      for (const finish of [parts.at(-1), whole.at(-1)]) {
        assert(finish?.type === "finish")
        assert.strictEqual(finish.reason, "content-filter")
      }
    })
  )

  for (const [where, fault] of Object.entries({
    "before the headers": { type: "stall" },
    "in mid answer": { type: "stall", after: 3 }
  } as const)) {
    for (const streaming of [true, false]) {
      it.effect(`closes the connection when interrupted ${where}, streaming ${streaming}`, () =>
        Effect.gen(function* () {
          const server = yield* FakeProvider.make({ plan: { faults: [{ fault }], answers } })
          const call = streaming ? Support.collect(target(server)) : Support.generate(target(server))
          const fiber = yield* Effect.forkChild(call)
          yield* Stream.runHead(server.arrivals)
          yield* Fiber.interrupt(fiber)
          yield* closed(server)
        })
      )
    }
  }

  it.effect("closes the connection when the consumer stops reading", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({
        plan: { faults: [{ fault: { type: "stall", after: 3 } }], answers }
      })
      const model = yield* Effect.scoped(target(server).build)
      const first = yield* model.streamText(yield* Support.request("hello")).pipe(
        Stream.filter(({ type }) => type === "text-delta"),
        Stream.runHead,
        Effect.provideService(IdGenerator.IdGenerator, IdGenerator.defaultIdGenerator)
      )
      assert.strictEqual(first._tag, "Some")
      yield* closed(server)
    })
  )
})

/** Waits until the server has seen the client disconnect. The test's time limit ends the wait. */
const closed = (server: FakeProvider.FakeProvider): Effect.Effect<void> =>
  Effect.flatMap(server.requests, ([request]) =>
    request?.closedByClient === true
      ? Effect.sync(() => assert.isTrue(request.closedByClient))
      : Effect.andThen(
          Effect.promise(() => new Promise((resume) => setImmediate(resume))),
          closed(server)
        )
  )

describe("OpenAI Responses", () => {
  for (const form of ["failed", "flat", "nested"] as const) {
    for (const after of [0, 2]) {
      it.effect(`classifies an error in its ${form} form, ${after} deltas in`, () =>
        Effect.gen(function* () {
          const error = { type: "rate_limit_error", message: "Slower." }
          const fault = { type: "stream-error", after, error, form } as const
          const server = yield* FakeProvider.make({ plan: { faults: [{ fault }], answers } })
          const spec = OpenAi.model("gpt-5", { baseUrl: server.baseUrl("openai") })
          const { parts, failure } = yield* Support.collect(spec)
          assert.strictEqual(failure?.reason._tag, "RateLimit")
          assert.isUndefined(parts.find(({ type }) => type === "error" || type === "finish"))
        })
      )
    }
  }
})

describe("Anthropic", () => {
  for (const [what, event] of Object.entries({
    "an event without its fields": { type: "message_start" },
    "no JSON": "{nope"
  })) {
    it.effect(`fails with Format when a stream begins with ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Support.serve((response) => Support.sse(response, [event]))
        const spec = Anthropic.model("claude-sonnet-4-5", { baseUrl: server.url })
        const { failure } = yield* Support.collect(spec)
        assert.deepInclude(failure?.reason, { _tag: "Format", side: "response" })
      })
    )
  }
})
