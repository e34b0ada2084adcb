/**
 * The calls of a chain that wait for its retry budget, oldest first.
 *
 * Each success lets one waiting call go, to the target that answered. Each token of the budget that attempts in flight
 * do not pay for lets one more go. Retries then follow the pace at which the targets answer, and an outage lets nothing
 * go but the reserve. While calls wait, no other call may take a token. A call whose targets are all out is passed over.
 *
 * **Limits.** Bounded by the calls under way. Without successes nothing looks at the tokens: `CallRun` does, about once
 * a second for each waiting call.
 */
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

/** Successes that are kept for calls whose targets are out. */
export const mostSaved = 10

export class RetryQueue {
  readonly #waiting: Array<Waiting> = []
  #saved = 0

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
    if (next === undefined) this.#saved = Math.min(mostSaved, this.#saved + 1)
    else this.#release(next, target)
  }

  /** Lets calls go as long as there are saved successes or `tokens` for them. */
  release(tokens: Tokens | undefined): void {
    // A copy, because calls that go leave the queue.
    for (const waiting of this.#waiting.slice()) {
      if (this.#saved === 0 && tokens?.isAvailable() !== true) return
      if (!waiting.mayGo(undefined)) continue
      if (this.#saved > 0) this.#saved--
      else {
        // Stryker disable next-line OptionalChaining: for the types; without tokens the loop has ended.
        tokens?.take()
      }
      this.#release(waiting, undefined)
    }
  }

  #release(waiting: Waiting, target: TargetRef | undefined): void {
    this.remove(waiting)
    waiting.go(target)
  }
}
