/**
 * Log of one target: what the attempts of all calls found there.
 *
 * Each progress, success, failure and reset is one update. A failure also looks at the logs of the other targets of its
 * provider. Everything else is read from the log by pure functions: `Evidence` proves that a scope is out,
 * `ProviderHealth` derives the health of a provider, and the state machine of a call reads streaks and last answers.
 *
 * **Bounded**: a log has a fixed size, however long the process runs. Attempts in flight are not part of it: the chain has
 * one set of them (`ChainMemory.flying`), in which a call asks for all targets at once. Times are monotonic milliseconds.
 */
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { Streak } from "../decide/CallState.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"
import { FirstTokens } from "./FirstTokens.ts"

/** An attempt in flight. */
export interface Flight {
  readonly target: TargetRef
  /** Number of the call in its chain. A call has at most two attempts in flight, the second at another target. */
  readonly call: number
  readonly startedAt: number
  /** `undefined` before the first token. */
  firstTokenAt: number | undefined
  /** True when the headers of the response have arrived. */
  isHeard: boolean
}

/** A failure that may prove, with those of other calls, that a scope is out. */
export interface Doubt {
  readonly scope: Scope
  readonly call: number
  readonly startedAt: number
}

/** The last failure that counts against the target's provider. */
export interface Fault {
  readonly failure: ProviderFailure
  readonly at: number
  /** Such failures of the target since the last answer of its provider. */
  readonly count: number
  /** Number of answers of the provider before it. */
  readonly answers: number
}

export class TargetLog {
  readonly target: TargetRef
  /** Time of the last content. */
  progressedAt = -Infinity
  /** Number of answers. */
  answers = 0
  /** Time of the last answer. */
  answeredAt: number | undefined
  /**
   * Failures of attempts that began up to this time prove nothing: one that began then was answered, or an operator
   * brought the target back.
   */
  disprovedUntil = -Infinity
  /** Failures since the last answer. */
  streak: Streak | undefined
  fault: Fault | undefined
  /** See `Evidence.doubted`. */
  doubts: ReadonlyArray<Doubt> = []
  /** Number of attempts since the last content that were aborted because they were late. */
  late = 0
  /** Times until the first token of streams, and times of answers that were requested whole. */
  readonly times = { firstToken: new FirstTokens(), whole: new FirstTokens() }
  /** Time of an operator's last reset. */
  resetAt = -Infinity

  constructor(target: TargetRef) {
    this.target = target
  }

  progressed(now: number): void {
    this.progressedAt = now
    this.late = 0
  }

  succeeded(startedAt: number, now: number): void {
    this.progressed(now)
    this.answers++
    this.answeredAt = now
    this.disprovedUntil = Math.max(this.disprovedUntil, startedAt)
    this.streak = undefined
  }

  /** `fault` and `doubts` are those of the target from now on. */
  failed(now: number, { fault, doubts }: Pick<TargetLog, "fault" | "doubts">): void {
    this.streak = { failures: (this.streak?.failures ?? 0) + 1, delay: this.streak?.delay, at: now }
    this.fault = fault
    this.doubts = doubts
  }

  /** An operator brought the target back: its failures count no more. */
  reset(now: number): void {
    this.resetAt = now
    this.disprovedUntil = now
    this.streak = undefined
    this.late = 0
    if (this.fault !== undefined) this.fault = { ...this.fault, count: 0 }
  }
}
