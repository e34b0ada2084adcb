/**
 * Formats one line for an event, as `Outlast.layerLog` logs it and `outlast demo` prints it.
 *
 * The line of an event is part of its definition, in the file of its union. An event without a definition is named by
 * its tag and its subject, so that an event of a later version or of another package still gives a readable line. Pure.
 */
import type { ResilienceEvents, Warnings } from "@outlast/resilience"
import { EventDefinition, Metrics } from "@outlast/resilience"
import type { CompactionEvent } from "./compaction/CompactionEvent.ts"
import * as Compaction from "./compaction/CompactionEvent.ts"
import type { FailoverEvent } from "./failover/FailoverEvent.ts"
import * as Failover from "./failover/FailoverEvent.ts"
import type { GuardEvent } from "./guard/GuardEvent.ts"
import * as Guard from "./guard/GuardEvent.ts"
import type { LimiterEvent } from "./limiter/LimiterEvent.ts"
import * as Limiter from "./limiter/LimiterEvent.ts"
import type { AgentEvent } from "./loop/AgentEvent.ts"
import * as Agent from "./loop/AgentEvent.ts"
import type { ToolEvent } from "./resilient/ToolEvent.ts"
import * as Tool from "./resilient/ToolEvent.ts"

/** Every event of this package and of `@outlast/resilience`. */
export type Event =
  | AgentEvent
  | CompactionEvent
  | FailoverEvent
  | GuardEvent
  | LimiterEvent
  | Metrics.Event
  | ToolEvent

/** The definition of every event: when it is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<Event> = {
  ...Metrics.definitions,
  ...Limiter.definitions,
  ...Failover.definitions,
  ...Tool.definitions,
  ...Guard.definitions,
  ...Compaction.definitions,
  ...Agent.definitions
}

/**
 * The definitions whose metrics a layer counts beside those of `Metrics`. Compactions are counted where they happen, without
 * a layer.
 */
export const counted: EventDefinition.AnyDefinitions = {
  ...Limiter.definitions,
  ...Failover.definitions,
  ...Tool.definitions,
  ...Guard.definitions,
  ...Agent.definitions
}

/**
 * The line, or `undefined` for an event that repeats another one. `others` are the definitions of other packages, such as
 * `DeliveryMetrics.definitions`.
 */
export const of = (
  event: ResilienceEvents.ResilienceEvent,
  others: EventDefinition.AnyDefinitions = {}
): Warnings.Line | undefined => {
  const own = Object.hasOwn(definitions, event._tag) ? definitions : others
  const line = EventDefinition.lineOf(own, event)
  return line === undefined ? undefined : { ...line, text: line.text.replaceAll(/\s*\n\s*/g, " ") }
}
