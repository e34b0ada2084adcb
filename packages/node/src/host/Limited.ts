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

/**
 * As {@link run}, for an effect that runs again and again. While a run that was left behind goes on, no other one
 * starts, and the answer is `None` at once.
 */
export const single = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  millis: number
): Effect.Effect<Option.Option<Exit.Exit<A, E>>, never, R> => {
  let leftBehind = 0
  return Effect.suspend(() => {
    if (leftBehind > 0) return Effect.succeedNone
    let isRunning = false
    let isLeftBehind = false
    const counted = Effect.suspend(() => {
      isRunning = true
      return Effect.ensuring(
        effect,
        Effect.sync(() => {
          isRunning = false
          if (isLeftBehind) leftBehind--
        })
      )
    })
    return Effect.ensuring(
      run(counted, millis),
      Effect.sync(() => {
        if (!isRunning) return
        isLeftBehind = true
        leftBehind++
      })
    )
  })
}
