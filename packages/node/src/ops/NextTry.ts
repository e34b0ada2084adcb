/** When a call next asks each target. Pure: it reads the sections `targets` and `activity`. */
import type { Activity, Target } from "./HeadlineSections.ts"

type Step = Activity["running"][number]["steps"][number]

/** Unix milliseconds by the id of a target: 0 for now, `null` when the time is unknown. */
export type NextTries = Readonly<Record<string, number | null>>

/**
 * The time from which the chain lets a call go to each target, or the end of a call's wait for it, if that is sooner: a
 * call without another target may pass an open circuit before the circuit's own probe.
 */
export const of = (targets: ReadonlyArray<Target>, activity: Activity | undefined): NextTries => {
  const waits = (activity?.running ?? []).flatMap(({ steps }) => {
    const wait = steps.findLast(isAsking)
    return wait === undefined ? [] : [wait]
  })
  return Object.fromEntries(
    targets.map((target) => {
      const opens = target.nextTry ?? Infinity
      const ends = target.state === "ready" ? [] : waits.filter((wait) => isFor(wait, target))
      const next = Math.min(opens, ...ends.map(({ until }) => until ?? Infinity))
      return [target.id, next === Infinity ? null : next]
    })
  )
}

/** True for a wait that ends with an attempt. One for the retry budget ends when the call gives up. */
const isAsking = ({ kind, reason, state }: Step): boolean =>
  kind === "wait" && state === "running" && reason !== "budget"

/** Targets that share a circuit wait for the same probe. */
const isFor = ({ by, text }: Step, { circuits = [], id }: Target): boolean =>
  text === id || circuits.some(({ circuit }) => circuit === by)
