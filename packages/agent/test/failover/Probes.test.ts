/**
 * Probes of the same target by several calls.
 */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover } from "@outlast/agent"
import { finish, played, policy, provenByOneCall, say, serverError, text, timesOf } from "../support.ts"

it.effect("a probe that ends late does not affect a cooldown that opened since", () =>
  Effect.gen(function* () {
    const fails = Stream.fail(serverError)
    const first = played({
      model: "first",
      streams: [fails, fails, Stream.never, fails, fails, Stream.never]
    })
    const second = played({ model: "second", streams: [say(...text.block("hello"), finish())] })
    const proven = provenByOneCall(policy)
    const { cooldown } = proven.rows.ServerError
    const impatient = {
      ...proven,
      rows: {
        ...proven.rows,
        ServerError: {
          ...proven.rows.ServerError,
          cooldown: cooldown && { ...cooldown, looks: undefined, initial: Duration.seconds(30) }
        }
      },
      circuits: false as const,
      retryBudget: false as const,
      patience: Duration.seconds(1)
    }
    const call = Effect.forkChild(Stream.runDrain(LanguageModel.streamText({ prompt: "?" })))
    yield* Effect.gen(function* () {
      // The target is out from 1 s to 31 s.
      yield* call
      yield* TestClock.adjust("28 seconds")
      const late = yield* call
      yield* TestClock.adjust("4 seconds")
      // The target is out again from 33 s to 93 s.
      yield* call
      yield* TestClock.adjust("50 seconds")
      yield* call
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(timesOf(first), [0, 1_000, 28_000, 32_000, 33_000, 82_000])
      yield* Fiber.interrupt(late)
      yield* call
      yield* TestClock.adjust("1 second")
      assert.lengthOf(first.requests, 6)
      assert.deepStrictEqual(timesOf(second), [1_000, 33_000, 83_000])
    }).pipe(Effect.provide(Failover.layer([first, second], { policy: impatient })))
  })
)
