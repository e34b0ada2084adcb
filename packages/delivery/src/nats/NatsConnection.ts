/**
 * Keeps one connection to NATS: connects in the background, and reconnects without limit when it closes.
 *
 * Tells whether the server can be reached now. Requests in flight fail at once when the connection is lost, instead of
 * after their own time limit.
 */
import { jetstream, jetstreamManager } from "@nats-io/jetstream"
import type { JetStreamClient, JetStreamManager } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"
import type { NatsConnection, NodeConnectionOptions } from "@nats-io/transport-node"
import { Duration, Effect, Latch, Queue, Random, Stream } from "effect"
import type { Scope } from "effect"
import { Backoff } from "@outlast/resilience"
import type { BusError } from "../bus/BusError.ts"
import type { Status } from "../bus/EventBus.ts"
import * as Acks from "./NatsAcks.ts"
import * as Errors from "./NatsErrors.ts"

/** Clients that work while the server can be reached. */
export interface Live {
  readonly nc: NatsConnection
  readonly js: JetStreamClient
  readonly jsm: JetStreamManager
  readonly acks: Acks.Acks
}

export interface Connection {
  /** The connection, while it is up. */
  readonly live: () => Live | undefined
  /** The connection as soon as it is up. */
  readonly whenUp: Effect.Effect<Live>
  /** Ends when the connection is gone. */
  readonly whenDown: Effect.Effect<void>
  /** The reason why nothing can be sent now. */
  readonly unavailable: (subject?: string) => BusError
  readonly status: Stream.Stream<Status>
}

const reconnect = Backoff.exponential({ initial: "250 millis", factor: 2, cap: "5 seconds" })

/** How long a closing connection may take to hand over what it has sent. */
const closeWithin = "2 seconds"

export const make = (
  options: NodeConnectionOptions,
  timeout: number
): Effect.Effect<Connection, never, Scope.Scope> =>
  Effect.gen(function* () {
    let live: Live | undefined
    let problem: string | undefined
    const readers = new Set<Queue.Queue<Status>>()
    const up = Latch.makeUnsafe(false)
    const down = Latch.makeUnsafe(true)

    const set = (next: Live | undefined): void => {
      if (next === live) return
      const before = live
      live = next
      const status = next === undefined ? "down" : "up"
      if (next === undefined) {
        up.closeUnsafe()
        down.openUnsafe()
        before?.acks.abort(new Error("The connection to NATS was lost before it acknowledged"))
      } else {
        problem = undefined
        down.closeUnsafe()
        up.openUnsafe()
      }
      for (const reader of readers) Queue.offerUnsafe(reader, status)
    }

    const open = Effect.callback<NatsConnection, unknown>((resume) => {
      let wanted = true
      connect({
        pingInterval: 10_000,
        reconnectTimeWait: 500,
        ...options,
        // Ours to decide: it never gives up, and a wrong password may be put right.
        maxReconnectAttempts: -1,
        waitOnFirstConnect: false,
        ignoreAuthErrorAbort: true
      }).then(
        (nc) => {
          if (wanted) resume(Effect.succeed(nc))
          else void nc.close()
        },
        (error: unknown) => resume(Effect.fail(error))
      )
      return Effect.sync(() => {
        wanted = false
      })
    })

    const watch = (nc: NatsConnection, own: Live): Effect.Effect<void> =>
      Effect.ignore(
        Effect.tryPromise(async () => {
          for await (const status of nc.status()) {
            if (status.type === "disconnect" || status.type === "staleConnection") set(undefined)
            else if (status.type === "reconnect") set(own)
            else if (status.type === "error") problem = Errors.textOf(status.error)
          }
        })
      )

    const session = Effect.scoped(
      Effect.gen(function* () {
        const nc = yield* Effect.acquireRelease(open, (nc) =>
          // Sends buffered messages, such as acknowledgements, before it closes.
          Effect.promise(() => nc.drain().catch(() => nc.close())).pipe(
            Effect.timeoutOption(closeWithin),
            Effect.andThen(Effect.promise(() => nc.close().catch(() => {})))
          )
        )
        yield* Effect.addFinalizer(() => Effect.sync(() => set(undefined)))
        const jsm = yield* Effect.promise(() => jetstreamManager(nc, { timeout, checkAPI: false }))
        const acks = yield* Acks.make(nc, options.inboxPrefix, timeout)
        const own: Live = { nc, jsm, js: jetstream(nc, { timeout }), acks }
        set(own)
        yield* Effect.raceFirst(
          watch(nc, own),
          Effect.promise(() => nc.closed())
        )
      })
    )

    yield* Effect.gen(function* () {
      let failures = 0
      // Each problem is logged once, until there was a connection.
      let logged: string | undefined
      while (true) {
        failures = yield* Effect.matchEffect(session, {
          onSuccess: () => {
            logged = undefined
            return Effect.succeed(1)
          },
          onFailure: (error) => {
            const text = Errors.textOf(error)
            problem = text
            const isKnown = text === logged
            logged = text
            return Effect.as(
              isKnown
                ? Effect.void
                : Effect.logWarning(
                    `There is no connection to NATS: ${text}. It is tried again until it succeeds.`
                  ),
              failures + 1
            )
          }
        })
        const draw = yield* Random.next
        yield* Effect.sleep(Duration.millis(Backoff.delay(reconnect, failures, undefined, draw)))
      }
    }).pipe(Effect.forkScoped)

    return {
      live: () => live,
      whenUp: Effect.suspend(function wait(): Effect.Effect<Live> {
        return live === undefined ? Effect.andThen(up.await, Effect.suspend(wait)) : Effect.succeed(live)
      }),
      whenDown: Effect.suspend(() => (live === undefined ? Effect.void : down.await)),
      unavailable: (subject) =>
        Errors.unavailable(
          undefined,
          subject,
          problem === undefined
            ? "There is no connection to NATS."
            : `There is no connection to NATS: ${problem}.`
        ),
      status: Stream.unwrap(
        Effect.map(
          Effect.acquireRelease(
            Effect.tap(Queue.sliding<Status>(16), (reader) =>
              Effect.sync(() => {
                readers.add(reader)
                Queue.offerUnsafe(reader, live === undefined ? "down" : "up")
              })
            ),
            (reader) => Effect.sync(() => readers.delete(reader))
          ),
          Stream.fromQueue
        )
      )
    }
  })
