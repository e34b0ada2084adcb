/** Outboxes over a bus in memory and a store, in virtual time, while real I/O goes on. */
import { Clock, Effect, Layer } from "effect"
import type { Duration } from "effect"
import { TestClock } from "effect/testing"
import { ResilienceEvents } from "@outlast/resilience"
import { BusError, DeadLetters, MemoryBus, Outbox } from "@outlast/delivery"
import type { DeliveryEvent, EventBus } from "@outlast/delivery"
import type { Subject } from "./Stores.ts"

/** Lets real I/O go on, for a turn of the event loop. */
export const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Lets much of it go on: for what must not happen. */
export const turns = Effect.repeat(turn, { times: 50 })

/** Waits for what only real I/O can bring; the test's own limit ends it. */
export const until = <E, R>(condition: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  Effect.flatMap(condition, (holds) => (holds ? Effect.void : Effect.andThen(turn, until(condition))))

/** As {@link until}, while virtual time goes on: for waits that begin after real I/O. */
export const passing = <E, R>(
  condition: Effect.Effect<boolean, E, R>,
  step: Duration.Input = "1 second"
): Effect.Effect<void, E, R> =>
  Effect.flatMap(condition, (holds) =>
    holds
      ? Effect.void
      : Effect.andThen(Effect.andThen(TestClock.adjust(step), turns), passing(condition, step))
  )

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export const event = (body: string, subject = "orders") => ({
  subject,
  id: body,
  body: encoder.encode(body)
})

export const bodyOf = ({ body }: { readonly body: Uint8Array }): string => decoder.decode(body)

/** Bodies that the bus has stored, in order. */
export const onBus = Effect.flatMap(MemoryBus.MemoryBus, ({ stored }) =>
  Effect.map(stored, (kept) => kept.map(({ event }) => bodyOf(event)))
)

export const unavailable = new BusError({ reason: "unavailable", detail: "It is down." })
export const rejected = (permanent = false) =>
  new BusError({ reason: "rejected", detail: "It is not wanted.", permanent })

export const setBus = (status: EventBus.Status) =>
  Effect.flatMap(MemoryBus.MemoryBus, (bus) => bus.set(status))

export const answer = (answer: Parameters<MemoryBus.Control["answer"]>[0]) =>
  Effect.flatMap(MemoryBus.MemoryBus, (bus) => bus.answer(answer))

/** Everything but the outbox. */
export const ground = (subject: Subject, options: { readonly bus?: MemoryBus.MemoryOptions } = {}) =>
  DeadLetters.layer.pipe(
    Layer.provideMerge(subject.layer()),
    Layer.provideMerge(MemoryBus.layer(options.bus)),
    Layer.provideMerge(ResilienceEvents.layer())
  )

/** An outbox with its bus, its store and its dead letters. */
export const outbox = (
  subject: Subject,
  options?: Outbox.OutboxOptions,
  rest?: { readonly bus?: MemoryBus.MemoryOptions }
) => Outbox.layer(options).pipe(Layer.provideMerge(ground(subject, rest)))

/** The events published from here on. */
export const recorded = Effect.gen(function* () {
  const events: Array<DeliveryEvent> = []
  yield* ResilienceEvents.tap((event) => Effect.sync(() => void events.push(event as DeliveryEvent)))
  return events
})

export const now = Clock.currentTimeMillis
