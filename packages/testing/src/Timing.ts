/**
 * States properties of the waits of a program, and checks them on a recorded `Timeline`.
 *
 * A wait is the time between a failed attempt and the next attempt of the same call, or a delay of
 * `@outlast/resilience` Retry. A property is a function from waits to the sentences that say what is wrong.
 *
 * **Limits.** Waits are read from the events `AttemptStarted`, `AttemptFailed` and `Retrying`: a timeline that was
 * recorded with `only` must keep them.
 *
 * **Example** (A policy never waits longer than it promises, and obeys the server)
 *
 * ```ts
 * const timeline = yield* Timeline.record(program)
 * yield* Timing.holds(timeline, [Timing.neverMoreThan("60 seconds"), Timing.atLeastRetryAfter])
 * ```
 */
import { Data, Duration, Effect } from "effect"
import type { FailoverEvent } from "@outlast/agent"
import type { RetryEvent } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import type { Timeline } from "./Timeline.ts"

/** The time between two attempts. */
export interface Wait {
  /** Milliseconds since the start, when the wait began. */
  readonly at: number
  /** Milliseconds. */
  readonly millis: number
  /** Number of the attempt that follows, from 2. */
  readonly attempt: number
  /** The failure before it: a reason, or the class of a `Retry`. */
  readonly after: string | undefined
  /** The wait that the server named, in milliseconds. */
  readonly retryAfter: number | undefined
  /** True when the next attempt goes to the target that failed. */
  readonly sameTarget: boolean
  /**
   * The last wait that the target of the next attempt named in this call, also before attempts at other targets;
   * `undefined` when it named none.
   */
  readonly named: NamedWait | undefined
}

/** A wait that a server named. */
export interface NamedWait {
  /** Milliseconds. */
  readonly retryAfter: number
  /** Milliseconds from the failure that named it to the next attempt at that target. */
  readonly waited: number
  /** The reason of that failure, or its class of a `Retry`. */
  readonly after: string | undefined
}

/** Returns what is wrong, in sentences. Empty when the property holds. */
export type Property = (waits: ReadonlyArray<Wait>) => ReadonlyArray<string>

/** A property does not hold. The message has the problems and the timeline. */
export class TimingViolated extends Data.TaggedError("TimingViolated")<{
  readonly problems: ReadonlyArray<string>
  readonly lines: ReadonlyArray<string>
}> {
  override get message(): string {
    return [...this.problems, "", ...this.lines].join("\n")
  }
}

type Recorded = Pick<Timeline, "events" | "lines">

/** The waits of a timeline, in order. */
export const waits = ({ events }: Pick<Timeline, "events">): ReadonlyArray<Wait> => {
  const failures = new Map<number, FailoverEvent.AttemptFailed>()
  const naming = new Map<string, FailoverEvent.AttemptFailed>()
  const found: Array<Wait> = []
  for (const event of events) {
    const known = event as
      | FailoverEvent.AttemptFailed
      | FailoverEvent.AttemptStarted
      | RetryEvent.Retrying
      | { readonly _tag: "other" }
    switch (known._tag) {
      case "AttemptFailed":
        failures.set(known.call, known)
        if (endOf(known) > endOf(naming.get(targetOf(known)))) naming.set(targetOf(known), known)
        break
      case "AttemptStarted": {
        const failed = failures.get(known.call)
        failures.delete(known.call)
        if (failed === undefined) break
        const named = naming.get(targetOf(known))
        found.push({
          at: failed.at,
          millis: known.at - failed.at,
          attempt: known.attempt,
          after: failed.reason,
          retryAfter: failed.retryAfter,
          sameTarget: failed.target.id === known.target.id,
          named: named && namedWait(named.retryAfter, known.at - named.at, named.reason)
        })
        break
      }
      case "Retrying":
        found.push({
          at: known.at,
          millis: known.delay,
          attempt: known.attempt + 1,
          after: known.class,
          retryAfter: known.retryAfter,
          sameTarget: true,
          named: namedWait(known.retryAfter, known.delay, known.class)
        })
        break
    }
  }
  return found
}

/** Identifies a target within one call. */
const targetOf = ({ call, target }: FailoverEvent.AttemptFailed | FailoverEvent.AttemptStarted): string =>
  `${call} ${target.id}`

/** The time until which the server wants no request. */
const endOf = (failed: FailoverEvent.AttemptFailed | undefined): number =>
  failed?.retryAfter === undefined ? -Infinity : failed.at + failed.retryAfter

const namedWait = (
  retryAfter: number | undefined,
  waited: number,
  after: string | undefined
): NamedWait | undefined => (retryAfter === undefined ? undefined : { retryAfter, waited, after })

const before = ({ attempt }: Wait, after: string | undefined): string =>
  `before attempt ${attempt}${after === undefined ? "" : ` (after ${after})`}`

const inWords = (millis: number): string => Duration.format(Duration.millis(Math.round(millis)))

/** No single wait is longer than `cap`. */
export const neverMoreThan = (cap: Duration.Input): Property => {
  Check.is.duration()("Timing.neverMoreThan", "cap", cap)
  const most = Duration.toMillis(Duration.fromInputUnsafe(cap))
  return (all) =>
    all.flatMap((wait) =>
      wait.millis > most
        ? [`waited ${inWords(wait.millis)} ${before(wait, wait.after)}, more than ${inWords(most)}`]
        : []
    )
}

/** All waits together are not longer than `limit`. */
export const inAllAtMost = (limit: Duration.Input): Property => {
  Check.is.duration()("Timing.inAllAtMost", "limit", limit)
  const most = Duration.toMillis(Duration.fromInputUnsafe(limit))
  return (all) => {
    const sum = all.reduce((sum, { millis }) => sum + millis, 0)
    return sum > most ? [`waited ${inWords(sum)} in all, more than ${inWords(most)}`] : []
  }
}

/**
 * A target that named a wait is not asked again by the same call before it has passed. The call may go on with another
 * target meanwhile.
 */
export const atLeastRetryAfter: Property = (all) =>
  all.flatMap((wait) =>
    wait.named !== undefined && wait.named.waited < wait.named.retryAfter
      ? [
          `waited ${inWords(wait.named.waited)} ${before(wait, wait.named.after)}, less than the ${inWords(wait.named.retryAfter)} that the server named`
        ]
      : []
  )

/** There are at most `count` waits: retries and switches of one program. */
export const atMost = (count: number): Property => {
  Check.is.integer({ min: 0 })("Timing.atMost", "count", count)
  return (all) => (all.length > count ? [`made ${all.length} further attempts, more than ${count}`] : [])
}

/** Every wait satisfies a condition of your own. `claim` ends the sentence "waited 2s before attempt 2, …". */
export const every =
  (claim: string, holds: (wait: Wait) => boolean): Property =>
  (all) =>
    all.flatMap((wait) =>
      holds(wait) ? [] : [`waited ${inWords(wait.millis)} ${before(wait, wait.after)}, ${claim}`]
    )

/** All problems of a timeline. */
export const problems = (timeline: Pick<Timeline, "events">, properties: ReadonlyArray<Property>) => {
  const all = waits(timeline)
  return properties.flatMap((property) => property(all))
}

/** Fails with a {@link TimingViolated} that has the problems and the timeline, unless every property holds. */
export const holds = (
  timeline: Recorded,
  properties: ReadonlyArray<Property>
): Effect.Effect<void, TimingViolated> => {
  const found = problems(timeline, properties)
  return found.length === 0
    ? Effect.void
    : Effect.fail(new TimingViolated({ problems: found, lines: timeline.lines }))
}
