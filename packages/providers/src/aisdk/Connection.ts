/**
 * The time limit for a connection, and the moment when a response begins to come.
 *
 * Clients of providers take no such limit and `fetch` has no option for it, but Node tells over diagnostics channels
 * what becomes of each request (`undici:*`; the `undici` package uses the same). A request is ours when it is made
 * in the asynchronous context of our call, so that every client is covered, with whatever it does before it sends.
 *
 * - The time runs from the making of the first request until its headers are written to a socket, a new or a used one.
 * - From then on there is no limit here, for further requests of the same call neither.
 * - Headers of a response are handed on when they come, before the body.
 * - What says nothing over the channels (another runtime, a `fetch` that is not undici's) is never limited.
 *
 * **Example** (Ten seconds)
 *
 * ```ts
 * Connection.within(Duration.seconds(10), { try: (signal) => client.doGenerate({ ...call, abortSignal: signal }), catch: failureOf })
 * ```
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { Effect, Latch } from "effect"
import type { Duration } from "effect"
import { AsyncLocalStorage } from "node:async_hooks"
import { subscribe } from "node:diagnostics_channel"

interface Call<A> {
  readonly try: (signal: AbortSignal) => Promise<A>
  readonly catch: (error: unknown) => ProviderFailure.ProviderFailure
  /** Gets the headers of each response of the call, names in lower case. Default: they are not read. */
  readonly onHeaders?: ((headers: Readonly<Record<string, string>>) => void) | undefined
}

/** The call, or a `Timeout` in phase `connect`. It is interrupted then, and its signal aborted. Default: no limit. */
export const within = <A>(
  limit: Duration.Duration | undefined,
  call: Call<A>
): Effect.Effect<A, ProviderFailure.ProviderFailure> => {
  const { onHeaders } = call
  if (limit === undefined && onHeaders === undefined) return Effect.tryPromise(call)
  return Effect.suspend(() => {
    listen()
    const connection: Connection = { begun: Latch.makeUnsafe(), stands: Latch.makeUnsafe(), onHeaders }
    const called = Effect.tryPromise({
      try: (signal) => connecting.run(connection, () => call.try(signal)),
      catch: call.catch
    })
    return limit === undefined ? called : Effect.raceFirst(called, late(connection, limit))
  })
}

interface Connection {
  readonly begun: Latch.Latch
  readonly stands: Latch.Latch
  readonly onHeaders: Call<unknown>["onHeaders"]
}

/** Fails when it takes too long, and never ends otherwise. */
const late = (
  { begun, stands }: Connection,
  limit: Duration.Duration
): Effect.Effect<never, ProviderFailure.ProviderFailure> =>
  begun.await.pipe(
    Effect.andThen(
      Effect.timeoutOrElse(stands.await, {
        duration: limit,
        orElse: () =>
          Effect.fail(
            ProviderFailure.local(
              "limit/connect",
              new FailoverReason.Timeout({ phase: "connect", local: true }),
              undefined
            )
          )
      })
    ),
    Effect.andThen(Effect.never)
  )

const connecting = new AsyncLocalStorage<Connection>()
const connections = new WeakMap<object, Connection>()

let listening = false

/** Once for the process, and not before it is needed: requests that are not ours are looked at, too. */
const listen = (): void => {
  if (listening) return
  listening = true
  subscribe("undici:request:create", (message) => {
    const connection = connecting.getStore()
    const request = requestOf(message)
    if (connection === undefined || request === undefined) return
    connections.set(request, connection)
    connection.begun.openUnsafe()
  })
  // A socket that was made for one request may carry another one's: the request counts, not the context.
  subscribe("undici:client:sendHeaders", (message) => {
    const request = requestOf(message)
    if (request !== undefined) connections.get(request)?.stands.openUnsafe()
  })
  subscribe("undici:request:headers", (message) => {
    const request = requestOf(message)
    const connection = request === undefined ? undefined : connections.get(request)
    connection?.onHeaders?.(headersOf(message))
  })
}

/** undici has names and values in turn, as it read them. */
const headersOf = (message: unknown): Readonly<Record<string, string>> => {
  const { response } = message as { readonly response?: { readonly headers?: unknown } } // as undici documents it
  const headers: Record<string, string> = {}
  if (!Array.isArray(response?.headers)) return headers
  for (let i = 0; i + 1 < response.headers.length; i += 2) {
    headers[String(response.headers[i]).toLowerCase()] = String(response.headers[i + 1])
  }
  return headers
}

/** The request that a message of a channel is about. */
export const requestOf = (message: unknown): object | undefined => {
  const { request } = message as { readonly request?: unknown } // as undici documents it
  return typeof request === "object" && request !== null ? request : undefined
}
