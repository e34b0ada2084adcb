/**
 * Wakes the fibers that wait, once each.
 *
 * A latch that is opened and closed again does not do: a fiber that it resumes runs at once, finds it still open, and
 * spins. Here a fiber that waits again waits for the next pulse. A pulse without a waiter is nothing, so a waiter checks
 * its condition first, in the same step.
 */
import { Effect } from "effect"

export class Signal {
  #waiters = new Set<() => void>()
  #pulses = 0

  /** Number of pulses so far. A waiter that was busy compares it, and misses none. */
  get pulses(): number {
    return this.#pulses
  }

  /** Ends with the next pulse. */
  readonly next: Effect.Effect<void> = Effect.callback<void>((resume) => {
    const wake = () => resume(Effect.void)
    this.#waiters.add(wake)
    return Effect.sync(() => void this.#waiters.delete(wake))
  })

  /** Wakes those that wait now. Their fibers may run before it returns. */
  pulse(): void {
    this.#pulses++
    const waiters = this.#waiters
    this.#waiters = new Set()
    for (const wake of waiters) wake()
  }

  /** Waits until the condition holds, looking at each pulse. */
  until(condition: () => boolean): Effect.Effect<void> {
    return Effect.suspend(() =>
      condition() ? Effect.void : Effect.andThen(this.next, this.until(condition))
    )
  }
}
