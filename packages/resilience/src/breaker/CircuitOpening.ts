/** Builds the warning for a circuit that opens. Pure. */
import type { Line } from "../telemetry/Warnings.ts"
import type { CircuitEvent } from "./CircuitEvent.ts"
import type { Cause } from "./CircuitState.ts"

/** Returns the line for a closed circuit that opens. `undefined` for every other event, including later openings. */
export const lineOf = (event: CircuitEvent): Line | undefined => {
  if (event._tag !== "CircuitTransition" || event.from !== "closed" || event.to !== "open") return undefined
  const why = event.cause === undefined ? "" : ` because ${causes[event.cause]}`
  const time = event.openFor === undefined ? "" : ` for ${(event.openFor / 1_000).toFixed(1)} s`
  return {
    level: "Warn",
    text: `Circuit "${event.circuit}" opened${why}. Its calls are refused${time}, then a probe tests it. Check what it protects, or add an alternative.`
  }
}

const causes: { readonly [C in Cause]: string } = {
  consecutive: "consecutive calls failed",
  "failure-rate": "too many of its calls failed",
  "slow-rate": "too many of its calls were slow",
  probe: "a probe failed",
  tripped: "it was tripped by hand"
}
