/**
 * Counts resilience events as Effect metrics, for exporters such as Prometheus and OpenTelemetry.
 *
 * Each event has its metrics in its definition; `docs/lookup/metrics.md` lists them. On top of those, `outlast_events_total` counts
 * every event of every package by tag, and `outlast_attempts_per_call` holds the attempts of each call: see
 * {@link attemptsOf}.
 *
 * The layer reads through a handler, so it sees every published event. Circuits may drop events before that (see
 * `ResilienceEvents`). Events are recognised by their tag; a label without a value in the event is left out.
 *
 * Names are the program's own strings, so each label is limited to `maxLabels` values (default 1,000) for the life of
 * the layer. Further values count as `other` and have no state gauge, since one gauge cannot show several states. A
 * circuit that never changed its state has no gauge either. A call that succeeds at once publishes nothing, so
 * `outlast_attempts_per_call` contains only the calls that did not.
 *
 * **How it composes.** Provide the layer on top of the layer of the events (`Layer.provideMerge`), above or below
 * `Alerts`. Other packages read the definitions of their events with `EventDefinition.reader`, or update metrics of their
 * own from {@link ResilienceEvents.tap}, with {@link bounded} for the labels. `outlast_events_total` already counts the
 * events of every package.
 *
 * **Limits.** The layer exports nothing by itself and keeps no history.
 *
 * **Example** (Prometheus text)
 *
 * ```ts
 * const Telemetry = Metrics.layer().pipe(Layer.provideMerge(ResilienceEvents.layer()))
 *
 * const text = PrometheusMetrics.format()
 * ```
 */
import { Effect, Metric } from "effect"
import type { Layer } from "effect"
import * as Circuit from "../breaker/CircuitEvent.ts"
import type { CircuitEvent } from "../breaker/CircuitEvent.ts"
import * as Connection from "../health/ConnectionEvent.ts"
import type { ConnectionEvent } from "../health/ConnectionEvent.ts"
import * as Check from "../Options.ts"
import * as Retry from "../retry/RetryEvent.ts"
import type { RetryEvent } from "../retry/RetryEvent.ts"
import * as Alert from "../telemetry/AlertEvent.ts"
import type { AlertEvent } from "../telemetry/AlertEvent.ts"
import type { EventDefinitions } from "../telemetry/EventDefinition.ts"
import { bounded, defaultMaxLabels, reader } from "../telemetry/EventDefinition.ts"
import { numberOf } from "../telemetry/Fields.ts"
import type { ResilienceEvent } from "../telemetry/ResilienceEvents.ts"
import * as ResilienceEvents from "../telemetry/ResilienceEvents.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export const events = Metric.counter("outlast_events_total", {
  description: "Resilience events by tag",
  incremental: true
})

export const attemptsPerCall = Metric.histogram("outlast_attempts_per_call", {
  description: "Attempts that a call took, from its first",
  boundaries: [1, 2, 3, 4, 5, 7, 10, 15, 20]
})

export { retries, retriesExhausted } from "../retry/RetryEvent.ts"
export { circuitRefusals, circuitState, circuitStates, circuitTransitions } from "../breaker/CircuitEvent.ts"
export { connectionState, connectionStates } from "../health/ConnectionEvent.ts"
export { alertRaised, alerts } from "../telemetry/AlertEvent.ts"
export { bounded, defaultMaxLabels } from "../telemetry/EventDefinition.ts"

/** Every event of this package. */
export type Event = AlertEvent | CircuitEvent | ConnectionEvent | RetryEvent

/** The definition of every event of this package. */
export const definitions: EventDefinitions<Event> = {
  ...Alert.definitions,
  ...Circuit.definitions,
  ...Connection.definitions,
  ...Retry.definitions
}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

export interface Options {
  /** Maximum number of distinct values of each label. Default: 1,000. */
  readonly maxLabels?: number | undefined
  /**
   * Returns the number of attempts of the call that an event ends; `undefined` for other events. Default:
   * {@link attemptsOf}.
   */
  readonly attemptsOf?: ((event: ResilienceEvent) => number | undefined) | undefined
}

/** Returns the `attempts` of an event that ends a call. Calls without an attempt are left out. */
export const attemptsOf = (event: ResilienceEvent): number | undefined => {
  const attempts = numberOf(event, "attempts")
  return attempts === undefined || attempts < 1 ? undefined : attempts
}

/**
 * Updates the metrics from the surrounding events. Building it dies with an `InvalidOption`, a `RangeError`, for an
 * option out of its range.
 */
export const layer = (options: Options = {}): Layer.Layer<never> =>
  ResilienceEvents.layerTap(
    Effect.sync(() => {
      Check.fields("Metrics", options, {
        maxLabels: Check.is.integer({ min: 1 }),
        attemptsOf: Check.is.fn("(event) => number | undefined")
      })
      const max = options.maxLabels ?? defaultMaxLabels
      const attempts = options.attemptsOf ?? attemptsOf
      const tag = bounded(max)
      const read = reader(definitions, max)
      return (event) => {
        const counted = Metric.update(Metric.withAttributes(events, { event: tag(event._tag) }), 1)
        const made = attempts(event)
        const ended = made === undefined ? Effect.void : Metric.update(attemptsPerCall, made)
        return Effect.andThen(Effect.andThen(counted, ended), read(event))
      }
    })
  )
