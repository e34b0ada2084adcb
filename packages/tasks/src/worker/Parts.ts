/** The parts of tasks that this process runs, for those who watch them. */
import { Effect, PubSub, Stream } from "effect"
import type { Agent } from "@outlast/agent"

/** Parts that a reader may lag behind before the oldest are dropped. */
const capacity = 1_024

interface Watched {
  readonly parts: PubSub.PubSub<Agent.Part>
  readers: number
}

export class Parts {
  readonly #watched = new Map<string, Watched>()

  isWatched(id: string): boolean {
    return this.#watched.has(id)
  }

  emit(id: string, part: Agent.Part): Effect.Effect<void> {
    return Effect.suspend(() => {
      const watched = this.#watched.get(id)
      return watched === undefined ? Effect.void : Effect.asVoid(PubSub.publish(watched.parts, part))
    })
  }

  /** The parts from now on. Ends with the outcome. */
  of(id: string): Stream.Stream<Agent.Part> {
    return Stream.unwrap(
      Effect.gen({ self: this }, function* () {
        const watched = yield* Effect.acquireRelease(
          Effect.gen({ self: this }, function* () {
            const known = this.#watched.get(id) ?? {
              parts: yield* PubSub.sliding<Agent.Part>(capacity),
              readers: 0
            }
            known.readers++
            this.#watched.set(id, known)
            return known
          }),
          (known) =>
            Effect.sync(() => {
              if (--known.readers === 0) this.#watched.delete(id)
            })
        )
        const subscription = yield* PubSub.subscribe(watched.parts)
        return Stream.takeUntil(Stream.fromSubscription(subscription), ({ type }) => type === "outcome")
      })
    )
  }
}
