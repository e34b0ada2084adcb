/**
 * The calls of a chain that wait for its retry budget, oldest first.
 *
 * Each success lets one waiting call go, to the target that answered. Each token of the budget that attempts in flight
 * do not pay for lets one more go. Retries then follow the pace at which the targets answer. While calls wait, no other
 * call may take a token. A call whose targets are all out is passed over.
 *
 * A success pays for 1.5 retries. Where more than two of three requests fail, that is less than one further success, and
 * the queue would stand still. One call therefore goes every `pacing.releaseEvery` without a token ({@link
 * RetryQueue.trickle}), as long as any target of the chain has answered within `pacing.worksFor`.
 *
 * **Limits.** Bounded by the calls under way. Without successes nothing looks at the tokens: `CallOutcome.queued` does,
 * about once a second for each waiting call.
 */
import { Duration } from "effect"
import type { Pacing } from "../decide/RecoveryPolicy.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

/** A call that waits. */
export interface Waiting {
  /** Number of the call in its chain. */
  readonly call: number
  /** True when the call may ask `target` now, or any target. */
  readonly mayGo: (target: TargetRef | undefined) => boolean
  /** Wakes the call, which has its token. `target` is the one to ask, if it may be asked. */
  readonly go: (target: TargetRef | undefined) => void
}

/** Tokens of the retry budget. */
export interface Tokens {
  readonly isAvailable: () => boolean
  readonly take: () => void
}

export class RetryQueue {
  readonly #waiting: Array<Waiting> = []
  #saved = 0
  #trickledAt = -Infinity
  readonly #pacing: Pick<Pacing, "releaseEvery" | "savedSuccesses">

  constructor(pacing: Pick<Pacing, "releaseEvery" | "savedSuccesses">) {
    this.#pacing = pacing
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  add(waiting: Waiting): void {
    // Stryker disable next-line EqualityOperator: a call waits once.
    const at = this.#waiting.findLastIndex(({ call }) => call < waiting.call)
    this.#waiting.splice(at + 1, 0, waiting)
  }

  remove(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting)
    if (at < 0) return
    this.#waiting.splice(at, 1)
    if (this.isEmpty) this.#saved = 0
  }

  /** Records a success of `target`. */
  succeeded(target: TargetRef): void {
    if (this.isEmpty) return
    const next = this.#waiting.find(({ mayGo }) => mayGo(target))
    if (next === undefined) this.#saved = Math.min(this.#pacing.savedSuccesses, this.#saved + 1)
    else this.#release(next, target)
  }

  /** Lets calls go as long as there are saved successes or `tokens` for them. Each takes a token where there is one. */
  release(tokens: Tokens | undefined): void {
    // A copy, because calls that go leave the queue.
    for (const waiting of this.#waiting.slice()) {
      if (this.#saved === 0 && tokens?.isAvailable() !== true) return
      if (!waiting.mayGo(undefined)) continue
      if (this.#saved > 0) this.#saved--
      tokens?.take()
      this.#release(waiting, undefined)
    }
  }

  /**
   * Lets one call go if none has gone so for `pacing.releaseEvery`. It takes a token where there is one. `now` is in
   * monotonic milliseconds.
   */
  trickle(now: number, tokens: Tokens | undefined): void {
    if (now - this.#trickledAt < Duration.toMillis(this.#pacing.releaseEvery)) return
    const next = this.#waiting.find(({ mayGo }) => mayGo(undefined))
    if (next === undefined) return
    this.#trickledAt = now
    tokens?.take()
    this.#release(next, undefined)
  }

  #release(waiting: Waiting, target: TargetRef | undefined): void {
    this.remove(waiting)
    waiting.go(target)
  }
}
