/** Retry decisions for transient failures, for components without a chain. */
import { Retry } from "@outlast/resilience"
import type { ReasonTag } from "../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"

const passing: ReadonlySet<ReasonTag> = new Set<ReasonTag>([
  "RateLimit",
  "Overloaded",
  "ServerError",
  "Timeout",
  "Network"
])

/** Retries a transient failure, not before the wait that the server stated. The class is the reason's tag. */
export const verdict = ({ reason, retryAfter }: ProviderFailure): Retry.Verdict =>
  passing.has(reason._tag) && !(reason._tag === "RateLimit" && !reason.liftable)
    ? Retry.again({ class: reason._tag, retryAfter })
    : Retry.stop
