/** Events of shared limits: plain data. */
import type { ResilienceEvents } from "@outlast/resilience"
import { EventDefinition } from "@outlast/resilience"

export interface LimitStoreLost extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "LimitStoreLost"
  readonly message: string
}

export interface LimitStoreBack extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "LimitStoreBack"
}

export type LimiterEvent = LimitStoreLost | LimitStoreBack

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<LimiterEvent> = {
  LimitStoreLost: {
    doc: "The store of shared limits did not answer. Each process uses only its own limits until the store is back.",
    line: EventDefinition.named(),
    metrics: []
  },
  LimitStoreBack: {
    doc: "The store of shared limits answers again.",
    line: EventDefinition.named(),
    metrics: []
  }
}
