/** The fourteen reasons as labels in snake_case, as used in labelled corpora and in the output of `classify`. */
import { FailoverReason } from "@outlast/agent"

const byTag = {
  Auth: "auth",
  Billing: "billing",
  RateLimit: "rate_limit",
  Overloaded: "overloaded",
  ServerError: "server_error",
  Timeout: "timeout",
  Network: "network",
  PermanentNetwork: "permanent_network",
  ContextOverflow: "context_overflow",
  ModelNotFound: "model_not_found",
  Format: "format",
  ContentPolicy: "content_policy",
  Cancelled: "cancelled",
  Unknown: "unknown"
} as const satisfies { readonly [Tag in FailoverReason.ReasonTag]: string }

export type Label = (typeof byTag)[FailoverReason.ReasonTag]

/** All labels, in the order of the reasons. */
export const labels: ReadonlyArray<Label> = FailoverReason.reasonTags.map((tag) => byTag[tag])

export const isLabel = (value: unknown): value is Label => labels.some((label) => label === value)

export const labelOf = (reason: FailoverReason.FailoverReason): Label => byTag[reason._tag]

const {
  Auth,
  Billing,
  Cancelled,
  ContentPolicy,
  ContextOverflow,
  Format,
  ModelNotFound,
  Network,
  Overloaded,
  PermanentNetwork,
  RateLimit,
  ServerError,
  Timeout,
  Unknown
} = FailoverReason

const meanings: { readonly [L in Label]: ReadonlyArray<FailoverReason.FailoverReason> } = {
  auth: [new Auth({ permanent: false }), new Auth({ permanent: true })],
  billing: [new Billing()],
  rate_limit: [new RateLimit()],
  overloaded: [new Overloaded()],
  server_error: [new ServerError()],
  timeout: [new Timeout({ phase: "total", local: false })],
  network: [new Network()],
  permanent_network: [new PermanentNetwork()],
  context_overflow: [new ContextOverflow({})],
  model_not_found: [new ModelNotFound()],
  format: [new Format({ side: "request" }), new Format({ side: "response" })],
  content_policy: [new ContentPolicy()],
  cancelled: [new Cancelled()],
  unknown: [new Unknown()]
}

/** The reasons that a label may stand for. A label does not tell, for example, which side broke the protocol. */
export const reasonsOf = (label: Label): ReadonlyArray<FailoverReason.FailoverReason> => meanings[label]
