/**
 * Publishes events to a broker and consumes them, with acknowledgements.
 *
 * A service with two implementations: `MemoryBus.layer` in one process, for tests, and `NatsBus.layer` of
 * `@outlast/delivery/nats`. `publish` succeeds when the broker has acknowledged the event; programs publish through
 * `Outbox`, which survives a broker that is down. {@link subscribe} gives the events of a durable consumer, at least
 * once each.
 *
 * **Limit of deliveries.** A message that was delivered more often than `maxDeliveries` becomes a dead letter. The dead
 * letter is written first. Then the broker stops delivering the message, and the program never sees it. A message that
 * kills its process therefore leaves one dead letter instead of an endless loop.
 *
 * **Example** (A consumer)
 *
 * ```ts
 * EventBus.consume({ subject: "orders.*", durable: "billing" }, ({ event }) => bill(event))
 * ```
 */
import { Cause, Clock, Context, Duration, Effect, Exit, Stream } from "effect"
import * as MissingService from "@outlast/resilience/MissingService"
import * as Backoff from "@outlast/resilience/Backoff"
import * as Options from "@outlast/resilience/Options"
import { DeadLetters } from "../dead/DeadLetters.ts"
import type { OutboxEvent } from "../Event.ts"
import { isPattern } from "../Event.ts"
import type { BusError } from "./BusError.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Which events, for which consumer. */
export interface Source {
  /** A subject, or a pattern with `*` for one part and `>` for the rest. */
  readonly subject: string
  /** The consumer's name. Processes with the same name share its events; its position survives them. */
  readonly durable: string
  /** A delivery that is not acknowledged by then is delivered again. Default 30 seconds. */
  readonly ackWait?: Duration.Input | undefined
  /** Deliveries that are not acknowledged yet, at most. Default 100. */
  readonly inFlight?: number | undefined
}

export const sourceDefaults = { ackWait: "30 seconds", inFlight: 100 } as const

export interface Subscription extends Source {
  /** Deliveries of one message, at most; then it is a dead letter. Default 5. */
  readonly maxDeliveries?: number | undefined
}

export const defaults = { ...sourceDefaults, maxDeliveries: 5 } as const

/** One delivery of an event. */
export interface Delivery {
  readonly event: OutboxEvent
  /** Where the broker keeps it, and under which number. */
  readonly stream: string
  readonly sequence: number
  /** Which delivery of it this is, from 1. */
  readonly deliveries: number
  /** Done: it is not delivered again. Succeeds when the broker knows. */
  readonly ack: Effect.Effect<void, BusError>
  /** Not done: deliver it again, after a while where one is given. */
  readonly nack: (after?: Duration.Input) => Effect.Effect<void, BusError>
  /** Still at work: the broker waits another `ackWait`. */
  readonly extend: Effect.Effect<void, BusError>
  /** Never deliver it again. */
  readonly terminate: (why: string) => Effect.Effect<void, BusError>
}

/** True while the broker can be reached. */
export type Status = "up" | "down"

export interface Service {
  /**
   * Succeeds when the broker has acknowledged. `brokerId` identifies the message: one that the broker has seen within
   * its dedupe window is acknowledged as a duplicate and not stored again.
   */
  readonly publish: (
    event: OutboxEvent,
    brokerId: string
  ) => Effect.Effect<{ readonly duplicate: boolean }, BusError>
  /** Deliveries without a limit. Ends with its scope; reconnects by itself. */
  readonly deliveries: (source: Source) => Stream.Stream<Delivery, BusError>
  /** The status now, then each change. */
  readonly status: Stream.Stream<Status>
  /** Largest message that the broker takes, in bytes; Infinity while it is not known. */
  readonly maxPayload: Effect.Effect<number>
}

export class EventBus extends Context.Service<EventBus, Service>()("@outlast/delivery/bus/EventBus") {}

const module = "EventBus"
const provider = "MemoryBus.layer() or NatsBus.layer()"
const { is } = Options

export const sourceChecks: Options.Checks<Source> = {
  subject: is.required(((module, field, value) =>
    Options.check(
      typeof value === "string" && isPattern(value),
      module,
      field,
      value,
      "parts separated by dots; * stands for one part, and > at the end for the rest"
    )) as Options.Check),
  durable: is.required(((module, field, value) =>
    Options.check(
      typeof value === "string" && /^[\w-]{1,100}$/.test(value),
      module,
      field,
      value,
      "letters, digits, - and _"
    )) as Options.Check),
  ackWait: is.duration({ min: "1 millis" }),
  inFlight: is.integer({ min: 1 })
}

// -----------------------------------------------------------------------------
// Consumers
// -----------------------------------------------------------------------------

/**
 * Streams the deliveries of a durable consumer. The reader of the stream acknowledges each delivery. A delivery beyond
 * `maxDeliveries` is written to the dead letters instead. If that fails, the message stays with the broker and is
 * delivered again.
 */
export const subscribe = (options: Subscription): Stream.Stream<Delivery, BusError, EventBus | DeadLetters> =>
  Stream.unwrap(
    Effect.suspend(() => {
      Options.fields(module, options, { ...sourceChecks, maxDeliveries: is.integer({ min: 1 }) })
      const { maxDeliveries = defaults.maxDeliveries, ...source } = options
      return Effect.gen(function* () {
        const bus = yield* MissingService.get(EventBus, module, provider)
        const letters = yield* MissingService.get(DeadLetters, module, "DeadLetters.layer")
        return bus
          .deliveries(source)
          .pipe(
            Stream.filterEffect((delivery) =>
              delivery.deliveries <= maxDeliveries
                ? Effect.succeed(true)
                : Effect.as(bury(letters, source.durable, delivery), false)
            )
          )
      })
    })
  )

/** The dead letter first: if the process dies in between, the broker delivers once more and the letter is known. */
const bury = (letters: DeadLetters["Service"], durable: string, delivery: Delivery): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { event, stream, sequence, deliveries } = delivery
    const at = yield* Clock.currentTimeMillis
    yield* letters.write({
      ...event,
      key: `${stream}/${sequence}/${durable}`,
      source: durable,
      reason: "deliveries",
      detail: `Delivered ${deliveries - 1} times to \`${durable}\` without an acknowledgement.`,
      attempts: deliveries - 1,
      at
    })
    yield* delivery.terminate("dead letter")
  }).pipe(
    Effect.catch((error) =>
      Effect.logError(`A dead letter of \`${delivery.event.subject}\` could not be written`, error).pipe(
        Effect.andThen(Effect.ignore(delivery.nack(retryBurial)))
      )
    )
  )

/** The broker delivers a message again whose dead letter could not be written. */
const retryBurial = "10 seconds"

export interface ConsumeOptions extends Subscription {
  /** Handlers at a time. With 1, the default, events are handled in order of delivery. */
  readonly concurrency?: number | undefined
  /** Wait before the next delivery, by deliveries so far. Default 1 s ×2, cap 30 s. */
  readonly redelivery?: Backoff.Backoff | undefined
}

/**
 * Runs a handler for each event, until interrupted or until the broker ends the consumer. Success acknowledges the
 * event. After a failure or a defect the event is delivered again after a wait. After an interruption the broker
 * delivers it again when `ackWait` is over. A long handler keeps its delivery while it runs.
 */
export const consume = <E, R>(
  options: ConsumeOptions,
  handler: (delivery: Delivery) => Effect.Effect<unknown, E, R>
): Effect.Effect<void, BusError, EventBus | DeadLetters | R> =>
  Effect.suspend(() => {
    const { concurrency = 1, redelivery = redeliveryDefault, ...subscription } = options
    Options.integer(module, "concurrency", concurrency, { min: 1 })
    Backoff.isBackoff(module, "redelivery", redelivery)
    const ackWait = Duration.toMillis(Duration.fromInputUnsafe(subscription.ackWait ?? defaults.ackWait))
    const keep = (delivery: Delivery) =>
      Effect.forever(Effect.andThen(Effect.sleep(ackWait / 2), Effect.ignore(delivery.extend)))
    return Stream.runDrain(
      Stream.mapEffect(
        subscribe(subscription),
        (delivery) =>
          Effect.gen(function* () {
            const exit = yield* Effect.exit(
              Effect.raceFirst(
                Effect.suspend(() => handler(delivery)),
                keep(delivery)
              )
            )
            if (Exit.isSuccess(exit)) return yield* Effect.ignore(delivery.ack)
            if (Cause.hasInterruptsOnly(exit.cause)) return
            yield* Effect.logWarning(
              `The handler of \`${options.durable}\` failed at delivery ${delivery.deliveries} of ${delivery.event.id}`,
              exit.cause
            )
            const wait = Backoff.delay(redelivery, delivery.deliveries, undefined, 0.5)
            yield* Effect.ignore(delivery.nack(Duration.millis(wait)))
          }),
        { concurrency }
      )
    )
  })

const redeliveryDefault = Backoff.exponential({ initial: "1 second", factor: 2, cap: "30 seconds" })
