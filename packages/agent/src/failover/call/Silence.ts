/**
 * The limits for the first token and between tokens of an attempt. They count only while we wait for the provider, never
 * while the consumer is busy.
 */
import type { Context } from "effect"
import { Duration } from "effect"
import { Timeout } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"
import type { Target } from "../chain/Chain.ts"
import * as Alarm from "../target/Alarm.ts"
import type { Attempt } from "./Attempt.ts"
import type { CallRun } from "./CallRun.ts"
import { Lateness } from "./Lateness.ts"

/** Milliseconds that a target may be silent. */
export interface Limits {
  readonly firstToken: number
  readonly idle: number
}

export const limitsOf = ({ chain }: CallRun, { model }: Target): Limits => {
  const { firstToken, firstTokenReasoning, idle, idleReasoning } = chain.policy.limits
  const reasons = model.info.reasoning === true
  return {
    firstToken: Duration.toMillis(reasons ? firstTokenReasoning : firstToken),
    idle: Duration.toMillis(reasons ? idleReasoning : idle)
  }
}

/** The failure of a silent target. */
export const failure = ({ ref }: Target, hasBegun: boolean): ProviderFailure => {
  const phase = hasBegun ? "idle" : "first-token"
  return local(`limit/${phase}`, new Timeout({ phase, local: true }), ref)
}

export class Silence {
  readonly #run: CallRun
  readonly #target: Target
  readonly #limits: Limits
  /** The context of the fiber that opened the attempt. Another fiber may read the attempt after that one has ended. */
  readonly #context: Context.Context<never>
  /** Parts that arrived in time are about to be read. */
  readonly #isOver: () => boolean
  readonly #onLimit: (failure: ProviderFailure) => void
  /** The first token is late. */
  readonly #onLate: () => void
  readonly #lateness: Lateness
  /** Calls the alarm off, while one is set. */
  #callOff: (() => void) | undefined
  /** When the current wait for the provider began, by `CallRun.awake`. */
  #since: number | undefined
  #hasBegun = false
  /** Milliseconds waited for the provider since it last sent something, before the current wait. */
  #before = 0

  constructor(
    run: CallRun,
    attempt: Attempt,
    context: Context.Context<never>,
    listener: {
      readonly isOver: () => boolean
      readonly onLimit: (failure: ProviderFailure) => void
      readonly onLate: () => void
    }
  ) {
    this.#run = run
    this.#target = attempt.target
    this.#limits = limitsOf(run, attempt.target)
    this.#lateness = new Lateness(run, attempt, "firstToken")
    this.#context = context
    this.#isOver = listener.isOver
    this.#onLimit = listener.onLimit
    this.#onLate = listener.onLate
  }

  /** The first token has come. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Milliseconds that the call has waited for the provider since it last sent something. */
  get millis(): number {
    return this.#before + (this.#since === undefined ? 0 : this.#run.awake() - this.#since)
  }

  /** Begins a wait at `now`, by `CallRun.awake`. Many waits have one alarm, which is set anew when it rings too early. */
  wait(now: number): void {
    this.#since ??= now
    if (this.#callOff === undefined) this.#arm(this.millis)
  }

  /** Told that the first token is late, the call makes no other attempt now: tells it again later. */
  waitOn(): void {
    this.#lateness.again(this.millis)
    this.stop()
    this.#arm(this.millis)
  }

  /** Parts have come; `isAlive`: with content. */
  heard(isAlive: boolean): void {
    const { millis } = this
    this.#since = undefined
    if (!isAlive) {
      this.#before = millis
      return
    }
    // The limit between tokens may be the shorter one.
    if (!this.#hasBegun) this.stop()
    this.#hasBegun = true
    this.#before = 0
  }

  stop(): void {
    this.#callOff?.()
    this.#callOff = undefined
  }

  get #limit(): number {
    return this.#hasBegun ? this.#limits.idle : this.#limits.firstToken
  }

  /** Sets the alarm; `waited`: {@link millis}. */
  #arm(waited: number): void {
    const late = this.#hasBegun ? Infinity : this.#lateness.left(waited)
    const left = Math.min(this.#limit - waited, late)
    this.#callOff = Alarm.set(this.#context, Math.max(0, left), () => {
      this.#callOff = undefined
      if (this.#since === undefined || this.#isOver()) return
      const { millis } = this
      if (this.#limit <= millis) return this.#onLimit(failure(this.#target, this.#hasBegun))
      const isLate = !this.#hasBegun && this.#lateness.left(millis) <= 0
      if (isLate) this.#lateness.told()
      this.#arm(millis)
      if (isLate) this.#onLate()
    })
  }
}
