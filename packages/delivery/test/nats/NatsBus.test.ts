/** The bus over a real nats-server with JetStream. */
import { assert, describe, it } from "@effect/vitest"
import { jetstreamManager } from "@nats-io/jetstream"
import type { StreamConfig } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"
import { Effect, Fiber, Layer, Logger, Option, Stream } from "effect"
import type { Scope } from "effect"
import { DeadLetters, DeliveryStore, EventBus, Outbox } from "@outlast/delivery"
import type { BusError, NewEvent, OutboxEvent } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import * as Nats from "../../../../test/services/Nats.ts"
import { bodyOf, event, until } from "../support/outboxes.ts"

const withHeaders = ({ id = "", subject, body, headers = {} }: NewEvent): OutboxEvent => ({
  id,
  subject,
  body,
  headers
})

/** The operator's view: a connection of its own. */
const manager = (server: Nats.Nats) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => connect({ servers: server.url })),
      (nc) => Effect.promise(() => nc.close())
    ),
    (nc) => Effect.promise(() => jetstreamManager(nc))
  ).pipe(Effect.flatten)

const addStream = (server: Nats.Nats, config: Partial<StreamConfig> & { readonly name: string }) =>
  Effect.scoped(Effect.flatMap(manager(server), (jsm) => Effect.promise(() => jsm.streams.add(config))))

const messages = (server: Nats.Nats, stream = "EV") =>
  Effect.scoped(
    Effect.flatMap(manager(server), (jsm) =>
      Effect.promise(async () => (await jsm.streams.info(stream)).state.messages)
    )
  )

/** The subjects of requests, as they arrive. */
const requests = (server: Nats.Nats, subject: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => connect({ servers: server.url })),
      (nc) => Effect.promise(() => nc.close())
    ),
    (nc) => {
      const seen: Array<string> = []
      nc.subscribe(subject, { callback: (_, message) => void seen.push(message.subject) })
      return seen
    }
  )

/** The consumer as the server knows it. */
const consumerInfo = (server: Nats.Nats, durable = "worker") =>
  Effect.scoped(
    Effect.flatMap(manager(server), (jsm) => Effect.promise(() => jsm.consumers.info("EV", durable)))
  )

const publish = (body: string, subject = "ev.a", brokerId = body) =>
  Effect.flatMap(EventBus.EventBus, (bus) => bus.publish(withHeaders(event(body, subject)), brokerId))

const whenUp = Effect.flatMap(EventBus.EventBus, (bus) =>
  Stream.runHead(Stream.filter(bus.status, (status) => status === "up"))
)
const whenDown = Effect.flatMap(EventBus.EventBus, (bus) =>
  Stream.runHead(Stream.filter(bus.status, (status) => status === "down"))
)

const letters = DeadLetters.layer.pipe(Layer.provideMerge(DeliveryStore.layerMemory()))

const bus = (server: Nats.Nats, options: Partial<NatsBus.NatsOptions> = {}) =>
  Layer.merge(NatsBus.layer({ servers: server.url, ...options }), letters)

/** Runs with a server that has a stream EV of `ev.>`. */
const live = <A, E>(
  name: string,
  body: (
    server: Nats.Nats
  ) => Effect.Effect<A, E, EventBus.EventBus | DeadLetters.DeadLetters | NatsBus.NatsChecks | Scope.Scope>,
  options: Partial<NatsBus.NatsOptions> & { readonly config?: string } = {}
) => {
  const { config, ...rest } = options
  return it.live(
    name,
    () =>
      Effect.gen(function* () {
        const server = yield* Nats.running(config)
        yield* addStream(server, { name: "EV", subjects: ["ev.>"] })
        yield* Effect.provide(Effect.andThen(whenUp, body(server)), bus(server, rest))
      }).pipe(Effect.scoped),
    60_000
  )
}

describe.skipIf(Nats.missing !== undefined)("over NATS", () => {
  describe("publish", () => {
    live("is acknowledged, and a repeated broker id is a duplicate", (server) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* publish("1"), { duplicate: false })
        assert.deepStrictEqual(yield* publish("1"), { duplicate: true })
        assert.deepStrictEqual(yield* publish("1", "ev.a", "1#replay-1-1"), { duplicate: false })
        assert.strictEqual(yield* messages(server), 2)
      })
    )
    live(
      "says how to make a stream that is missing, and is unavailable for its subject until then",
      (server) =>
        Effect.gen(function* () {
          const error = yield* Effect.flip(publish("1", "other.a"))
          assert.deepStrictEqual(
            [error.reason, error.scope, error.permanent],
            ["unavailable", "subject", undefined]
          )
          assert.include(error.message, "No stream covers `other.a`")
          assert.include(error.message, "nats stream add EVENTS --subjects 'other.a'")
          yield* addStream(server, { name: "OTHER", subjects: ["other.>"] })
          assert.deepStrictEqual(yield* publish("1", "other.a"), { duplicate: false })
        })
    )
    live("of an outbox waits for a stream that is missing, and no event is a dead letter", (server) =>
      Effect.gen(function* () {
        const ids = Array.from({ length: 20 }, (_, i) => `${i}`)
        for (const id of ids) {
          assert.strictEqual((yield* Outbox.publish(event(id, "late.a"))).safe, "store")
        }
        yield* addStream(server, { name: "LATE", subjects: ["late.>"] })
        const { flush } = yield* Outbox.Outbox
        assert.deepStrictEqual(yield* flush("20 seconds"), { left: 0 })
        assert.strictEqual(yield* messages(server, "LATE"), 20)
        const { list } = yield* DeadLetters.DeadLetters
        assert.deepStrictEqual(yield* list(), [])
      }).pipe(Effect.provide(Outbox.layer().pipe(Layer.provideMerge(bus(server)))))
    )
    live(
      "makes the stream that it is given: before the first event, and after it was deleted",
      (server) =>
        Effect.gen(function* () {
          assert.deepStrictEqual(yield* publish("1", "made.a"), { duplicate: false })
          const jsm = yield* manager(server)
          const { config } = yield* Effect.promise(() => jsm.streams.info("MADE"))
          assert.deepStrictEqual([config.subjects, config.discard, config.max_msgs], [["made.>"], "new", 5])
          yield* Effect.promise(() => jsm.streams.delete("MADE"))
          assert.deepStrictEqual(yield* publish("2", "made.a"), { duplicate: false })
          assert.strictEqual(yield* messages(server, "MADE"), 1)
          // Another subject is none of its own.
          assert.strictEqual((yield* Effect.flip(publish("3", "other.a"))).reason, "unavailable")
        }).pipe(Effect.scoped),
      { ensureStream: { name: "MADE", subjects: ["made.>"], max_msgs: 5 } }
    )
    live(
      "leaves a stream of that name with another configuration as it is, and says so",
      (server) =>
        Effect.gen(function* () {
          const error = yield* Effect.flip(publish("1", "other.a"))
          assert.deepStrictEqual([error.reason, error.scope], ["unavailable", "subject"])
          assert.include(error.message, "could not be made")
          assert.strictEqual(yield* messages(server), 0)
        }),
      { ensureStream: { name: "EV", subjects: ["other.>"] } }
    )
    live("rejects for good a subject of the server's API, and does not send it", (server) =>
      Effect.gen(function* () {
        for (const subject of ["$JS.API.STREAM.DELETE.EV", "$SYS.REQ.SERVER.PING"]) {
          const error = yield* Effect.flip(publish("", subject, "1"))
          assert.isTrue(error.permanent)
          assert.include(error.message, "belongs to the API of the server")
        }
        yield* publish("1")
        assert.strictEqual(yield* messages(server), 1)
      })
    )
    live("finds a full stream unavailable, and only that subject", (server) =>
      Effect.gen(function* () {
        yield* addStream(server, {
          name: "FULL",
          subjects: ["full.>"],
          max_msgs: 2,
          discard: "new" as StreamConfig["discard"]
        })
        yield* publish("1", "full.a")
        yield* publish("2", "full.a")
        const error = yield* Effect.flip(publish("3", "full.a"))
        assert.strictEqual(error.reason, "unavailable")
        assert.strictEqual(error.scope, "subject")
        assert.strictEqual(error.code, "10077")
      })
    )
    live("rejects for good what is larger than the server or the stream takes", (server) =>
      Effect.gen(function* () {
        yield* addStream(server, { name: "SMALL", subjects: ["small"], max_msg_size: 100 })
        const { maxPayload } = yield* EventBus.EventBus
        assert.strictEqual(yield* maxPayload, 1_048_576)
        for (const [subject, size] of [
          ["small", 200],
          ["ev.a", 1_100_000]
        ] as const) {
          const error = yield* Effect.flip(publish("x".repeat(size), subject, subject))
          assert.strictEqual(error.reason, "rejected")
          assert.isTrue(error.permanent, error.message)
        }
      })
    )
    it.live(
      "finds a server without JetStream unavailable",
      () =>
        Effect.gen(function* () {
          const server = yield* Nats.running()
          yield* server.kill
          const port = server.port
          const { program } = yield* Effect.promise(() => import("../../../../test/services/Server.ts"))
          const bare = yield* program(port, "nats-server", ["-a", "127.0.0.1", "-p", String(port)])
          yield* bare.start
          yield* Effect.gen(function* () {
            yield* whenUp
            const error = yield* Effect.flip(publish("1"))
            assert.strictEqual(error.reason, "unavailable", error.message)
          }).pipe(Effect.provide(bus(server)))
        }).pipe(Effect.scoped),
      60_000
    )
    it.live("without a server fails at once, and the layer does not", () =>
      Effect.gen(function* () {
        const server = yield* Nats.make()
        yield* Effect.gen(function* () {
          const error = yield* Effect.flip(publish("1"))
          assert.strictEqual(error.reason, "unavailable")
          assert.include(error.message, "no connection to NATS")
        }).pipe(Effect.provide(bus(server)))
      }).pipe(Effect.scoped)
    )
    it.live(
      "with wrong credentials says so, without them, and works when they are right",
      () =>
        Effect.gen(function* () {
          const server = yield* Nats.running('authorization { user: "me", password: "right-one" }')
          const wrong = { user: "me", pass: "wrong-one" }
          const lines: Array<string> = []
          const logger = Logger.make(({ message }) => lines.push(String(message)))
          yield* Effect.gen(function* () {
            yield* until(
              Effect.map(Effect.flip(publish("1")), ({ message }) => /Authorization/i.test(message))
            )
            const error = yield* Effect.flip(publish("1"))
            assert.strictEqual(error.reason, "unavailable")
            assert.notInclude(JSON.stringify(error) + error.message + lines.join(), "wrong-one")
            assert.lengthOf(lines, 1)
            assert.match(lines[0] ?? "", /^There is no connection to NATS: .*Authorization/i)
          }).pipe(Effect.provide(bus(server, { connection: wrong })), Effect.provide(Logger.layer([logger])))
        }).pipe(Effect.scoped),
      60_000
    )
    live(
      "fails at its time limit while the server is stopped, although the event may be stored",
      (server) =>
        Effect.gen(function* () {
          yield* server.signal("SIGSTOP")
          const error = yield* Effect.flip(publish("1"))
          assert.strictEqual(error.reason, "unavailable")
          yield* server.signal("SIGCONT")
          // A busy server needs more than the time limit to go on.
          const again = yield* Effect.retry(publish("1"), { times: 30 })
          assert.deepStrictEqual(again, { duplicate: true })
          assert.strictEqual(yield* messages(server), 1)
        }),
      { timeout: "1 second" }
    )
    live(
      "on its way fails when the connection goes, not at its time limit",
      (server) =>
        Effect.gen(function* () {
          yield* server.signal("SIGSTOP")
          const going = yield* Effect.forkChild(Effect.flip(publish("1")), { startImmediately: true })
          yield* Effect.yieldNow
          yield* server.kill
          const error = yield* Fiber.join(going)
          assert.include(error.message, "connection to NATS was lost")
        }),
      { timeout: "10 minutes" }
    )
    live("works again after the server was killed and started", (server) =>
      Effect.gen(function* () {
        yield* publish("1")
        yield* server.kill
        yield* whenDown
        assert.strictEqual((yield* Effect.flip(publish("2"))).reason, "unavailable")
        yield* server.start
        yield* whenUp
        yield* Effect.retry(publish("2"), { while: (error: BusError) => error.reason === "unavailable" })
        assert.deepStrictEqual(yield* publish("1"), { duplicate: true })
        assert.strictEqual(yield* messages(server), 2)
      })
    )
  })

  describe("consumers", () => {
    const source = { subject: "ev.>", durable: "worker" }

    live("get body, headers, id, subject and the number of the delivery", () =>
      Effect.gen(function* () {
        const { publish } = yield* EventBus.EventBus
        yield* publish(withHeaders({ ...event("1", "ev.a.b"), headers: { "Trace-Id": "grün" } }), "broker-id")
        const [delivery] = yield* Stream.runCollect(Stream.take(EventBus.subscribe(source), 1))
        assert.deepStrictEqual(
          { ...delivery?.event, body: bodyOf(event("1")) },
          { id: "1", subject: "ev.a.b", body: "1", headers: { "Trace-Id": "grün" } }
        )
        assert.strictEqual(delivery?.stream, "EV")
        assert.strictEqual(delivery?.sequence, 1)
        assert.strictEqual(delivery?.deliveries, 1)
      })
    )
    live("get an event again after a nack, and never again after an acknowledgement", () =>
      Effect.gen(function* () {
        yield* publish("1")
        yield* publish("2")
        const seen: Array<string> = []
        yield* EventBus.subscribe(source).pipe(
          Stream.mapEffect((delivery) => {
            seen.push(`${bodyOf(delivery.event)}/${delivery.deliveries}`)
            return delivery.deliveries === 1 && bodyOf(delivery.event) === "1"
              ? delivery.nack("50 millis")
              : delivery.ack
          }),
          Stream.take(3),
          Stream.runDrain
        )
        assert.deepStrictEqual(seen, ["1/1", "2/1", "1/2"])
        yield* publish("3")
        const [next] = yield* Stream.runCollect(Stream.take(EventBus.subscribe(source), 1))
        assert.strictEqual(bodyOf(next?.event ?? event("none")), "3")
      })
    )
    live("never see a message beyond the limit: its dead letter is written first", () =>
      Effect.gen(function* () {
        const { list } = yield* DeadLetters.DeadLetters
        yield* publish("bad")
        yield* publish("good")
        const seen: Array<string> = []
        yield* EventBus.subscribe({ ...source, maxDeliveries: 2 }).pipe(
          Stream.mapEffect((delivery) => {
            seen.push(`${bodyOf(delivery.event)}/${delivery.deliveries}`)
            return bodyOf(delivery.event) === "bad" ? delivery.nack() : delivery.ack
          }),
          // Either may come first.
          Stream.interruptWhen(
            until(Effect.map(list(), ({ length }) => length === 1 && seen.includes("good/1")))
          ),
          Stream.runDrain
        )
        assert.deepStrictEqual(
          seen.filter((one) => one.startsWith("bad")),
          ["bad/1", "bad/2"]
        )
        assert.include(seen, "good/1")
        const [letter] = yield* list()
        assert.strictEqual(letter?.key, "EV/1/worker")
        assert.strictEqual(letter?.reason, "deliveries")
        assert.strictEqual(letter?.id, "bad")
      })
    )
    live("are set up as the source says, and without a limit of deliveries at the broker", (server) =>
      Effect.gen(function* () {
        const reading = yield* EventBus.subscribe({
          ...source,
          subject: "ev.a.*",
          ackWait: "7 seconds",
          inFlight: 3
        }).pipe(Stream.runHead, Effect.forkChild)
        yield* publish("other", "ev.b.c")
        yield* publish("1", "ev.a.b")
        assert.strictEqual(Option.getOrThrow(yield* Fiber.join(reading)).event.subject, "ev.a.b")
        const { config } = yield* consumerInfo(server)
        assert.deepInclude(config, {
          durable_name: "worker",
          filter_subject: "ev.a.*",
          ack_policy: "explicit",
          ack_wait: 7_000_000_000,
          max_ack_pending: 3,
          max_deliver: -1
        })
      })
    )
    live("tell the server about each message: in progress, again, again later, never again", (server) =>
      Effect.gen(function* () {
        const operator = yield* Effect.acquireRelease(
          Effect.promise(() => connect({ servers: server.url })),
          (nc) => Effect.promise(() => nc.close())
        )
        const heard: Array<string> = []
        operator.subscribe("$JS.ACK.>", { callback: (_, message) => void heard.push(message.string()) })
        yield* Effect.promise(() => operator.flush())
        yield* Effect.forEach(["1", "2", "3"], (id) => publish(id))
        const taken = yield* Stream.runCollect(Stream.take(EventBus.subscribe(source), 3))
        const [first, second, third] = taken
        assert.isDefined(third)
        yield* first?.extend ?? Effect.void
        yield* first?.nack("1 minute") ?? Effect.void
        yield* second?.nack() ?? Effect.void
        yield* third?.terminate("dead letter") ?? Effect.void
        const late = yield* Effect.flip(third?.ack ?? Effect.fail(new Error("no delivery")))
        assert.include(late.message, "was not confirmed")
        yield* until(Effect.sync(() => heard.length === 4))
        assert.deepStrictEqual(heard, ["+WPI", '-NAK {"delay":60000000000}', "-NAK", "+TERM dead letter"])
      })
    )
    live("that are interrupted leave the message that their pull still gets to the next one", (server) =>
      Effect.gen(function* () {
        // Nothing but a nack brings the message back while the test runs.
        const patient = { ...source, ackWait: "1 hour" as const }
        const reading = yield* Effect.forkChild(Stream.runDrain(EventBus.subscribe(patient)))
        const asks = Effect.map(Effect.exit(consumerInfo(server)), (exit) =>
          exit._tag === "Success" ? exit.value.num_waiting : 0
        )
        yield* until(Effect.map(asks, (pulls) => pulls === 1))
        yield* Fiber.interrupt(reading)
        yield* publish("1")
        const [delivery] = yield* Stream.runCollect(Stream.take(EventBus.subscribe(patient), 1))
        assert.strictEqual(delivery?.event.id, "1")
        assert.strictEqual(delivery?.deliveries, 2)
      })
    )
    live("go on after the server was killed and started", (server) =>
      Effect.gen(function* () {
        yield* publish("1")
        const seen: Array<string> = []
        const reading = yield* EventBus.consume(source, ({ event }) =>
          Effect.sync(() => void seen.push(bodyOf(event)))
        ).pipe(Effect.forkChild)
        yield* until(Effect.sync(() => seen.length === 1))
        yield* server.kill
        yield* whenDown
        yield* server.start
        yield* whenUp
        yield* Effect.retry(publish("2"), { while: (error: BusError) => error.reason === "unavailable" })
        yield* until(Effect.sync(() => seen.includes("2")))
        assert.deepStrictEqual([...new Set(seen)], ["1", "2"])
        yield* Fiber.interrupt(reading)
      })
    )
    it.live(
      "that get nothing because no stream has their subject say so once, and go on when there is one",
      () => {
        const lines: Array<string> = []
        const logger = Logger.make(({ message }) => lines.push(String(message)))
        return Effect.gen(function* () {
          const server = yield* Nats.running()
          const first = yield* EventBus.subscribe({ subject: "late.*", durable: "w" }).pipe(
            Stream.runHead,
            Effect.provide(bus(server)),
            Effect.provide(Logger.layer([logger])),
            Effect.forkChild
          )
          const asked = yield* requests(server, "$JS.API.STREAM.NAMES")
          yield* until(Effect.sync(() => lines.length > 0 && asked.length > 1))
          yield* addStream(server, { name: "LATE", subjects: ["late.>"] })
          yield* Effect.provide(
            Effect.andThen(whenUp, publish("1", "late.a")),
            NatsBus.layer({ servers: server.url })
          )
          assert.strictEqual(Option.getOrThrow(yield* Fiber.join(first)).event.subject, "late.a")
          assert.lengthOf(lines, 1)
          assert.match(
            lines[0] ?? "",
            /^The consumer `w` gets nothing, and tries again.*No stream covers `late\.\*`/
          )
        }).pipe(Effect.scoped)
      }
    )
    live("that are handled: a handler that fails gets the event again, one that dies too", () =>
      Effect.gen(function* () {
        yield* publish("1")
        let calls = 0
        const reading = yield* EventBus.consume(
          {
            ...source,
            redelivery: { _tag: "Exponential", initial: 10, factor: 1, cap: 10, jitter: 0 } as never
          },
          () =>
            Effect.suspend(() => {
              calls++
              if (calls === 1) return Effect.fail("no")
              return calls === 2 ? Effect.die("oh") : Effect.void
            })
        ).pipe(Effect.forkChild)
        yield* until(Effect.sync(() => calls === 3))
        yield* Fiber.interrupt(reading)
        assert.strictEqual(calls, 3)
      })
    )
  })

  describe("check", () => {
    live("lists what is wrong with the streams of some subjects", (server) =>
      Effect.gen(function* () {
        const second = 1_000_000_000
        yield* addStream(server, {
          name: "BAD",
          subjects: ["bad.>"],
          storage: "memory" as StreamConfig["storage"],
          max_msgs: 10,
          duplicate_window: 5 * second,
          max_age: 60 * second,
          no_ack: true
        })
        const findings = yield* NatsBus.check({ subjects: ["ev.a", "bad.a", "none.a"] })
        assert.deepStrictEqual(
          findings.map(({ subject, stream, problem }) => `${subject} ${stream} ${problem}`),
          [
            "bad.a BAD dedupeWindow",
            "bad.a BAD discardOld",
            "bad.a BAD memoryStorage",
            "bad.a BAD noAck",
            "bad.a BAD maxAge",
            "none.a undefined noStream"
          ]
        )
        assert.include(findings[0]?.message, "for 5s only")
      })
    )
  })

  describe("with an outbox", () => {
    it.live(
      "events of an outage are delivered after it, in order, and straight again",
      () =>
        Effect.gen(function* () {
          const server = yield* Nats.running()
          yield* addStream(server, { name: "EV", subjects: ["ev.>"] })
          yield* Effect.gen(function* () {
            yield* whenUp
            yield* Outbox.publish(event("0", "ev.a"))
            yield* server.kill
            const ids = Array.from({ length: 500 }, (_, i) => `${i + 1}`)
            yield* Effect.forEach(ids, (id) => Outbox.publish(event(id, "ev.a")), { concurrency: 50 })
            yield* server.start
            const { flush } = yield* Outbox.Outbox
            assert.deepStrictEqual(yield* flush("30 seconds"), { left: 0 })
            assert.strictEqual((yield* Outbox.publish(event("last", "ev.a"))).safe, "broker")
            const seen = yield* EventBus.subscribe({ subject: "ev.a", durable: "w" }).pipe(
              Stream.mapEffect((delivery) => Effect.as(delivery.ack, bodyOf(delivery.event))),
              Stream.take(502),
              Stream.runCollect
            )
            assert.deepStrictEqual([...seen], ["0", ...ids, "last"])
          }).pipe(Effect.provide(Outbox.layer().pipe(Layer.provideMerge(bus(server)))))
        }).pipe(Effect.scoped),
      60_000
    )
  })
})
