/**
 * The loop's part of the resilience events. No event has content of the conversation.
 */
import { Metric, Schema } from "effect"
import { EventDefinition } from "@outlast/resilience"
import { Cause, Transition } from "./Transition.ts"

export const AgentTransition = Schema.TaggedStruct("AgentTransition", {
  /** Unix time in milliseconds. */
  at: Schema.Finite,
  /** Number of the turn, from 1. */
  turn: Schema.Finite,
  transition: Transition,
  /** Separates transitions that share a name; `undefined` for the others. */
  cause: Schema.optional(Cause)
})
export type AgentTransition = typeof AgentTransition.Type

export const ToolFinished = Schema.TaggedStruct("ToolFinished", {
  at: Schema.Finite,
  turn: Schema.Finite,
  tool: Schema.String,
  /** True when the result is an error for the model. */
  isFailure: Schema.Boolean,
  /** Duration of the call in milliseconds. */
  elapsed: Schema.Finite
})
export type ToolFinished = typeof ToolFinished.Type

export const ContextWindowUnknown = Schema.TaggedStruct("ContextWindowUnknown", {
  at: Schema.Finite,
  turn: Schema.Finite,
  /** Name of the model; absent if unknown. */
  model: Schema.optional(Schema.String)
})
export type ContextWindowUnknown = typeof ContextWindowUnknown.Type

/** Schema of every event of the loop. */
export const AgentEvent = Schema.Union([AgentTransition, ToolFinished, ContextWindowUnknown])
export type AgentEvent = typeof AgentEvent.Type

export const transitions = Metric.counter("outlast_run_transitions_total", {
  description: "Transitions of agent runs, the end of each run among them",
  incremental: true
})

export const toolCalls = Metric.counter("outlast_tool_calls_total", {
  description: "Tool calls of agent runs that got a result",
  incremental: true
})

export const toolSeconds = Metric.histogram("outlast_tool_seconds", {
  description: "Duration of tool calls",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
})

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<AgentEvent> = {
  AgentTransition: {
    doc: "A turn ended, or ended the run.",
    line: ({ turn, transition, cause }) => ({
      level: "Info",
      text: `  turn ${turn}: ${transition}${cause === undefined ? "" : ` (${cause})`}`
    }),
    metrics: [{ metric: transitions, words: { transition: ({ transition }) => transition } }]
  },
  ToolFinished: {
    doc: "A tool call got its result.",
    line: EventDefinition.named(),
    // The name comes from the model: a call of an unknown tool has a result, too.
    metrics: [
      { metric: toolCalls, words: { outcome: ({ isFailure }) => (isFailure ? "failed" : "succeeded") } },
      { metric: toolSeconds, value: ({ elapsed }) => elapsed / 1_000 }
    ]
  },
  ContextWindowUnknown: {
    doc: "A run is to fit into a window that is not known: it is compacted only when a provider refuses. Once in a run.",
    line: EventDefinition.named(),
    metrics: []
  }
}
