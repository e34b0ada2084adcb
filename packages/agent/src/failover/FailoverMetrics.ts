/**
 * The calls of a chain as Effect metrics, read from its events.
 *
 * The definitions of `FailoverEvent` say which event updates which metric; `docs/lookup/metrics.md` lists them.
 *
 * The outcome of a call is `answered` (no attempt of it failed), `recovered` (answered after a failure), `failed` or
 * `abandoned`. The **recovery rate** is `recovered / (recovered + failed)`.
 *
 * The **average number of retries** is `sum / count - 1` of `outlast_call_attempts`. The histogram has the calls that
 * made an attempt and ended with an answer or a failure. Waits in progress are `outlast_waits_total` less the count of
 * `outlast_wait_seconds`. Tokens are those of the last attempt, the cost is that of the call.
 *
 * No label has an id or a key in it. Providers and models have at most `maxLabels` values each, then `other`.
 *
 * Provide the layer of the events to it, and add `Metrics` of `@outlast/resilience`, which counts circuits, retries
 * and alerts. This layer exports no metrics: add an exporter for that.
 *
 * **Example** (All metrics)
 *
 * ```ts
 * const Telemetry = FailoverMetrics.layer().pipe(
 *   Layer.provideMerge(Metrics.layer()),
 *   Layer.provideMerge(ResilienceEvents.layer())
 * )
 * ```
 */
import { Effect } from "effect"
import type { Layer } from "effect"
import { EventDefinition, ResilienceEvents } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import { definitions } from "./FailoverEvent.ts"

export { cooldowns } from "./chain/TargetEvent.ts"
export {
  attemptFailures,
  attempts,
  callAttempts,
  calls,
  cost,
  giveUps,
  hedges,
  hedgesWon,
  retries,
  switches,
  tokens,
  waits,
  waitSeconds
} from "./call/CallEvent.ts"

export interface Options {
  /** Maximum number of different providers, and of different models. Default 1,000. */
  readonly maxLabels?: number | undefined
}

/** Counts the metrics from the events. Throws an `InvalidOption` (a `RangeError`) for a wrong option. */
export const layer = (options: Options = {}): Layer.Layer<never> => {
  Check.fields("FailoverMetrics", options, { maxLabels: Check.is.integer({ min: 1 }) })
  return ResilienceEvents.layerTap(Effect.sync(() => EventDefinition.reader(definitions, options.maxLabels)))
}
