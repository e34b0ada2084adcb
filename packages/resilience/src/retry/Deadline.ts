/**
 * Until when everything inside has to be done: an ambient value, not a timer.
 *
 * {@link within} sets it for an effect and the fibers that it forks. Nested, the nearer one holds: an inner deadline
 * can shorten the outer one, never lengthen it. Time is monotonic, so that a step of the wall clock moves nothing.
 *
 * By itself it interrupts nothing. Whoever is about to wait asks {@link fits} or {@link remaining} and gives up early
 * instead of sleeping beyond it; {@link enforce} interrupts at the deadline where that is wanted. A stream reads it
 * when it runs, not when it is made.
 *
 * **Example** (No wait beyond the deadline)
 *
 * ```ts
 * const pause = Effect.flatMap(Deadline.fits("4 seconds"), (fits) =>
 *   fits ? Effect.sleep("4 seconds") : Effect.fail(error)
 * )
 * pause.pipe(Deadline.within("30 seconds"))
 * ```
 */
import { Clock, Context, Data, Duration, Effect, Option } from "effect"
import { dual } from "effect/Function"
import * as Options from "../Options.ts"

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** The deadline passed before the effect was done. */
export class DeadlineExceeded extends Data.TaggedError("DeadlineExceeded") {
  override readonly message = "The deadline passed before this was done."
  /** The time is up: there is none left for another attempt. */
  readonly isRetryable = false
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** The instant in monotonic nanoseconds; `undefined` (the default) is no deadline. */
export const Deadline: Context.Reference<bigint | undefined> = Context.Reference<bigint | undefined>(
  "@outlast/resilience/retry/Deadline",
  { defaultValue: () => undefined }
)

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/**
 * Gives an effect so much time from when it starts, or what is left of the deadline around it, if that is less.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a duration that is negative, infinite or none.
 */
export const within: {
  (duration: Duration.Input): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  <A, E, R>(self: Effect.Effect<A, E, R>, duration: Duration.Input): Effect.Effect<A, E, R>
} = dual(2, <A, E, R>(self: Effect.Effect<A, E, R>, duration: Duration.Input): Effect.Effect<A, E, R> => {
  const length = Duration.toNanosUnsafe(Options.duration("Deadline", "within", duration))
  Options.effect("Deadline", "effect", self)
  return Effect.withFiber((fiber) => {
    const outer = fiber.getRef(Deadline)
    const own = fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe() + length
    return Effect.provideService(self, Deadline, outer !== undefined && outer < own ? outer : own)
  })
})

/** The time left, never negative; none without a deadline. */
export const remaining: Effect.Effect<Option.Option<Duration.Duration>> = Effect.gen(function* () {
  const deadline = yield* Deadline
  if (deadline === undefined) return Option.none()
  const left = deadline - (yield* Clock.monotonicTimeNanos)
  return Option.some(left > 0n ? Duration.nanos(left) : Duration.zero)
})

/**
 * Whether something that takes so long would be done at the deadline or before. True without a deadline.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a duration that is negative or none.
 */
export const fits = (duration: Duration.Input): Effect.Effect<boolean> => {
  const length = Options.duration("Deadline", "fits", duration, { max: Duration.infinity })
  return Effect.map(
    remaining,
    Option.match({ onNone: () => true, onSome: (left) => Duration.isLessThanOrEqualTo(length, left) })
  )
}

/**
 * Interrupts an effect at the deadline and fails with {@link DeadlineExceeded}; what starts at the deadline or after it
 * is not run at all. Without a deadline the effect is left alone.
 */
export const enforce = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | DeadlineExceeded, R> => {
  Options.effect("Deadline", "effect", self)
  return Effect.flatMap(
    remaining,
    Option.match({
      onNone: (): Effect.Effect<A, E | DeadlineExceeded, R> => self,
      onSome: (left) =>
        Duration.isZero(left)
          ? Effect.fail(new DeadlineExceeded())
          : Effect.timeoutOrElse(self, {
              duration: left,
              orElse: () => Effect.fail(new DeadlineExceeded())
            })
    })
  )
}
