/**
 * A time limit and a next step that cost little when the effect ends at once.
 *
 * `Effect.timeoutOrElse` races the effect against a sleep: three more fibers. Here the effect runs in one more fiber, and
 * an {@link Alarm} is set only when it has not ended at once (`npm run bench -- failover`).
 *
 * **Interruption.** When the limit is reached, or the calling fiber is interrupted, the effect is interrupted and its
 * finalizers run before anything follows. An effect that ends after its limit changes nothing any more.
 */
import { Duration, Effect, Exit, Fiber } from "effect"
import * as Alarm from "./Alarm.ts"

/** Runs `effect`. After `limit` it is interrupted and `orElse` runs. */
export const timed = <A, E, R, E2>(
  effect: Effect.Effect<A, E, R>,
  limit: Duration.Duration,
  orElse: () => Effect.Effect<A, E2>
): Effect.Effect<A, E | E2, R> => {
  const millis = Duration.toMillis(limit)
  return within(effect, { first: () => millis, again: () => 0, orElse })
}

/**
 * Runs `effect` under a limit that moves. `left` returns the milliseconds until the limit, and is asked again whenever
 * they have passed. When none are left, `effect` is interrupted and `orElse` runs.
 */
export const limited = <A, E, R, E2>(
  effect: Effect.Effect<A, E, R>,
  left: () => number,
  orElse: () => Effect.Effect<A, E2>
): Effect.Effect<A, E | E2, R> => within(effect, { first: left, again: left, orElse })

interface Limit<A, E> {
  /** Milliseconds until the limit, at the beginning and whenever they have passed. */
  readonly first: () => number
  readonly again: () => number
  readonly orElse: () => Effect.Effect<A, E>
}

const within = <A, E, R, E2>(
  effect: Effect.Effect<A, E, R>,
  { first, again, orElse }: Limit<A, E2>
): Effect.Effect<A, E | E2, R> =>
  // A finished effect needs no time limit.
  Exit.isExit(effect)
    ? effect
    : Effect.withFiber((parent): Effect.Effect<A, E | E2> =>
        // One step: the effect begins together with the cleanup that interrupts it.
        Effect.callback<A, E | E2>((resume) => {
          // The context of the evaluating fiber has `R`.
          const fiber = Effect.runForkWith(parent.context)(effect as Effect.Effect<A, E>)
          const exit = fiber.pollUnsafe()
          if (exit !== undefined) {
            resume(exit)
            return
          }
          let isLate = false
          let callOff = (): void => {}
          const set = (millis: number): void => {
            callOff = Alarm.set(parent.context, millis, ring)
          }
          const ring = (): void => {
            const left = again()
            if (left > 0) return set(left)
            isLate = true
            resume(Effect.flatMap(Effect.uninterruptible(Fiber.interrupt(fiber)), orElse))
          }
          fiber.addObserver((exit) => {
            if (isLate) return
            callOff()
            resume(exit)
          })
          set(Math.max(0, first()))
          return Effect.suspend(() => {
            callOff()
            return Fiber.interrupt(fiber)
          })
        })
      )

/** `Effect.matchEffect` without its cost when the value is there already. */
export const either = <A, E, B, E2, R, R2>(
  effect: Effect.Effect<A, E, R>,
  onFailure: (error: E) => Effect.Effect<B, E2, R2>,
  onSuccess: (value: A) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E2, R | R2> =>
  Exit.isExit(effect) && Exit.isSuccess(effect)
    ? // The guard forgets the types: an Effect<A, E> that is an exit is an Exit<A, E>.
      onSuccess(effect.value as A)
    : Effect.matchEffect(effect, { onFailure, onSuccess })

/** `Effect.flatMap` without its cost when the value is there already. */
export const next = <A, E, B, E2, R2>(
  effect: Effect.Effect<A, E>,
  f: (value: A) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E | E2, R2> => {
  if (!Exit.isExit(effect)) return Effect.flatMap(effect, f)
  // The type guard loses the type parameters. A finished `Effect<A, E>` is an `Exit<A, E>`.
  const exit = effect as Exit.Exit<A, E>
  return Exit.isSuccess(exit) ? f(exit.value) : Effect.failCause(exit.cause)
}
