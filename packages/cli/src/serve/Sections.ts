/** Sections of the status page. Pure: state in, JSON out. Times are Unix milliseconds. */
import { Duration } from "effect"
import type { CircuitBreaker } from "@outlast/resilience"

const untilOf = (left: Duration.Duration | undefined, now: number): number | null =>
  left === undefined ? null : now + Math.ceil(Duration.toMillis(left))

/** The circuits by name. */
export const circuits = (list: ReadonlyArray<CircuitBreaker.Status>, now: number) =>
  list.map(({ circuit, lastFailure, phase, retryAfter }) => ({
    circuit,
    phase,
    until: untilOf(retryAfter, now),
    lastFailure: lastFailure ?? null
  }))
