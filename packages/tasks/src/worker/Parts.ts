/** The parts of tasks that this process runs, for those who watch them. */
import { Effect, PubSub, Stream } from "effect"
import type { Agent } from "@outlast/agent"

/** Parts that a reader may lag behind before the oldest are dropped. */
const capacity = 1_024

interface Watched {
  readonly parts: PubSub.PubSub<Agent.Part>
  readers: number
  /** Characters of the answer under way; `undefined` between answers. */
  shown: number | undefined
}

export class Parts {
  readonly #watched = new Map<string, Watched>()

  isWatched(id: string): boolean {
    return this.#watched.has(id)
  }

  emit(id: string, part: Agent.Part): Effect.Effect<void> {
    return Effect.suspend(() => {
      const watched = this.#watched.get(id)
      if (watched === undefined) return Effect.void
      if (part.type === "rewind") watched.shown = 0
      else if (watched.shown !== undefined && part.type === "text-delta") watched.shown += part.delta.length
      return Effect.asVoid(PubSub.publish(watched.parts, part))
    })
  }

  /** Runs a question. Text of an earlier question that was cut off is taken back. */
  answering<A, E, R>(id: string, run: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const at = (shown: number | undefined): void => {
      const watched = this.#watched.get(id)
      if (watched !== undefined) watched.shown = shown
    }
    return Effect.suspend(() => {
      const before = this.#watched.get(id)?.shown
      const taken = before === undefined ? Effect.void : this.emit(id, { type: "rewind", characters: before })
      at(0)
      return Effect.andThen(
        taken,
        Effect.tap(run, () => Effect.sync(() => at(undefined)))
      )
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
              readers: 0,
              shown: undefined
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
