/**
 * One guard: its limits, the amounts used so far, and everything that runs under it.
 *
 * **States.** Closed (nothing runs under it), open, stopped. Every change is synchronous, so concurrent calls never
 * exceed a limit. The first call without room stops the guard. The boundary (`SafetyGuard.run`) then interrupts
 * everything that runs.
 *
 * **Composition.** Guards form a tree: `Branch` asks all guards above it. `GuardState` makes the decisions.
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

/** The host's decision about a call, before it runs. */
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
  /** Maximum number of extensions. */
  readonly extensions: number
  /** Grace period: milliseconds that a stopped program has for its finalizers. */
  readonly grace: number
}

type AnyFiber = Fiber.Fiber<unknown, unknown>

export class Guard {
  readonly settings: Settings
  /** Active while anything under the guard is active. */
  readonly activity: Activity
  /** The top-level conversation that began last. It survives an extension of the guard. */
  top: GuardedConversation | undefined
  #bounds: Bounds
  #state: GuardState = State.initial
  #extensions = 0
  #runs = 0
  #told = false
  #stop = Deferred.makeUnsafe<void>()
  #resumed = Deferred.makeUnsafe<void>()
  /** Fibers with a call under this guard, running or held. A fiber with two calls has two entries. */
  readonly #fibers = new Set<{ readonly fiber: AnyFiber }>()
  /** Tool calls that may still finish. */
  readonly #pending = new Set<object>()
  #quiet = Deferred.makeUnsafe<void>()
  #closed = Deferred.makeUnsafe<void>()
  /** Active time. */
  readonly #watch: Stopwatch
  /** Total time in which a program runs under the guard. */
  readonly #total: Stopwatch

  /** Puts the calls of a model under the guards of the calling fiber. */
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

  /** The last calls that did not run, oldest first. */
  get blocked(): ReadonlyArray<BlockedCall> {
    return this.#state.blocked.last
  }

  // ---------------------------------------------------------------------------
  // Counting
  // ---------------------------------------------------------------------------

  /** Returns the result of a step without committing it. Commit it synchronously. */
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

  /** Stops the guard and its clocks. Only the first stop counts. */
  trip(tripped: Tripped): void {
    if (this.#state.stopped !== undefined) return
    this.#state = State.stop(this.#state, tripped)
    this.#watch.halt()
    this.#total.halt()
    Deferred.doneUnsafe(this.#stop, Exit.void)
    this.#settle()
  }

  /** Calls a function of the host. When it throws, the guard stops and the result is `undefined`. */
  asking<A>(what: string, ask: () => A): { readonly value: A } | undefined {
    try {
      return { value: ask() }
    } catch (error) {
      this.failed(what, error)
      return undefined
    }
  }

  /** Stops the guard because it can no longer decide. */
  failed(what: string, error: unknown): void {
    const why = wordsOf(error)
    // The text comes from the host's error and may contain a secret, so it is scrubbed.
    this.trip({ reason: "guard_failed", detail: `${what} failed (${Redaction.scrub(why, 300)}).` })
  }

  // ---------------------------------------------------------------------------
  // Running calls
  // ---------------------------------------------------------------------------

  /** Registers a fiber that the guard interrupts when it stops. Returns a function that removes it. */
  enter(fiber: AnyFiber): () => void {
    const entry = { fiber }
    this.#fibers.add(entry)
    return () => void this.#fibers.delete(entry)
  }

  /** Registers a running tool call. */
  begin(toolCall: object): void {
    this.#pending.add(toolCall)
  }

  /** Removes a tool call that has finished, or that contains a held call. */
  end(toolCall: object): void {
    if (this.#pending.delete(toolCall)) this.#settle()
  }

  #settle(): void {
    if (this.#state.stopped !== undefined && this.#pending.size === 0) {
      Deferred.doneUnsafe(this.#quiet, Exit.void)
    }
  }

  /** Completes when every tool call admitted before the stop has finished. */
  readonly quiet: Effect.Effect<void> = Effect.suspend(() => Deferred.await(this.#quiet))

  /** Registers a program that begins to run. */
  open(): void {
    if (this.#runs++ > 0) return
    this.#closed = Deferred.makeUnsafe<void>()
    this.#total.start()
  }

  /** Removes a program that has ended. After the last one, everything it left running is interrupted. */
  close(): void {
    this.#runs--
    if (this.#runs > 0) return
    this.#total.pause()
    this.interrupt()
    Deferred.doneUnsafe(this.#closed, Exit.void)
  }

  /** Completes when the guard is not stopped, or when all stopped programs have ended. */
  readonly settled: Effect.Effect<void> = Effect.suspend(() =>
    this.stopped === undefined || this.isClosed ? Effect.void : Deferred.await(this.#closed)
  )

  /** Interrupts all calls. */
  interrupt(): void {
    for (const { fiber } of this.#fibers) fiber.interruptUnsafe()
    this.#fibers.clear()
  }

  readonly whenStopped: Effect.Effect<void> = Effect.suspend(() => Deferred.await(this.#stop))

  /** Stops the guard when its time is up. Otherwise never completes. */
  readonly watch: Effect.Effect<void> = Effect.suspend(() => {
    const over = this.#timeout()
    if (over !== undefined) return Effect.sync(() => this.trip(over))
    const { time, totalTime } = this.#bounds
    const total = this.#total.isPaused ? Infinity : totalTime - this.#total.elapsed
    const active = this.#watch.isPaused ? Infinity : time - this.#watch.elapsed
    const left = Math.min(total, active)
    const woken = left === Infinity ? Effect.never : Effect.sleep(Math.ceil(left))
    // A clock that resumes may be the next to run out. Concurrent programs share this wait.
    if (Deferred.isDoneUnsafe(this.#resumed)) this.#resumed = Deferred.makeUnsafe<void>()
    // The time may have been parked in between. Check again how much is left.
    return Effect.flatMap(
      this.#watch.isPaused ? Effect.raceFirst(woken, Deferred.await(this.#resumed)) : woken,
      () => this.watch
    )
  })

  // ---------------------------------------------------------------------------
  // The host
  // ---------------------------------------------------------------------------

  /** Raises the limits and clears a stop. Returns the number of the extension; `undefined` when no more are allowed. */
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
      // Abandoned calls must not delay a later stop.
      this.#pending.clear()
    }
    return ++this.#extensions
  }

  /** Returns true for the first caller after a stop. */
  tell(): boolean {
    const first = !this.#told
    this.#told = true
    return first
  }

  /** The error of the stopped run. */
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

  /** The time limit that was reached, if any. */
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

/** Describes the type of a value from the host, without its content. */
export const kindOf = (value: unknown): string => {
  if (value === undefined || value === null) return String(value)
  if (value instanceof Promise) return "a promise"
  if (typeof value === "object") return Array.isArray(value) ? "an array" : "an object"
  return typeof value === "string" ? "another text" : `a ${typeof value}`
}
