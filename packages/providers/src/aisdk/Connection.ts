/**
 * The time limits of a request: one for connecting, and none of undici's. Early access to the headers of a response.
 *
 * Clients of providers and `fetch` have no option for such a limit. Node, however, publishes the progress of each
 * request on diagnostics channels (`undici:*`; the `undici` package uses the same). A request belongs to a call when it
 * is created in the asynchronous context of that call, so every client is covered.
 *
 * - The time runs from the creation of the first request until its headers are written to a socket, new or reused.
 * - After that there is no limit here, for further requests of the same call neither.
 * - undici gives up after 300 s without headers, and after 300 s without a byte of the body. In a call, only the limits
 *   of its policy hold: those of undici are lifted, except where the program set them for the request itself.
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
import type { ProviderModel } from "@outlast/agent"
import { Alarm } from "@outlast/agent/failover"
import { Context, Duration, Effect } from "effect"
import { AsyncLocalStorage } from "node:async_hooks"
import { subscribe } from "node:diagnostics_channel"

export interface Call<A> {
  readonly try: (signal: AbortSignal) => Promise<A>
  readonly catch: (error: unknown) => ProviderFailure.ProviderFailure
  /** Gets the headers of each response of the call, names in lower case. Default: they are not read. */
  readonly onHeaders?: ((headers: Readonly<Record<string, string>>) => void) | undefined
  /** Called by {@link repeats}. Default: repeats are not reported. */
  readonly onRepeated?: (() => void) | undefined
  /** The call asks for a stream. Default: only its request says so. */
  readonly streams?: boolean | undefined
  /** Hears of each field of the answer that was changed so that the client reads it. */
  readonly onRepair?: ((repair: ProviderModel.Repair) => void) | undefined
}

/**
 * Runs the call. Fails with a `Timeout` of phase `connect` at the limit, which aborts the signal of the call, as an
 * interruption does. Default: no limit.
 *
 * One callback and one timer, which runs for the moment between the request and its headers: a race of fibers costs as
 * much as the rest of a call.
 */
export const within = <A>(
  limit: Duration.Duration | undefined,
  call: Call<A>
): Effect.Effect<A, ProviderFailure.ProviderFailure> => {
  if (limit === undefined && call.onHeaders === undefined && call.onRepair === undefined)
    return Effect.tryPromise(call)
  const millis = limit === undefined ? Infinity : Duration.toMillis(limit)
  return Effect.withFiber(({ context }) =>
    Effect.callback<A, ProviderFailure.ProviderFailure>((resume) => {
      listen()
      const controller = new AbortController()
      const connection = new Connection(context, millis, call, () => {
        resume(Effect.fail(late()))
        controller.abort()
      })
      const failed = (error: unknown) => {
        connection.settle()
        // `catch` may throw, which is a defect of the call.
        resume(Effect.suspend(() => Effect.fail(call.catch(error))))
      }
      try {
        connecting
          .run(connection, () => call.try(controller.signal))
          .then((value) => {
            connection.settle()
            resume(Effect.succeed(value))
          }, failed)
      } catch (error) {
        failed(error)
      }
      return Effect.sync(() => {
        connection.settle()
        controller.abort()
      })
    })
  )
}

const late = () =>
  ProviderFailure.local(
    "limit/connect",
    new FailoverReason.Timeout({ phase: "connect", local: true }),
    undefined
  )

type Listeners = Pick<Call<unknown>, "onHeaders" | "onRepeated" | "onRepair" | "streams">

/** The way of a call to its server: `new`, then `begun` with its first request, then `settled` by its end or its headers. */
class Connection {
  readonly context: Context.Context<never>
  readonly #limit: number
  readonly #late: () => void
  readonly listeners: Listeners
  #state: "new" | "begun" | "settled" = "new"
  #callOff: (() => void) | undefined

  constructor(context: Context.Context<never>, limit: number, listeners: Listeners, late: () => void) {
    this.context = context
    this.#limit = limit
    this.listeners = listeners
    this.#late = late
  }

  /** A request was created. Further requests of the call change nothing. */
  begin(): void {
    if (this.#state !== "new") return
    this.#state = "begun"
    this.#callOff = Alarm.set(this.context, this.#limit, this.#late)
  }

  /** The headers were written, or the call has ended. */
  settle(): void {
    this.#state = "settled"
    this.#callOff?.()
    this.#callOff = undefined
  }
}

const connecting = new AsyncLocalStorage<Connection>()

/** The listeners and the kind of the current call; `undefined` outside of a call. */
export const current = (): Listeners | undefined => connecting.getStore()?.listeners

/** Sends the requests of targets that have no `fetch` of their own. Default: the global `fetch`, looked up each time. */
export const Sender: Context.Reference<typeof globalThis.fetch | undefined> = Context.Reference<
  typeof globalThis.fetch | undefined
>("@outlast/providers/aisdk/Connection/Sender", { defaultValue: () => undefined })

/** The {@link Sender} of the current call. */
export const sender = (): typeof globalThis.fetch => {
  const context = connecting.getStore()?.context
  return (context === undefined ? undefined : Context.get(context, Sender)) ?? globalThis.fetch
}

const connections = new WeakMap<object, Connection>()

/** The request of the current call is sent again. */
export const repeats = (): void => connecting.getStore()?.listeners.onRepeated?.()

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
    lift(request)
    connection.begin()
  })
  // A socket opened for one request may carry another. Requests are matched by identity, not by context.
  subscribe("undici:client:sendHeaders", (message) => {
    const request = requestOf(message)
    if (request !== undefined) connections.get(request)?.settle()
  })
  subscribe("undici:request:headers", (message) => {
    const request = requestOf(message)
    const connection = request === undefined ? undefined : connections.get(request)
    connection?.listeners.onHeaders?.(headersOf(message))
  })
}

/** Lifts the limits of the request's connection. Zero means no limit, as in the options of undici. */
const lift = (request: { headersTimeout?: unknown; bodyTimeout?: unknown }): void => {
  request.headersTimeout ??= 0
  request.bodyTimeout ??= 0
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
