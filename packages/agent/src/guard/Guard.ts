/**
 * One guard: the limits, what has been taken of them, and everything that runs under it now.
 *
 * **States.** Closed (nothing runs under it), open, stopped. Every change is one synchronous piece, so that of any
 * number of calls at the same time exactly as many are admitted as there is room for. The first that finds no room
 * stops the guard; whoever waits at its boundary (`SafetyGuard.run`) hears of it and interrupts what runs.
 *
 * **Composition.** A guard stands in a tree with others: `Branch` asks all of those above it. `GuardState` decides.
 */
import { Deferred, Effect, Exit } from "effect"
import { ErrorText } from "@outlast/resilience"
import type { Around } from "../failover/CallGuard.ts"
import type { Clock, Fiber } from "effect"
import { Prompt } from "effect/ai"
import * as Redaction from "../secrets/Redaction.ts"
import { Transcript } from "../conversation/Transcript.ts"
import { Activity, Stopwatch } from "../conversation/ActiveTime.ts"
import type { BlockedCall } from "./BlockedCalls.ts"
import type { GuardedConversation } from "./GuardedConversation.ts"
import type { GuardState, Step } from "./GuardState.ts"
import * as State from "./GuardState.ts"
import type { Bounds, Extension } from "./Limits.ts"
import * as Limits from "./Limits.ts"
import type { LoopDetector } from "./LoopDetector.ts"
import { SafetyStop } from "./SafetyStop.ts"
import type { Counts, Texts, Tripped } from "./StopReason.ts"

/** What the host says of a call, before it runs. */
export type Permission = "allow" | { readonly refuse: string }

export interface Settings {
  readonly bounds: Bounds
  readonly loops: LoopDetector | undefined
  readonly permit:
    | ((call: { readonly tool: string; readonly arguments: unknown }) => Effect.Effect<Permission>)
    | undefined
  readonly fileOf: (call: {
    readonly tool: string
    readonly arguments: unknown
  }) => string | ReadonlyArray<string> | null | undefined
  readonly texts: Texts
  /** How often it may be extended. */
  readonly extensions: number
  /** Milliseconds that what is stopped has for its finalizers. */
  readonly grace: number
}

type AnyFiber = Fiber.Fiber<unknown, unknown>

export class Guard {
  readonly settings: Settings
  /** It works while anything does that runs under it. */
  readonly activity: Activity
  /** The conversation at the top that began last; it stays there when the guard is extended. */
  top: GuardedConversation | undefined
  #bounds: Bounds
  #state: GuardState = State.initial
  #extensions = 0
  #runs = 0
  #told = false
  #stop = Deferred.makeUnsafe<void>()
  #resumed = Deferred.makeUnsafe<void>()
  /** Fibers that a call of this guard runs in, or is held in; one that has two calls is there twice. */
  readonly #fibers = new Set<{ readonly fiber: AnyFiber }>()
  /** Tool calls that may still come to their end. */
  readonly #pending = new Set<object>()
  #quiet = Deferred.makeUnsafe<void>()
  #closed = Deferred.makeUnsafe<void>()
  /** Active time. */
  readonly #watch: Stopwatch
  /** All time in which a program runs under it. */
  readonly #total: Stopwatch

  /** Puts the calls of a model under the guards of the fiber that makes them. */
  readonly around: Around

  constructor(settings: Settings, clock: Clock.Clock, around: Around) {
    this.settings = settings
    this.around = around
    this.#bounds = settings.bounds
    const resumed = () => void Deferred.doneUnsafe(this.#resumed, Exit.void)
    this.#watch = new Stopwatch(clock, resumed)
    this.#total = new Stopwatch(clock, resumed)
    this.activity = new Activity([], this.#watch)
  }

  get stopped(): Tripped | undefined {
    return this.#state.stopped
  }

  get isClosed(): boolean {
    return this.#runs === 0
  }

  get isOpen(): boolean {
    return this.#runs > 0 && this.#state.stopped === undefined
  }

  get bounds(): Bounds {
    return this.#bounds
  }

  get counts(): Counts {
    return State.counts(this.#state, this.#watch.elapsed, this.#total.elapsed)
  }

  /** The last calls that were not run, oldest first. */
  get blocked(): ReadonlyArray<BlockedCall> {
    return this.#state.blocked.last
  }

  // ---------------------------------------------------------------------------
  // Counting
  // ---------------------------------------------------------------------------

  /** What a step would come to. Commit it before anything else happens. */
  consider(step: (bounds: Bounds, state: GuardState) => Step): Step {
    const over = this.#timeout()
    if (over !== undefined) return [over, this.#state]
    return step(this.#bounds, this.#state)
  }

  commit(state: GuardState): void {
    this.#state = state
  }

  spent(tokens: number, costUsd: number): void {
    this.#state = State.spent(this.#state, { tokens, costUsd })
  }

  /** Stops it, and its clocks; the first stop counts. */
  trip(tripped: Tripped): void {
    if (this.#state.stopped !== undefined) return
    this.#state = State.stop(this.#state, tripped)
    this.#watch.halt()
    this.#total.halt()
    Deferred.doneUnsafe(this.#stop, Exit.void)
    this.#settle()
  }

  /** What a host's function gives, or `undefined` if it throws: then the guard stops. */
  asking<A>(what: string, ask: () => A): { readonly value: A } | undefined {
    try {
      return { value: ask() }
    } catch (error) {
      this.failed(what, error)
      return undefined
    }
  }

  /** The guard cannot judge any more: it stops. */
  failed(what: string, error: unknown): void {
    const why = wordsOf(error)
    // Its words are the host's: what looks like a secret in them stays here.
    this.trip({ reason: "guard_failed", detail: `${what} failed (${Redaction.scrub(why, 300)}).` })
  }

  // ---------------------------------------------------------------------------
  // What runs
  // ---------------------------------------------------------------------------

  /** A fiber that is stopped with the guard. Returns what takes it out again. */
  enter(fiber: AnyFiber): () => void {
    const entry = { fiber }
    this.#fibers.add(entry)
    return () => void this.#fibers.delete(entry)
  }

  /** A tool call that runs. */
  begin(toolCall: object): void {
    this.#pending.add(toolCall)
  }

  /** It has ended, or something inside of it is held. */
  end(toolCall: object): void {
    if (this.#pending.delete(toolCall)) this.#settle()
  }

  #settle(): void {
    if (this.#state.stopped !== undefined && this.#pending.size === 0) {
      Deferred.doneUnsafe(this.#quiet, Exit.void)
    }
  }

  /** Ends when no tool runs any more that was admitted before the stop. */
  readonly quiet: Effect.Effect<void> = Effect.suspend(() => Deferred.await(this.#quiet))

  /** A program begins to run under it. */
  open(): void {
    if (this.#runs++ > 0) return
    this.#closed = Deferred.makeUnsafe<void>()
    this.#total.start()
  }

  /** A program has ended. With the last one everything ends that was left running behind it. */
  close(): void {
    this.#runs--
    if (this.#runs > 0) return
    this.#total.pause()
    this.interrupt()
    Deferred.doneUnsafe(this.#closed, Exit.void)
  }

  /** When it is stopped: ends when the last program has ended that it stopped. */
  readonly settled: Effect.Effect<void> = Effect.suspend(() =>
    this.stopped === undefined || this.isClosed ? Effect.void : Deferred.await(this.#closed)
  )

  /** Interrupts all calls. */
  interrupt(): void {
    for (const { fiber } of this.#fibers) fiber.interruptUnsafe()
    this.#fibers.clear()
  }

  readonly whenStopped: Effect.Effect<void> = Effect.suspend(() => Deferred.await(this.#stop))

  /** Stops it when its time is up; never ends otherwise. */
  readonly watch: Effect.Effect<void> = Effect.suspend(() => {
    const over = this.#timeout()
    if (over !== undefined) return Effect.sync(() => this.trip(over))
    const { time, totalTime } = this.#bounds
    const total = this.#total.isPaused ? Infinity : totalTime - this.#total.elapsed
    const active = this.#watch.isPaused ? Infinity : time - this.#watch.elapsed
    const left = Math.min(total, active)
    const woken = left === Infinity ? Effect.never : Effect.sleep(Math.ceil(left))
    // A clock that goes on may be the next to run out. Programs that run at the same time wait for the same.
    if (Deferred.isDoneUnsafe(this.#resumed)) this.#resumed = Deferred.makeUnsafe<void>()
    // It may have been parked meanwhile: then there is more left.
    return Effect.flatMap(
      this.#watch.isPaused ? Effect.raceFirst(woken, Deferred.await(this.#resumed)) : woken,
      () => this.watch
    )
  })

  // ---------------------------------------------------------------------------
  // The host
  // ---------------------------------------------------------------------------

  /** Wider limits, and no stop any more. `undefined` if it has been extended too often. */
  extend(by: Extension): number | undefined {
    if (this.#extensions >= this.settings.extensions) return undefined
    this.#bounds = Limits.extended(this.#bounds, by)
    if (this.#state.stopped !== undefined && this.#runs === 0) {
      this.#state = State.resumed(this.#state)
      this.#watch.release()
      this.#total.release()
      this.#stop = Deferred.makeUnsafe<void>()
      this.#quiet = Deferred.makeUnsafe<void>()
      this.#told = false
      // What was left behind holds up no later stop.
      this.#pending.clear()
    }
    return ++this.#extensions
  }

  /** Whether this is the first that asks since it was stopped. */
  tell(): boolean {
    const first = !this.#told
    this.#told = true
    return first
  }

  /** The error that it leaves with. */
  stop(): SafetyStop {
    const { texts } = this.settings
    const tripped = this.#state.stopped ?? this.#outOf("active")
    const { reason, limit, subject } = tripped
    const { counts } = this
    const facts = { ...tripped, counts }
    const transcript = this.top?.transcript(texts) ?? new Transcript(Prompt.empty)
    const message = texts.stopped(facts)
    const { blocked } = this
    const stop = new SafetyStop({ reason, limit, subject, counts, blocked, transcript, message })
    return ErrorText.brief(stop, "transcript", "counts", "blocked")
  }

  /** The time that is up, if one is. */
  #timeout(): Tripped | undefined {
    if (this.#total.elapsed >= this.#bounds.totalTime) return this.#outOf("total")
    return this.#watch.elapsed >= this.#bounds.time ? this.#outOf("active") : undefined
  }

  #outOf(subject: "active" | "total"): Tripped {
    const { time, totalTime } = this.#bounds
    return { reason: "timeout", limit: subject === "total" ? totalTime : time, subject }
  }
}

const wordsOf = (error: unknown): string => {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : "it threw no error"
  } catch {
    return "it threw an error that cannot be read"
  }
}

/** What a host's function gave, in words: its kind, and nothing of what is in it. */
export const kindOf = (value: unknown): string => {
  if (value === undefined || value === null) return String(value)
  if (value instanceof Promise) return "a promise"
  if (typeof value === "object") return Array.isArray(value) ? "an array" : "an object"
  return typeof value === "string" ? "another text" : `a ${typeof value}`
}
