/**
 * The permits that a chain requests from its limiter.
 */
import { assert, describe, it } from "@effect/vitest"
import { CallLimiter, Failover } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import { Priority } from "@outlast/agent/limiter"
import { Effect, Fiber } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { answer, played, policy } from "../support.ts"

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

/** A limiter that takes a second for each permit and records the requests. */
const slow = () => {
  const asked: Array<CallLimiter.Request> = []
  let held = 0
  const limiter: CallLimiter.Service = {
    acquire: (request) =>
      Effect.uninterruptible(
        Effect.map(Effect.sleep("1 second"), () => {
          asked.push(request)
          held++
          return { settle: () => Effect.void, release: Effect.sync(() => void held--) }
        })
      ),
    isFreeUnsafe: () => false,
    learn: () => Effect.void,
    learnUnsafe: () => {},
    limits: () => Effect.succeed([]),
    forget: () => Effect.succeed(false)
  }
  return { limiter, asked, held: () => held }
}

describe("a limiter of your own", () => {
  it.effect("gets the expected output tokens, at most the model's maximum", () =>
    Effect.gen(function* () {
      const { limiter, asked } = slow()
      const target = played({ answers: [answer("hello")], info: { maxOutputTokens: 100 } })
      const call = ask.pipe(
        Effect.provide(Failover.layer([target], { policy, limiter })),
        Effect.provideService(OutputLimit.OutputLimit, 64_000)
      )
      const fiber = yield* Effect.forkChild(call)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      // The prompt has 17 characters.
      assert.deepStrictEqual(
        asked.map(({ tokens, outputTokens }) => [tokens, outputTokens]),
        [[105, 100]]
      )
    })
  )

  it.effect("gets back a permit whose call was interrupted while it was granted", () =>
    Effect.gen(function* () {
      const { limiter, asked, held } = slow()
      const target = played({ answers: [answer("hello")] })
      const fiber = yield* Effect.forkChild(
        Effect.provide(ask, Failover.layer([target], { policy, limiter }))
      )
      yield* TestClock.adjust("500 millis")
      fiber.interruptUnsafe()
      yield* TestClock.adjust("1 second")
      yield* Fiber.await(fiber)
      assert.deepStrictEqual([asked.length, held(), target.requests.length], [1, 0, 0])
    })
  )

  it.effect("keeps a call in its place in the queue when no other target is left", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const target = played({
        answers: Array.from({ length: 4 }, () => Effect.delay(answer("hello"), "5 seconds"))
      })
      const call = (name: string, priority: Priority.Priority) =>
        Effect.provideService(
          Effect.andThen(
            ask,
            Effect.sync(() => order.push(name))
          ),
          Priority.Priority,
          priority
        )
      yield* Effect.gen(function* () {
        const limiter = yield* CallLimiter.make({ limits: () => ({ concurrency: 1 }) })
        const model = Failover.layer([target], { policy, limiter })
        const fiber = yield* Effect.all(
          [
            call("first", "interactive"),
            call("background", "background"),
            call("second", "interactive"),
            call("third", "interactive")
          ],
          { concurrency: "unbounded" }
        ).pipe(Effect.provide(model), Effect.forkChild)
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(fiber)
      }).pipe(Effect.scoped)
      assert.deepStrictEqual(order, ["first", "second", "third", "background"])
    })
  )
})
