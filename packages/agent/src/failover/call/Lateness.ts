/**
 * When an attempt is late: no content has come for the time after which the policy hedges a call, and for longer than its
 * target usually needs.
 *
 * The usual time depends on the size of the prompt, which costs a walk through it. So it is asked for only when the first
 * time is over. Times are milliseconds of waiting for the provider.
 */
import type { TargetLog } from "../chain/TargetLog.ts"
import type { Attempt } from "./Attempt.ts"
import type { CallRun } from "./CallRun.ts"

export class Lateness {
  readonly #run: CallRun
  readonly #attempt: Attempt
  readonly #of: keyof TargetLog["times"]
  #at: number

  /** For the attempt that was begun last. `of`: what is waited for. */
  constructor(run: CallRun, attempt: Attempt, of: keyof TargetLog["times"]) {
    this.#run = run
    this.#attempt = attempt
    this.#of = of
    this.#at = run.lateAfter(attempt)
  }

  /** Time left after `waited` until the attempt is late; 0 or less when it is. */
  left(waited: number): number {
    if (waited >= this.#at) this.#at = Math.max(this.#at, this.#run.usual(this.#attempt, this.#of))
    return this.#at - waited
  }

  /** The call has been told that the attempt is late. */
  told(): void {
    this.#at = Infinity
  }

  /** No other attempt is made now: asks again after the same time. */
  again(waited: number): void {
    this.#at = waited + this.#run.lateAfter(this.#attempt)
  }
}
