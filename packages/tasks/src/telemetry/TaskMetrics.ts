/**
 * The events of tasks as Effect metrics.
 *
 * The definitions of `TaskEvent` say which event updates which metric; `docs/lookup/metrics.md` lists them. No label has an id.
 * Put the layer over that of the events, as `Metrics`. A process counts what it does itself: submissions where they are
 * made, everything else in the worker.
 */
import { Effect } from "effect"
import type { Layer } from "effect"
import { EventDefinition, ResilienceEvents } from "@outlast/resilience"
import { definitions } from "./TaskEvent.ts"

export { definitions, ended, inDoubt, killed, restarts, started, storeLost, submitted } from "./TaskEvent.ts"

/** Keeps the metrics of the surrounding events. */
export const layer = (): Layer.Layer<never> =>
  ResilienceEvents.layerTap(Effect.sync(() => EventDefinition.reader(definitions)))
