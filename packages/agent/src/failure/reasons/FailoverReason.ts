/**
 * What went wrong with a provider call: a closed union of fourteen tagged reasons.
 *
 * A reason says what happened, never what to do: whether an attempt is repeated, moved or given up is
 * the policy's word (`RecoveryPolicy`). Reasons are plain data, so that they survive a journal, a log line
 * or another process.
 *
 * **Example** (Handling one reason)
 *
 * ```ts
 * program.pipe(Effect.catchReason("ProviderFailure", "RateLimit", (reason, failure) => ...))
 * ```
 */
import { Effect, Schema } from "effect"

const id = <const Tag extends string>(tag: Tag) => `@outlast/agent/failure/${tag}` as const

/** The key is wrong, expired, revoked or may not do this. */
export class Auth extends Schema.TaggedClass<Auth>(id("Auth"))("Auth", {
  /** The provider says that the key will never work again (revoked, disabled); out until it is reset. */
  permanent: Schema.Boolean
}) {}

/** There is no money left: credit balance, insufficient quota, spending cap. */
export class Billing extends Schema.TaggedClass<Billing>(id("Billing"))("Billing", {}) {}

/** A limit per unit of time was reached: requests, tokens, concurrency. */
export class RateLimit extends Schema.TaggedClass<RateLimit>(id("RateLimit"))("RateLimit", {
  /** `false` when waiting cannot lift it: a single request is larger than the limit, or the limit is 0. */
  liftable: Schema.Boolean.pipe(Schema.withConstructorDefault(Effect.succeed(true)))
}) {}

/** The provider has no capacity at the moment, whoever asks. */
export class Overloaded extends Schema.TaggedClass<Overloaded>(id("Overloaded"))("Overloaded", {}) {}

/** The provider broke while it handled the request. */
export class ServerError extends Schema.TaggedClass<ServerError>(id("ServerError"))("ServerError", {}) {}

/** Nothing came in time. */
export class Timeout extends Schema.TaggedClass<Timeout>(id("Timeout"))("Timeout", {
  /** What was waited for: the connection, the first token, the next token, or the whole answer. */
  phase: Schema.Literals(["connect", "first-token", "idle", "total"]),
  /**
   * `true` when a limit on this side ended the wait: `Effect.timeout`, an `AbortSignal`, the SDK or the HTTP client
   * (undici's limits for connecting, headers and body). `false` when the provider, a gateway or the operating
   * system gave up, and where it is not known who did.
   */
  local: Schema.Boolean,
  /** `true` when the limit for the whole answer passed and nothing had come from the provider, not even headers. */
  silent: Schema.optional(Schema.Boolean)
}) {}

/** The connection failed or broke, an answer cut in the middle included. */
export class Network extends Schema.TaggedClass<Network>(id("Network"))("Network", {}) {}

/** The connection can never work as configured: certificate, scheme, unsupported address. */
export class PermanentNetwork extends Schema.TaggedClass<PermanentNetwork>(id("PermanentNetwork"))(
  "PermanentNetwork",
  {}
) {}

/** The conversation is larger than the model's window. */
export class ContextOverflow extends Schema.TaggedClass<ContextOverflow>(id("ContextOverflow"))(
  "ContextOverflow",
  {
    /** The window in tokens, where the provider named it. */
    limit: Schema.optional(Schema.Finite),
    /** The size of the request in tokens, where the provider named it. */
    requested: Schema.optional(Schema.Finite),
    /** Of these the tokens reserved for the answer, where the provider counted and named them. */
    output: Schema.optional(Schema.Finite)
  }
) {}

/** The model does not exist at this endpoint, or this account may not use it. */
export class ModelNotFound extends Schema.TaggedClass<ModelNotFound>(id("ModelNotFound"))(
  "ModelNotFound",
  {}
) {}

/** The protocol was violated: by our request, or by the provider's response. */
export class Format extends Schema.TaggedClass<Format>(id("Format"))("Format", {
  side: Schema.Literals(["request", "response"]),
  /** The request asked for a longer answer than the model gives: the most that it gives, in tokens. */
  outputLimit: Schema.optional(Schema.Finite),
  /** What is wrong with an answer that was to be an object, and where; nothing of the answer is in it. */
  problem: Schema.optional(Schema.String),
  /** The provider refuses an image or a file of the request. */
  media: Schema.optionalKey(Schema.Boolean)
}) {}

/** The provider refused the content of the request or of the answer. */
export class ContentPolicy extends Schema.TaggedClass<ContentPolicy>(id("ContentPolicy"))(
  "ContentPolicy",
  {}
) {}

/** The caller, or the provider in its name, cancelled the attempt. */
export class Cancelled extends Schema.TaggedClass<Cancelled>(id("Cancelled"))("Cancelled", {}) {}

/** Nothing usable was said. */
export class Unknown extends Schema.TaggedClass<Unknown>(id("Unknown"))("Unknown", {}) {}

/** Every reason. */
export const FailoverReason = Schema.Union([
  Auth,
  Billing,
  RateLimit,
  Overloaded,
  ServerError,
  Timeout,
  Network,
  PermanentNetwork,
  ContextOverflow,
  ModelNotFound,
  Format,
  ContentPolicy,
  Cancelled,
  Unknown
])
export type FailoverReason = typeof FailoverReason.Type

/** The tag of a reason: the default class of a policy. */
export type ReasonTag = FailoverReason["_tag"]

/** All fourteen tags, in the order of the union. */
export const reasonTags: ReadonlyArray<ReasonTag> = [
  "Auth",
  "Billing",
  "RateLimit",
  "Overloaded",
  "ServerError",
  "Timeout",
  "Network",
  "PermanentNetwork",
  "ContextOverflow",
  "ModelNotFound",
  "Format",
  "ContentPolicy",
  "Cancelled",
  "Unknown"
]
