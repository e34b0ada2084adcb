/**
 * Joins calls: those that come while one is under way become the next one together.
 *
 * Each commit of a store waits for the disk, so 64 drains that remove their rows one after the other wait 64 times.
 */
import { Deferred, Effect, Semaphore } from "effect"

interface Group<A, E> {
  readonly items: Array<A>
  readonly done: Deferred.Deferred<void, E>
}

/** All callers of a group end as its call does. A call that has begun is not interrupted. */
export const joined = <A, E>(
  run: (items: ReadonlyArray<A>) => Effect.Effect<void, E>
): ((items: ReadonlyArray<A>) => Effect.Effect<void, E>) => {
  const turn = Semaphore.makeUnsafe(1)
  let next: Group<A, E> | undefined
  return (items) =>
    Effect.suspend(() => {
      if (next !== undefined) {
        for (const item of items) next.items.push(item)
        return Deferred.await(next.done)
      }
      const own: Group<A, E> = { items: [...items], done: Deferred.makeUnsafe() }
      next = own
      const begun = turn.withPermit(
        Effect.suspend(() => {
          next = undefined
          return run(own.items)
        })
      )
      return Effect.andThen(Deferred.into(begun, own.done), Deferred.await(own.done))
    }).pipe(Effect.uninterruptible)
}
