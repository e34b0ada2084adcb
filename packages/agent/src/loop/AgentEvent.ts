/**
 * The loop's part of the resilience events. No event has content of the conversation.
 */
import type { Transition } from "./Transition.ts"

/** A turn ended, and possibly the run with it. */
export interface AgentTransition {
  readonly _tag: "AgentTransition"
  /** Unix time in milliseconds. */
  readonly at: number
  /** Number of the turn, from 1. */
  readonly turn: number
  readonly transition: Transition
}

/** A tool call got its result. */
export interface ToolFinished {
  readonly _tag: "ToolFinished"
  readonly at: number
  readonly turn: number
  readonly tool: string
  /** True when the result is an error for the model. */
  readonly isFailure: boolean
  /** Duration of the call in milliseconds. */
  readonly elapsed: number
}

/**
 * The window of the model is unknown, so the conversation is compacted only when a provider rejects it. At most
 * once in a run.
 */
export interface ContextWindowUnknown {
  readonly _tag: "ContextWindowUnknown"
  readonly at: number
  readonly turn: number
  /** Name of the model; `undefined` if unknown. */
  readonly model: string | undefined
}

export type AgentEvent = AgentTransition | ToolFinished | ContextWindowUnknown
