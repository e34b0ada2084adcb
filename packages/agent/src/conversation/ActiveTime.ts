/**
 * Active time: the time of work, without waits for a cooldown, between attempts, or for a person.
 *
 * Code that waits reports it with {@link parked}. A guard measures time by the tree of activities under it. An
 * activity works while any of its children works. Otherwise it waits while it is parked itself, or while its children
 * wait. When one of two parallel agents waits, the clock runs on; when the last one waits, it stops, at any depth.
 *
 * A stream that waits for its consumer **rests** ({@link resting}): it counts neither as work nor as a wait. The time
 * belongs to the consumer, and counts when the consumer itself works under the guard.
 *
 * **Composition.** `SafetyGuard` provides the activity; `Failover` and `Agent` report their waits to it. Outside of a
 * guard `parked` has no effect.
 *
 * **What it does not do.** It does not notice unreported waits: a tool that sleeps is working. It does not check
 * reported waits: a tool that stays parked never reaches its time limit.
 *
 * **Example** (A tool that waits for a person)
 *
 * ```ts
 * const confirm = ActiveTime.parked(Deferred.await(answer))
 * ```
 */
import { Context, Effect, Stream } from "effect"
import type { Clock } from "effect"

/** Activity of the current fiber; `undefined` outside of a guard. */
export const ActiveTime: Context.Reference<Activity | undefined> = Context.Reference<Activity | undefined>(
  "@outlast/agent/conversation/ActiveTime",
  { defaultValue: () => undefined }
)

/** Changes the state of the current activity while an effect runs. */
const during =
  (begin: (activity: Activity) => void, end: (activity: Activity) => void) =>
  <A, E, R>(wait: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      const activity = fiber.getRef(ActiveTime)
      if (activity === undefined) return wait
      return Effect.uninterruptibleMask((restore) => {
        begin(activity)
        return Effect.onExit(restore(wait), () => Effect.sync(() => end(activity)))
      })
    })

/** Excludes the time of an effect from active time, except for the models and agents that it starts. */
export const parked = during(
  (activity) => activity.park(),
  (activity) => activity.resume()
)

/** Excludes the time of an effect, which waits for the consumer of its stream. The consumer counts its own time. */
export const resting = during(
  (activity) => activity.rest(),
  (activity) => activity.wake()
)

/** A stream whose activity works during a pull and rests between pulls. */
export const whilePulled =
  (activity: Activity) =>
  <A, E, R>(self: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> =>
    Stream.transformPull(self, (pull) =>
      Effect.sync(() => {
        activity.rest()
        return Effect.uninterruptibleMask((restore) => {
          activity.wake()
          return Effect.onExit(restore(pull), () => Effect.sync(() => activity.rest()))
        })
      })
    )

type State = "works" | "waits" | "rests"

/** A node of the tree under a guard. Every change is synchronous. */
export class Activity {
  readonly #parents: ReadonlyArray<Activity>
  readonly #watch: Stopwatch | undefined
  #waits = 0
  #rests = 0
  /** Number of working and of waiting children. Resting and ended children do not count. */
  readonly #children = { works: 0, waits: 0 }
  #ended = false

  /**
   * Starts at once as a child of `parents`. `watch` runs while the activity works. An activity with a watch has no
   * work of its own.
   */
  constructor(parents: ReadonlyArray<Activity>, watch?: Stopwatch) {
    this.#parents = parents
    this.#watch = watch
    for (const parent of parents) parent.#moved(undefined, this.#state)
  }

  get #state(): State {
    if (this.#children.works > 0) return "works"
    if (this.#waits > 0 || this.#children.waits > 0) return "waits"
    return this.#rests > 0 || this.#watch !== undefined ? "rests" : "works"
  }

  park(): void {
    this.#change(() => this.#waits++)
  }

  resume(): void {
    this.#change(() => this.#waits--)
  }

  rest(): void {
    this.#change(() => this.#rests++)
  }

  wake(): void {
    this.#change(() => this.#rests--)
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const parent of this.#parents) parent.#moved(this.#state, undefined)
  }

  /** Records that a child has changed its state; `undefined` before its start and after its end. */
  #moved(from: State | undefined, to: State | undefined): void {
    this.#change(() => {
      if (from === "works" || from === "waits") this.#children[from]--
      if (to === "works" || to === "waits") this.#children[to]++
    })
  }

  #change(how: () => void): void {
    const before = this.#state
    how()
    const after = this.#state
    if (before === after || this.#ended) return
    if (after === "works") this.#watch?.start()
    else this.#watch?.pause()
    for (const parent of this.#parents) parent.#moved(before, after)
  }
}

/** Measures monotonic milliseconds, with pauses. Initially paused. */
export class Stopwatch {
  readonly #clock: Clock.Clock
  readonly #started: () => void
  #before = 0
  #since: number | undefined
  #isOn = false
  #isHalted = false

  /** `started` is called whenever the watch starts or resumes. */
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
    this.#isOn = true
    this.#go()
  }

  pause(): void {
    this.#isOn = false
    this.#stand()
  }

  /** Stops the watch until `release`, even if it is started in between. */
  halt(): void {
    this.#isHalted = true
    this.#stand()
  }

  release(): void {
    this.#isHalted = false
    if (this.#isOn) this.#go()
  }

  #go(): void {
    if (this.#since !== undefined || this.#isHalted) return
    this.#since = this.#now()
    this.#started()
  }

  #stand(): void {
    this.#before = this.elapsed
    this.#since = undefined
  }

  #now(): number {
    return Number(this.#clock.monotonicTimeNanosUnsafe()) / 1_000_000
  }
}
