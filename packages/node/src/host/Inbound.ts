/**
 * Counts inbound events, and drops empty ones before they reach a model.
 *
 * Channels also deliver receipts, typing indicators and reactions. An event with neither text nor media costs a call and
 * gives the model nothing to answer. Text of white space only counts as empty.
 *
 * The counter `outlast_inbound_events_total` has the labels `source` and `outcome` (`accepted`, `empty`).
 *
 * **Example** (Before a run)
 *
 * ```ts
 * if (yield* Inbound.accept("telegram", { text: update.text, media: update.photos })) yield* respond(update)
 * ```
 */
import { Effect, Metric } from "effect"
import * as Check from "@outlast/resilience/Options"

/** The content of an event. Other fields are ignored. */
export interface Content {
  readonly text?: string | null | undefined
  readonly media?: ReadonlyArray<unknown> | null | undefined
}

export const events = Metric.counter("outlast_inbound_events_total", {
  description: "Inbound events by source, and whether they had content",
  incremental: true
})

/** True when the event has neither text nor media. Fields of other types, as in JSON from outside, count as absent. */
export const isEmpty = ({ media, text }: Content): boolean =>
  !(typeof text === "string" && text.trim() !== "") && !(Array.isArray(media) && media.length > 0)

/** Counts the event. Returns false when it is empty and must be dropped. `source` names the channel: it is a label. */
export const accept = (source: string, content: Content): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    Check.is.text("Inbound", "source", source)
    const isAccepted = !isEmpty(content)
    const labels = { source, outcome: isAccepted ? "accepted" : "empty" }
    return Effect.as(Metric.update(Metric.withAttributes(events, labels), 1), isAccepted)
  })
