/** Bodies of requests. Each one is JSON of at most 64 KiB. */
import { Effect, Schema } from "effect"
import { HttpServerRequest } from "effect/http"

/** Bytes of a body. */
export const maxBody = 65_536

/** The body of a request is too large (413), or it is not JSON (400). */
export class BodyRefused extends Schema.TaggedError<BodyRefused>("@outlast/node/ops/BodyRefused")(
  "BodyRefused",
  { status: Schema.Literals([400, 413]) }
) {
  override get message(): string {
    return this.status === 413
      ? `The body is too large. It may have ${maxBody / 1_024} KiB.`
      : "The body is not JSON."
  }
}

/** True for a request that announces a body beyond the limit. */
export const isTooLarge = (contentLength: string | undefined): boolean => Number(contentLength) > maxBody

/** Reads the body of the request as JSON. */
export const readJson: Effect.Effect<unknown, BodyRefused, HttpServerRequest.HttpServerRequest> =
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ json }) =>
    Effect.mapError(json, ({ reason }) => {
      const isLarge = reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
      return new BodyRefused({ status: isLarge ? 413 : 400 })
    })
  )
