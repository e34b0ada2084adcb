/** Repeats what a running task writes until the store takes it: a task does not end because its store is gone. */
import { Effect, Schedule } from "effect"
import type { StoreError } from "@outlast/resilience"

const schedule = Schedule.min([Schedule.exponential("100 millis", 2), Schedule.spaced("10 seconds")])

export const kept = <A, R>(write: Effect.Effect<A, StoreError.StoreError, R>): Effect.Effect<A, never, R> =>
  write.pipe(
    Effect.tapError((error) => Effect.logWarning(`Tasks: ${error.message} Trying again.`)),
    Effect.retry(schedule),
    // The schedule has no end.
    Effect.orDie
  )
