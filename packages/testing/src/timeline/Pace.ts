/**
 * Moves a test clock from sleep to sleep, and only while the program waits.
 *
 * `TestClock.adjust` alone jumps over the sleeps of a program that has not come to its first sleep yet, and over those
 * that begin behind a promise.
 *
 * **Limits.** Sleeps of fibers that were forked outside of the program are not seen; the last step moves over them.
 */
import { Clock, Duration, Effect, Scheduler } from "effect"
import type { Fiber } from "effect"
import type { TestClock } from "effect/testing"

/** Rounds of the scheduler without a task after which the program waits. A chain of promises may take a few. */
const quietRounds = 8
/** Milliseconds that the clock moves by at least: a duration below a nanosecond moves nothing. */
const smallestStep = 0.001
/** Rounds after which a program that never waits is left alone. */
const maxRounds = 100_000

export class Pace {
  readonly #clock: TestClock.TestClock
  /** Tasks of the program that are scheduled. */
  #tasks = 0
  /** Ends of the sleeps of the program, in milliseconds of the clock. */
  readonly #sleeps = new Set<{ readonly until: number }>()

  constructor(clock: TestClock.TestClock) {
    this.#clock = clock
  }

  /** Forks a program whose tasks and sleeps are watched. */
  fork<A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<Fiber.Fiber<A, E>, never, R> {
    const clock: TestClock.TestClock = {
      ...this.#clock,
      sleep: (duration) => this.#sleep(duration)
    }
    return Effect.flatMap(Scheduler.Scheduler, (scheduler) =>
      program.pipe(
        Effect.provideService(Clock.Clock, clock),
        Effect.forkChild,
        Effect.provideService(Scheduler.Scheduler, this.#counting(scheduler))
      )
    )
  }

  /** Moves the clock until the program has ended, or until the limit in milliseconds. */
  move(fiber: Fiber.Fiber<unknown, unknown>, limit: number): Effect.Effect<void> {
    const clock = this.#clock
    const end = clock.currentTimeMillisUnsafe() + limit
    return Effect.gen({ self: this }, function* () {
      for (;;) {
        yield* this.#quiet()
        if (fiber.pollUnsafe() !== undefined) return
        const now = clock.currentTimeMillisUnsafe()
        const next = Math.min(end, ...[...this.#sleeps].map(({ until }) => until))
        const step = next - now
        // Two sleeps may end a rounding apart.
        yield* clock.adjust(step > 0 ? Math.max(smallestStep, step) : 0)
        if (next === end) return yield* this.#quiet()
      }
    })
  }

  #sleep(duration: Duration.Duration): Effect.Effect<void> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const sleep = { until: this.#clock.currentTimeMillisUnsafe() + Duration.toMillis(duration) }
        this.#sleeps.add(sleep)
        return sleep
      }),
      () => this.#clock.sleep(duration),
      (sleep) => Effect.sync(() => this.#sleeps.delete(sleep))
    )
  }

  #counting(scheduler: Scheduler.Scheduler): Scheduler.Scheduler {
    return {
      executionMode: scheduler.executionMode,
      shouldYield: (fiber) => scheduler.shouldYield(fiber),
      makeDispatcher: () => {
        const dispatcher = scheduler.makeDispatcher()
        return {
          scheduleTask: (task, priority) => {
            this.#tasks++
            dispatcher.scheduleTask(() => {
              this.#tasks--
              task()
            }, priority)
          },
          flush: () => dispatcher.flush()
        }
      }
    }
  }

  /** Waits until the program waits. */
  #quiet(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function* () {
      let quiet = 0
      for (let round = 0; quiet < quietRounds && round < maxRounds; round++) {
        yield* Effect.yieldNow
        quiet = this.#tasks === 0 ? quiet + 1 : 0
      }
    })
  }
}
