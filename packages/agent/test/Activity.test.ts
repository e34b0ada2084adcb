/** The view of calls of a program with more than one chain. */
import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Activity, Failover } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import { answer, played, policy } from "./support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

/** A call of a chain of its own. */
const call = (seconds: number) =>
  ask.pipe(
    Effect.provide(
      Failover.layer(
        [played({ answers: [Effect.andThen(Effect.sleep(`${seconds} seconds`), answer("done"))] })],
        { policy }
      )
    )
  )

it.effect("calls of two chains at the same time are two calls of the view", () =>
  Effect.gen(function* () {
    const activity = yield* Activity.make
    const slow = yield* Effect.forkChild(call(20), { startImmediately: true })
    const fast = yield* Effect.forkChild(call(1), { startImmediately: true })
    yield* TestClock.adjust("2 seconds")
    yield* Fiber.join(fast)
    const view = yield* activity.view
    assert.strictEqual(view.running.length, 1)
    assert.deepStrictEqual(
      view.recent.map(({ attempts, outcome, steps }) => [attempts, outcome, steps.map(({ state }) => state)]),
      [[1, "answered", ["answered"]]]
    )
    yield* TestClock.adjust("20 seconds")
    yield* Fiber.join(slow)
    assert.strictEqual((yield* activity.view).recent.length, 2)
  }).pipe(Effect.scoped, Effect.provide(ResilienceEvents.layer()))
)
