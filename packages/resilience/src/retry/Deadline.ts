/**
 * The time by which an effect and everything inside it must end. An ambient value, not a timer.
 *
 * {@link within} sets the deadline for an effect and its child fibers. When nested, the earlier deadline applies: an
 * inner one can shorten the outer one, never lengthen it. Time is monotonic, so changes of the wall clock have no
 * effect.
 *
 * The deadline itself interrupts nothing. Code that is about to wait calls {@link fits} or {@link remaining}, and gives
 * up early instead of sleeping too long. {@link enforce} interrupts at the deadline. A stream reads the deadline when
 * it runs, not when it is built.
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
  /** Not retryable, because no time is left. */
  readonly isRetryable = false
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** The deadline in monotonic nanoseconds. Default: `undefined`, no deadline. */
export const Deadline: Context.Reference<bigint | undefined> = Context.Reference<bigint | undefined>(
  "@outlast/resilience/retry/Deadline",
  { defaultValue: () => undefined }
)

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/**
 * Gives an effect this much time from its start, or the rest of an outer deadline, whichever is shorter.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a duration that is negative, infinite or invalid.
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

/** The remaining time, never negative. `None` without a deadline. */
export const remaining: Effect.Effect<Option.Option<Duration.Duration>> = Effect.gen(function* () {
  const deadline = yield* Deadline
  if (deadline === undefined) return Option.none()
  const left = deadline - (yield* Clock.monotonicTimeNanos)
  return Option.some(left > 0n ? Duration.nanos(left) : Duration.zero)
})

/**
 * True when work of this duration would end by the deadline, and always true without a deadline.
 *
 * Throws an `InvalidOption` (a `RangeError`) for a duration that is negative or invalid.
 */
export const fits = (duration: Duration.Input): Effect.Effect<boolean> => {
  const length = Options.duration("Deadline", "fits", duration, { max: Duration.infinity })
  return Effect.map(
    remaining,
    Option.match({ onNone: () => true, onSome: (left) => Duration.isLessThanOrEqualTo(length, left) })
  )
}

/**
 * Interrupts an effect at the deadline and fails with {@link DeadlineExceeded}. After the deadline the effect is not
 * run at all. Without a deadline it runs unchanged.
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
