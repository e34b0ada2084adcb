/**
 * Time limits and a next step that cost little when the effect ends at once.
 *
 * `Effect.timeoutOrElse` races the effect against a sleep: three more fibers. Here the effect runs in one more fiber, and
 * an {@link Alarm} is set only when it has not ended at once (`npm run bench -- failover`).
 *
 * **Interruption.** When the limit is reached, or the calling fiber is interrupted, the effect is interrupted and its
 * finalizers run before anything follows. An effect that ends after its limit changes nothing any more.
 */
import type { Context } from "effect"
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

/**
 * As {@link limited}, with a first limit that leaves `effect` running in a fiber. `untilLate` returns the milliseconds
 * until it. Then the result is that of `orLate`, which owns the fiber from there on. Its argument `running` waits for the
 * fiber under the other limit, and interrupts it when it is interrupted itself.
 */
export const watched = <A, E, R, E2, E3>(
  effect: Effect.Effect<A, E, R>,
  left: () => number,
  orElse: () => Effect.Effect<A, E2>,
  late: Late<A, E | E2, E3>
): Effect.Effect<A, E | E2 | E3, R> => within(effect, { first: left, again: left, orElse }, late)

interface Late<A, E, E2> {
  readonly untilLate: () => number
  readonly orLate: (
    running: Effect.Effect<A, E>,
    fiber: Fiber.Fiber<unknown, unknown>
  ) => Effect.Effect<A, E2>
}

interface Limit<A, E> {
  /** Milliseconds until the limit, at the beginning and whenever they have passed. */
  readonly first: () => number
  readonly again: () => number
  readonly orElse: () => Effect.Effect<A, E>
}

const within = <A, E, R, E2, E3 = never>(
  effect: Effect.Effect<A, E, R>,
  limit: Limit<A, E2>,
  late?: Late<A, E | E2, E3>
): Effect.Effect<A, E | E2 | E3, R> =>
  // A finished effect needs no time limit.
  Exit.isExit(effect)
    ? effect
    : Effect.withFiber((parent): Effect.Effect<A, E | E2 | E3> =>
        // One step: the effect begins together with the cleanup that interrupts it.
        Effect.callback<A, E | E2 | E3>((resume) => {
          // The context of the evaluating fiber has `R`.
          const fiber = Effect.runForkWith(parent.context)(effect as Effect.Effect<A, E>)
          const exit = fiber.pollUnsafe()
          if (exit === undefined) return watch(parent.context, fiber, limit, resume, late)
          resume(exit)
          return undefined
        })
      )

/** Hands on the exit of a fiber, or what follows a limit. Returns the cleanup, which interrupts the fiber. */
const watch = <A, E, E2, E3>(
  context: Context.Context<never>,
  fiber: Fiber.Fiber<A, E>,
  limit: Limit<A, E2>,
  resume: (next: Effect.Effect<A, E | E2 | E3>) => void,
  late?: Late<A, E | E2, E3>
): Effect.Effect<void> => {
  let isOver = false
  let callOff = (): void => {}
  const set = (left: number): void => {
    callOff = Alarm.set(context, Math.max(0, Math.min(left, late?.untilLate() ?? Infinity)), ring)
  }
  const ring = (): void => {
    const left = limit.again()
    const isLate = late !== undefined && late.untilLate() <= 0
    if (left > 0 && !isLate) return set(left)
    isOver = true
    if (left <= 0) {
      resume(Effect.flatMap(Effect.uninterruptible(Fiber.interrupt(fiber)), limit.orElse))
    } else if (late !== undefined) {
      const running = Effect.callback<A, E | E2>((resume) =>
        watch(context, fiber, { ...limit, first: limit.again }, resume)
      )
      resume(late.orLate(running, fiber))
    }
  }
  fiber.addObserver((exit) => {
    if (isOver) return
    isOver = true
    callOff()
    resume(exit)
  })
  // A fiber that has ended calls its observer at once.
  if (!isOver) set(limit.first())
  return Effect.suspend(() => {
    callOff()
    return Fiber.interrupt(fiber)
  })
}

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
