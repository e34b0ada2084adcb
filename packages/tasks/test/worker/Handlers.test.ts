import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { Handlers } from "#tasks/worker/Handlers"

describe("Handlers", () => {
  it.effect("an interrupted step leaves its handler running, and the next one joins it", () =>
    Effect.gen(function* () {
      const handlers = new Handlers<string>(yield* Effect.scope)
      const gate = yield* Deferred.make<void>()
      let begun = 0
      const handler = Effect.suspend(() => {
        begun++
        return Effect.as(Deferred.await(gate), "paid")
      })
      const first = yield* Effect.forkChild(handlers.start({ key: "k", task: "t" }, handler), {
        startImmediately: true
      })
      yield* Effect.yieldNow
      yield* Fiber.interrupt(first)
      const again = handlers.get("k")
      assert.isDefined(again)
      if (again === undefined) return
      const second = yield* Effect.forkChild(again, { startImmediately: true })
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(second), "paid")
      // The handler has ended, and its reply may not be stored: the handler is still known.
      assert.strictEqual(yield* handlers.get("k") ?? Effect.succeed("gone"), "paid")
      assert.strictEqual(begun, 1)
      handlers.forget("k")
      assert.isUndefined(handlers.get("k"))
    })
  )

  it.effect("two steps that start the same effect at once run its handler once", () =>
    Effect.gen(function* () {
      const handlers = new Handlers<number>(yield* Effect.scope)
      let begun = 0
      const handler = Effect.sync(() => ++begun).pipe(Effect.delay("1 second"))
      const start = handlers.start({ key: "k", task: "t" }, handler)
      const both = yield* Effect.forkChild(Effect.all([start, start], { concurrency: 2 }))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Fiber.join(both), [1, 1])
    })
  )
})
