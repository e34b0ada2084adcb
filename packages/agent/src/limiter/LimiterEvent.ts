/** Events of shared limits: plain data. */
import type { ResilienceEvents } from "@outlast/resilience"

/** The store did not answer. Each process uses only its own limits until the store is back. */
export interface LimitStoreLost extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "LimitStoreLost"
  readonly message: string
}

/** The store answers again. */
export interface LimitStoreBack extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "LimitStoreBack"
}

export type LimiterEvent = LimitStoreLost | LimitStoreBack
