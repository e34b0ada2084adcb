/**
 * Events of a key that can be refreshed: plain data, without the key.
 */
import type { ResilienceEvents } from "@outlast/resilience"
import { EventDefinition } from "@outlast/resilience"
import type { KeyError } from "./KeySource.ts"

export interface KeyRefreshed extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "KeyRefreshed"
  /** Name of the key. */
  readonly key: string
  /** Version of the key's value, counted from 1. */
  readonly version: number
}

export interface KeyNotRefreshed extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "KeyNotRefreshed"
  readonly key: string
  /** Reason of the failure. `same`: the refresh returned the same value again. */
  readonly why: KeyError["why"] | "same"
  readonly message: string
}

export type KeyEvent = KeyRefreshed | KeyNotRefreshed

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<KeyEvent> = {
  KeyRefreshed: {
    doc: "A refresh of a key gave another value.",
    line: EventDefinition.named(),
    metrics: []
  },
  KeyNotRefreshed: {
    doc: "A refresh of a key gave nothing new.",
    line: EventDefinition.named("Warn"),
    metrics: []
  }
}
