/** Events that `Alerts` publishes on `ResilienceEvents`. Plain data. */
import { Metric } from "effect"
import type { EventDefinitions } from "./EventDefinition.ts"
import { named } from "./EventDefinition.ts"
import { textOf } from "./Fields.ts"

interface OfAlert {
  /** Unix time in milliseconds. */
  readonly at: number
  readonly key: string
}

export interface AlertRaised extends OfAlert {
  readonly _tag: "AlertRaised"
  /** The rule that was met: `failures` failures within `window` milliseconds. */
  readonly failures: number
  readonly window: number
}

export interface AlertCleared extends OfAlert {
  readonly _tag: "AlertCleared"
  /** Milliseconds since the alert was raised. */
  readonly after: number
}

export type AlertEvent = AlertRaised | AlertCleared

// -----------------------------------------------------------------------------
// Definitions
// -----------------------------------------------------------------------------

export const alerts = Metric.counter("outlast_alerts_total", {
  description: "Alerts raised",
  incremental: true
})

export const alertRaised = Metric.gauge("outlast_alert_raised", {
  description: "1 while the alert is raised, else 0"
})

const names = { alert: (event: AlertEvent) => textOf(event, "key") ?? "all" }

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinitions<AlertEvent> = {
  AlertRaised: {
    doc: "An alert was raised. The next one for the key follows only after the alert was cleared.",
    line: named(),
    metrics: [
      { metric: alerts, names },
      { metric: alertRaised, names, value: () => 1 }
    ]
  },
  AlertCleared: {
    doc: "An alert was cleared. Published once for each alert that was raised.",
    line: named(),
    metrics: [{ metric: alertRaised, names, value: () => 0 }]
  }
}
