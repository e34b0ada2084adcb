/** Events that circuits publish on `ResilienceEvents`. Plain data. */
import { Metric } from "effect"
import type { EventDefinitions } from "../telemetry/EventDefinition.ts"
import { named, seconds, silent } from "../telemetry/EventDefinition.ts"
import { other, textOf } from "../telemetry/Fields.ts"
import type { ResilienceEvent } from "../telemetry/ResilienceEvents.ts"
import type { Reason } from "./CircuitRefused.ts"
import type { Cause, Phase } from "./CircuitState.ts"

export interface CircuitTransition extends ResilienceEvent {
  readonly _tag: "CircuitTransition"
  readonly circuit: string
  readonly from: Phase
  readonly to: Phase
  readonly generation: number
  /** The reason for opening. Set when `to` is "open". */
  readonly cause?: Cause | undefined
  /** How long it stays open, in milliseconds. */
  readonly openFor?: number | undefined
}

export interface CircuitFailure extends ResilienceEvent {
  readonly _tag: "CircuitFailure"
  readonly circuit: string
  /** The wait that the server requested, in milliseconds. */
  readonly retryAfter?: number | undefined
}

export interface CircuitProbeLate extends ResilienceEvent {
  readonly _tag: "CircuitProbeLate"
  readonly circuit: string
  /** Duration of the probe, in milliseconds. */
  readonly took: number
}

export interface CircuitRefusal extends ResilienceEvent {
  readonly _tag: "CircuitRefusal"
  readonly circuit: string
  readonly reason: Reason
  /** Milliseconds until a call may be let through, when known. */
  readonly retryAfter?: number | undefined
}

export interface CircuitStoreDown extends ResilienceEvent {
  readonly _tag: "CircuitStoreDown"
  /** The error of the store, without addresses and keys. */
  readonly error: string
}

export interface CircuitStoreUp extends ResilienceEvent {
  readonly _tag: "CircuitStoreUp"
}

export type CircuitEvent =
  | CircuitTransition
  | CircuitFailure
  | CircuitProbeLate
  | CircuitRefusal
  | CircuitStoreDown
  | CircuitStoreUp

// -----------------------------------------------------------------------------
// Definitions
// -----------------------------------------------------------------------------

export const circuitState = Metric.gauge("outlast_circuit_state", {
  description: "0 closed, 1 half-open, 2 open, 3 isolated"
})

export const circuitTransitions = Metric.counter("outlast_circuit_transitions_total", {
  description: "Changes of a circuit's state",
  incremental: true
})

export const circuitRefusals = Metric.counter("outlast_circuit_refusals_total", {
  description: "Calls that a circuit did not let through",
  incremental: true
})

/** The values of `outlast_circuit_state`. */
export const circuitStates: ReadonlyMap<string, number> = new Map([
  ["closed", 0],
  ["half-open", 1],
  ["open", 2],
  ["isolated", 3]
])

const refusalReasons: ReadonlySet<string> = new Set<Reason>(["open", "half-open", "isolated", "store"])

// Labels read the fields of any event with the tag: the stream of events is open.
const circuit = (event: CircuitEvent): string | undefined => textOf(event, "circuit")
const changed = (event: CircuitTransition): string | undefined => circuit(event) ?? textOf(event, "name")

/** An unknown state of a third-party event must not become a label value. */
const state = (event: CircuitTransition, field: "from" | "to"): string => {
  const found = textOf(event, field)
  return found !== undefined && circuitStates.has(found) ? found : other
}

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinitions<CircuitEvent> = {
  CircuitTransition: {
    doc: "A circuit changed its phase, or opened again. Published once, in order, after the change.",
    line: ({ circuit, to, openFor }) => {
      const time = openFor === undefined ? "" : ` for ${seconds(openFor)}`
      return { level: to === "open" ? "Warn" : "Info", text: `  circuit ${circuit} is ${to}${time}` }
    },
    metrics: [
      {
        metric: circuitTransitions,
        names: { circuit: changed },
        words: { from: (event) => state(event, "from"), to: (event) => state(event, "to") },
        value: (event) => (changed(event) === undefined ? undefined : 1)
      },
      {
        metric: circuitState,
        names: { circuit: changed },
        value: (event) => (changed(event) === undefined ? undefined : circuitStates.get(state(event, "to")))
      }
    ]
  },
  CircuitFailure: {
    doc: "A circuit counted a failed call.",
    // The attempt that failed has a line of its own.
    line: silent,
    metrics: []
  },
  CircuitProbeLate: {
    doc: "A probe ended after its permit had expired (`probeLimit`), so its outcome does not count.",
    line: named(),
    metrics: []
  },
  CircuitRefusal: {
    doc: "A circuit refused a call.",
    // The attempt that went elsewhere has a line of its own.
    line: silent,
    metrics: [
      {
        metric: circuitRefusals,
        names: { circuit },
        words: { reason: ({ reason }) => (refusalReasons.has(reason) ? reason : other) },
        value: (event) => (circuit(event) === undefined ? undefined : 1)
      }
    ]
  },
  CircuitStoreDown: {
    doc: "The store of circuits cannot be reached. Published once for each outage.",
    line: named("Warn"),
    metrics: []
  },
  CircuitStoreUp: {
    doc: "The store of circuits can be reached again, and its verdicts apply.",
    line: named(),
    metrics: []
  }
}
