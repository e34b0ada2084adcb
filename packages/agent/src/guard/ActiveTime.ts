/**
 * Time in which something is done: without the waits for a cooldown, between attempts, or for a person.
 *
 * Whoever waits so says it with {@link parked}. A guard counts time by the tree of what runs under it: an activity is
 * parked while it waits itself, or while all that it started waits. So a wait of one of two parallel agents stops no
 * clock, and a wait of the last one does, however deep it is.
 *
 * **Composition.** `SafetyGuard` provides the activity, `Failover` and `Agent` report their waits to it. Outside of a
 * guard `parked` changes nothing.
 *
 * **What it does not do.** It does not see waits that nobody reports: a tool that sleeps is at work.
 *
 * **Example** (A tool that waits for a person)
 *
 * ```ts
 * const confirm = ActiveTime.parked(Deferred.await(answer))
 * ```
 */
import { Context, Effect } from "effect"
import type { Clock } from "effect"

/** What runs in this fiber, if a guard watches it. */
export const ActiveTime: Context.Reference<Activity | undefined> = Context.Reference<Activity | undefined>(
  "@outlast/agent/guard/ActiveTime",
  { defaultValue: () => undefined }
)

/** Time that this takes is not active time. */
export const parked = <A, E, R>(wait: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const activity = fiber.getRef(ActiveTime)
    if (activity === undefined) return wait
    return Effect.uninterruptibleMask((restore) => {
      activity.park()
      return Effect.onExit(restore(wait), () => Effect.sync(() => activity.resume()))
    })
  })

/** A part of what runs under a guard. Every change is one synchronous piece. */
export class Activity {
  readonly #parents: ReadonlyArray<Activity>
  readonly #watch: Stopwatch | undefined
  #waits = 0
  #children = 0
  #parkedChildren = 0
  #ended = false

  /** It begins at once, as a part of `parents`; `watch` runs while it is not parked. */
  constructor(parents: ReadonlyArray<Activity>, watch?: Stopwatch) {
    this.#parents = parents
    this.#watch = watch
    for (const parent of parents) parent.#change(() => parent.#children++)
  }

  get isParked(): boolean {
    // A guard under which nothing runs has children, none, that all wait.
    return (
      this.#waits > 0 ||
      (this.#children === 0 ? this.#watch !== undefined : this.#children === this.#parkedChildren)
    )
  }

  park(): void {
    this.#change(() => this.#waits++)
  }

  resume(): void {
    this.#change(() => this.#waits--)
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    const parked = this.isParked
    for (const parent of this.#parents) {
      parent.#change(() => {
        parent.#children--
        if (parked) parent.#parkedChildren--
      })
    }
  }

  #change(how: () => void): void {
    const before = this.isParked
    how()
    const after = this.isParked
    if (before === after || this.#ended) return
    if (after) this.#watch?.pause()
    else this.#watch?.start()
    for (const parent of this.#parents) {
      parent.#change(() => (parent.#parkedChildren += after ? 1 : -1))
    }
  }
}

/** Measures monotonic milliseconds, with pauses. It begins paused. */
export class Stopwatch {
  readonly #clock: Clock.Clock
  readonly #started: () => void
  #before = 0
  #since: number | undefined

  /** `started` is called whenever it goes on. */
  constructor(clock: Clock.Clock, started: () => void) {
    this.#clock = clock
    this.#started = started
  }

  get isPaused(): boolean {
    return this.#since === undefined
  }

  get elapsed(): number {
    return this.#before + (this.#since === undefined ? 0 : this.#now() - this.#since)
  }

  start(): void {
    if (this.#since !== undefined) return
    this.#since = this.#now()
    this.#started()
  }

  pause(): void {
    this.#before = this.elapsed
    this.#since = undefined
  }

  #now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1_000_000
  }
}
