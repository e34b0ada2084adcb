/**
 * Decides which backlogs of other processes may be taken over. Pure.
 *
 * Each process that uses a store raises the beat of its publishers from time to time. A publisher whose beat has not
 * changed for the length of a lease, as one observer sees it, may be claimed. So no two clocks are compared: only
 * the observer's own monotonic time counts. A publisher that was released has the beat {@link released} and may be
 * claimed at once.
 *
 * **Limits.** A process that was paused for longer than a lease does not know that its backlog was claimed until it
 * beats again: events that it was about to publish are published twice, with the same id.
 */
import type { Publisher } from "../store/Publisher.ts"
import { released } from "../store/Publisher.ts"

interface Sighting {
  readonly holder: string
  readonly beat: number
  /** Monotonic milliseconds. */
  readonly since: number
}

/** The last sighting of each other publisher. */
export type Claims = ReadonlyMap<string, Sighting>

export const none: Claims = new Map()

/** Looks at all publishers of others: which may be claimed now, and what to remember. Forgets those that are gone. */
export const observe = (
  claims: Claims,
  others: ReadonlyArray<Publisher>,
  now: number,
  lease: number
): readonly [ReadonlyArray<Publisher>, Claims] => {
  const next = new Map<string, Sighting>()
  const lapsed: Array<Publisher> = []
  for (const publisher of others) {
    const { id, holder, beat } = publisher
    const before = claims.get(id)
    const isSame = before !== undefined && before.holder === holder && before.beat === beat
    const sighting = isSame ? before : { holder, beat, since: now }
    next.set(id, sighting)
    if (beat === released || now - sighting.since >= lease) lapsed.push(publisher)
  }
  return [lapsed, next]
}
