/**
 * JSON-RPC 2.0 over the lines of a process, as the Model Context Protocol uses it on standard input and output.
 *
 * A request fails with `RpcFailed`: `error` (the server's answer, with its code), `timeout`, `gone` (the process ended)
 * or `busy` (too many requests wait). Lines that are no JSON-RPC message are skipped: servers print to standard output
 * by mistake. A `ping` of the server is answered, and its other requests are refused.
 *
 * **Limits.** Notifications of the server are skipped. A request that ran into its time limit may still have its
 * effect.
 */
import { Deferred, Duration, Effect, Exit, Option, Schema, Stream } from "effect"
import type { Scope } from "effect"
import { ErrorText } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import type { ProcessIo } from "./ProcessIo.ts"
import type { ProcessUnavailable } from "./ProcessUnavailable.ts"

export class RpcFailed extends Schema.TaggedError<RpcFailed>("@outlast/node/process/RpcFailed")("RpcFailed", {
  reason: Schema.Literals(["error", "timeout", "gone", "busy"]),
  method: Schema.String,
  /** The server's code, for `error`. */
  code: Schema.optional(Schema.Number),
  /** The server's message, for `error`. */
  detail: Schema.optional(Schema.String)
}) {
  /** Only `busy` was certainly not carried out. */
  get isRetryable(): boolean {
    return this.reason === "busy"
  }

  override get message(): string {
    const detail = this.detail === undefined ? "" : `: ${this.detail}`
    const code = this.code === undefined ? "" : ` (${this.code})`
    return `Request \`${this.method}\` ${what[this.reason]}${detail}${code}.`
  }
}

ErrorText.printedOnce(RpcFailed)

const what = {
  error: "was refused by the process",
  timeout: "was not answered in time",
  gone: "was not answered, because the process ended",
  busy: "was not sent, because too many requests wait for an answer"
} as const

export interface Options {
  /** Longest time of one request. Default 30 seconds, as for the stdio extensions of nexo-rs. */
  readonly limit?: Duration.Input | undefined
  /** Requests that wait for an answer at the same time, at most. Default 256. */
  readonly concurrency?: number | undefined
}

export const defaults = { limit: Duration.seconds(30), concurrency: 256 } as const

export interface StdioRpc {
  /** The result of a request, as the server sent it. */
  readonly request: (
    method: string,
    params?: object,
    options?: { readonly limit?: Duration.Input | undefined }
  ) => Effect.Effect<unknown, RpcFailed | ProcessUnavailable>
  readonly notify: (method: string, params?: object) => Effect.Effect<void, ProcessUnavailable>
}

const Message = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optional(Schema.NullOr(Schema.Union([Schema.Number, Schema.String]))),
    method: Schema.optional(Schema.String),
    result: Schema.optional(Schema.Unknown),
    // Some servers send `null` beside a result.
    error: Schema.optional(Schema.NullOr(Schema.Struct({ code: Schema.Number, message: Schema.String })))
  })
)

const decode = Schema.decodeUnknownOption(Message)

/** The longest part of a server's message that is kept. */
const longestDetail = 500

const methodNotFound = { code: -32_601, message: "Method not found" }

const checks: Check.Checks<Options> = {
  limit: Check.is.duration({ min: "1 millis" }),
  concurrency: Check.is.integer({ min: 1 })
}

/** Reads the lines of the process until the scope closes. */
export const make = (io: ProcessIo, options: Options = {}): Effect.Effect<StdioRpc, never, Scope.Scope> =>
  Effect.gen(function* () {
    Check.fields("StdioRpc", options, checks)
    const { concurrency = defaults.concurrency, limit = defaults.limit } = options
    const waiting = new Map<
      number,
      { readonly method: string; readonly answer: Deferred.Deferred<unknown, RpcFailed> }
    >()
    let last = 0
    let isGone = false

    // Parameters that are no JSON (e.g. a circle) are a defect of the request.
    const send = (message: object) =>
      Effect.suspend(() => io.send(JSON.stringify({ jsonrpc: "2.0", ...message })))

    const receive = (line: string): Effect.Effect<void> => {
      const message = Option.getOrUndefined(decode(line))
      if (message === undefined) return Effect.void
      const { error, id, method, result } = message
      if (method !== undefined) {
        if (id === undefined || id === null) return Effect.void
        return Effect.ignore(send(method === "ping" ? { id, result: {} } : { id, error: methodNotFound }))
      }
      const asked = typeof id === "number" ? waiting.get(id) : undefined
      if (asked === undefined) return Effect.void
      const exit =
        error === undefined || error === null
          ? Exit.succeed(result)
          : Exit.fail(
              new RpcFailed({
                reason: "error",
                method: asked.method,
                code: error.code,
                detail: error.message.slice(0, longestDetail)
              })
            )
      return Effect.asVoid(Deferred.done(asked.answer, exit))
    }

    const failAll = Effect.sync(() => {
      isGone = true
      for (const { answer, method } of waiting.values()) {
        Deferred.doneUnsafe(answer, Exit.fail(new RpcFailed({ reason: "gone", method })))
      }
    })

    yield* Stream.runForEach(io.lines, receive).pipe(Effect.ensuring(failAll), Effect.forkScoped)

    return {
      request: (method, params, { limit: own = limit } = {}) =>
        Effect.suspend(() => {
          if (isGone) return Effect.fail(new RpcFailed({ reason: "gone", method }))
          if (waiting.size >= concurrency) return Effect.fail(new RpcFailed({ reason: "busy", method }))
          const id = ++last
          const answer = Deferred.makeUnsafe<unknown, RpcFailed>()
          waiting.set(id, { method, answer })
          return Effect.andThen(send({ id, method, params }), Deferred.await(answer)).pipe(
            Effect.timeoutOrElse({
              duration: own,
              orElse: () => Effect.fail(new RpcFailed({ reason: "timeout", method }))
            }),
            Effect.ensuring(Effect.sync(() => waiting.delete(id)))
          )
        }),
      notify: (method, params) => send({ method, params })
    }
  })
