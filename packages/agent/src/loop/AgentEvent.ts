/**
 * The loop's part of the resilience events. No event has content of the conversation.
 */
import { EventDefinition } from "@outlast/resilience"
import type { Transition } from "./Transition.ts"

export interface AgentTransition {
  readonly _tag: "AgentTransition"
  /** Unix time in milliseconds. */
  readonly at: number
  /** Number of the turn, from 1. */
  readonly turn: number
  readonly transition: Transition
}

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

export interface ContextWindowUnknown {
  readonly _tag: "ContextWindowUnknown"
  readonly at: number
  readonly turn: number
  /** Name of the model; `undefined` if unknown. */
  readonly model: string | undefined
}

export type AgentEvent = AgentTransition | ToolFinished | ContextWindowUnknown

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<AgentEvent> = {
  AgentTransition: {
    doc: "A turn ended, or ended the run.",
    line: EventDefinition.named(),
    metrics: []
  },
  ToolFinished: {
    doc: "A tool call got its result.",
    line: EventDefinition.named(),
    metrics: []
  },
  ContextWindowUnknown: {
    doc: "A run is to fit into a window that is not known: it is compacted only when a provider refuses. Once in a run.",
    line: EventDefinition.named(),
    metrics: []
  }
}
