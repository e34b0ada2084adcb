/**
 * Handlers of effects that run in this process, by the key of their effect.
 *
 * A handler is a fiber of the worker, not of the activity that started it. An interruption of the activity (a lost lease,
 * a store that is gone for a while) is no outcome: the handler goes on, and the activity that is begun again joins it.
 */
import { Effect, Fiber } from "effect"
import type { Scope } from "effect"

/** Handlers that have ended and whose reply may not be stored yet, at most. */
const maxEnded = 10_000

export class Handlers<A> {
  readonly #scope: Scope.Scope
  readonly #fibers = new Map<string, Fiber.Fiber<A>>()
  #hasForgotten = false

  constructor(scope: Scope.Scope) {
    this.#scope = scope
  }

  /** The handler of an effect, if it runs or has ended here. */
  get(key: string): Effect.Effect<A> | undefined {
    const fiber = this.#fibers.get(key)
    return fiber === undefined ? undefined : Fiber.join(fiber)
  }

  /** True when a handler was forgotten whose reply may not be stored. */
  get hasForgotten(): boolean {
    return this.#hasForgotten
  }

  /** Starts the handler of an effect, and waits for it. */
  start<R>(key: string, run: Effect.Effect<A, never, R>): Effect.Effect<A, never, R> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.forkIn(Effect.interruptible(run), this.#scope), (fiber) => {
        this.#fibers.set(key, fiber)
        this.#trim()
        return restore(Fiber.join(fiber))
      })
    )
  }

  /** The reply of the effect is stored. */
  forget(key: string): void {
    this.#fibers.delete(key)
  }

  /** Forgets the oldest handlers that have ended, for tasks that other workers have taken over. */
  #trim(): void {
    if (this.#fibers.size <= maxEnded) return
    for (const [key, fiber] of this.#fibers) {
      if (fiber.pollUnsafe() === undefined) continue
      this.#fibers.delete(key)
      this.#hasForgotten = true
      return
    }
  }
}
