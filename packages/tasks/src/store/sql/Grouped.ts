/**
 * Joins what is asked at the same time into groups: while one group is under way, the next one gathers.
 *
 * A store commits once for a group, so a hundred tasks cost few more commits than one.
 */
import { Deferred, Effect, Exit } from "effect"

interface Asked<A, B, E> {
  readonly ask: A
  readonly done: Deferred.Deferred<B, E>
}

/** Asks of a group, at most. */
const most = 100

/**
 * `run` answers a group, in its order. If it fails for several asks, each is run alone: one that the store refuses fails
 * no other. An interrupted ask is carried out all the same.
 */
export const grouped = <A, B, E>(
  run: (asks: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>
): ((ask: A) => Effect.Effect<B, E>) => {
  let gathered: Array<Asked<A, B, E>> = []
  let isRunning = false

  const answer = (group: ReadonlyArray<Asked<A, B, E>>): Effect.Effect<void> =>
    Effect.flatMap(Effect.exit(run(group.map(({ ask }) => ask))), (exit) => {
      if (Exit.isFailure(exit) && group.length > 1) {
        return Effect.forEach(group, (asked) => answer([asked]), { discard: true })
      }
      return Effect.sync(() => {
        for (const [n, { done }] of group.entries()) {
          // `run` answers each ask.
          Deferred.doneUnsafe(
            done,
            Exit.map(exit, (answers) => answers[n] as B)
          )
        }
      })
    })

  const drain = Effect.gen(function* () {
    while (gathered.length > 0) yield* answer(gathered.splice(0, most))
    isRunning = false
  })

  return (ask) =>
    // An interruption between the mark and the fork would leave all later asks without an answer.
    Effect.uninterruptibleMask((restore) => {
      const done = Deferred.makeUnsafe<B, E>()
      gathered.push({ ask, done })
      const answered = restore(Deferred.await(done))
      if (isRunning) return answered
      isRunning = true
      return Effect.andThen(Effect.forkDetach(drain), answered)
    })
}
