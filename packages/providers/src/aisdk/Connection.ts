/**
 * A time limit for connecting, and early access to the headers of a response.
 *
 * Clients of providers and `fetch` have no option for such a limit. Node, however, publishes the progress of each
 * request on diagnostics channels (`undici:*`; the `undici` package uses the same). A request belongs to a call when it
 * is created in the asynchronous context of that call, so every client is covered.
 *
 * - The time runs from the creation of the first request until its headers are written to a socket, new or reused.
 * - After that there is no limit here, for further requests of the same call neither.
 * - Headers of a response are passed on when they arrive, before the body.
 * - A `fetch` that does not publish to the channels (another runtime, not undici) is never limited.
 *
 * **Example** (Ten seconds)
 *
 * ```ts
 * const limited = (call: Call<Response>) => Connection.within(Duration.seconds(10), call)
 * ```
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { Effect, Latch } from "effect"
import type { Duration } from "effect"
import { AsyncLocalStorage } from "node:async_hooks"
import { subscribe } from "node:diagnostics_channel"

export interface Call<A> {
  readonly try: (signal: AbortSignal) => Promise<A>
  readonly catch: (error: unknown) => ProviderFailure.ProviderFailure
  /** Gets the headers of each response of the call, names in lower case. Default: they are not read. */
  readonly onHeaders?: ((headers: Readonly<Record<string, string>>) => void) | undefined
}

/**
 * Runs the call. Fails with a `Timeout` of phase `connect` at the limit, which interrupts the call and aborts its
 * signal. Default: no limit.
 */
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

/** Fails at the limit. Never succeeds. */
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

/** Subscribes once per process, at the first use: the channels report the requests of all programs in it. */
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
  // A socket opened for one request may carry another. Requests are matched by identity, not by context.
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

/** undici gives raw headers: names and values in turn. */
const headersOf = (message: unknown): Readonly<Record<string, string>> => {
  const { response } = message as { readonly response?: { readonly headers?: unknown } } // as undici documents it
  const headers: Record<string, string> = {}
  if (!Array.isArray(response?.headers)) return headers
  for (let i = 0; i + 1 < response.headers.length; i += 2) {
    headers[String(response.headers[i]).toLowerCase()] = String(response.headers[i + 1])
  }
  return headers
}

/** The request in a message of a channel. */
export const requestOf = (message: unknown): object | undefined => {
  const { request } = message as { readonly request?: unknown } // as undici documents it
  return typeof request === "object" && request !== null ? request : undefined
}
