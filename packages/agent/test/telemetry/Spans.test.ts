/** Spans of runs, turns, calls, attempts, tools and compactions. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, References, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Compaction, Direct, Failover } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"
import { inTime, key, policy, rateLimited, status } from "../support.ts"
import { tracing } from "./tracing.ts"

const Note = Tool.make("note", {
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
})
const Kit = Toolkit.make(Note)
const KitLive = Kit.toLayer({ note: () => Effect.succeed("result-content") })

const question = "prompt-content: what is the plan?"

const first = (options: Partial<ScriptedModel.Options> = {}) =>
  ScriptedModel.make({
    provider: "google",
    model: "gemini",
    endpoint: "https://models.example:8443/v1",
    keys: [key("FIRST")],
    plan: { answers: [{ text: "answer-content", usage: { input: 100, output: 10 } }] },
    ...options
  })

describe("the spans of a call", () => {
  it.effect("each attempt is a child of the call, with its target, failure, tokens and finish reason", () =>
    Effect.gen(function* () {
      const { layer, named, seen, text } = tracing()
      const one = yield* first({ plan: { faults: [{ fault: status(529), times: "always" }], answers: [] } })
      const two = yield* first({ model: "other", info: { price: { input: 1, output: 10 } } })
      yield* LanguageModel.generateText({ prompt: question }).pipe(
        Effect.provide([Failover.layer([one, two], { policy }), layer]),
        inTime
      )
      const [call] = named("LanguageModel.generateText")
      assert.deepInclude(call?.attributes, {
        "outlast.outcome": "recovered",
        "outlast.target": "google/other#FIRST"
      })
      assert.strictEqual(call?.attributes["gen_ai.usage.input_tokens"], undefined)
      const failed = named("chat gemini")
      assert.isAbove(failed.length, 0)
      for (const attempt of failed) {
        assert.deepInclude(attempt, { parent: "LanguageModel.generateText", kind: "client" })
        assert.deepInclude(attempt.attributes, {
          "error.type": "Overloaded",
          "http.response.status_code": 529
        })
        assert.include(attempt.end, "HTTP 529")
      }
      const [answered] = named("chat other")
      assert.deepInclude(answered, { parent: "LanguageModel.generateText", kind: "client", end: "ok" })
      assert.deepInclude(answered?.attributes, {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "other",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "server.address": "models.example",
        "outlast.attempt": failed.length + 1,
        "outlast.target": "google/other#FIRST"
      })
      assert.deepStrictEqual(answered?.attributes["gen_ai.response.finish_reasons"], ["stop"])
      assert.strictEqual(call?.attributes["outlast.attempts"], failed.length + 1)
      assert.isTrue(seen().every(({ end }) => end !== "open"))
      for (const content of ["prompt-content", "answer-content", "secret-of"])
        assert.notInclude(text(), content)
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  )

  it.effect("a wait is an event of the call", () =>
    Effect.gen(function* () {
      const { layer, named } = tracing()
      const one = yield* first({
        plan: { faults: [{ fault: rateLimited(3) }], answers: [{ text: "late" }] }
      })
      yield* LanguageModel.generateText({ prompt: question }).pipe(
        Effect.provide([Failover.layer([one], { policy }), layer]),
        inTime
      )
      const [call] = named("LanguageModel.generateText")
      assert.deepStrictEqual(call?.events, [
        ["outlast.waited", { reason: "backoff", target: "google/gemini#FIRST", seconds: 3 }]
      ])
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  )

  it.effect("a stream has the same spans, and its attempts are children of its call", () =>
    Effect.gen(function* () {
      const { layer, named, text } = tracing()
      const one = yield* first({
        plan: { faults: [{ fault: status(529) }], answers: [{ text: "answer-content" }] }
      })
      yield* LanguageModel.streamText({ prompt: question }).pipe(
        Stream.runDrain,
        Effect.provide([Failover.layer([one], { policy }), layer]),
        inTime
      )
      const attempts = named("chat gemini")
      assert.deepStrictEqual(
        attempts.map(({ parent }) => parent),
        ["LanguageModel.streamText", "LanguageModel.streamText"]
      )
      assert.deepStrictEqual(attempts[1]?.end, "ok")
      assert.deepStrictEqual(attempts[1]?.attributes["gen_ai.response.finish_reasons"], ["stop"])
      assert.deepInclude(named("LanguageModel.streamText")[0]?.attributes, { "outlast.outcome": "recovered" })
      assert.notInclude(text(), "content:")
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  )

  it.effect("an interrupted call ends its attempt, and is abandoned", () =>
    Effect.gen(function* () {
      const { layer, named } = tracing()
      const one = yield* first({ plan: { faults: [{ fault: { type: "stall" } }], answers: [] } })
      const fiber = yield* LanguageModel.generateText({ prompt: question }).pipe(
        Effect.provide([Failover.layer([one], { policy }), layer]),
        Effect.forkChild
      )
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(
        named("chat gemini").map(({ end }) => end),
        ["interrupted"]
      )
      assert.deepInclude(named("LanguageModel.generateText")[0]?.attributes, {
        "outlast.outcome": "abandoned",
        "outlast.attempts": 1
      })
    })
  )

  it.effect("a call that fails names its reason", () =>
    Effect.gen(function* () {
      const { layer, named } = tracing()
      const one = yield* first({ plan: { faults: [{ fault: status(401), times: 9 }], answers: [] } })
      yield* LanguageModel.generateText({ prompt: question }).pipe(
        Effect.provide([Failover.layer([one], { policy }), layer]),
        Effect.exit,
        inTime
      )
      assert.deepInclude(named("LanguageModel.generateText")[0]?.attributes, {
        "outlast.outcome": "failed",
        "error.type": "AllTargetsOut"
      })
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  )

  it.effect("without a tracer no span is made for an attempt", () =>
    Effect.gen(function* () {
      const one = yield* first()
      yield* LanguageModel.generateText({ prompt: question }).pipe(
        Effect.provide(Failover.layer([one], { policy }))
      )
      const [request] = yield* one.requests
      assert.strictEqual(request?.options.span.name, "LanguageModel.generateText")
      assert.deepStrictEqual(
        [...(request?.options.span.attributes.keys() ?? [])].filter((name) => name.startsWith("outlast.")),
        []
      )
    })
  )
})

describe("Direct", () => {
  const whole = LanguageModel.generateText({ prompt: question })
  const stream = Stream.runDrain(LanguageModel.streamText({ prompt: question }))
  const firstPart = Stream.runDrain(Stream.take(LanguageModel.streamText({ prompt: question }), 1))
  const answers = [{ text: "answer-content", usage: { input: 100, output: 10 } }]
  const refused = { faults: [{ fault: status(400), times: "always" }], answers: [] } as const
  const halting = { faults: [{ fault: { type: "stall", after: 1 } }], answers } as const
  const stalled = { faults: [{ fault: { type: "stall" } }], answers: [] } as const

  it.effect.each([
    ["an answer", whole, { answers }, "answered"],
    ["a stream", stream, { answers }, "answered"],
    ["a failure", whole, refused, "failed"],
    ["a stream that fails", stream, refused, "failed"],
    ["an interruption", whole, stalled, "abandoned"],
    ["a stream that is interrupted", stream, stalled, "abandoned"],
    ["a stream that is not read to its end", firstPart, halting, "abandoned"]
  ] as const)("makes the spans of Failover for %s", ([, call, plan, outcome]) =>
    Effect.gen(function* () {
      const spansOf = (layer: typeof Direct.layer | typeof overOne) =>
        Effect.gen(function* () {
          const tracer = tracing()
          const one = yield* first({ plan, info: { price: { input: 1, output: 10 } } })
          const fiber = yield* Effect.exit(call).pipe(
            Effect.provide([layer(one), tracer.layer]),
            Effect.forkChild({ startImmediately: true })
          )
          yield* TestClock.adjust("1 second")
          yield* Fiber.interrupt(fiber)
          for (const content of ["prompt-content", "answer-content", "secret-of"]) {
            assert.notInclude(tracer.text(), content)
          }
          return tracer.seen()
        })
      const direct = yield* spansOf(Direct.layer)
      assert.deepStrictEqual(direct, yield* spansOf(overOne))
      assert.deepInclude(direct[0]?.attributes, { "outlast.outcome": outcome, "outlast.attempts": 1 })
      assert.deepInclude(direct[1], { name: "chat gemini", parent: direct[0]?.name })
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  )

  const overOne = (one: ScriptedModel.ScriptedModel) => Failover.layer([one], { policy })
})

describe("the spans of a run", () => {
  const answers = [
    { toolCalls: [{ name: "note", params: { text: "argument-content" } }] },
    { text: "answer-content" }
  ]

  it.effect.each(["run", "stream"] as const)("%s: run, turns, calls, attempts and tools form a tree", (way) =>
    Effect.gen(function* () {
      const { layer, seen, named, text } = tracing()
      const one = yield* first({ plan: { answers } })
      const options = { prompt: question, toolkit: Kit }
      yield* (way === "run" ? Agent.run(options) : Stream.runDrain(Agent.stream(options))).pipe(
        Effect.provide([KitLive, Failover.layer([one], { policy }), layer])
      )
      const call = way === "run" ? "LanguageModel.generateText" : "LanguageModel.streamText"
      assert.deepStrictEqual(
        seen().map(({ name, parent }) => [name, parent]),
        [
          ["invoke_agent", undefined],
          ["outlast.turn", "invoke_agent"],
          [call, "outlast.turn"],
          ["chat gemini", call],
          ["execute_tool note", "outlast.turn"],
          ["outlast.turn", "invoke_agent"],
          [call, "outlast.turn"],
          ["chat gemini", call]
        ]
      )
      assert.isTrue(seen().every(({ end }) => end === "ok"))
      assert.deepStrictEqual(
        named("outlast.turn").map(({ attributes }) => attributes),
        [
          { "outlast.turn": 1, "outlast.transition": "next_turn" },
          { "outlast.turn": 2, "outlast.transition": "completed" }
        ]
      )
      assert.deepInclude(named("invoke_agent")[0]?.attributes, {
        "gen_ai.operation.name": "invoke_agent",
        "outlast.status": "completed",
        "outlast.turns": 2
      })
      assert.deepInclude(named("execute_tool note")[0]?.attributes, {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "note",
        "gen_ai.tool.type": "function"
      })
      for (const content of ["prompt", "argument", "result", "answer"]) {
        assert.notInclude(text(), `${content}-content`)
      }
    })
  )

  it.effect(
    "without a tracer a tool has a span only where the program has made one, which gets no arguments",
    () =>
      Effect.gen(function* () {
        const seen: Array<string | undefined> = []
        const handlers = Kit.toLayer({
          note: () =>
            Effect.map(Effect.option(Effect.currentSpan), (span) => {
              seen.push(Option.getOrUndefined(span)?.name)
              return "result-content"
            })
        })
        const one = yield* first({ plan: { answers: [...answers, ...answers] } })
        const run = Agent.run({ prompt: question, toolkit: Kit })
        const own = yield* Effect.gen(function* () {
          yield* run
          return yield* Effect.useSpan("own", (span) =>
            Effect.map(Effect.withParentSpan(run, span), () => [...span.attributes.keys()])
          )
        }).pipe(Effect.provide([handlers, Failover.layer([one], { policy })]))
        assert.deepStrictEqual(seen, [undefined, "execute_tool note"])
        assert.deepStrictEqual(own, [])
      })
  )

  it.effect("the failure and the defect of a tool tell their kind and not their message", () =>
    Effect.gen(function* () {
      for (const [handler, kind] of [
        [Effect.die(new TypeError("defect-content")), "TypeError"],
        [Effect.fail({ _tag: "Full", message: "failure-content" } as const), "Full"]
      ] as const) {
        const { layer, named, text } = tracing()
        const one = yield* first({ plan: { answers } })
        const Broken = Toolkit.make(
          Tool.make("note", {
            parameters: Schema.Struct({ text: Schema.String }),
            failure: Schema.Struct({ _tag: Schema.Literal("Full"), message: Schema.String }),
            failureMode: "error"
          })
        )
        yield* Agent.run({ prompt: question, toolkit: Broken }).pipe(
          Effect.provide([Broken.toLayer({ note: () => handler }), Failover.layer([one], { policy }), layer]),
          Effect.exit
        )
        for (const name of ["execute_tool note", "outlast.turn", "invoke_agent"]) {
          assert.deepInclude(named(name)[0]?.attributes, { "error.type": kind })
          assert.strictEqual(named(name)[0]?.end, kind)
        }
        assert.notInclude(text(), "-content")
      }
    })
  )

  it.effect("an interrupted run ends all of its spans", () =>
    Effect.gen(function* () {
      const { layer, seen } = tracing()
      const one = yield* first({ plan: { answers } })
      const fiber = yield* Agent.run({ prompt: question, toolkit: Kit }).pipe(
        Effect.provide([Kit.toLayer({ note: () => Effect.never }), Failover.layer([one], { policy }), layer]),
        Effect.forkChild
      )
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(
        seen().map(({ name, end }) => [name, end]),
        [
          ["invoke_agent", "interrupted"],
          ["outlast.turn", "interrupted"],
          ["LanguageModel.generateText", "ok"],
          ["chat gemini", "ok"],
          ["execute_tool note", "interrupted"]
        ]
      )
    })
  )

  it.effect("a compaction has a span inside its turn; a conversation that fits has none", () =>
    Effect.gen(function* () {
      const { layer, named, text } = tracing()
      const one = yield* first({
        info: { contextWindow: 2_000 },
        plan: { answers: [{ text: "done", usage: { input: 0 } }] }
      })
      const old = Array.from({ length: 40 }, (_, i) => [
        { role: "user" as const, content: `question-content ${i} ${"word ".repeat(40)}` },
        { role: "assistant" as const, content: `answer-content ${i} ${"word ".repeat(40)}` }
      ]).flat()
      const run = (prompt: Prompt.RawInput) =>
        Agent.run({ prompt }).pipe(
          Effect.provide([Failover.layer([one], { policy }), Compaction.layer(), layer])
        )
      yield* run(question)
      assert.deepStrictEqual(named("outlast.compaction"), [])
      yield* run([...old, { role: "user", content: "And now?" }]).pipe(Effect.exit)
      const [span] = named("outlast.compaction")
      assert.strictEqual(span?.parent, "outlast.turn")
      assert.deepInclude(span?.attributes, { "outlast.reactive": false, "outlast.window": 2_000 })
      assert.isBelow(
        Number(span?.attributes["outlast.tokens_after"]),
        Number(span?.attributes["outlast.tokens_before"])
      )
      assert.notInclude(text(), "-content")
    })
  )
})
