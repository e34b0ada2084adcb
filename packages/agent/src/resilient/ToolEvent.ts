/** Events of a resilient toolkit, besides those of `Retry` and `CircuitBreaker`. Plain data. */
import type { ResilienceEvents } from "@outlast/resilience"

/** A handler was interrupted at its time limit. One event for each attempt. */
export interface ToolTimeout extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "ToolTimeout"
  readonly tool: string
  /** Time limit in milliseconds. */
  readonly limit: number
}

export type ToolEvent = ToolTimeout
