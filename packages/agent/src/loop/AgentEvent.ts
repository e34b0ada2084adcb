/**
 * What happens in a run: the loop's part of the resilience events. No event has content of the conversation.
 */
import type { Transition } from "./Transition.ts"

/** A turn ended, or ended the run. */
export interface AgentTransition {
  readonly _tag: "AgentTransition"
  /** Unix time in milliseconds. */
  readonly at: number
  /** From 1. */
  readonly turn: number
  readonly transition: Transition
}

/** A tool call got its result. */
export interface ToolFinished {
  readonly _tag: "ToolFinished"
  readonly at: number
  readonly turn: number
  readonly tool: string
  /** The result is an error for the model. */
  readonly isFailure: boolean
  /** Milliseconds. */
  readonly elapsed: number
}

/** A run is to fit, and nobody knows into which window: it is compacted only when a provider refuses. Once in a run. */
export interface ContextWindowUnknown {
  readonly _tag: "ContextWindowUnknown"
  readonly at: number
  readonly turn: number
  /** `undefined`: nobody knows its name, either. */
  readonly model: string | undefined
}

export type AgentEvent = AgentTransition | ToolFinished | ContextWindowUnknown
