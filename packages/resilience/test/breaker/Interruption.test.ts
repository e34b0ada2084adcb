/** Errors of calls whose fiber is being interrupted. */
import { assert, describe, it } from "@effect/vitest"
import { CircuitBreaker } from "@outlast/resilience"
import { Deferred, Effect, Fiber } from "effect"

type Guard = <A, E>(self: Effect.Effect<A, E>) => Effect.Effect<unknown, unknown>

/** The paths of a guarded call: by one circuit, as an attempt of a call, and by two circuits. */
const guards: Readonly<Record<string, (breaker: CircuitBreaker.Service) => Guard>> = {
  "one circuit": (breaker) => breaker.execute("a"),
  "an attempt": (breaker) => breaker.execute("a", { call: {} }),
  "two circuits": (breaker) => breaker.execute(["a", "b"])
}

/** The ends of a call that is interrupted while it runs. `released` lets an uninterruptible part end. */
const ends: Readonly<Record<string, (released: Effect.Effect<void>) => Effect.Effect<unknown, unknown>>> = {
  "a typed error of an uninterruptible part": (released) =>
    Effect.uninterruptible(Effect.andThen(released, Effect.fail("down"))),
  "a defect of an uninterruptible part": (released) =>
    Effect.uninterruptible(Effect.andThen(released, Effect.die("broken"))),
  "a defect of a finalizer": () => Effect.onInterrupt(Effect.never, () => Effect.die("broken"))
}

/** Interrupts a guarded call while it runs, lets it end, and returns the number of failures that its circuit counted. */
const failuresOf = (guard: (breaker: CircuitBreaker.Service) => Guard, end: (typeof ends)[string]) =>
  Effect.gen(function* () {
    const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 2 } } })
    const released = yield* Deferred.make<void>()
    const call = guard(breaker)(end(Deferred.await(released)))
    const fiber = yield* Effect.forkChild(call, { startImmediately: true })
    const interruption = yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
    yield* Deferred.succeed(released, undefined)
    yield* Fiber.await(interruption)
    return (yield* breaker.state("a")).failures
  }).pipe(Effect.scoped)

describe("a call that is interrupted while it runs", () => {
  for (const [path, guard] of Object.entries(guards)) {
    for (const [how, end] of Object.entries(ends)) {
      it.effect(`counts ${how} as a failure (${path})`, () =>
        Effect.map(failuresOf(guard, end), (failures) => assert.strictEqual(failures, 1))
      )
    }
    it.effect(`does not count the interruption alone (${path})`, () =>
      Effect.map(
        failuresOf(guard, () => Effect.never),
        (failures) => assert.strictEqual(failures, 0)
      )
    )
  }
})
