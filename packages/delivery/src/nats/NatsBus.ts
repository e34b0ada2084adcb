/**
 * The event bus over NATS JetStream.
 *
 * - **Publish** waits for the acknowledgement of a stream, and fails at once without a connection. `NatsErrors` judges
 *   errors. For a subject without a stream, the server is asked before the event is rejected.
 * - **Connection.** Made and repeated in the background without limit, so that the layer never waits or fails for it.
 * - **Consumers** are durable pull consumers with explicit acknowledgements and no limit of deliveries at the broker:
 *   `EventBus.subscribe` has the limit, and writes the dead letter first. One message is pulled at a time, so that none
 *   waits in a buffer while its time to acknowledge runs.
 *
 * **Limits.** An acknowledgement of JetStream is not an fsync: a server that loses power can lose the last seconds, as
 * its `sync_interval` says. Replicas help, and so does `mode: "alwaysStore"` as long as the outbox still has the event.
 * Streams are the operator's: {@link check} says what is wrong with them, and only that of `ensureStream` is made.
 */
import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream"
import type { Consumer, JsMsg } from "@nats-io/jetstream"
import { headers } from "@nats-io/transport-node"
import type { MsgHdrs, NodeConnectionOptions } from "@nats-io/transport-node"
import { Cause, Config, Context, Duration, Effect, Exit, Layer, Option, Schedule, Stream } from "effect"
import * as Options from "@outlast/resilience/Options"
import { BusError } from "../bus/BusError.ts"
import type { Delivery, Service, Source } from "../bus/EventBus.ts"
import { EventBus, sourceChecks, sourceDefaults } from "../bus/EventBus.ts"
import type { OutboxEvent } from "../Event.ts"
import { idHeader } from "../Event.ts"
import * as Connection from "./NatsConnection.ts"
import type { Live } from "./NatsConnection.ts"
import * as Errors from "./NatsErrors.ts"
import * as Streams from "./NatsStreams.ts"

export interface NatsOptions {
  /** Addresses, for example `"nats.internal:4222"`. */
  readonly servers: string | ReadonlyArray<string>
  /** How long an acknowledgement is waited for. Default 5 seconds. */
  readonly timeout?: Duration.Input | undefined
  /**
   * Everything else of the connection: credentials, TLS, name. Options about reconnecting are set by this module.
   */
  readonly connection?: Omit<NodeConnectionOptions, "servers"> | undefined
  /**
   * Makes this stream where the server has none for one of its subjects: before the first event, and after the server has
   * lost its data. Default: none is made, and events of a subject without a stream wait.
   */
  readonly ensureStream?: Streams.EnsureStream | undefined
}

export const defaults = { timeout: "5 seconds" } as const

/** Operations that only NATS offers. */
export interface Nats {
  /** Reports problems with the streams of these subjects. Fails without a connection. */
  readonly check: (options: Streams.CheckOptions) => Effect.Effect<ReadonlyArray<Streams.Finding>, BusError>
}

export class NatsChecks extends Context.Service<NatsChecks, Nats>()("@outlast/delivery/nats/NatsChecks") {}

const module = "NatsBus"

/** Reports problems with the streams of these subjects. */
export const check = (
  options: Streams.CheckOptions
): Effect.Effect<ReadonlyArray<Streams.Finding>, BusError, NatsChecks> =>
  Effect.flatMap(NatsChecks, (nats) => nats.check(options))

/** The bus over a connection of its own. Throws an `InvalidOption` for an option that is not allowed. */
export const layer = (options: NatsOptions): Layer.Layer<EventBus | NatsChecks> => {
  Options.fields<NatsOptions>(module, options, {
    servers: Options.is.required(Options.is.either(Options.is.list(Options.is.text), Options.is.text)),
    timeout: Options.is.seconds(Options.is.duration({ min: "1 millis" })),
    connection: Options.is.record(Options.is.anything, "options of @nats-io/transport-node"),
    ensureStream: Options.is.record(Options.is.anything, "a stream with a name and subjects")
  })
  Options.check(options.servers.length > 0, module, "servers", options.servers, "at least one address")
  const { ensureStream } = options
  if (ensureStream !== undefined) {
    Options.check(
      typeof ensureStream.name === "string",
      module,
      "ensureStream.name",
      ensureStream.name,
      "a text"
    )
    Options.is.list(Options.is.text)(module, "ensureStream.subjects", ensureStream.subjects)
  }
  return Layer.effectContext(
    Effect.map(
      Connection.make(
        {
          ...options.connection,
          servers: typeof options.servers === "string" ? options.servers : [...options.servers]
        },
        timeoutOf(options)
      ),
      (connection) => {
        const timeout = timeoutOf(options)
        return Context.make(EventBus, busOver(connection, timeout, ensureStream)).pipe(
          Context.add(NatsChecks, {
            check: (what) =>
              Effect.suspend(() => {
                Options.fields<Streams.CheckOptions>(module, what, {
                  subjects: Options.is.required(Options.is.list(Options.is.text)),
                  dedupeWindow: Options.is.duration(),
                  maxAge: Options.is.duration()
                })
                return connection.whenUp.pipe(
                  Effect.timeoutOption(timeout),
                  Effect.flatMap(
                    Option.match({
                      onNone: () => Effect.fail(connection.unavailable()),
                      onSome: ({ jsm }) => Effect.promise(() => Streams.check(jsm, what))
                    })
                  )
                )
              })
          })
        )
      }
    )
  )
}

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * NatsBus.layerConfig({ servers: Config.String("NATS_URL") })
 * ```
 */
export const layerConfig = (
  options: Config.Wrap<NatsOptions>
): Layer.Layer<EventBus | NatsChecks, Config.ConfigError> =>
  Layer.unwrap(Effect.map(Config.unwrap<NatsOptions>(options), layer))

const timeoutOf = ({ timeout = defaults.timeout }: NatsOptions): number =>
  Duration.toMillis(Duration.fromInputUnsafe(timeout))

const busOver = (
  connection: Connection.Connection,
  timeout: number,
  wanted: Streams.EnsureStream | undefined
): Service => ({
  publish: (event, brokerId) =>
    Effect.suspend(() => {
      if (isOfServer(event.subject)) {
        return Effect.fail(
          new BusError({
            reason: "rejected",
            permanent: true,
            subject: event.subject,
            detail: "Its subject belongs to the API of the server. Publish under another subject."
          })
        )
      }
      const live = connection.live()
      return live === undefined
        ? Effect.fail(connection.unavailable(event.subject))
        : send(live, event, brokerId, wanted)
    }),
  deliveries: (source) =>
    Stream.suspend(() => {
      Options.fields<Source>("EventBus", source, sourceChecks)
      return deliveriesOf(connection, source, timeout, wanted)
    }),
  status: connection.status,
  maxPayload: Effect.sync(() => connection.live()?.nc.info?.max_payload ?? Infinity)
})

// -----------------------------------------------------------------------------
// Publish
// -----------------------------------------------------------------------------

/** Requests of the server, such as `$JS.API.STREAM.DELETE.ORDERS`. Key-value buckets (`$KV`) are streams. */
const isOfServer = (subject: string): boolean => /^\$(?:JS|SYS)\./.test(subject)

const send = (
  live: Live,
  event: OutboxEvent,
  brokerId: string,
  wanted: Streams.EnsureStream | undefined
): Effect.Effect<{ readonly duplicate: boolean }, BusError> =>
  Effect.callback<{ readonly duplicate: boolean }, BusError>((resume) => {
    const { subject } = event
    const forget = live.acks.publish(subject, event.body, headersOf(event, brokerId), (answer) => {
      if (Exit.isSuccess(answer)) return resume(Effect.succeed(answer.value))
      const error = answer.cause.reasons.find(Cause.isFailReason)?.error
      const verdict = Errors.verdict(error, subject)
      if (verdict !== "ask") return resume(Effect.fail(verdict))
      // No stream took the event, so it can be sent again to one that was made.
      const again = send(live, event, brokerId, undefined)
      resume(ask(live, subject, error, wanted, again))
    })
    return Effect.sync(forget)
  })

/** Asks the server after a publish without an answer, and sends the event again to a stream that was made for it. */
const ask = <A>(
  live: Live,
  subject: string,
  error: unknown,
  wanted: Streams.EnsureStream | undefined,
  again: Effect.Effect<A, BusError>
): Effect.Effect<A, BusError> =>
  Effect.flatMap(
    Effect.tryPromise({
      try: () => Streams.ensured(live.jsm, subject, wanted),
      catch: (refused) =>
        refused instanceof BusError
          ? refused
          : Errors.unavailable(error, subject, "JetStream does not answer.")
    }),
    ({ isMade, stream }) => {
      if (isMade) return again
      return Effect.fail(
        stream === undefined
          ? Errors.noStream(subject)
          : new BusError({
              reason: "unavailable",
              scope: "subject",
              subject,
              detail: `Its stream \`${stream}\` does not answer.`,
              cause: error
            })
      )
    }
  )

/** The broker drops a message whose id it has seen within the stream's window. */
const brokerIdHeader = "Nats-Msg-Id"

const headersOf = ({ id, headers: own }: OutboxEvent, brokerId: string): MsgHdrs => {
  const all = headers()
  for (const name in own) all.set(name, own[name] ?? "")
  all.append(idHeader, id)
  all.append(brokerIdHeader, brokerId)
  return all
}

// -----------------------------------------------------------------------------
// Consumers
// -----------------------------------------------------------------------------

/** A pull ends after so long without a message, and begins again. */
const pullFor = 30_000

/** Between two tries to set up a consumer. */
const retry = Schedule.spaced("1 second")

const deliveriesOf = (
  connection: Connection.Connection,
  source: Source,
  timeout: number,
  wanted: Streams.EnsureStream | undefined
): Stream.Stream<Delivery, BusError> => {
  let current: { readonly live: Live; readonly consumer: Consumer } | undefined
  /** The problem that was logged last: each is logged once. */
  let told: string | undefined

  const consumer = Effect.gen(function* () {
    const live = yield* connection.whenUp
    if (current?.live === live) return current.consumer
    const made = yield* Effect.tryPromise({
      try: () => setUp(live, source, wanted),
      catch: (error) => (error instanceof BusError ? error : Errors.unavailable(error, source.subject))
    })
    current = { live, consumer: made }
    told = undefined
    return made
  })

  const pull = Effect.gen(function* () {
    const from = yield* consumer
    return yield* next(from)
  }).pipe(
    Effect.raceFirst(Effect.andThen(connection.whenUp, Effect.as(connection.whenDown, undefined))),
    Effect.tapError((error) => {
      current = undefined
      if (error.message === told || connection.live() === undefined) return Effect.void
      told = error.message
      return Effect.logWarning(`The consumer \`${source.durable}\` gets nothing, and tries again`, error)
    }),
    // Unavailable is no end: the consumer waits for the broker, as long as it takes.
    Effect.retry({ while: (error) => error.reason === "unavailable", schedule: retry })
  )

  return Stream.fromEffectRepeat(pull).pipe(
    Stream.filter((message) => message !== undefined),
    Stream.map((message) => deliveryOf(connection, message, timeout))
  )
}

/** Pulls one message, or none. A message that arrives after an interruption goes back at once. */
const next = (consumer: Consumer): Effect.Effect<JsMsg | undefined, BusError> =>
  Effect.callback((resume) => {
    let wanted = true
    consumer.next({ expires: pullFor }).then(
      (message) => {
        if (wanted) resume(Effect.succeed(message ?? undefined))
        else message?.nak()
      },
      (error: unknown) => resume(Effect.fail(Errors.unavailable(error)))
    )
    return Effect.sync(() => {
      wanted = false
    })
  })

const setUp = async (
  live: Live,
  source: Source,
  wanted: Streams.EnsureStream | undefined
): Promise<Consumer> => {
  const { subject, durable, ackWait = sourceDefaults.ackWait, inFlight = sourceDefaults.inFlight } = source
  const { stream } = await Streams.ensured(live.jsm, subject, wanted)
  if (stream === undefined) throw Errors.noStream(subject)
  await live.jsm.consumers.add(stream, {
    durable_name: durable,
    filter_subject: subject,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.All,
    ack_wait: Duration.toMillis(Duration.fromInputUnsafe(ackWait)) * 1e6,
    max_ack_pending: inFlight,
    // The client has the limit, and writes the dead letter first.
    max_deliver: -1
  })
  return live.js.consumers.get(stream, durable)
}

const deliveryOf = (connection: Connection.Connection, message: JsMsg, timeout: number): Delivery => {
  const { subject, info } = message
  const own: Record<string, string> = {}
  for (const [name, [value]] of message.headers ?? []) {
    if (value !== undefined && !/^nats-/i.test(name) && name !== idHeader) own[name] = value
  }
  const id = message.headers?.get(idHeader) ?? ""
  const fallback = `${info.stream}/${info.streamSequence}`
  const tell = (what: () => void): Effect.Effect<void, BusError> =>
    Effect.try({
      try: () => {
        if (connection.live() === undefined) throw connection.unavailable(subject)
        what()
      },
      catch: (error) => (error instanceof BusError ? error : Errors.unavailable(error, subject))
    })
  return {
    event: { id: id === "" ? fallback : id, subject, body: message.data, headers: own },
    stream: info.stream,
    sequence: info.streamSequence,
    deliveries: info.deliveryCount,
    ack: Effect.flatMap(
      Effect.tryPromise({
        try: () => message.ackAck({ timeout }),
        catch: (error) => Errors.unavailable(error, subject)
      }),
      (isKnown) =>
        isKnown
          ? Effect.void
          : Effect.fail(Errors.unavailable(undefined, subject, "The acknowledgement was not confirmed."))
    ),
    nack: (after = 0) =>
      tell(() => {
        const millis = Duration.toMillis(Duration.fromInputUnsafe(after))
        if (millis === 0) message.nak()
        else message.nak(millis)
      }),
    extend: tell(() => message.working()),
    terminate: (why) => tell(() => message.term(why))
  }
}
