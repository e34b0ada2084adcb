/**
 * An HTTP server on this machine that stands in for Anthropic, OpenAI and Google, and follows a `FaultPlan`.
 *
 * The server supports Anthropic Messages, OpenAI Chat Completions and Responses, and Gemini's `generateContent`.
 * Requests that the real APIs refuse are refused with the same status and body, so that they already fail in a test.
 * Only accepted requests reach the plan. Answers have the format of the real APIs, with unknown fields, keep-alives,
 * and chunks that break inside lines and characters.
 *
 * Time is the Clock of the fiber that made the server: slow answers and keep-alives obey TestClock. Closing the scope
 * destroys every socket and interrupts every answer.
 *
 * **Limits.** Answers come from the plan, not from a model. Tokens are estimated at four characters each. Reasoning is
 * sent even when the request did not ask for it. There is no TLS and no built-in rate limit. Stored responses are kept
 * until the server ends.
 *
 * **Example** (A server that is overloaded once)
 *
 * ```ts
 * const server = yield* FakeProvider.make({
 *   plan: { faults: [{ fault: { type: "status", status: 529 } }], answers: [{ text: "hello" }] }
 * })
 * const anthropic = createAnthropic({ baseURL: server.baseUrl("anthropic"), apiKey: "any" })
 * ```
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { Cause, Clock, Effect, Exit, FiberSet, Predicate, PubSub, Scope, Stream } from "effect"
import type { Schema } from "effect"
import { Options as Check } from "@outlast/resilience"
import type { Fault, Reply } from "./plan/FaultPlan.ts"
import * as FaultPlan from "./plan/FaultPlan.ts"
import { anthropic } from "./server/anthropic/wire.ts"
import type { Connection } from "./server/Connection.ts"
import * as Connection_ from "./server/Connection.ts"
import { google } from "./server/google/wire.ts"
import { openai } from "./server/openai/wire.ts"
import * as Play from "./server/play.ts"
import { responses } from "./server/responses/wire.ts"
import { parse } from "./server/shape.ts"
import type { Accepted, Context, Kept, ReadOptions, Refusal, Wire } from "./server/Wire.ts"

/** The wire formats of the server. */
export const wires: ReadonlyArray<Wire> = [anthropic, openai, responses, google]

export type Provider = Wire["provider"]

export interface Options {
  readonly plan: FaultPlan.FaultPlan | FaultPlan.Runner
  /** Also applies disputed rules, on which reports about the real APIs disagree. Default: true. */
  readonly strict?: boolean
  /** The accepted keys. Default: every key. */
  readonly keys?: Partial<Record<Provider, ReadonlyArray<string>>>
  /** The known models. Default: every model. */
  readonly models?: Partial<Record<Provider, ReadonlyArray<string>>>
  /**
   * Returns the organisation that owns a key. Encrypted reasoning, stored items and the thinking of some models can be
   * used only by the organisation for which they were made. Default: all keys belong to one.
   */
  readonly organisation?: (key: string) => string
  /** Context windows in tokens, by model. Default: no limit. */
  readonly windows?: Readonly<Record<string, number>>
  /** Port on 127.0.0.1. Default: any free one. A port in use is a defect. */
  readonly port?: number
}

/** The outcome of a request. */
export type Outcome =
  | { readonly type: "answer"; readonly turn: number }
  | { readonly type: "fault"; readonly turn: number; readonly fault: Fault }
  /** The plan has no answer for the turn. Either the plan or the conversation is wrong. */
  | { readonly type: "no-answer"; readonly turn: number }
  /**
   * The request was refused. `rule` names the row of the rules table. Two names are the server's own: `path` for a path
   * that no wire format serves, and `plan` when the answer cannot be built or sent (e.g. a function of the plan throws,
   * or a header is invalid).
   */
  | { readonly type: "refused"; readonly rule: string; readonly status: number; readonly message: string }

/** A request that arrived completely. */
export interface RecordedRequest {
  /** Number of the request from 0, in the order of arrival. */
  readonly index: number
  /** Name of the provider. Empty when no wire format serves the path. */
  readonly provider: string
  readonly path: string
  /** Name of the model. Empty when the request names none. */
  readonly model: string
  /** The last four characters of the key after an ellipsis. Empty without a key. */
  readonly key: string
  readonly streaming: boolean
  /** Time of arrival in milliseconds of the Clock. */
  readonly time: number
  /** Headers, except those that carry the key. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed body. `undefined` when it is not JSON. */
  readonly body: Schema.Json | undefined
  readonly outcome: Outcome
  /** True when the client closed the connection before the response was complete. */
  readonly closedByClient: boolean
}

export interface FakeProvider {
  /** URL of the server: `http://127.0.0.1:PORT`. */
  readonly url: string
  /** Returns the base URL for a client of the provider. */
  readonly baseUrl: (provider: Provider) => string
  /** All requests so far, with their bodies. Kept until the server ends. */
  readonly requests: Effect.Effect<ReadonlyArray<RecordedRequest>>
  /** Every request once its outcome is known, including those before the subscription. */
  readonly arrivals: Stream.Stream<RecordedRequest>
  /** Destroys every socket and stops listening, like a crash. Cannot be undone. */
  readonly kill: Effect.Effect<void>
}

const { is } = Check

/** One list per provider. */
const lists = is.object<NonNullable<Options["models"]>>({
  anthropic: is.list(is.text),
  openai: is.list(is.text),
  google: is.list(is.text)
})

const checks: Check.Checks<Options> = {
  // `FaultPlan.start` checks it.
  plan: is.required(is.anything),
  strict: is.flag,
  keys: is.secret(lists),
  models: lists,
  organisation: is.fn("(key) => string"),
  windows: is.record(is.integer({ min: 1 })),
  port: is.integer({ min: 0, max: 65_535 })
}

export const make = (options: Options): Effect.Effect<FakeProvider, never, Scope.Scope> => {
  Check.fields("FakeProvider", options, checks)
  return Effect.gen(function* () {
    const runner = yield* FaultPlan.start(options.plan)
    // Mutated, because a copy for each request would cost quadratic time.
    const requests: Array<RecordedRequest> = []
    const arrivals = yield* PubSub.unbounded<RecordedRequest>({ replay: Infinity })
    const kept = new Map<string, Kept>()

    const record = (request: Omit<RecordedRequest, "index" | "closedByClient">) =>
      Effect.suspend(() => {
        const recorded = { index: requests.length, ...request, closedByClient: false }
        requests.push(recorded)
        return Effect.as(PubSub.publish(arrivals, recorded), recorded.index)
      })
    const update = (index: number, change: Partial<RecordedRequest>) =>
      Effect.sync(() => {
        const recorded = requests[index]
        if (recorded !== undefined) requests[index] = { ...recorded, ...change }
      })

    const answer = (connection: Connection) =>
      Effect.gen(function* () {
        const text = yield* connection.body
        if (text === undefined) return
        const time = yield* Clock.currentTimeMillis
        const wire = wireOf(connection)
        const key = wire?.key(connection)
        const organisation = organisationOf(key, options)
        const contextAt = (index: number) => contextOf(index, time, organisation)
        const body = parse(text)
        const arrived = {
          provider: wire?.provider ?? "",
          path: connection.path,
          model: wire?.modelIn?.(pathBelow(wire, connection)) ?? modelIn(body),
          key: key === undefined ? "" : `…${key.slice(-4)}`,
          streaming: false,
          time,
          headers: withoutSecrets(connection.headers),
          body
        }
        if (wire === undefined) {
          const message = `This server speaks ${served}.`
          yield* record({ ...arrived, outcome: { type: "refused", rule: "path", status: 404, message } })
          return yield* Play.failure(connection, 404, "not_found_error", message)
        }
        const read = readRequest(wire, key, connection, text, options, {
          organisation,
          kept: (id) => kept.get(`${organisation} ${id}`)
        })
        if (read.refused) {
          const { rule, status, message } = read
          const index = yield* record({ ...arrived, outcome: { type: "refused", rule, status, message } })
          return yield* watched(connection, index, Play.refusal(connection, wire, read, contextAt(index)))
        }
        const { streaming } = read
        const exit = yield* Effect.exit(runner.next({ ...read, provider: wire.provider, key }))
        if (Exit.isFailure(exit)) {
          const outcome = brokenBy(Cause.squash(exit.cause))
          yield* record({ ...arrived, streaming, outcome })
          return yield* Play.failure(connection, outcome.status, "fake_provider_error", outcome.message)
        }
        const reply = exit.value
        const index = yield* record({ ...arrived, streaming, outcome: outcomeOf(reply) })
        if (reply.type === "speech" && reply.end.type === "finish") {
          for (const [id, items] of read.keeps?.(reply, contextAt(index)) ?? []) {
            kept.set(`${organisation} ${id}`, items)
          }
        }
        const response = Play.reply(connection, wire, read, reply, contextAt(index))
        return yield* watched(connection, index, response)
      })

    /** Completes when the client has disconnected, and records that. */
    const watched = (connection: Connection, index: number, response: Effect.Effect<void>) =>
      Effect.raceFirst(
        Effect.catchDefect(response, (defect) => {
          const outcome = brokenBy(defect)
          return Effect.andThen(
            update(index, { outcome }),
            Play.failure(connection, outcome.status, "fake_provider_error", outcome.message)
          )
        }),
        Effect.andThen(connection.closedByClient, update(index, { closedByClient: true }))
      )

    const fibers = yield* FiberSet.make()
    const run = yield* FiberSet.runtime(fibers)()
    const server = createServer((incoming, outgoing) => {
      run(answer(Connection_.make(incoming, outgoing)))
    })
    // Interrupts fibers first, so that sockets destroyed by the server do not count as closed by the client.
    const kill = Effect.andThen(
      FiberSet.clear(fibers),
      Effect.callback<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
    )
    yield* Effect.addFinalizer(() => kill)
    yield* Effect.callback<void>((resume) => {
      server.once("error", (error) => resume(Effect.die(error)))
      server.listen(options.port ?? 0, "127.0.0.1", () => resume(Effect.void))
    })
    // A server that listens on a port has an address of this type.
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return {
      url,
      baseUrl: (provider) => {
        Check.oneOf("FakeProvider.baseUrl", "provider", provider, providers)
        return `${url}${bases[provider]}`
      },
      requests: Effect.sync(() => requests.slice()),
      arrivals: Stream.fromPubSub(arrivals),
      kill
    }
  })
}

// -----------------------------------------------------------------------------
// Without Effect
// -----------------------------------------------------------------------------

/** A server for programs without Effect. */
export interface Started extends AsyncDisposable, Pick<FakeProvider, "url" | "baseUrl"> {
  /** All requests so far, with their bodies. */
  readonly requests: () => ReadonlyArray<RecordedRequest>
  /** Destroys every socket and stops listening. */
  readonly stop: () => Promise<void>
}

/**
 * Starts a server, for programs without Effect. Rejects for an invalid plan, and for a port in use.
 *
 * **Example** (A fixed port)
 *
 * ```ts
 * await using server = await FakeProvider.start({ port: 4010, plan: { answers: [{ text: "hello" }] } })
 * const anthropic = createAnthropic({ baseURL: server.baseUrl("anthropic"), apiKey: "any" })
 * ```
 */
export const start = async (options: Options): Promise<Started> => {
  const scope = await Effect.runPromise(Scope.make())
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void))
  try {
    const server = await Effect.runPromise(Scope.provide(make(options), scope))
    return {
      url: server.url,
      baseUrl: server.baseUrl,
      requests: () => Effect.runSync(server.requests),
      stop,
      [Symbol.asyncDispose]: stop
    }
  } catch (error) {
    await stop()
    throw error
  }
}

const providers: ReadonlyArray<Provider> = ["anthropic", "openai", "google"]

const bases: Readonly<Record<Provider, string>> = {
  anthropic: anthropic.base,
  openai: openai.base,
  google: google.base
}

const served = wires.flatMap(({ base, paths }) => paths.map((path) => `POST ${base}${path}`)).join(", ")

const wireOf = (connection: Connection): Wire | undefined =>
  connection.method === "POST"
    ? wires.find(
        (wire) =>
          connection.path.startsWith(`${wire.base}/`) &&
          wire.serves({ path: pathBelow(wire, connection), query: connection.query })
      )
    : undefined

const pathBelow = (wire: Wire, { path }: Connection): string => path.slice(wire.base.length)

const organisationOf = (key: string | undefined, { organisation }: Options): string =>
  (key === undefined ? undefined : organisation?.(key)) ?? "outlast"

const readRequest = (
  wire: Wire,
  key: string | undefined,
  connection: Connection,
  body: string,
  options: Options,
  memory: Pick<ReadOptions, "organisation" | "kept">
): Accepted | Refusal => {
  const keys = options.keys?.[wire.provider]
  if (key === undefined || keys?.includes(key) === false) return wire.refuseKey(key)
  return wire.read(
    { path: pathBelow(wire, connection), query: connection.query, headers: connection.headers, body },
    {
      ...memory,
      strict: options.strict ?? true,
      models: options.models?.[wire.provider],
      window: (model) => options.windows?.[model]
    }
  )
}

const outcomeOf = ({ type, fault, turn }: Reply): Outcome => {
  if (fault !== undefined) return { type: "fault", turn, fault }
  return { type: type === "speech" ? "answer" : "no-answer", turn }
}

/** The message for a test whose own plan is wrong. */
const brokenBy = (error: unknown) => {
  const reason = error instanceof Error ? error.message : String(error)
  return {
    type: "refused",
    rule: "plan",
    status: 500,
    message: `The fake provider cannot answer as planned: ${reason}`
  } as const
}

const contextOf = (index: number, now: number, organisation: string): Context => ({
  index,
  requestId: `req_${String(index).padStart(24, "0")}`,
  now,
  organisation
})

const modelIn = (body: Schema.Json | undefined): string => {
  const model = Predicate.hasProperty(body, "model") ? body.model : undefined
  return typeof model === "string" ? model : ""
}

const withoutSecrets = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !secretHeaders.has(name)))

const secretHeaders = new Set([
  "authorization",
  "x-api-key",
  "x-goog-api-key",
  "api-key",
  "cookie",
  "proxy-authorization"
])
