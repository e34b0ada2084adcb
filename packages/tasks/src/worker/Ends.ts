/** Wakes those in this process who wait for the end of a task. */
import { Deferred, Effect, Exit } from "effect"
import type { Scope } from "effect"

interface Entry {
  readonly ended: Deferred.Deferred<void>
  waiting: number
}

export class Ends {
  readonly #entries = new Map<string, Entry>()

  /** Begins to listen, and returns an effect that completes when the task ends here. */
  listen(id: string): Effect.Effect<Effect.Effect<void>, never, Scope.Scope> {
    const entry = Effect.acquireRelease(
      Effect.sync(() => {
        const entry = this.#entries.get(id) ?? { ended: Deferred.makeUnsafe<void>(), waiting: 0 }
        entry.waiting++
        this.#entries.set(id, entry)
        return entry
      }),
      (entry) =>
        Effect.sync(() => {
          if (--entry.waiting === 0 && this.#entries.get(id) === entry) this.#entries.delete(id)
        })
    )
    return Effect.map(entry, ({ ended }) => Deferred.await(ended))
  }

  /** The end of the task is stored. */
  said(id: string): void {
    const entry = this.#entries.get(id)
    this.#entries.delete(id)
    if (entry !== undefined) Deferred.doneUnsafe(entry.ended, Exit.void)
  }
}
