/** What the requests for runs and tasks have in common: bodies, refusals, and the shutdown. */
import { Data, Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { Inbound } from "@outlast/agent/guard"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"

/** The request is not carried out. The message has no value of the request. */
export class Refused extends Data.TaggedError("Refused")<{
  readonly status: number
  readonly message: string
}> {}

export const json = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
  HttpServerResponse.jsonUnsafe(body, { status, headers })

/** Answers a refusal. */
export const answered = <R>(
  handler: Effect.Effect<HttpServerResponse.HttpServerResponse, Refused, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catch(handler, ({ message, status }) =>
    Effect.succeed(json(status, { error: message }, status === 503 ? { "retry-after": "5" } : {}))
  )

/** A body with these fields, while the service takes work. */
const bodyOf = <A>(schema: Schema.Decoder<A>, expected: string) =>
  Effect.gen(function* () {
    const status = yield* Host.status
    if (status !== "running" && status !== "draining") {
      return yield* new Refused({ status: 503, message: "The service is shutting down." })
    }
    const body = yield* Ops.readJson
    // The message of a schema would repeat the value.
    return yield* Effect.mapError(
      Schema.decodeUnknownEffect(schema, { onExcessProperty: "error" })(body),
      () => new Refused({ status: 400, message: expected })
    )
  }).pipe(
    Effect.catchTag("BodyRefused", ({ message, status }) =>
      Effect.fail(new Refused({ status, message: `${message} ${expected}` }))
    )
  )

/** Fields of a prompt. An empty one is not wrong: it is counted and dropped. */
export const prompt = { prompt: Schema.optional(Schema.NullOr(Schema.String)) }

type Prompted = { readonly prompt?: string | null | undefined }

/** Hands a body with a prompt on, unless its prompt is empty. */
export const withPrompt = <A extends Prompted, R>(
  inbound: Inbound.Inbound,
  schema: Schema.Decoder<A>,
  expected: string,
  use: (prompt: string, body: A) => Effect.Effect<HttpServerResponse.HttpServerResponse, Refused, R>
) =>
  Effect.gen(function* () {
    const body = yield* bodyOf(schema, expected)
    const { prompt } = body
    if (!(yield* inbound.accept({ text: prompt }))) return HttpServerResponse.empty({ status: 204 })
    return yield* use(prompt ?? "", body)
  }).pipe(answered)
