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

export type OpsEvent = OperatorAction

const operatorActions = Metric.counter("outlast_operator_actions_total", {
  description: "Actions of operators, by outcome",
  incremental: true
})

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
  }
}
