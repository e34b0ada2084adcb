/** Targets that an operator brought back. Each reset wakes the calls that wait. */
import { Effect } from "effect"
import type { TargetLog } from "./TargetLog.ts"

export class Resets {
  readonly #logs: ReadonlyMap<string, TargetLog>
  /** The calls that wait. */
  readonly #waiting = new Set<() => void>()

  constructor(logs: ReadonlyMap<string, TargetLog>) {
    this.#logs = logs
  }

  wake(): void {
    for (const look of this.#waiting) look()
  }

  /** Ids of the targets that were brought back at that time or later. */
  since(time: number): ReadonlySet<string> {
    return new Set([...this.#logs].filter(([, { resetAt }]) => resetAt >= time).map(([id]) => id))
  }

  /** Completes at the first reset after that time at which `isBack` returns true. */
  until(time: number, isBack: () => boolean): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const look = () => {
        if (isBack()) resume(Effect.void)
      }
      this.#waiting.add(look)
      if ([...this.#logs.values()].some(({ resetAt }) => resetAt > time)) look()
      return Effect.sync(() => this.#waiting.delete(look))
    })
  }
}
