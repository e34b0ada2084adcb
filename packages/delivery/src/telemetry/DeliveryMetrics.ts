/**
 * Delivery's events as Effect metrics.
 *
 * The definitions of `DeliveryEvent` say which event updates which metric; `docs/lookup/metrics.md` lists them. No label has an
 * id or a subject; consumers are bounded. Put the layer over that of the events, as `Metrics`.
 */
import { Effect } from "effect"
import type { Layer } from "effect"
import { EventDefinition, ResilienceEvents } from "@outlast/resilience"
import { definitions } from "./DeliveryEvent.ts"

export {
  backlog,
  backlogBytes,
  deadLetters,
  definitions,
  died,
  drained,
  dropped,
  growing,
  oldest,
  published,
  refused,
  replayed,
  retried,
  shed,
  stored,
  storeLost,
  undecided
} from "./DeliveryEvent.ts"

/** Keeps the metrics of the surrounding events. */
export const layer = (): Layer.Layer<never> =>
  ResilienceEvents.layerTap(Effect.sync(() => EventDefinition.reader(definitions)))
