/**
 * Handlers of effects that run in this process, by the key of their effect.
 *
 * A handler is a fiber of the worker, not of the step that started it. An interruption of the step (a lost lease,
 * a store that is gone for a while) is no outcome: the handler goes on, and the step that is begun again joins it.
 */
import { Clock, Effect, Exit, Fiber } from "effect"
import type { Scope } from "effect"

/** A handler that has ended, whose reply no step of this process has stored. */
export interface Left<A> {
  readonly key: string
  readonly task: string
  readonly reply: A
}

interface Entry<A> {
  readonly task: string
  readonly fiber: Fiber.Fiber<A>
  ended: { readonly at: number; readonly reply: A } | undefined
  isStored: boolean
}

/** A step stores a reply within this many milliseconds, unless its worker has lost the task. */
const grace = 1_000

/** Handlers that have ended and whose reply may not be stored yet, at most. */
const maxEnded = 10_000

export class Handlers<A> {
  readonly #scope: Scope.Scope
  readonly #entries = new Map<string, Entry<A>>()
  #hasForgotten = false

  constructor(scope: Scope.Scope) {
    this.#scope = scope
  }

  /** The handler of an effect, if it runs or has ended here. */
  get(key: string): Effect.Effect<A> | undefined {
    const entry = this.#entries.get(key)
    return entry === undefined ? undefined : this.#joined(entry)
  }

  /**
   * The reply of a handler. A handler that the end of its worker has cut off has none: the step then ends
   * without a result, and the effect is in doubt.
   */
  #joined({ fiber }: Entry<A>): Effect.Effect<A> {
    return Effect.flatMap(Fiber.await(fiber), (exit) =>
      Exit.hasInterrupts(exit) && this.#scope.state._tag === "Closed" ? Effect.never : exit
    )
  }

  /** True while a handler runs. */
  get isBusy(): boolean {
    for (const { fiber } of this.#entries.values()) if (fiber.pollUnsafe() === undefined) return true
    return false
  }

  /** True when a handler was forgotten whose reply may not be stored. */
  get hasForgotten(): boolean {
    return this.#hasForgotten
  }

  /** Starts the handler of an effect, or joins the one that is there, and waits for it. */
  start<R>(
    { key, task }: { readonly key: string; readonly task: string },
    run: Effect.Effect<A, never, R>
  ): Effect.Effect<A, never, R> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.gen({ self: this }, function* () {
        // Two executions may have looked for it before one has started it.
        const known = this.get(key)
        if (known !== undefined) return yield* restore(known)
        const noted = Effect.tap(Effect.interruptible(run), (reply) =>
          Effect.map(Clock.currentTimeMillis, (at) => {
            entry.ended = { at, reply }
          })
        )
        const fiber = yield* Effect.forkIn(noted, this.#scope)
        const entry: Entry<A> = { task, fiber, ended: undefined, isStored: false }
        this.#entries.set(key, entry)
        this.#trim()
        return yield* restore(this.#joined(entry))
      })
    )
  }

  /** Handlers that have ended, and whose reply was not taken. `isLast`: no step takes one any more. */
  left(now: number, isLast: boolean): ReadonlyArray<Left<A>> {
    const all: Array<Left<A>> = []
    for (const [key, { task, ended, isStored }] of this.#entries) {
      if (ended === undefined || isStored || (!isLast && now - ended.at < grace)) continue
      all.push({ key, task, reply: ended.reply })
    }
    return all
  }

  /** Marks the reply of a handler as stored for other workers. The reply stays here, too, in case the task comes back. */
  stored(key: string): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) entry.isStored = true
  }

  /** The reply of the effect is stored. */
  forget(key: string): void {
    this.#entries.delete(key)
  }

  /** Forgets the oldest handlers that have ended, for tasks that other workers have taken over. */
  #trim(): void {
    if (this.#entries.size <= maxEnded) return
    for (const [key, { fiber }] of this.#entries) {
      if (fiber.pollUnsafe() === undefined) continue
      this.#entries.delete(key)
      this.#hasForgotten = true
      return
    }
  }
}
