/**
 * Event bus in this process, with the rules of a JetStream stream, for tests and demonstrations.
 *
 * A message is kept until every consumer of its subject has acknowledged it. Without a consumer all messages are kept,
 * up to `capacity`. A repeated broker id within the dedupe window is acknowledged and not stored. A full bus is
 * unavailable for the event. Tests use {@link MemoryBus} to take the broker down or to make it answer with errors.
 *
 * A restart of the process loses everything.
 */
import { Clock, Context, Duration, Effect, Layer, Queue, Stream } from "effect"
import * as Options from "@outlast/resilience/Options"
import type { OutboxEvent } from "../Event.ts"
import { matches, sizeOf } from "../Event.ts"
import { Signal } from "../Signal.ts"
import { BusError } from "./BusError.ts"
import type { Delivery, Service, Source, Status } from "./EventBus.ts"
import { EventBus, sourceChecks, sourceDefaults } from "./EventBus.ts"

export interface MemoryOptions {
  /** Messages that are kept, at most. Default 10,000. */
  readonly capacity?: number | undefined
  /** For so long a repeated broker id is swallowed. Default 2 minutes. */
  readonly dedupeWindow?: Duration.Input | undefined
  /** Largest message in bytes. Default 1 MiB. */
  readonly maxPayload?: number | undefined
}

export const defaults = {
  capacity: 10_000,
  dedupeWindow: "2 minutes",
  maxPayload: 1_048_576
} as const satisfies MemoryOptions

/** A message as the bus keeps it. */
export interface Kept {
  readonly sequence: number
  readonly event: OutboxEvent
  readonly brokerId: string
}

/** Controls of the bus, for tests. */
export interface Control {
  /** Down: every publish is unavailable, and consumers get nothing. */
  readonly set: (status: Status) => Effect.Effect<void>
  /** Sets the answer to each later publish: an error, before or after the message was stored, or `undefined` for success. */
  readonly answer: (
    answer: (event: OutboxEvent) => { readonly error: BusError; readonly stored?: boolean } | undefined
  ) => Effect.Effect<void>
  /** Every message that was ever stored, in order: at most `capacity`, the last ones. */
  readonly stored: Effect.Effect<ReadonlyArray<Kept>>
}

export class MemoryBus extends Context.Service<MemoryBus, Control>()("@outlast/delivery/bus/MemoryBus") {}

/** The bus and its handle. Throws an `InvalidOption` for an option that is not allowed. */
export const layer = (options: MemoryOptions = {}): Layer.Layer<EventBus | MemoryBus> =>
  Layer.effectContext(
    Effect.map(make(options), ({ bus, control }) =>
      Context.make(EventBus, bus).pipe(Context.add(MemoryBus, control))
    )
  )

interface Consumer {
  readonly pattern: string
  /** The last message that was delivered for the first time. */
  cursor: number
  /** Deliveries that were not acknowledged: how many of each, and when it is delivered again. */
  readonly open: Map<number, { deliveries: number; due: number }>
}

/** A bus and its handle. */
export const make = (
  options: MemoryOptions = {}
): Effect.Effect<{ readonly bus: Service; readonly control: Control }> =>
  Effect.sync(() => {
    Options.fields(module, options, {
      capacity: Options.is.integer({ min: 1 }),
      dedupeWindow: Options.is.duration(),
      maxPayload: Options.is.integer({ min: 1 })
    })
    const { capacity = defaults.capacity, maxPayload = defaults.maxPayload } = options
    const window = Duration.toMillis(options.dedupeWindow ?? defaults.dedupeWindow)

    const log = new Map<number, Kept>()
    const seen = new Map<string, { readonly sequence: number; readonly at: number }>()
    const consumers = new Map<string, Consumer>()
    const readers = new Set<Queue.Queue<Status>>()
    const changed = new Signal()
    let history: Array<Kept> = []
    let sequence = 0
    let status: Status = "up"
    let answer: Parameters<Control["answer"]>[0] = () => undefined

    const wake = Effect.sync(() => changed.pulse())

    /** Forgets what all consumers have done with. */
    const drop = (done: number): void => {
      const kept = log.get(done)
      if (kept === undefined) return
      const wanted = [...consumers.values()].filter(({ pattern }) => matches(pattern, kept.event.subject))
      const isDone = wanted.every(({ cursor, open }) => cursor >= done && !open.has(done))
      if (wanted.length > 0 && isDone) log.delete(done)
    }

    const unavailable = (detail: string, subject: string, scope: "broker" | "subject" = "broker") =>
      new BusError({ reason: "unavailable", detail, subject, scope })

    const store = (event: OutboxEvent, brokerId: string, now: number): boolean => {
      for (const [id, { at }] of seen) {
        if (now - at < window && seen.size <= capacity) break
        seen.delete(id)
      }
      if (seen.has(brokerId)) return true
      const { id, subject, body, headers } = event
      // A copy: the caller may use its buffer again.
      const copy = { id, subject, body: body.slice(), headers: { ...headers } }
      const kept = { sequence: ++sequence, event: copy, brokerId }
      log.set(kept.sequence, kept)
      seen.set(brokerId, { sequence: kept.sequence, at: now })
      history = history.length >= capacity * 2 ? [...history.slice(-capacity), kept] : history
      if (history.at(-1) !== kept) history.push(kept)
      return false
    }

    const publish: Service["publish"] = (event, brokerId) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { subject } = event
        if (status === "down") return unavailable("It is down.", subject)
        if (sizeOf(event) > maxPayload) {
          return new BusError({
            reason: "rejected",
            permanent: true,
            subject,
            detail: `The message is larger than ${maxPayload} bytes.`
          })
        }
        const told = answer(event)
        if (told !== undefined && told.stored !== true) return told.error
        if (log.size >= capacity && !seen.has(brokerId)) {
          return unavailable(`It holds ${capacity} messages, its capacity.`, subject, "subject")
        }
        const duplicate = store(event, brokerId, now)
        return Effect.andThen(wake, told === undefined ? Effect.succeed({ duplicate }) : told.error)
      })

    const take = (consumer: Consumer, ackWait: number, inFlight: number) =>
      Effect.gen(function* () {
        while (true) {
          const now = yield* Clock.currentTimeMillis
          let next = Infinity
          for (const [number, one] of consumer.open) {
            const kept = log.get(number)
            if (kept === undefined) consumer.open.delete(number)
            else if (one.due <= now && status === "up") {
              one.deliveries++
              one.due = now + ackWait
              return { kept, deliveries: one.deliveries }
            } else next = Math.min(next, one.due)
          }
          if (consumer.open.size < inFlight && status === "up") {
            for (const kept of log.values()) {
              if (kept.sequence <= consumer.cursor || !matches(consumer.pattern, kept.event.subject)) continue
              consumer.cursor = kept.sequence
              consumer.open.set(kept.sequence, { deliveries: 1, due: now + ackWait })
              return { kept, deliveries: 1 }
            }
          }
          yield* next === Infinity || status === "down"
            ? changed.next
            : Effect.raceFirst(changed.next, Effect.sleep(Duration.millis(Math.max(0, next - now))))
        }
      })

    const deliveries = (source: Source): Stream.Stream<Delivery, BusError> =>
      Stream.suspend(() => {
        Options.fields("EventBus", source, sourceChecks)
        const { subject, durable, inFlight = sourceDefaults.inFlight } = source
        const ackWait = Duration.toMillis(source.ackWait ?? sourceDefaults.ackWait)
        const known = consumers.get(durable)
        const consumer = known ?? { pattern: subject, cursor: 0, open: new Map() }
        consumers.set(durable, consumer)
        const settle = (number: number, change: (one: { due: number }, now: number) => void) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            if (status === "down") return unavailable("It is down.", subject)
            const one = consumer.open.get(number)
            if (one !== undefined) change(one, now)
            return wake
          })
        const forget = (number: number) =>
          settle(number, () => {
            consumer.open.delete(number)
            drop(number)
          })
        return Stream.fromEffectRepeat(
          Effect.map(take(consumer, ackWait, inFlight), ({ kept, deliveries }): Delivery => ({
            event: kept.event,
            stream: "memory",
            sequence: kept.sequence,
            deliveries,
            ack: forget(kept.sequence),
            nack: (after = 0) =>
              settle(kept.sequence, (one, now) => {
                one.due = now + Duration.toMillis(Duration.fromInputUnsafe(after))
              }),
            extend: settle(kept.sequence, (one, now) => {
              one.due = now + ackWait
            }),
            terminate: () => forget(kept.sequence)
          }))
        )
      })

    return {
      bus: {
        publish,
        deliveries,
        status: Stream.unwrap(
          Effect.map(
            Effect.acquireRelease(
              Effect.tap(Queue.sliding<Status>(16), (reader) =>
                Effect.sync(() => {
                  readers.add(reader)
                  Queue.offerUnsafe(reader, status)
                })
              ),
              (reader) => Effect.sync(() => readers.delete(reader))
            ),
            Stream.fromQueue
          )
        ),
        maxPayload: Effect.succeed(maxPayload)
      },
      control: {
        set: (next) =>
          Effect.suspend(() => {
            status = next
            for (const reader of readers) Queue.offerUnsafe(reader, next)
            return wake
          }),
        answer: (next) =>
          Effect.sync(() => {
            answer = next
          }),
        stored: Effect.sync(() => history.slice(-capacity))
      }
    }
  })

const module = "MemoryBus"
