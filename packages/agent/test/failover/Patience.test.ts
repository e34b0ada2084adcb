/** Patience of a call by its source: a user, work in the background, an unattended run. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Presets, RecoveryPolicy } from "@outlast/agent"
import { Priority } from "@outlast/agent/limiter"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import { inTime, policy, recording, status } from "../support.ts"

const model = (name: string, faults: ReadonlyArray<FaultPlan.Step> = []) =>
  ScriptedModel.make({
    provider: name,
    model: name,
    plan: { answers: () => ({ text: "hello" }), faults }
  })
const always = (fault: FaultPlan.Fault): FaultPlan.Step => ({ times: "always", fault })
const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const streamed = Stream.runDrain(LanguageModel.streamText({ prompt: "What is the plan?" }))
const inBackground = Effect.provideService(Priority.Priority, "background")
const once = { ...policy, maxAttempts: 1 }

describe("a call in the background", () => {
  for (const [way, call] of [
    ["whole", ask],
    ["streamed", streamed]
  ] as const) {
    it.effect(`follows the policy for the background, ${way}`, () =>
      Effect.gen(function* () {
        const target = yield* model("m", [always(status(500))])
        const layer = Failover.layer([target], { policy, background: once })
        const count = Effect.map(target.requests, (requests) => requests.length)
        yield* Effect.gen(function* () {
          yield* inTime(inBackground(Effect.exit(call)))
          assert.strictEqual(yield* count, 1)
        }).pipe(Effect.provide(layer))
        yield* inTime(Effect.exit(Effect.provide(call, layer)))
        assert.isAbove(yield* count, 2)
      })
    )
  }

  it.effect("shares cooldowns with the other calls", () =>
    Effect.gen(function* () {
      const first = yield* model("m1", [{ fault: status(401) }])
      const second = yield* model("m2")
      yield* Effect.gen(function* () {
        yield* ask
        yield* inBackground(ask)
      }).pipe(Effect.provide(Failover.layer([first, second], { policy, background: once })))
      assert.lengthOf(yield* first.requests, 1)
      assert.lengthOf(yield* second.requests, 2)
    })
  )

  it.effect("of s11 gives up at the first overload, and a user's call does not", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [{ times: 3, fault: status(529) }])
      const layer = Presets.s11.layer([target], { policy: Presets.s11.withFallback() })
      yield* Effect.gen(function* () {
        yield* inBackground(Effect.exit(ask))
        assert.lengthOf(yield* target.requests, 1)
        yield* inTime(ask)
      }).pipe(Effect.provide(layer))
      assert.lengthOf(yield* target.requests, 4)
    })
  )
})

describe("an unattended run", () => {
  const unattended = RecoveryPolicy.withoutJitter(RecoveryPolicy.unattended)

  it.effect("waits out an outage of eight hours, and says every 30 seconds that it waits", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [
        { times: 1, fault: { type: "status", status: 429, headers: { "retry-after": "14400" } } },
        { times: 60, fault: status(503) }
      ])
      const { layer, of } = recording()
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("95 seconds")
        assert.deepStrictEqual(
          of("CallStillWaiting").map(({ elapsed }) => elapsed),
          [30_000, 60_000, 90_000]
        )
        yield* TestClock.adjust("12 hours")
        assert.isDefined(fiber.pollUnsafe())
      }).pipe(Effect.provide(Failover.layer([target], { policy: unattended })), Effect.provide(layer))
      const times = (yield* target.requests).map(({ time }) => time)
      assert.strictEqual(times[1], 4 * 3_600_000)
      assert.isAbove(times.at(-1) ?? 0, 8 * 3_600_000)
      assert.lengthOf(of("CallSucceeded"), 1)
    })
  )

  it.effect("fails at once where waiting cannot help", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [always(status(401))])
      const exit = yield* Effect.exit(ask).pipe(
        Effect.provide(Failover.layer([target], { policy: unattended }))
      )
      assert.strictEqual(exit._tag, "Failure")
      assert.lengthOf(yield* target.requests, 1)
    })
  )

  it.effect("has no heartbeat by default", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [
        { fault: { type: "status", status: 429, headers: { "retry-after": "50" } } }
      ])
      const { layer, of } = recording()
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy })), Effect.provide(layer)))
      assert.deepStrictEqual([of("CallWaiting").length, of("CallStillWaiting").length], [1, 0])
    })
  )
})
