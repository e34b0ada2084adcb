import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { joined } from "#delivery/outbox/Joined"

const started = (effect: Effect.Effect<void, string>) =>
  Effect.forkChild(Effect.exit(effect), { startImmediately: true })

describe("joined calls", () => {
  it.effect("that come while one is under way become one call, and all end with it", () =>
    Effect.gen(function* () {
      const calls: Array<ReadonlyArray<number>> = []
      const gates = [yield* Deferred.make<void, string>(), yield* Deferred.make<void, string>()]
      const remove = joined((items: ReadonlyArray<number>) =>
        Effect.suspend(() => {
          const gate = gates[calls.push(items) - 1]
          return gate === undefined ? Effect.void : Deferred.await(gate)
        })
      )
      const [one, two, three] = [
        yield* started(remove([1])),
        yield* started(remove([2])),
        yield* started(remove([3, 4]))
      ]
      assert.deepStrictEqual(calls, [[1]])
      yield* Deferred.succeed(gates[0]!, undefined)
      assert.isTrue(Exit.isSuccess(yield* Fiber.join(one)))
      yield* Deferred.fail(gates[1]!, "full")
      const ends = [yield* Fiber.join(two), yield* Fiber.join(three)]
      assert.deepStrictEqual(ends, [Exit.fail("full"), Exit.fail("full")])
      assert.deepStrictEqual(calls, [[1], [2, 3, 4]])
      yield* remove([5])
      assert.deepStrictEqual(calls.at(-1), [5])
    })
  )

  it.effect("are not interrupted", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      let ended = 0
      const remove = joined(() =>
        Effect.andThen(
          Deferred.await(gate),
          Effect.sync(() => void ended++)
        )
      )
      const one = yield* Effect.forkChild(remove([1]), { startImmediately: true })
      const interrupted = yield* Effect.forkChild(Fiber.interrupt(one), { startImmediately: true })
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(interrupted)
      assert.strictEqual(ended, 1)
    })
  )
})
