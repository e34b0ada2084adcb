/** What a key that can be refreshed publishes: plain data, without the key. */
import type { ResilienceEvents } from "@outlast/resilience"
import type { KeyError } from "./KeySource.ts"

/** A refresh gave another value. */
export interface KeyRefreshed extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "KeyRefreshed"
  /** The name of the key. */
  readonly key: string
  /** Counts the values of this key: the second is version 2. */
  readonly version: number
}

/** A refresh gave nothing new. */
export interface KeyNotRefreshed extends ResilienceEvents.ResilienceEvent {
  readonly _tag: "KeyNotRefreshed"
  readonly key: string
  /** `same`: the value that was there before. */
  readonly why: KeyError["why"] | "same"
  readonly message: string
}

export type KeyEvent = KeyRefreshed | KeyNotRefreshed
