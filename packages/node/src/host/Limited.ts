/** Runs an effect for a limited time, also one that cannot be interrupted. */
import { Effect, Fiber, Option } from "effect"
import type { Exit } from "effect"

/**
 * Returns the exit of the effect, or `None` when the limit was reached. The effect is then interrupted, and left
 * behind.
 * An effect that blocks the thread itself cannot be limited.
 */
export const run = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  millis: number
): Effect.Effect<Option.Option<Exit.Exit<A, E>>, never, R> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkDetach(Effect.interruptible(effect), { startImmediately: true })
    return yield* Effect.raceFirst(
      Effect.map(Fiber.await(fiber), Option.some),
      Effect.as(Effect.sleep(millis), Option.none<Exit.Exit<A, E>>())
    ).pipe(Effect.ensuring(Effect.sync(() => fiber.interruptUnsafe())))
  })
