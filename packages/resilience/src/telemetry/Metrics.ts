/**
 * Counts resilience events as Effect metrics, for exporters such as Prometheus and OpenTelemetry.
 *
 * | metric                                 | kind      | labels                 | from                                   |
 * | -------------------------------------- | --------- | ---------------------- | -------------------------------------- |
 * | `outlast_events_total`                 | counter   | `event`                | every event, of every package          |
 * | `outlast_retries_total`                | counter   | `name`                 | `Retrying`                             |
 * | `outlast_retries_exhausted_total`      | counter   | `name`                 | `RetriesExhausted`                     |
 * | `outlast_attempts_per_call`            | histogram |                        | {@link attemptsOf}                     |
 * | `outlast_circuit_state`                | gauge     | `circuit`              | `CircuitTransition`: {@link circuitStates} |
 * | `outlast_circuit_transitions_total`    | counter   | `circuit`, `from`, `to` | `CircuitTransition`                   |
 * | `outlast_circuit_refusals_total`       | counter   | `circuit`, `reason`    | `CircuitRefusal`                       |
 * | `outlast_connection_state`             | gauge     | `connection`           | `HealthChanged`, `SessionDied`: {@link connectionStates} |
 * | `outlast_alerts_total`                 | counter   | `alert`                | `AlertRaised`                          |
 * | `outlast_alert_raised`                 | gauge     | `alert`                | `AlertRaised` 1, `AlertCleared` 0      |
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
 * `Alerts`. Other packages define their own metrics and update them from {@link ResilienceEvents.tap}, with
 * {@link bounded} for the labels. `outlast_events_total` already counts the events of every package.
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
import type { Reason } from "../breaker/CircuitRefused.ts"
import * as Check from "../Options.ts"
import { other } from "./Alerts.ts"
import { numberOf, textOf } from "./Fields.ts"
import type { ResilienceEvent } from "./ResilienceEvents.ts"
import * as ResilienceEvents from "./ResilienceEvents.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export const events = Metric.counter("outlast_events_total", {
  description: "Resilience events by tag",
  incremental: true
})

export const retries = Metric.counter("outlast_retries_total", {
  description: "Attempts after the first",
  incremental: true
})

export const retriesExhausted = Metric.counter("outlast_retries_exhausted_total", {
  description: "Calls that failed after their last attempt",
  incremental: true
})

export const attemptsPerCall = Metric.histogram("outlast_attempts_per_call", {
  description: "Attempts that a call took, from its first",
  boundaries: [1, 2, 3, 4, 5, 7, 10, 15, 20]
})

export const circuitState = Metric.gauge("outlast_circuit_state", {
  description: "0 closed, 1 half-open, 2 open, 3 isolated"
})

export const circuitTransitions = Metric.counter("outlast_circuit_transitions_total", {
  description: "Changes of a circuit's state",
  incremental: true
})

export const circuitRefusals = Metric.counter("outlast_circuit_refusals_total", {
  description: "Calls that a circuit did not let through",
  incremental: true
})

export const connectionState = Metric.gauge("outlast_connection_state", {
  description: "0 healthy, 1 unhealthy, 2 dead"
})

export const alerts = Metric.counter("outlast_alerts_total", {
  description: "Alerts raised",
  incremental: true
})

export const alertRaised = Metric.gauge("outlast_alert_raised", {
  description: "1 while the alert is raised, else 0"
})

/** The values of `outlast_circuit_state`. */
export const circuitStates: ReadonlyMap<string, number> = new Map([
  ["closed", 0],
  ["half-open", 1],
  ["open", 2],
  ["isolated", 3]
])

/** The values of `outlast_connection_state`. */
export const connectionStates: ReadonlyMap<string, number> = new Map([
  ["healthy", 0],
  ["unhealthy", 1],
  ["dead", 2]
])

// -----------------------------------------------------------------------------
// Labels
// -----------------------------------------------------------------------------

/** Default maximum number of distinct values of one label. */
export const defaultMaxLabels = 1_000

/**
 * Returns a function that keeps the first `max` distinct values (default 1,000) and maps all further ones to `other`.
 */
export const bounded = (max: number = defaultMaxLabels): ((value: string) => string) => {
  Check.positiveInteger("Metrics", "maxLabels", max)
  const known = new Set<string>()
  return (value) => {
    if (known.has(value)) return value
    if (known.size >= max) return other
    known.add(value)
    return value
  }
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

/** Updates the metrics from the surrounding events. Throws a `RangeError` for an option outside its range. */
export const layer = (options: Options = {}): Layer.Layer<never> =>
  ResilienceEvents.layerTap(
    Effect.sync(() => {
      Check.fields("Metrics", options, {
        maxLabels: Check.is.integer({ min: 1 }),
        attemptsOf: Check.is.fn("(event) => number | undefined")
      })
      const max = options.maxLabels ?? defaultMaxLabels
      const reader = new Reader(max, options.attemptsOf ?? attemptsOf)
      return (event) => reader.read(event)
    })
  )

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

class Reader {
  readonly #tag: (value: string) => string
  readonly #name: (value: string) => string
  readonly #circuit: (value: string) => string
  readonly #connection: (value: string) => string
  readonly #alert: (value: string) => string
  readonly #attemptsOf: (event: ResilienceEvent) => number | undefined

  constructor(max: number, attemptsOf: (event: ResilienceEvent) => number | undefined) {
    this.#tag = bounded(max)
    this.#name = bounded(max)
    this.#circuit = bounded(max)
    this.#connection = bounded(max)
    this.#alert = bounded(max)
    this.#attemptsOf = attemptsOf
  }

  read(event: ResilienceEvent): Effect.Effect<void> {
    const counted = count(events, { event: this.#tag(event._tag) })
    const attempts = this.#attemptsOf(event)
    const ended = attempts === undefined ? Effect.void : Metric.update(attemptsPerCall, attempts)
    return Effect.andThen(Effect.andThen(counted, ended), this.#ofTag(event))
  }

  #ofTag(event: ResilienceEvent): Effect.Effect<void> {
    switch (event._tag) {
      case "Retrying":
        // A refusal by a circuit is not an attempt, so the wait after it is not a retry.
        return textOf(event, "because") === "refused" ? Effect.void : count(retries, this.#nameOf(event))
      case "RetriesExhausted":
        return count(retriesExhausted, this.#nameOf(event))
      case "CircuitTransition":
        return this.#transition(event)
      case "CircuitRefusal":
        return this.#refusal(event)
      case "HealthChanged":
        return this.#connectionIs(event, textOf(event, "to"))
      case "SessionDied":
        return this.#connectionIs(event, "dead")
      case "AlertRaised":
        return this.#alertIs(event, 1)
      case "AlertCleared":
        return this.#alertIs(event, 0)
      default:
        return Effect.void
    }
  }

  #nameOf(event: ResilienceEvent): Metric.Metric.Attributes {
    const name = textOf(event, "name")
    return name === undefined ? {} : { name: this.#name(name) }
  }

  #transition(event: ResilienceEvent): Effect.Effect<void> {
    const name = textOf(event, "circuit") ?? textOf(event, "name")
    if (name === undefined) return Effect.void
    const circuit = this.#circuit(name)
    const from = stateOf(textOf(event, "from"))
    const to = stateOf(textOf(event, "to"))
    return Effect.andThen(
      count(circuitTransitions, { circuit, from, to }),
      set(circuitState, { circuit }, circuit, circuitStates.get(to))
    )
  }

  #refusal(event: ResilienceEvent): Effect.Effect<void> {
    const circuit = textOf(event, "circuit")
    if (circuit === undefined) return Effect.void
    const reason = textOf(event, "reason") ?? ""
    return count(circuitRefusals, {
      circuit: this.#circuit(circuit),
      reason: refusalReasons.has(reason) ? reason : other
    })
  }

  #connectionIs(event: ResilienceEvent, state: string | undefined): Effect.Effect<void> {
    const name = textOf(event, "connection")
    if (name === undefined) return Effect.void
    const connection = this.#connection(name)
    return set(connectionState, { connection }, connection, connectionStates.get(state ?? ""))
  }

  #alertIs(event: ResilienceEvent, raised: 0 | 1): Effect.Effect<void> {
    const alert = this.#alert(textOf(event, "key") ?? "all")
    const gauge = set(alertRaised, { alert }, alert, raised)
    return raised === 1 ? Effect.andThen(count(alerts, { alert }), gauge) : gauge
  }
}

const refusalReasons: ReadonlySet<string> = new Set<Reason>(["open", "half-open", "isolated", "store"])

/** An unknown state of a third-party event must not become a label value. */
const stateOf = (state: string | undefined): string =>
  state !== undefined && circuitStates.has(state) ? state : other

const count = (
  metric: Metric.Metric<number, unknown>,
  attributes: Metric.Metric.Attributes
): Effect.Effect<void> => Metric.update(Metric.withAttributes(metric, attributes), 1)

const set = (
  metric: Metric.Metric<number, unknown>,
  attributes: Metric.Metric.Attributes,
  label: string,
  value: number | undefined
): Effect.Effect<void> =>
  value === undefined || label === other
    ? Effect.void
    : Metric.update(Metric.withAttributes(metric, attributes), value)
