/**
 * Time in which something is done: without the waits for a cooldown, between attempts, or for a person.
 *
 * Whoever waits so says it with {@link parked}. A guard counts time by the tree of what runs under it: an activity works
 * while anything works that it started; otherwise it waits while it says so, or while all that it started waits. So a
 * wait of one of two parallel agents stops no clock, and a wait of the last one does, however deep it is.
 *
 * A stream that its consumer lets wait **rests** ({@link resting}): neither works nor waits, as if it were not there. The
 * time is its consumer's, which counts if that is itself at work under the guard.
 *
 * **Composition.** `SafetyGuard` provides the activity, `Failover` and `Agent` report their waits to it. Outside of a
 * guard `parked` changes nothing.
 *
 * **What it does not do.** It does not see waits that nobody reports: a tool that sleeps is at work. It believes those
 * that are: a tool that is parked for ever is never out of time.
 *
 * **Example** (A tool that waits for a person)
 *
 * ```ts
 * const confirm = ActiveTime.parked(Deferred.await(answer))
 * ```
 */
import { Context, Effect, Stream } from "effect"
import type { Clock } from "effect"

/** What runs in this fiber, if a guard watches it. */
export const ActiveTime: Context.Reference<Activity | undefined> = Context.Reference<Activity | undefined>(
  "@outlast/agent/conversation/ActiveTime",
  { defaultValue: () => undefined }
)

/** What an effect is for the activity that it runs in, as long as it takes. */
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

/** Time that this takes is not active time, but for what it starts itself: a model that is asked, an agent. */
export const parked = during(
  (activity) => activity.park(),
  (activity) => activity.resume()
)

/** Time that this takes is that of the consumer which it waits for. */
export const resting = during(
  (activity) => activity.rest(),
  (activity) => activity.wake()
)

/** A stream that is an activity while somebody pulls, and rests between that. */
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

/** A part of what runs under a guard. Every change is one synchronous piece. */
export class Activity {
  readonly #parents: ReadonlyArray<Activity>
  readonly #watch: Stopwatch | undefined
  #waits = 0
  #rests = 0
  /** Of what it started. Those that rest count as little as those that have ended. */
  readonly #children = { works: 0, waits: 0 }
  #ended = false

  /** It begins at once, as a part of `parents`; `watch` runs while it works. With a watch it does nothing by itself. */
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

  /** A child of it was in one state, if it was there at all, and is in another. */
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

/** Measures monotonic milliseconds, with pauses. It begins paused. */
export class Stopwatch {
  readonly #clock: Clock.Clock
  readonly #started: () => void
  #before = 0
  #since: number | undefined
  #isOn = false
  #isHalted = false

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
    this.#isOn = true
    this.#go()
  }

  pause(): void {
    this.#isOn = false
    this.#stand()
  }

  /** Stands, whatever starts it, until it is released. */
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
