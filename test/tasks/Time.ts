/** Virtual time for tasks, whose engine and store also need turns of the real event loop. */
import { Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"

/** A turn of the event loop: hashes and statements of a worker thread complete. */
const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Real time for the thread of the store. Turns in a loop would take the CPU from it. */
const pause = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 3)))

/** Half a second, and the turns in which what is due happens: the store is in another thread. */
export const halfSecond = TestClock.adjust("500 millis").pipe(Effect.andThen(pause), Effect.andThen(turn))

/** Lets time pass until an effect has ended, at most `limit` half seconds. */
export const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>, limit = 4_000): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.exit(effect), { startImmediately: true })
    for (let i = 0; i < limit && fiber.pollUnsafe() === undefined; i++) {
      // The store first: it may need no time.
      for (let n = 0; n < 20 && fiber.pollUnsafe() === undefined; n++) yield* turn
      if (fiber.pollUnsafe() === undefined) yield* halfSecond
    }
    const exit = fiber.pollUnsafe() ?? Exit.die(new Error(`It has not ended after ${limit / 2} seconds.`))
    if (Exit.isFailure(exit)) yield* Effect.forkDetach(Fiber.interrupt(fiber))
    return yield* Effect.flatten(exit)
  })

/** Lets time pass until the check is true. */
export const until = <E, R>(check: Effect.Effect<boolean, E, R>, limit = 4_000): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    for (let i = 0; i < limit; i++) {
      // Time goes on meanwhile: what the store waits for may need it.
      if (yield* inTime(check)) return
      yield* halfSecond
    }
    return yield* Effect.die(new Error(`It is not so after ${limit / 2} seconds.`))
  })
