/** Targets that an operator brought back. Each reset wakes the calls that wait. */
import { Effect } from "effect"

export class Resets {
  /** Target id → time of its last reset, in monotonic milliseconds. */
  readonly #at = new Map<string, number>()
  /** The calls that wait. */
  readonly #waiting = new Set<() => void>()

  add(ids: Iterable<string>, at: number): void {
    for (const id of ids) this.#at.set(id, at)
    for (const look of this.#waiting) look()
  }

  /** Ids of the targets that were brought back at that time or later. */
  since(time: number): ReadonlySet<string> {
    return new Set([...this.#at].filter(([, at]) => at >= time).map(([id]) => id))
  }

  /** Completes at the first reset after that time at which `isBack` returns true. */
  until(time: number, isBack: () => boolean): Effect.Effect<void> {
    return Effect.callback<void>((resume) => {
      const look = () => {
        if (isBack()) resume(Effect.void)
      }
      this.#waiting.add(look)
      if ([...this.#at.values()].some((at) => at > time)) look()
      return Effect.sync(() => this.#waiting.delete(look))
    })
  }
}
