/**
 * The calls of a chain as Effect metrics, read from its events.
 *
 * | metric                                | kind      | labels                      | from                        |
 * | ------------------------------------- | --------- | --------------------------- | --------------------------- |
 * | `outlast_calls_total`                 | counter   | `outcome`                   | the end of a call           |
 * | `outlast_call_attempts`               | histogram |                             | the end of a call           |
 * | `outlast_attempts_total`              | counter   | `provider`, `model`         | `AttemptStarted`            |
 * | `outlast_attempt_failures_total`      | counter   | `provider`, `model`, `reason` | `AttemptFailed`           |
 * | `outlast_call_retries_total`          | counter   | `reason`                    | `AttemptStarted` after a failure |
 * | `outlast_switches_total`              | counter   | `reason`                    | `TargetSwitched`, `AnswerContinued` elsewhere |
 * | `outlast_waits_total`                 | counter   | `reason`                    | `CallWaiting`               |
 * | `outlast_wait_seconds`                | histogram | `reason`                    | `CallWaited`                |
 * | `outlast_give_ups_total`              | counter   | `reason`                    | `CallGaveUp`                |
 * | `outlast_cooldowns_total`             | counter   | `scope`, `reason`           | `CooldownOpened`            |
 * | `outlast_cost_usd_total`              | counter   | `provider`, `model`         | `CallSucceeded`             |
 * | `outlast_tokens_total`                | counter   | `provider`, `model`, `kind` | `CallSucceeded`             |
 *
 * The outcome of a call is `answered` (no attempt of it failed), `recovered` (answered after a failure), `failed` or
 * `abandoned`. The **recovery rate** is `recovered / (recovered + failed)`, the **average number of retries** is
 * `sum / count - 1` of `outlast_call_attempts`, which holds calls that ended with an answer or a failure and made an
 * attempt. Waits that are under way are `outlast_waits_total` less the count of `outlast_wait_seconds`. Tokens are those
 * of the last attempt, the cost is that of the call.
 *
 * No label has an id or a key in it. Providers and models have at most `maxLabels` values each, then `other`.
 *
 * Put it over the layer of the events, beside `Metrics` of `@outlast/resilience`, which counts circuits, retries and
 * alerts. It exports nothing by itself.
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
import { Effect, Metric } from "effect"
import type { Layer } from "effect"
import { Metrics, ResilienceEvents } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import type { TargetRef } from "../conversation/TargetRef.ts"
import type { FailoverEvent } from "./FailoverEvent.ts"

// -----------------------------------------------------------------------------
// Metrics
// -----------------------------------------------------------------------------

const counter = (name: string, description: string) =>
  Metric.counter(name, { description, incremental: true })

export const calls = counter("outlast_calls_total", "Calls that have ended, by outcome")

export const callAttempts = Metric.histogram("outlast_call_attempts", {
  description: "Attempts that a call took",
  boundaries: [1, 2, 3, 4, 5, 7, 10, 15, 20]
})

export const attempts = counter("outlast_attempts_total", "Requests that were sent")

export const attemptFailures = counter("outlast_attempt_failures_total", "Requests that failed")

export const retries = counter("outlast_call_retries_total", "Attempts of a call after a failure")

export const switches = counter("outlast_switches_total", "Calls that went on at another target")

export const waits = counter("outlast_waits_total", "Waits on our side that have begun")

export const waitSeconds = Metric.histogram("outlast_wait_seconds", {
  description: "Length of the waits on our side that have ended",
  boundaries: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
})

export const giveUps = counter("outlast_give_ups_total", "Calls that failed")

export const cooldowns = counter("outlast_cooldowns_total", "Cooldowns that were opened")

export const cost = counter("outlast_cost_usd_total", "US dollars for calls that were answered")

export const tokens = counter("outlast_tokens_total", "Tokens of answers, input and output")

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

export interface Options {
  /** Different providers, and different models, at most. Default 1,000. */
  readonly maxLabels?: number | undefined
}

/** Keeps the metrics of the surrounding events. Throws an `InvalidOption` (a `RangeError`) for a wrong option. */
export const layer = (options: Options = {}): Layer.Layer<never> => {
  Check.fields("FailoverMetrics", options, { maxLabels: Check.is.integer({ min: 1 }) })
  const { maxLabels } = options
  return ResilienceEvents.layerTap(
    Effect.sync(() => {
      const read = readerOf(Metrics.bounded(maxLabels), Metrics.bounded(maxLabels))
      // The stream of events is open: those of other packages have other tags.
      return (event) => read(event as FailoverEvent)
    })
  )
}

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

type Bounded = (value: string) => string

const readerOf = (provider: Bounded, model: Bounded): ((event: FailoverEvent) => Effect.Effect<void>) => {
  const of = (target: TargetRef) => ({ provider: provider(target.provider), model: model(target.model) })

  const ended = (outcome: string, made: number): Effect.Effect<void> =>
    Effect.andThen(
      add(calls, { outcome }),
      made === 0 || outcome === "abandoned" ? Effect.void : Metric.update(callAttempts, made)
    )

  return (event) => {
    switch (event._tag) {
      case "AttemptStarted": {
        const { target, after } = event
        const sent = add(attempts, of(target))
        return after === undefined ? sent : Effect.andThen(sent, add(retries, { reason: after }))
      }
      case "AttemptFailed":
        return add(attemptFailures, { ...of(event.target), reason: event.reason })
      case "TargetSwitched":
        return add(switches, { reason: event.reason })
      case "AnswerContinued": {
        const { from, target, reason } = event
        return from.id === target.id || reason === undefined ? Effect.void : add(switches, { reason })
      }
      case "CallWaiting":
        return add(waits, { reason: event.reason })
      case "CallWaited":
        return Metric.update(
          Metric.withAttributes(waitSeconds, { reason: event.reason }),
          event.elapsed / 1_000
        )
      case "CooldownOpened":
        return add(cooldowns, { scope: event.scope, reason: event.reason })
      case "CallGaveUp":
        return Effect.andThen(ended("failed", event.attempt), add(giveUps, { reason: event.reason }))
      case "CallAbandoned":
        return ended("abandoned", event.attempt)
      case "CallSucceeded": {
        const { target, attempt, recoveredFrom, costUsd, inputTokens, outputTokens } = event
        const labels = of(target)
        return Effect.all(
          [
            ended(recoveredFrom === undefined ? "answered" : "recovered", attempt),
            // An unknown amount adds nothing.
            add(cost, labels, costUsd ?? 0),
            add(tokens, { ...labels, kind: "input" }, inputTokens ?? 0),
            add(tokens, { ...labels, kind: "output" }, outputTokens ?? 0)
          ],
          { discard: true }
        )
      }
      default:
        return Effect.void
    }
  }
}

const add = (
  metric: Metric.Metric<number, unknown>,
  attributes: Metric.Metric.Attributes,
  amount = 1
): Effect.Effect<void> =>
  amount === 0 ? Effect.void : Metric.update(Metric.withAttributes(metric, attributes), amount)
