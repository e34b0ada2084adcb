/**
 * Rules on the HTTP status, if neither a code nor a sentence was more specific.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  badResponse,
  billing,
  cancelled,
  contextOverflow,
  modelNotFound,
  overloaded,
  permanentNetwork,
  rateLimit,
  serverError,
  timeout
} from "./reasons.ts"

const status = (
  id: string,
  why: string,
  statuses: ReadonlyArray<number> | ((status: number) => boolean),
  reason: Rule.Common["reason"]
): Rule.Rule => Rule.status({ id: `status/${id}`, why, statuses, reason })

/** Statuses that override any text. */
export const decisiveStatuses: ReadonlyArray<Rule.Rule> = [
  status("billing", "Payment Required.", [402], billing),
  status("timeout", "A server or a gateway gave up waiting.", [408, 504, 522, 524], timeout.total)
]

/** Statuses that say what happened. */
export const statuses: ReadonlyArray<Rule.Rule> = [
  status("auth", "The caller is unknown or has no permission.", [401, 403], auth),
  status("model", "At a model's endpoint, the missing resource is the model.", [404, 410], modelNotFound),
  status("too-large", "Content Too Large.", [413], contextOverflow),
  status(
    "endpoint",
    "Method Not Allowed, Misdirected, Upgrade Required, Unavailable For Legal Reasons: the server refuses any request.",
    [405, 421, 426, 451],
    permanentNetwork
  ),
  status("rate", "Too Many Requests.", [429], rateLimit),
  status("cancelled", "The client closed the request.", [499], cancelled),
  // A gateway without an origin (502, 503) looks out of capacity to a caller. 529 says so explicitly.
  status(
    "overloaded",
    "No capacity, or no origin behind the gateway (521, 523 and 530 are Cloudflare's); 498 is Groq's.",
    [498, 502, 503, 521, 523, 529, 530],
    overloaded
  )
]

/** Statuses that say only which side failed. */
export const vagueStatuses: ReadonlyArray<Rule.Rule> = [
  status(
    "transient",
    "Conflict and Too Early: the same request may succeed a moment later.",
    [409, 425],
    serverError
  ),
  status("server", "The server's side failed.", (code) => code >= 500, serverError),
  status("request", "The request is at fault.", (code) => code >= 400, badRequest),
  // A success that the client could not use: an error page, garbage, an answer that does not match its schema.
  status("response", "A success that cannot be used.", (code) => code >= 200 && code < 300, badResponse)
]
