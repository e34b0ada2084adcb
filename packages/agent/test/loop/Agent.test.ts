import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Inspectable, Layer, Logger, Option, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, AgentFailed, Direct, Failover, FailoverReason } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { failure, finish, inTime, key, played, policy, serverError, text, toolCall } from "../support.ts"
import type { Part } from "../support.ts"

const Add = Tool.make("add", {
  parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
  success: Schema.Finite
})
const Kit = Toolkit.make(Add)
const KitLive = Kit.toLayer({ add: ({ a, b }) => Effect.succeed(a + b) })

const call = (name: string, params: { readonly [field: string]: Schema.Json }) => ({
  toolCalls: [{ name, params }]
})
const plan = (answers: FaultPlan.FaultPlan["answers"], faults: ReadonlyArray<FaultPlan.Step> = []) => ({
  answers,
  faults
})

const target = (script: FaultPlan.FaultPlan, options: Partial<ScriptedModel.Options> = {}) =>
  ScriptedModel.make({ provider: "anthropic", model: "m", plan: script, ...options })

const recording = () => {
  const seen: Array<string> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      if (event._tag === "AgentTransition" && "transition" in event) seen.push(String(event.transition))
    })
  )
  return { seen, layer }
}

describe("Agent.run", () => {
  it.effect("asks, runs tools, asks again, and reports its usage", () =>
    Effect.gen(function* () {
      const model = yield* target(
        plan([
          { ...call("add", { a: 1, b: 2 }), usage: { input: 100, output: 10 } },
          { text: "It is 3.", usage: { input: 120, output: 5 } }
        ]),
        { info: { price: { input: 1, output: 10 } } }
      )
      const { seen, layer } = recording()
      const outcome = yield* Agent.run({ prompt: "1 + 2?", toolkit: Kit }).pipe(
        Effect.provide([KitLive, Failover.layer([model], { policy }), layer])
      )
      assert.strictEqual(outcome.status, "completed")
      assert.strictEqual(outcome.text, "It is 3.")
      assert.deepStrictEqual([outcome.turns, outcome.toolCalls], [2, 1])
      assert.deepStrictEqual(outcome.usage.outputTokens, 15)
      assert.strictEqual(outcome.models.length, 1)
      assert.deepInclude(outcome.models[0], { target: "anthropic/m", turns: 2, share: 1 })
      assert.approximately(outcome.costUsd ?? 0, (220 * 1 + 15 * 10) / 1e6, 1e-9)
      assert.deepStrictEqual(seen, ["next_turn", "completed"])
      assert.deepStrictEqual(
        outcome.transcript.prompt.content.map((message) => message.role),
        ["user", "assistant", "tool", "assistant"]
      )
    })
  )

  it.effect("returns the results of parallel calls in the order of the calls", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const slow = Kit.toLayer({
        add: ({ a, b }) =>
          a === 1
            ? Effect.as(Deferred.await(gate), a + b)
            : Effect.as(Deferred.succeed(gate, undefined), a + b)
      })
      const model = yield* target(
        plan([
          {
            toolCalls: [
              { name: "add", params: { a: 1, b: 1 } },
              { name: "add", params: { a: 2, b: 2 } }
            ]
          },
          { text: "done" }
        ])
      )
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        Effect.provide([slow, Failover.layer([model], { policy })])
      )
      const results = outcome.transcript.prompt.content.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [part.result] : []))
          : []
      )
      assert.deepStrictEqual(results, [2, 4])
    })
  )

  it.effect("tells the model about its invalid calls", () =>
    Effect.gen(function* () {
      const model = yield* target(
        plan([call("subtract", {}), call("add", { a: "one" }), { text: "I give up." }])
      )
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        Effect.provide([KitLive, Failover.layer([model], { policy })])
      )
      const results = outcome.transcript.prompt.content.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [part] : []))
          : []
      )
      assert.deepStrictEqual(
        results.map((result) => result.isFailure),
        [true, true]
      )
      assert.include(JSON.stringify(results[0]?.result), "subtract")
      assert.strictEqual(outcome.text, "I give up.")
    })
  )

  it.effect.each(["error", "return"] as const)(
    "tells the model every problem of its arguments, with failureMode %s",
    (failureMode) =>
      Effect.gen(function* () {
        let ran = 0
        const Strict = Toolkit.make(
          Tool.make("add", {
            parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
            success: Schema.Finite,
            failureMode
          })
        )
        const model = yield* target(plan([call("add", { a: "one" }), { text: "ok" }]))
        const outcome = yield* Agent.run({ prompt: "x", toolkit: Strict }).pipe(
          Effect.provide([Strict.toLayer({ add: () => Effect.sync(() => ran++) }), Direct.layer(model)])
        )
        assert.strictEqual(ran, 0)
        const [result] = outcome.transcript.prompt.content.flatMap(({ role, content }) =>
          role === "tool" ? content.flatMap((part) => (part.type === "tool-result" ? [part.result] : [])) : []
        )
        const { type, reason } = Schema.decodeUnknownSync(
          Schema.Struct({ type: Schema.String, reason: Schema.String })
        )(result)
        assert.strictEqual(type, "invalid-call")
        assert.match(reason, /^The call was not run, because its arguments are wrong\. /)
        assert.match(reason, /\["a"\]/)
        assert.match(reason, /\["b"\]/)
      })
  )

  it.effect("interrupts a tool at its time limit and tells the model", () =>
    Effect.gen(function* () {
      const never = Kit.toLayer({ add: () => Effect.never })
      const model = yield* target(plan([call("add", { a: 1, b: 2 }), { text: "too slow" }]))
      const fiber = yield* Agent.run({ prompt: "x", toolkit: Kit, toolTimeout: "30 seconds" }).pipe(
        Effect.provide([never, Failover.layer([model], { policy })]),
        Effect.forkChild
      )
      yield* TestClock.adjust("30 seconds")
      const outcome = yield* Fiber.join(fiber)
      assert.strictEqual(outcome.text, "too slow")
      assert.include(JSON.stringify(outcome.transcript.prompt), "no result within 30s")
    })
  )

  it.effect("runs no tool of a cut answer", () =>
    Effect.gen(function* () {
      let ran = 0
      const counting = Kit.toLayer({ add: ({ a, b }) => Effect.sync(() => (ran++, a + b)) })
      const model = yield* target(
        plan([call("add", { a: 1, b: 2 }), { text: "ok" }], [{ fault: { type: "finish", reason: "length" } }])
      )
      const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        Effect.provide([counting, Direct.layer(model)])
      )
      assert.strictEqual(ran, 0)
      assert.strictEqual(outcome.status, "completed")
    })
  )

  it.effect("rejects a tool that needs approval unless `approve` allows it", () =>
    Effect.gen(function* () {
      const Pay = Toolkit.make(
        Tool.make("pay", {
          parameters: Schema.Struct({ amount: Schema.Finite }),
          success: Schema.String
        }).setNeedsApproval(({ amount }) => amount > 10)
      )
      const paid: Array<number> = []
      const PayLive = Pay.toLayer({ pay: ({ amount }) => Effect.sync(() => (paid.push(amount), "paid")) })
      const script = plan([call("pay", { amount: 5 }), call("pay", { amount: 50 }), { text: "done" }])
      const pay = (approve?: Agent.Options<{}>["approve"]) =>
        Effect.flatMap(target(script), (model) =>
          Agent.run({ prompt: "x", toolkit: Pay, approve }).pipe(
            Effect.provide([PayLive, Failover.layer([model], { policy })])
          )
        )
      yield* pay()
      assert.deepStrictEqual(paid, [5])
      yield* pay(({ tool }) => Effect.succeed(tool === "pay"))
      assert.deepStrictEqual(paid, [5, 5, 50])
    })
  )

  it.effect("fails when the provider rejects an answer, as for a rejected request", () =>
    Effect.gen(function* () {
      const { seen, layer } = recording()
      const fault = { type: "finish", reason: "content-filter" } as const
      const model = yield* target(plan([{ text: "so" }], [{ fault }]))
      const failed = yield* Effect.flip(
        Agent.run({ prompt: "x" }).pipe(Effect.provide(Failover.layer([model], { policy })))
      ).pipe(Effect.provide(layer))
      assert.isTrue(failed._tag === "AgentFailed" && failed.reason._tag === "ProviderFailure")
      assert.strictEqual(
        failed._tag === "AgentFailed" &&
          failed.reason._tag === "ProviderFailure" &&
          failed.reason.reason._tag,
        "ContentPolicy"
      )
      assert.deepStrictEqual(seen, ["answer_refused"])
    })
  )

  it.effect("keeps text that was shown before a failure in the transcript, but none of a refusal", () =>
    Effect.gen(function* () {
      const left = (...end: ReadonlyArray<Part>) =>
        Effect.gen(function* () {
          const begun = Stream.fromIterable([text.start(), text.delta("It begins"), ...end])
          const stream = end.length === 0 ? Stream.concat(begun, Stream.fail(serverError)) : begun
          const chain = Failover.layer([played({ streams: [stream] })], {
            policy: { ...policy, midStream: "fail" }
          })
          const failed = yield* Effect.flip(
            Stream.runDrain(Agent.stream({ prompt: "x" })).pipe(Effect.provide(chain))
          )
          return failed._tag === "AgentFailed"
            ? JSON.stringify(failed.transcript.prompt)
            : assert.fail(failed._tag)
        })
      assert.include(yield* left(), "It begins")
      assert.notInclude(yield* left(text.end(), finish("content-filter")), "It begins")
    })
  )

  it.effect("does not report an incomplete answer as completed", () =>
    Effect.gen(function* () {
      for (const [reason, status] of [
        ["length", "cut"],
        ["stop", "completed"]
      ] as const) {
        const model = yield* target(plan([{ text: "so" }], [{ fault: { type: "finish", reason } }]))
        const outcome = yield* Agent.run({ prompt: "x" }).pipe(
          Effect.provide(Failover.layer([model], { policy: { ...policy, truncation: false } }))
        )
        assert.strictEqual(outcome.status, status)
      }
    })
  )

  it.effect("ends after maxTurns, and after maxCost, with a transcript that can be continued", () =>
    Effect.gen(function* () {
      const endless = { answers: () => call("add", { a: 1, b: 2 }) }
      const turns = yield* Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 3 }).pipe(
        Effect.provide([KitLive, Failover.layer([yield* target(endless)], { policy })])
      )
      assert.deepStrictEqual([turns.status, turns.turns, turns.toolCalls], ["turn_limit", 3, 3])
      assert.strictEqual(turns.transcript.prompt.content.at(-1)?.role, "tool")

      const costly = {
        answers: () => ({ ...call("add", { a: 1, b: 2 }), usage: { input: 0, output: 100_000 } })
      }
      const priced = yield* target(costly, { info: { price: { input: 1, output: 10 } } })
      const cost = yield* Agent.run({ prompt: "x", toolkit: Kit, maxCost: 2.5 }).pipe(
        Effect.provide([KitLive, Failover.layer([priced], { policy })])
      )
      assert.deepStrictEqual([cost.status, cost.turns], ["cost_limit", 3])

      assert.throws(() => Agent.run({ prompt: "x", maxTurns: 0 }), RangeError, /maxTurns/)
      assert.throws(() => Agent.run({ prompt: "x", maxCost: 0 }), RangeError, /maxCost/)
    })
  )

  it.effect("logs once in a run that its limit of cost does not count a model without a price", () =>
    Effect.gen(function* () {
      const ran = (options: Partial<Omit<Agent.Options<{}>, "toolkit" | "prompt">>, info = {}) =>
        Effect.gen(function* () {
          const lines: Array<string> = []
          const logger = Logger.make(({ message }) => lines.push(String(message)))
          const model = yield* target(plan([call("add", { a: 1, b: 2 }), { text: "3" }]), { info })
          yield* Agent.run({ prompt: "x", toolkit: Kit, ...options }).pipe(
            Effect.provide([KitLive, Failover.layer([model], { policy }), Logger.layer([logger])])
          )
          return lines
        })
      for (const options of [{ maxCost: 1 }, { limits: { money: 1 } }]) {
        assert.deepStrictEqual(yield* ran(options), [
          "Agent: the cost of an answer of m is unknown. Such answers count as 0 for the limit of cost. Set the price with the option info of the target."
        ])
        assert.deepStrictEqual(yield* ran(options, { price: { input: 1, output: 1 } }), [])
      }
      assert.deepStrictEqual(yield* ran({}), [])
    })
  )

  it.effect("fails with a transcript that is not printed, and from which the run can continue", () =>
    Effect.gen(function* () {
      const script = plan(
        [call("add", { a: 1, b: 2 }), { text: "It is 3." }],
        [{ skip: 1, times: 1, fault: { type: "status", status: 401 } }]
      )
      const model = yield* target(script)
      const { seen, layer } = recording()
      const options = { prompt: "the secret sum of one and two", toolkit: Kit }
      yield* Effect.gen(function* () {
        const failed = yield* Effect.flip(Agent.run(options))
        assert.strictEqual(failed._tag, "AgentFailed")
        assert.strictEqual(failed.reason._tag, "AllTargetsOut")
        assert.deepStrictEqual(
          failed.transcript.prompt.content.map((message) => message.role),
          ["user", "assistant", "tool"]
        )
        const printed = [
          String(failed),
          JSON.stringify(failed),
          Inspectable.toStringUnknown(failed),
          failed.stack
        ]
        assert.notInclude(printed.join(), "secret sum")
        assert.include(failed.message, "run again with it")
        const outcome = yield* Agent.run({ ...options, prompt: failed.transcript.prompt })
        assert.strictEqual(outcome.text, "It is 3.")
      }).pipe(Effect.provide([KitLive, Failover.layer([model], { policy }), layer]))
      assert.deepStrictEqual(seen, ["next_turn", "model_failed", "completed"])
    })
  )

  it.effect("keeps the types of the tools' failures", () =>
    Effect.gen(function* () {
      class Broke extends Schema.TaggedError<Broke>("Broke")("Broke", {}) {}
      const Failing = Toolkit.make(Tool.make("fail", { success: Schema.String, failure: Broke }))
      const live = Failing.toLayer({ fail: () => Effect.fail(new Broke()) })
      const model = yield* target(plan([call("fail", {})]))
      const { seen, layer } = recording()
      const run = Agent.run({ prompt: "x", toolkit: Failing })
      const provided = Effect.provide([live, Failover.layer([model], { policy }), layer])
      assert.strictEqual(
        yield* run.pipe(
          Effect.catchTag("Broke", () => Effect.succeed("caught")),
          provided
        ),
        "caught"
      )
      assert.deepStrictEqual(seen, ["tool_failed"])
      // The cause has the conversation, in which every call has a result.
      const cause = yield* run.pipe(Effect.sandbox, Effect.flip, provided)
      const left = Option.getOrThrow(AgentFailed.transcriptOf(cause)).prompt.content
      assert.deepStrictEqual(
        left.map((message) => message.role),
        ["user", "assistant", "tool"]
      )
    })
  )

  it.effect("works over any language model, and classifies its errors", () =>
    Effect.gen(function* () {
      const plain = Layer.effect(
        LanguageModel.LanguageModel,
        LanguageModel.make({ generateText: () => Effect.succeed([]), streamText: () => Stream.empty })
      )
      const outcome = yield* Agent.run({ prompt: "x" }).pipe(Effect.provide(plain))
      // The answer has no finish reason, so it may be incomplete.
      assert.deepStrictEqual([outcome.status, outcome.finishReason], ["cut", "unknown"])
    })
  )
})

/** A model that answers with these parts, one answer for each turn. */
const turns = (...answers: ReadonlyArray<ReadonlyArray<Response.PartEncoded>>) =>
  played({ answers: answers.map((parts) => Effect.succeed([...parts])) })
const adds = (...sums: ReadonlyArray<number>): ReadonlyArray<Response.PartEncoded> => [
  ...sums.map((a, n) => ({ type: "tool-call", id: `${n}`, name: "add", params: { a, b: 0 } }) as const),
  finish("tool-calls")
]
const done: ReadonlyArray<Response.PartEncoded> = [{ type: "text", text: "done" }, finish()]

describe("a turn", () => {
  it.effect("continues after the provider pauses", () =>
    Effect.gen(function* () {
      const { seen, layer } = recording()
      const working = toolCall("search-1", { providerExecuted: true })
      const model = turns([{ type: "text", text: "so far" }, working, finish("pause")], done)
      const outcome = yield* Agent.run({ prompt: "x" }).pipe(
        Effect.provide([Failover.layer([model], { policy }), layer])
      )
      assert.deepStrictEqual([outcome.status, outcome.text, outcome.turns], ["completed", "done", 2])
      assert.deepStrictEqual(seen, ["next_turn", "completed"])
      assert.deepStrictEqual(
        model.requests.map(({ request }) => request.prompt.content.map(({ role }) => role)),
        [["user"], ["user", "assistant"]]
      )
      // The tool calls before the pause are complete.
      const calling = turns([...adds(3).slice(0, 1), finish("pause")], done)
      const called = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        Effect.provide([KitLive, Failover.layer([calling], { policy })])
      )
      assert.deepStrictEqual([called.text, called.toolCalls], ["done", 1])
      assert.include(JSON.stringify(called.transcript.prompt), '"result":3')
      const endless = turns([finish("pause")])
      const limited = yield* Agent.run({ prompt: "x", maxTurns: 3 }).pipe(
        Effect.provide(Failover.layer([endless], { policy }))
      )
      assert.deepStrictEqual([limited.status, limited.turns], ["turn_limit", 3])
    })
  )

  it.effect("reports a switch of the model, but not a switch of the key", () =>
    Effect.gen(function* () {
      const { seen, layer } = recording()
      const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))
      const answered = (parts: ReadonlyArray<Response.PartEncoded>) => Effect.succeed([...parts])
      const next = answered([finish("pause")])
      const first = played({
        model: "m1",
        keys: [key("KEY_A"), key("KEY_B")],
        // KEY_A twice, then KEY_B, which fails in its second turn.
        answers: [next, next, refused, next, refused]
      })
      const second = played({ model: "m2", keys: [key("KEY_C")], answers: [next, answered(done)] })
      const outcome = yield* Agent.run({ prompt: "x" }).pipe(
        Effect.provide([Failover.layer([first, second], { policy }), layer])
      )
      assert.deepStrictEqual(
        outcome.models.map(({ target, turns }) => [target, turns]),
        [
          ["vendor/m1#KEY_A", 2],
          ["vendor/m1#KEY_B", 1],
          ["vendor/m2#KEY_C", 2]
        ]
      )
      assert.deepStrictEqual(seen, [
        "next_turn",
        "next_turn",
        "next_turn",
        "model_switched",
        "next_turn",
        "completed"
      ])
    })
  )

  it.effect("publishes how each of its tools ended", () =>
    Effect.gen(function* () {
      const finished: Array<unknown> = []
      const layer = ResilienceEvents.layerHandler((event) =>
        Effect.sync(() => {
          if (event._tag === "ToolFinished") finished.push(event)
        })
      )
      const slow = Kit.toLayer({ add: ({ a }) => Effect.delay(Effect.succeed(a), a) })
      const unknown: Response.PartEncoded = { type: "tool-call", id: "9", name: "subtract", params: {} }
      const model = turns(
        adds(20, 10),
        [unknown, finish("tool-calls")],
        [...adds(1).slice(0, 1), finish("length")],
        done
      )
      yield* inTime(
        Agent.run({ prompt: "x", toolkit: Kit }).pipe(Effect.provide([slow, Direct.layer(model), layer]))
      )
      const event = { _tag: "ToolFinished", tool: "add", isFailure: false }
      assert.deepStrictEqual(finished, [
        { ...event, at: 10, turn: 1, elapsed: 10 },
        { ...event, at: 20, turn: 1, elapsed: 20 },
        { ...event, at: 20, turn: 2, elapsed: 0, tool: "subtract", isFailure: true },
        { ...event, at: 20, turn: 3, elapsed: 0, isFailure: true }
      ])
    })
  )

  it.effect("runs up to toolConcurrency tools at once, 8 by default", () =>
    Effect.gen(function* () {
      for (const [toolConcurrency, most] of [
        [2, 2],
        [1, 1],
        [20, 12],
        [undefined, 8]
      ] as const) {
        let running = 0
        let peak = 0
        const counting = Kit.toLayer({
          add: ({ a }) =>
            Effect.acquireUseRelease(
              Effect.sync(() => (peak = Math.max(peak, ++running))),
              () => Effect.delay(Effect.succeed(a), 10),
              () => Effect.sync(() => running--)
            )
        })
        const model = turns(adds(...Array.from({ length: 12 }).keys()), done)
        yield* inTime(
          Agent.run({ prompt: "x", toolkit: Kit, toolConcurrency }).pipe(
            Effect.provide([counting, Failover.layer([model], { policy })])
          )
        )
        assert.strictEqual(peak, most)
      }
    })
  )

  it.effect("does not run a call that the provider ran itself", () =>
    Effect.gen(function* () {
      let ran = 0
      const counting = Kit.toLayer({ add: ({ a }) => Effect.sync(() => (ran++, a)) })
      const own: ReadonlyArray<Response.PartEncoded> = [
        { type: "tool-call", id: "1", name: "add", params: { a: 1, b: 2 }, providerExecuted: true },
        { type: "tool-result", id: "1", name: "add", result: 3, isFailure: false, providerExecuted: true }
      ]
      for (const reason of ["stop", "tool-calls"] as const) {
        const model = turns([...own, { type: "text", text: "It is 3." }, finish(reason)])
        const outcome = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
          Effect.provide([counting, Failover.layer([model], { policy })])
        )
        assert.deepStrictEqual([outcome.status, outcome.turns, outcome.toolCalls], ["completed", 1, 0])
        assert.deepStrictEqual(
          outcome.transcript.prompt.content.map(({ role }) => role),
          ["user", "assistant"]
        )
      }
      assert.strictEqual(ran, 0)
    })
  )

  it("throws for limits that cannot be met", () => {
    const wrong: ReadonlyArray<readonly [RegExp, Partial<Agent.Options<{}>>]> = [
      [/toolTimeout/, { toolTimeout: 0 }],
      [/toolConcurrency/, { toolConcurrency: 0 }],
      [/toolConcurrency/, { toolConcurrency: 1.5 }],
      [/toolConcurrency/, { toolConcurrency: Number.NaN }],
      [/maxTurns/, { maxTurns: 2.5 }],
      [/maxCost/, { maxCost: Number.NaN }]
    ]
    for (const [field, limits] of wrong) {
      assert.throws(() => Agent.run({ prompt: "x", ...limits }), RangeError, field)
      assert.throws(() => Agent.stream({ prompt: "x", ...limits }), RangeError, field)
    }
  })
})

describe("Agent.stream", () => {
  it.effect("stops the run and its pending work when the consumer stops early", () =>
    Effect.gen(function* () {
      let released = false
      const hanging = Kit.toLayer({
        add: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (released = true)))
      })
      const model = yield* target(plan([call("add", { a: 1, b: 2 })]))
      const types = yield* inTime(
        Agent.stream({ prompt: "x", toolkit: Kit }).pipe(
          // The tool is running by then.
          Stream.tap((part) => (part.type === "finish" ? Effect.sleep("1 second") : Effect.void)),
          Stream.takeUntil((part) => part.type === "finish"),
          Stream.map((part) => part.type),
          Stream.runCollect,
          Effect.provide([hanging, Failover.layer([model], { policy })])
        )
      )
      assert.strictEqual(types.at(-1), "finish")
      assert.isTrue(released)
      assert.strictEqual((yield* model.requests).length, 1)
    })
  )

  it.effect("waits for a slow consumer", () =>
    Effect.gen(function* () {
      const model = yield* target({ answers: () => call("add", { a: 1, b: 2 }) })
      const reading = yield* Agent.stream({ prompt: "x", toolkit: Kit, maxTurns: 200 }).pipe(
        Stream.tap(() => Effect.sleep("1 second")),
        Stream.runDrain,
        Effect.provide([KitLive, Failover.layer([model], { policy })]),
        Effect.forkChild
      )
      yield* TestClock.adjust("500 millis")
      // A turn has several parts, and the buffer is bounded.
      assert.isBelow((yield* model.requests).length, Agent.bufferSize)
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(reading)
      assert.strictEqual((yield* model.requests).length, 200)
    })
  )

  it.effect("shows text as it arrives, results of tools, transitions, and the outcome last", () =>
    Effect.gen(function* () {
      const model = yield* target(plan([call("add", { a: 1, b: 2 }), { text: "It is 3." }]))
      const parts = yield* Agent.stream({ prompt: "x", toolkit: Kit }).pipe(
        Stream.runCollect,
        Effect.provide([KitLive, Failover.layer([model], { policy })])
      )
      const types = parts.map((part) => part.type)
      assert.include(types, "text-delta")
      assert.isBelow(types.indexOf("tool-call"), types.indexOf("tool-result"))
      const last = parts.at(-1)
      assert.isTrue(last?.type === "outcome" && last.outcome.text === "It is 3.")
    })
  )

  it.effect("continues a stream that breaks in the middle of an answer with the same text", () =>
    Effect.gen(function* () {
      const text = "The quick brown fox jumps over the lazy dog."
      const model = yield* target(plan([{ text }], [{ fault: { type: "reset", after: 3 } }]))
      const fiber = yield* Agent.stream({ prompt: "x" }).pipe(
        Stream.runCollect,
        Effect.provide(Failover.layer([model], { policy })),
        Effect.forkChild
      )
      yield* TestClock.adjust("1 minute")
      const parts = yield* Fiber.join(fiber)
      assert.strictEqual(parts.filter((part) => part.type === "text-start").length, 1)
      assert.strictEqual(parts.filter((part) => part.type === "text-end").length, 1)
      assert.strictEqual(
        parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])).join(""),
        text
      )
      assert.strictEqual((yield* model.requests).length, 2)
    })
  )

  it.effect("reports where it was interrupted, and leaves nothing running", () =>
    Effect.gen(function* () {
      const { seen, layer } = recording()
      const model = yield* target(plan([{ text: "never" }], [{ fault: { type: "stall" } }]))
      const first = yield* Agent.run({ prompt: "x" }).pipe(
        Effect.provide([Failover.layer([model], { policy }), layer]),
        Effect.forkChild
      )
      yield* TestClock.adjust("1 second")
      assert.isTrue(Exit.hasInterrupts(yield* Effect.andThen(Fiber.interrupt(first), Fiber.await(first))))

      let released = false
      const hanging = Kit.toLayer({
        add: () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (released = true)))
      })
      const calling = yield* target(plan([call("add", { a: 1, b: 2 })]))
      const second = yield* Agent.run({ prompt: "x", toolkit: Kit }).pipe(
        Effect.provide([hanging, Failover.layer([calling], { policy }), layer]),
        Effect.forkChild
      )
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(second)
      assert.isTrue(released)
      assert.deepStrictEqual(seen, ["aborted_streaming", "aborted_tools"])
    })
  )
})
