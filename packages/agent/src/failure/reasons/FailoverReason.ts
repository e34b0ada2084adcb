/**
 * The reasons why a provider call can fail: a closed union of tagged classes.
 *
 * A reason says what happened, never what to do. The policy (`RecoveryPolicy`) decides whether to repeat, move or
 * give up. Reasons are plain data, so that they survive a journal, a log line or another process.
 *
 * Each reason is a file of this folder with its class and its definition.
 *
 * **Example** (Handling one reason)
 *
 * ```ts
 * request.pipe(Effect.catchReason("ProviderFailure", "RateLimit", (reason, failure) => Effect.logError(failure.message)))
 * ```
 */
import { Schema } from "effect"
import { Auth, auth } from "./Auth.ts"
import { Billing, billing } from "./Billing.ts"
import { Cancelled, cancelled } from "./Cancelled.ts"
import { ContentPolicy, contentPolicy } from "./ContentPolicy.ts"
import { ContextOverflow, contextOverflow } from "./ContextOverflow.ts"
import { Format, format } from "./Format.ts"
import { ModelNotFound, modelNotFound } from "./ModelNotFound.ts"
import { Network, network } from "./Network.ts"
import { Overloaded, overloaded } from "./Overloaded.ts"
import { PermanentNetwork, permanentNetwork } from "./PermanentNetwork.ts"
import { RateLimit, rateLimit } from "./RateLimit.ts"
import { ServerError, serverError } from "./ServerError.ts"
import { Timeout, timeout } from "./Timeout.ts"
import { Unknown, unknown } from "./Unknown.ts"
import type { Label, ReasonDefinition } from "./ReasonDefinition.ts"

export {
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
}

/** The union of every reason. */
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

/** Tag of a reason. The default policies use it as the class. */
export type ReasonTag = FailoverReason["_tag"]

/** Label of a reason: its tag in snake_case. */
export type ReasonLabel = Label<ReasonTag>

/** The definition of every reason, in the order of the union. */
export const definitions: { readonly [R in FailoverReason as R["_tag"]]: ReasonDefinition<R> } = {
  Auth: auth,
  Billing: billing,
  RateLimit: rateLimit,
  Overloaded: overloaded,
  ServerError: serverError,
  Timeout: timeout,
  Network: network,
  PermanentNetwork: permanentNetwork,
  ContextOverflow: contextOverflow,
  ModelNotFound: modelNotFound,
  Format: format,
  ContentPolicy: contentPolicy,
  Cancelled: cancelled,
  Unknown: unknown
}

/** All tags, in the order of the union. */
export const reasonTags: ReadonlyArray<ReasonTag> = FailoverReason.members.map(
  ({ fields }) => fields._tag.schema.literal
)

/** Returns the definition of a reason. */
export const definitionOf = <R extends FailoverReason>({ _tag }: R): ReasonDefinition<R> =>
  // TypeScript cannot prove that a reason's tag leads to its own definition.
  definitions[_tag] as unknown as ReasonDefinition<R>
