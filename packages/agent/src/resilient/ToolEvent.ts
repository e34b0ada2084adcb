/** Events of a resilient toolkit, besides those of `Retry` and `CircuitBreaker`. Plain data. */
import type { ResilienceEvents } from "@outlast/resilience"
import { EventDefinition } from "@outlast/resilience"

export interface ToolTimeout extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "ToolTimeout"
  readonly tool: string
  /** Time limit in milliseconds. */
  readonly limit: number
}

export type ToolEvent = ToolTimeout

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<ToolEvent> = {
  ToolTimeout: {
    doc: "A handler of a tool was interrupted, because it took longer than its limit. One event for each attempt.",
    line: EventDefinition.named(),
    metrics: []
  }
}
