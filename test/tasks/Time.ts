/** Virtual time for tasks, whose engine and store also need turns of the real event loop. */
import { Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"

/** A turn of the event loop: hashes and statements of a worker thread complete. */
const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Half a second, and the turns in which what is due happens: the store is in another thread. */
export const halfSecond = Effect.gen(function* () {
  yield* TestClock.adjust("500 millis")
  const end = performance.now() + 3
  do yield* turn
  while (performance.now() < end)
})

/** Lets time pass until an effect has ended, at most `limit` half seconds. */
export const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>, limit = 4_000): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.exit(effect), { startImmediately: true })
    for (let i = 0; i < limit && fiber.pollUnsafe() === undefined; i++) yield* halfSecond
    const exit = fiber.pollUnsafe() ?? Exit.die(new Error(`It has not ended after ${limit / 2} seconds.`))
    if (Exit.isFailure(exit)) yield* Effect.forkDetach(Fiber.interrupt(fiber))
    return yield* Effect.flatten(exit)
  })

/** Lets time pass until the check is true. */
export const until = <E, R>(check: Effect.Effect<boolean, E, R>, limit = 4_000): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    for (let i = 0; i < limit; i++) {
      if (yield* check) return
      yield* halfSecond
    }
    return yield* Effect.die(new Error(`It is not so after ${limit / 2} seconds.`))
  })
