/**
 * Delivery's events as Effect metrics.
 *
 * | metric                                   | kind    | labels             | from                                        |
 * | ---------------------------------------- | ------- | ------------------ | ------------------------------------------- |
 * | `outlast_outbox_published_total`         | counter |                    | `OutboxProgress`: acknowledged at once      |
 * | `outlast_outbox_stored_total`            | counter |                    | `OutboxProgress`                            |
 * | `outlast_outbox_drained_total`           | counter |                    | `OutboxProgress`                            |
 * | `outlast_outbox_retried_total`           | counter |                    | `OutboxProgress`                            |
 * | `outlast_outbox_shed_total`              | counter |                    | `EventsShed`                                |
 * | `outlast_outbox_refused_total`           | counter |                    | `OutboxRefused`                             |
 * | `outlast_outbox_undecided_total`         | counter |                    | `PublishUndecided`                          |
 * | `outlast_outbox_backlog`                 | gauge   |                    | `OutboxProgress`                            |
 * | `outlast_outbox_backlog_bytes`           | gauge   |                    | `OutboxProgress`                            |
 * | `outlast_outbox_oldest_seconds`          | gauge   |                    | `OutboxProgress`                            |
 * | `outlast_outbox_growing`                 | gauge   |                    | `BacklogGrew` 1, `BacklogShrank` 0          |
 * | `outlast_dead_letters`                   | gauge   |                    | `OutboxProgress`                            |
 * | `outlast_dead_letters_total`             | counter | `source`, `reason` | `EventDied`; shed events are in the shed counter |
 * | `outlast_dead_letters_dropped_total`     | counter |                    | `DeadLettersDropped`                        |
 * | `outlast_dead_letters_replayed_total`    | counter |                    | `DeadLettersReplayed`                       |
 *
 * No label has an id or a subject; consumers are bounded. Put the layer over that of the events, as `Metrics`.
 */
import { Effect, Metric } from "effect"
import type { Layer } from "effect"
import { Metrics, ResilienceEvents } from "@outlast/resilience"
import type { DeliveryEvent } from "./DeliveryEvent.ts"

const counter = (name: string, description: string) =>
  Metric.counter(`outlast_${name}`, { description, incremental: true })
const gauge = (name: string, description: string) => Metric.gauge(`outlast_${name}`, { description })

export const published = counter("outbox_published_total", "Events that the broker acknowledged at once")
export const stored = counter("outbox_stored_total", "Events that were stored")
export const drained = counter("outbox_drained_total", "Stored events that the broker acknowledged")
export const retried = counter("outbox_retried_total", "Attempts to drain a subject after one that failed")
export const shed = counter("outbox_shed_total", "Events that made room in a full outbox")
export const refused = counter("outbox_refused_total", "Events that a full outbox refused")
export const undecided = counter("outbox_undecided_total", "Publishes that were interrupted on their way")
export const backlog = gauge("outbox_backlog", "Stored events")
export const backlogBytes = gauge("outbox_backlog_bytes", "Size of the stored events")
export const oldest = gauge("outbox_oldest_seconds", "Age of the oldest stored event")
export const growing = gauge("outbox_growing", "1 while the backlog has grown for a while, else 0")
export const deadLetters = gauge("dead_letters", "Dead letters that were not replayed")
export const died = counter("dead_letters_total", "Events that became dead letters")
export const dropped = counter("dead_letters_dropped_total", "Dead letters that were too old or too many")
export const replayed = counter("dead_letters_replayed_total", "Dead letters that were replayed")

/** Keeps the metrics of the surrounding events. */
export const layer = (): Layer.Layer<never> =>
  ResilienceEvents.layerTap(
    Effect.sync(() => {
      const source = Metrics.bounded()
      // The stream is open: what is not ours falls through.
      return (event) => read(event as DeliveryEvent, source)
    })
  )

const add = (metric: Metric.Metric<number, unknown>, by: number): Effect.Effect<void> =>
  by === 0 ? Effect.void : Metric.update(metric, by)

const read = (event: DeliveryEvent, source: (name: string) => string): Effect.Effect<void> => {
  switch (event._tag) {
    case "OutboxProgress":
      return Effect.all(
        [
          add(published, event.published),
          add(stored, event.stored),
          add(drained, event.drained),
          add(retried, event.retried),
          Metric.update(backlog, event.backlog),
          Metric.update(backlogBytes, event.bytes),
          Metric.update(oldest, event.oldest / 1_000),
          Metric.update(deadLetters, event.dead)
        ],
        { discard: true }
      )
    case "EventsShed":
      return add(shed, event.events)
    case "OutboxRefused":
      return add(refused, event.events)
    case "PublishUndecided":
      return add(undecided, 1)
    case "BacklogGrew":
      return Metric.update(growing, 1)
    case "BacklogShrank":
      return Metric.update(growing, 0)
    case "EventDied":
      return Metric.update(
        Metric.withAttributes(died, { source: source(event.source), reason: event.reason }),
        1
      )
    case "DeadLettersDropped":
      return add(dropped, event.letters)
    case "DeadLettersReplayed":
      return add(replayed, event.letters)
    default:
      return Effect.void
  }
}
