/** Each part of live settings while a program runs: rows, circuits, guard, compaction, kill switch. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Stream } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { Agent, Compaction, SafetyGuard } from "@outlast/agent"
import { LiveConfig, OutlastConfig } from "@outlast/agent/config"
import { Targets } from "@outlast/agent/failover"
import { CircuitBreaker } from "@outlast/resilience"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { looking, looks, Look, model as answering } from "../loop/looking.ts"
import { answer, played } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "?" })
const scripted = (faults: ReadonlyArray<FaultPlan.Step>, provider = "anthropic") =>
  ScriptedModel.make({ provider, model: "m", plan: { answers: [{ text: "Hello." }], faults } })
const always = (fault: FaultPlan.Fault): FaultPlan.Step => ({ times: "always", fault })
const serverError: FaultPlan.Fault = { type: "status", status: 500 }

describe("policy", () => {
  it.effect("a row of one class changes the next call, and the other rows stay", () =>
    Effect.gen(function* () {
      const first = yield* scripted([always(serverError)])
      const second = yield* scripted([], "openai")
      const rows = (then: "move" | "stop") => ({ policy: { rows: { ServerError: { then } } } })
      const live = yield* LiveConfig.make(rows("stop"))
      yield* Effect.gen(function* () {
        const { reset } = yield* Targets.Targets
        yield* Effect.flip(ask)
        assert.strictEqual((yield* second.requests).length, 0)
        yield* live.set(rows("move"))
        yield* reset({})
        yield* ask
        assert.deepStrictEqual([(yield* first.requests).length, (yield* second.requests).length], [2, 1])
      }).pipe(Effect.provide(LiveConfig.layerFailover([first, second], live)))
    })
  )

  it.effect(
    "circuits that are turned off let the next call through, and are open again when they are back",
    () =>
      Effect.gen(function* () {
        const first = yield* scripted([always(serverError)])
        const second = yield* scripted([], "openai")
        const rows = { server_error: { then: "move" } }
        const settings = (circuits: boolean) =>
          Effect.fromResult(OutlastConfig.decode({ policy: { preset: "nexo", circuits, rows } }))
        const live = yield* LiveConfig.make(yield* settings(true))
        const asked = Effect.map(first.requests, ({ length }) => length)
        yield* Effect.gen(function* () {
          for (let i = 0; i < 8; i++) yield* ask
          assert.strictEqual(yield* asked, 5)
          yield* live.set(yield* settings(false))
          yield* ask
          assert.strictEqual(yield* asked, 6)
          yield* live.set(yield* settings(true))
          yield* ask
          assert.strictEqual(yield* asked, 6)
        }).pipe(Effect.provide(LiveConfig.layerFailover([first, second], live)))
      })
  )
})

it.effect("a chain that compacts says so to an agent, unless it is switched off", () =>
  Effect.gen(function* () {
    const live = yield* LiveConfig.make()
    const compact = (prompt: Prompt.Prompt) => Effect.succeed(prompt)
    yield* Effect.gen(function* () {
      const targets = yield* Targets.Targets
      assert.isTrue(targets.compacts)
      yield* live.set({ enabled: false })
      yield* Effect.ignore(ask)
      assert.isFalse(targets.compacts)
    }).pipe(Effect.provide(LiveConfig.layerFailover([yield* scripted([])], live, { compact })))
  })
)

it.effect("a breaker of the program decides, and settings turn its circuits off", () =>
  Effect.gen(function* () {
    const first = yield* scripted([])
    const second = yield* scripted([], "openai")
    const live = yield* LiveConfig.make()
    const breaker = yield* CircuitBreaker.make()
    const circuitsOf = ({ provider }: { readonly provider: string }) => ({
      endpoint: provider,
      model: `${provider}/m`
    })
    yield* Effect.gen(function* () {
      yield* breaker.trip("anthropic")
      yield* ask
      assert.deepStrictEqual([(yield* first.requests).length, (yield* second.requests).length], [0, 1])
      yield* live.set({ policy: { circuits: false } })
      yield* ask
      assert.deepStrictEqual([(yield* first.requests).length, (yield* second.requests).length], [1, 1])
    }).pipe(Effect.provide(LiveConfig.layerFailover([first, second], live, { breaker, circuitsOf })))
  }).pipe(Effect.scoped)
)

describe("guard", () => {
  const run = Agent.run({ prompt: "go", toolkit: Look, maxTurns: 20 })
  const world = () => [looking().layer, answering((turn) => looks(turn)).layer] as const

  it.effect("limits of a run are those at its beginning", () =>
    Effect.gen(function* () {
      const live = yield* LiveConfig.make({ guard: { toolCalls: 2 } })
      const guard = LiveConfig.guard(live, { loops: false })
      const limitOf = Effect.map(Effect.flip(guard.run(run)), (stopped) =>
        stopped._tag === "SafetyStop" ? stopped.limit : undefined
      )
      yield* Effect.gen(function* () {
        assert.strictEqual(yield* limitOf, 2)
        yield* live.set({ guard: { toolCalls: 5 }, enabled: false })
        assert.strictEqual(yield* limitOf, 5)
        yield* live.set({})
        assert.strictEqual((yield* guard.run(run)).status, "turn_limit")
      }).pipe(Effect.provide([...world()]))
    })
  )

  it.effect("guards streams, too", () =>
    Effect.gen(function* () {
      const live = yield* LiveConfig.make({ guard: { totalTime: Duration.minutes(1) } })
      const guard = LiveConfig.guard(live)
      const reported = SafetyGuard.SafetyGuard.pipe(Effect.flatMap(({ report }) => report))
      const [report] = yield* Stream.runCollect(guard.runStream(Stream.fromEffect(reported)))
      assert.strictEqual(report?.limits.totalTime, 60_000)
    })
  )
})

it.effect.each([true, false])("a call counts once, where the chain is outside the guard: %s", (isOutside) =>
  Effect.gen(function* () {
    const live = yield* LiveConfig.make({})
    const chain = LiveConfig.layerFailover([yield* scripted([])], live)
    const { run } = yield* SafetyGuard.make({ loops: false })
    const guarded = isOutside ? run(asked).pipe(Effect.provide(chain)) : run(Effect.provide(asked, chain))
    for (const enabled of [true, false]) {
      yield* live.set({ enabled })
      assert.strictEqual((yield* guarded).counts.turns, enabled ? 2 : 4)
    }
  })
)

/** The counts of the guard after two calls. */
const asked = Effect.gen(function* () {
  yield* ask
  yield* Stream.runDrain(LanguageModel.streamText({ prompt: "?" }))
  return yield* Effect.flatMap(SafetyGuard.SafetyGuard, ({ report }) => report)
})

describe("compaction", () => {
  const prompt = Prompt.make(
    Array.from({ length: 40 }, (_, i) => ({
      role: i % 2 === 0 ? ("user" as const) : ("assistant" as const),
      content: `Message ${i}. ${"word ".repeat(100)}`
    }))
  )

  it.effect("a conversation is fitted by the policy of the moment, and stays known", () =>
    Effect.gen(function* () {
      const live = yield* LiveConfig.make({ compaction: { act: 0.95, downTo: 0.5 } })
      yield* Effect.gen(function* () {
        const compaction = yield* Compaction.Compaction
        const { report } = yield* compaction.fit(prompt, { window: 1_000_000, conversation: "c" })
        const window = Math.ceil(report.tokensBefore / 0.7)
        const fit = compaction.fit(prompt, { window, conversation: "c" })
        assert.strictEqual((yield* fit).report.tier, "none")
        yield* live.set({ compaction: { act: 0.5, downTo: 0.3 } })
        assert.strictEqual(compaction.policy.act, 0.5)
        const smaller = yield* fit
        assert.notStrictEqual(smaller.report.tier, "none")
        assert.isAtMost(smaller.report.tokensAfter, Math.ceil(0.3 * window))
        // The memory of the conversation did not begin again.
        const { thrash } = yield* compaction.remembered("c", undefined)
        assert.strictEqual(thrash?.turn, 3)
        yield* live.set({})
        assert.strictEqual((yield* fit).report.tier, "none")
      }).pipe(Effect.provide(LiveConfig.layerCompaction(live)))
    })
  )

  it.effect("a policy that a program changes itself is checked", () =>
    Effect.gen(function* () {
      const broken = yield* Effect.exit(
        Effect.gen(function* () {
          const compaction = yield* Compaction.make({ policy: () => ({}) as never })
          return yield* compaction.fit(prompt, { window: 1_000_000 })
        })
      )
      assert.include(String(broken), "Compaction: policy must be a policy")
    })
  )
})

it.effect("a chain that was replaced stays open until the last of its calls has ended", () =>
  Effect.gen(function* () {
    const live = yield* LiveConfig.make()
    let closed = 0
    const gates = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
    const held = played({
      answers: gates.map((gate) => Effect.flatMap(Deferred.await(gate), () => answer("hello")))
    })
    const target = {
      ...held,
      build: Effect.flatMap(held.build, (built) =>
        Effect.acquireRelease(Effect.succeed(built), () => Effect.sync(() => void closed++))
      )
    }
    yield* Effect.gen(function* () {
      const calls = [yield* Effect.forkChild(ask), yield* Effect.forkChild(ask)]
      while (held.requests.length < 2) yield* Effect.yieldNow
      yield* live.set({ policy: { maxAttempts: 3 } })
      // A call that begins now gets the new chain.
      const third = yield* Effect.forkChild(ask)
      while (held.requests.length < 3) yield* Effect.yieldNow
      for (const [i, gate] of gates.entries()) {
        assert.strictEqual(closed, 0)
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(calls[i] ?? assert.fail())
      }
      assert.strictEqual(closed, 1)
      yield* Fiber.join(third)
    }).pipe(Effect.provide(LiveConfig.layerFailover([target], live)))
  })
)
