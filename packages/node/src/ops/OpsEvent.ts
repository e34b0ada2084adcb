/** Events of operators: an audit trail of who may change a running program. They have no token and no address. */
import { Metric } from "effect"
import type { EventDefinition } from "@outlast/resilience"

/**
 * - `done`: it was carried out
 * - `failed`: it could not be carried out
 * - `refused`: the token, the Origin, the Host or the parameters were wrong
 */
export type Outcome = "done" | "failed" | "refused"

export interface OperatorAction {
  readonly _tag: "OperatorAction"
  /** Unix time in milliseconds. */
  readonly at: number
  /** The name of the action; `unknown` when there is none of that name. */
  readonly action: string
  /** Subject of the action, such as a circuit. Absent for a refusal. */
  readonly subject: string | undefined
  readonly outcome: Outcome
}

export interface HeadlineChanged {
  readonly _tag: "HeadlineChanged"
  /** Unix time in milliseconds. */
  readonly at: number
  readonly level: "good" | "warn" | "bad"
  /** The first line of the status page. */
  readonly text: string
}

export type OpsEvent = OperatorAction | HeadlineChanged

const operatorActions = Metric.counter("outlast_operator_actions_total", {
  description: "Actions of operators, by outcome",
  incremental: true
})

const headlineLevel = Metric.gauge("outlast_headline_level", {
  description:
    "First line of the status page: 0 all is well, 1 something is out, 2 no model can answer or a person must act"
})

const levels = { good: 0, warn: 1, bad: 2 } as const

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<OpsEvent> = {
  OperatorAction: {
    doc: "An operator asked for an action over HTTP.",
    line: ({ action, outcome, subject }) => ({
      level: outcome === "done" ? "Info" : "Warn",
      text: `Operator: ${action}${subject === undefined ? "" : ` of ${subject}`} ${outcome}.`
    }),
    metrics: [
      {
        metric: operatorActions,
        words: { action: ({ action }) => action, outcome: ({ outcome }) => outcome }
      }
    ]
  },
  HeadlineChanged: {
    doc: "Another problem is on the first line of the status page, or one has ended. Looked at every 5 seconds.",
    line: ({ level, text }) => ({ level: level === "good" ? "Info" : "Warn", text: `Status: ${text}` }),
    metrics: [{ metric: headlineLevel, value: ({ level }) => levels[level] }]
  }
}
