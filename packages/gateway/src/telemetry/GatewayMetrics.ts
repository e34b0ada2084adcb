/**
 * The requests of a gateway as Effect metrics, by route and wire format: outcomes, switches, times, cost.
 *
 * The definitions of `GatewayEvent` say which event updates which metric; `docs/lookup/metrics.md` lists them. Routes are
 * those of the configuration, and `other` for any other model: no text of a caller becomes a label. Put the layer over
 * that of the events, as `Metrics`, and make the gateway inside. `Outlast.layerMetrics` counts the attempts behind the
 * requests.
 */
import { Effect } from "effect"
import type { Layer } from "effect"
import { EventDefinition, ResilienceEvents } from "@outlast/resilience"
import { definitions } from "./GatewayEvent.ts"

export { beginSeconds, cost, definitions, requests, requestSeconds, switches } from "./GatewayEvent.ts"
export type { GatewayAnswered, GatewayEvent, Outcome } from "./GatewayEvent.ts"

/** Keeps the metrics of the surrounding events. */
export const layer = (): Layer.Layer<never> =>
  ResilienceEvents.layerTap(Effect.sync(() => EventDefinition.reader(definitions)))
