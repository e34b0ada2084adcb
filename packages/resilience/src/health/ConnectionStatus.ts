/** The status of a connection, read without changing it. Internal to `ConnectionMonitor`, which exports the type. */
import type { Clock } from "effect"
import * as Connection from "./ConnectionState.ts"
import type { Watched } from "./Connections.ts"
import * as HealthWindow from "./HealthWindow.ts"

/** The state of a name at one moment. Times are Unix milliseconds. */
export interface Status extends Omit<HealthWindow.Reading, "verdict"> {
  readonly name: string
  readonly health: HealthWindow.Verdict | "dead"
  readonly registered: boolean
  readonly death: Connection.Death | undefined
}

/** Monotonic milliseconds, unaffected by changes of the wall clock. */
export const monotonic = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000

/** Returns the status of a name. One without calls counts as healthy. */
export const statusOf = (
  spec: Connection.Spec,
  name: string,
  watched: Watched | undefined,
  clock: Clock.Clock
): Status => {
  const now = monotonic(clock)
  // The two clocks differ by a constant, unless the wall clock is changed.
  const unix = (time: number) => Math.round(clock.currentTimeMillisUnsafe() - (now - time))
  const state = watched?.state ?? Connection.initial
  const { verdict, lastSuccess, lastFailure, ...reading } = HealthWindow.read(spec.window, state.window, now)
  return {
    name,
    health: state.death === undefined ? verdict : "dead",
    registered: watched?.token !== undefined,
    ...reading,
    lastSuccess: lastSuccess === undefined ? undefined : unix(lastSuccess),
    lastFailure: lastFailure === undefined ? undefined : unix(lastFailure),
    death: state.death === undefined ? undefined : { at: unix(state.death.at), reason: state.death.reason }
  }
}
