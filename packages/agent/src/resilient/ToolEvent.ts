/** What a resilient toolkit publishes of its own, beside the events of `Retry` and `CircuitBreaker`: plain data. */
import type { ResilienceEvents } from "@outlast/resilience"

/** A handler was interrupted, because it took longer than its limit. One event for each attempt. */
export interface ToolTimeout extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "ToolTimeout"
  readonly tool: string
  /** Milliseconds. */
  readonly limit: number
}

export type ToolEvent = ToolTimeout
