/**
 * Rules on the HTTP status, when neither the body nor a cause said anything more specific.
 */
import type { Rule } from "../Classifier.ts"
import type { FailoverReason } from "../FailoverReason.ts"
import {
  Auth,
  Billing,
  Cancelled,
  ContextOverflow,
  Format,
  ModelNotFound,
  Overloaded,
  RateLimit,
  ServerError,
  Timeout
} from "../FailoverReason.ts"

const status = (matches: (status: number) => boolean, id: string, reason: () => FailoverReason): Rule => ({
  id: `status/${id}`,
  match: (facts) =>
    facts.status !== undefined && matches(facts.status)
      ? { reason: reason(), signal: "status", matched: String(facts.status) }
      : undefined
})

const oneOf =
  (...statuses: ReadonlyArray<number>) =>
  (status: number): boolean =>
    statuses.includes(status)

export const statuses: ReadonlyArray<Rule> = [
  status(oneOf(401, 403), "auth", () => new Auth({ permanent: false })),
  status(oneOf(402), "billing", () => new Billing()),
  status(oneOf(404), "model", () => new ModelNotFound()),
  status(oneOf(408, 504, 522, 524), "timeout", () => new Timeout({ phase: "total", local: false })),
  status(oneOf(413), "too-large", () => new ContextOverflow({})),
  status(oneOf(429), "rate", () => new RateLimit()),
  status(oneOf(499), "cancelled", () => new Cancelled()),
  // A gateway without an origin (502, 503) is out of capacity as far as a caller can tell; 529 says so.
  status(oneOf(502, 503, 529), "overloaded", () => new Overloaded()),
  status(
    (code) => code >= 500,
    "server",
    () => new ServerError()
  ),
  status(
    (code) => code >= 400,
    "request",
    () => new Format({ side: "request" })
  )
]

/** A success that the client could not use: an error page, garbage, an answer off its schema. */
export const unusable: ReadonlyArray<Rule> = [
  status(
    (code) => code >= 200 && code < 300,
    "response",
    () => new Format({ side: "response" })
  )
]
