/**
 * Filters inbound messages before a call is paid for: a message with neither text nor media needs no answer.
 *
 * Each filter has its own counts; the metric {@link messages} counts the messages of all.
 *
 * **Example** (Empty messages in a chat, e.g. when a person joins)
 *
 * ```ts
 * const inbound = yield* Inbound.make
 * messages.pipe(Stream.filterEffect(inbound.accept), Stream.runForEach(reply))
 * ```
 */
import { Effect, Metric, MutableRef } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"
import type { InboundDropped } from "./GuardEvent.ts"

export interface InboundEvent {
  readonly text?: string | null | undefined
  readonly media?: ReadonlyArray<unknown> | null | undefined
}

export interface Inbound {
  /** Returns true when the message is worth a call. Other messages are counted and published as `InboundDropped`. */
  readonly accept: (event: InboundEvent) => Effect.Effect<boolean>
  readonly counts: Effect.Effect<{ readonly accepted: number; readonly dropped: number }>
}

/**
 * True for an event with neither text nor media; white space is not text. Other fields are ignored. Throws an
 * `InvalidOption` (a `RangeError`) for a value that is not an event, which would otherwise count as empty.
 */
export const isEmpty = (event: InboundEvent): boolean => {
  isEvent("Inbound", "event", event)
  const text = event.text ?? ""
  const media = event.media ?? []
  Check.check(typeof text === "string", "Inbound", "event.text", text, "a text")
  Check.is.list()("Inbound", "event.media", media)
  return text.trim() === "" && media.length === 0
}

const isEvent = Kind.carrier("an object with text or media")

/** Inbound messages of all filters, by `outcome`: `accepted` or `dropped`. */
export const messages = Metric.counter("outlast_inbound_messages_total", {
  description: "Inbound messages, by whether they were worth a call",
  incremental: true
})

const counted = {
  accepted: Metric.withAttributes(messages, { outcome: "accepted" }),
  dropped: Metric.withAttributes(messages, { outcome: "dropped" })
}

/** Creates a filter with its own counts. */
export const make: Effect.Effect<Inbound> = Effect.sync(() => {
  const accepted = MutableRef.make(0)
  const dropped = MutableRef.make(0)
  return {
    accept: (event) =>
      Effect.suspend(() => {
        if (!isEmpty(event)) {
          MutableRef.increment(accepted)
          return Effect.as(Metric.update(counted.accepted, 1), true)
        }
        const number = MutableRef.incrementAndGet(dropped)
        const drop = { _tag: "InboundDropped", number } as const
        return Metric.update(counted.dropped, 1).pipe(
          Effect.andThen(ResilienceEvents.publishNow<InboundDropped>(drop)),
          Effect.as(false)
        )
      }),
    counts: Effect.sync(() => ({ accepted: MutableRef.get(accepted), dropped: MutableRef.get(dropped) }))
  }
})
