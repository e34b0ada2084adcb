/** What limits that processes share publish: plain data. */
import type { ResilienceEvents } from "@outlast/resilience"

/** The store did not answer: each process keeps the limits for itself until it does. */
export interface LimitStoreLost extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "LimitStoreLost"
  readonly message: string
}

/** The store answers again. */
export interface LimitStoreBack extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "LimitStoreBack"
}

export type LimiterEvent = LimitStoreLost | LimitStoreBack
