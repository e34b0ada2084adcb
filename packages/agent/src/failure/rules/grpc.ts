/**
 * Rules on gRPC status names, which Google's JSON errors contain, and on the reasons next to them.
 */
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  cancelled,
  modelNotFound,
  overloaded,
  rateLimit,
  serverError,
  timeout
} from "./reasons.ts"

const grpc = (
  id: string,
  why: string,
  codes: ReadonlyArray<string>,
  reason: Rule.Common["reason"],
  inText = true
): Rule.Rule => Rule.code({ id: `grpc/${id}`, why, codes, reason, inText })

/** Names that override any text. */
export const grpcDecisive: ReadonlyArray<Rule.Rule> = [
  grpc(
    "deadline",
    "DEADLINE_EXCEEDED: the server did not finish in its time.",
    ["DEADLINE_EXCEEDED", "DeadlineExceeded"],
    timeout.total
  ),
  Rule.code({
    id: "grpc/capacity",
    why: "Google names the reason when a model, not a quota, is exhausted.",
    codes: ["MODEL_CAPACITY_EXHAUSTED"],
    inText: true,
    reason: overloaded
  }),
  grpc(
    "cancelled",
    "CANCELLED, and 499 at Google: the call was ended from outside.",
    ["CANCELLED"],
    cancelled,
    false
  )
]

/** Names for a family of errors. */
export const grpcVague: ReadonlyArray<Rule.Rule> = [
  grpc(
    "exhausted",
    "A quota at Google is used up until it resets.",
    ["RESOURCE_EXHAUSTED", "ResourceExhausted"],
    rateLimit
  ),
  grpc("unauthenticated", "No valid credentials.", ["UNAUTHENTICATED"], auth),
  grpc("denied", "These credentials may not do this.", ["PERMISSION_DENIED", "PermissionDenied"], auth)
]

/** Names that sentences and statuses override. */
export const grpcGeneral: ReadonlyArray<Rule.Rule> = [
  grpc(
    "unavailable",
    "The service is temporarily down or full.",
    ["UNAVAILABLE", "ServiceUnavailable"],
    overloaded,
    false
  ),
  grpc(
    "not-found",
    "At a model's endpoint, the missing resource is the model.",
    ["NOT_FOUND"],
    modelNotFound,
    false
  ),
  grpc(
    "invalid",
    "The request is invalid.",
    ["INVALID_ARGUMENT", "InvalidArgument", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"],
    badRequest
  ),
  grpc("internal", "The server broke.", ["INTERNAL", "DATA_LOSS"], serverError, false)
]
