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
import type { CallRun } from "./CallRun.ts"

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
  /** Calls the alarm off, while one is set. */
  #callOff: (() => void) | undefined
  /** When the current wait for the provider began, by `CallRun.awake`. */
  #since: number | undefined
  #hasBegun = false
  /** Milliseconds waited for the provider since it last sent something, before the current wait. */
  #before = 0

  constructor(
    run: CallRun,
    target: Target,
    context: Context.Context<never>,
    isOver: () => boolean,
    onLimit: (failure: ProviderFailure) => void
  ) {
    this.#run = run
    this.#target = target
    this.#limits = limitsOf(run, target)
    this.#context = context
    this.#isOver = isOver
    this.#onLimit = onLimit
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
    this.#since = now
    if (this.#callOff === undefined) this.#arm(this.#limit - this.#before)
  }

  /** Parts have come, after a wait since `since`, by `CallRun.awake`; `isAlive`: with content. */
  heard(since: number, isAlive: boolean): void {
    this.#since = undefined
    if (!isAlive) {
      this.#before += this.#run.awake() - since
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

  #arm(millis: number): void {
    this.#callOff = Alarm.set(this.#context, Math.max(0, millis), () => {
      this.#callOff = undefined
      if (this.#since === undefined || this.#isOver()) return
      const left = this.#limit - this.millis
      if (left > 0) this.#arm(left)
      else this.#onLimit(failure(this.#target, this.#hasBegun))
    })
  }
}
