/** What circuits publish on `ResilienceEvents`: plain data. */
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
  /** What opened it. */
  readonly cause?: Cause | undefined
  /** How long it stays open, in milliseconds. */
  readonly openFor?: number | undefined
}

export interface CircuitFailure extends ResilienceEvent {
  readonly _tag: "CircuitFailure"
  readonly circuit: string
  /** What the server asked for, in milliseconds. */
  readonly retryAfter?: number | undefined
}

export interface CircuitProbeLate extends ResilienceEvent {
  readonly _tag: "CircuitProbeLate"
  readonly circuit: string
  /** Milliseconds. */
  readonly took: number
}

export interface CircuitRefusal extends ResilienceEvent {
  readonly _tag: "CircuitRefusal"
  readonly circuit: string
  readonly reason: Reason
  /** In milliseconds. */
  readonly retryAfter?: number | undefined
}

export interface CircuitStoreDown extends ResilienceEvent {
  readonly _tag: "CircuitStoreDown"
  /** What the store said, without addresses and keys. */
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

/** A state that is not ours must not become a label of its own. */
const state = (event: CircuitTransition, field: "from" | "to"): string => {
  const found = textOf(event, field)
  return found !== undefined && circuitStates.has(found) ? found : other
}

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinitions<CircuitEvent> = {
  CircuitTransition: {
    doc: "A circuit changed its phase, or was opened anew: once, after the change, in order.",
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
    doc: "A call failed, as far as its circuit is concerned.",
    // The attempt that failed has a line of its own.
    line: silent,
    metrics: []
  },
  CircuitProbeLate: {
    doc: "A probe ended after it had lost its permit (`probeLimit`), so that its outcome does not count.",
    line: named(),
    metrics: []
  },
  CircuitRefusal: {
    doc: "A circuit did not let a call through.",
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
    doc: "The store of circuits could not be reached: one event for each outage.",
    line: named("Warn"),
    metrics: []
  },
  CircuitStoreUp: {
    doc: "The store of circuits is reached again, and its verdicts hold.",
    line: named(),
    metrics: []
  }
}
