/** Waits for a database that does not answer yet, and says so. */
import { Cause, Effect, Exit, Layer, Schedule, Scope } from "effect"

const schedule = Schedule.min([Schedule.exponential("250 millis", 2), Schedule.spaced("10 seconds")])

/** Repeats an effect until it succeeds, whatever it fails with. */
export const untilDone = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, never, R> =>
  effect.pipe(
    Effect.sandbox,
    Effect.tapError((cause) =>
      Cause.hasInterrupts(cause)
        ? Effect.void
        : Effect.logWarning(`Tasks: the database does not answer (${text(cause)}). The worker waits for it.`)
    ),
    Effect.retry(schedule),
    // The schedule has no end.
    Effect.orDie
  )

/** Builds a layer again until it can be built. */
export const layer = <A, E, R>(wanted: Layer.Layer<A, E, R>): Layer.Layer<A, never, R> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const attempt = Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const own = yield* Scope.fork(scope)
          const exit = yield* Effect.exit(restore(Layer.buildWithScope(Layer.fresh(wanted), own)))
          if (Exit.isFailure(exit)) yield* Scope.close(own, exit)
          return yield* exit
        })
      )
      return yield* untilDone(attempt)
    })
  )

const text = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  const { message } = error instanceof Error ? error : { message: String(error) }
  const why = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ""
  return `${message}${why}`.slice(0, 500)
}
