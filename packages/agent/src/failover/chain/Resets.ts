/** Targets that an operator brought back. Each reset wakes the calls that wait. */
import { Effect } from "effect"
import type { TargetLog } from "./TargetLog.ts"

export class Resets {
  readonly #logs: ReadonlyMap<string, TargetLog>
  /** The calls that wait. */
  readonly #waiting = new Set<() => void>()
  /** Time of the last reset. */
  #last = -Infinity

  constructor(logs: ReadonlyMap<string, TargetLog>) {
    this.#logs = logs
  }

  /** A reset at `now` has brought targets back. */
  wake(now: number): void {
    this.#last = now
    for (const look of this.#waiting) look()
  }

  /** Ids of the targets that were brought back at that time or later. */
  since(time: number): ReadonlySet<string> {
    if (this.#last < time) return none
    return new Set([...this.#logs].filter(([, { resetAt }]) => resetAt >= time).map(([id]) => id))
  }

  /** Completes at the first reset after that time at which `isBack` returns true. */
  until(time: number, isBack: () => boolean): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const look = () => {
        if (isBack()) resume(Effect.void)
      }
      this.#waiting.add(look)
      if (this.#last > time) look()
      return Effect.sync(() => this.#waiting.delete(look))
    })
  }
}

const none: ReadonlySet<string> = new Set()
