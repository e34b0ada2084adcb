/** Which failures pass by themselves, for what has no chain behind it. */
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

/** Again, no sooner than the server said, for what passes. The class is the reason's tag. */
export const verdict = ({ reason, retryAfter }: ProviderFailure): Retry.Verdict =>
  passing.has(reason._tag) && !(reason._tag === "RateLimit" && !reason.liftable)
    ? Retry.again({ class: reason._tag, retryAfter })
    : Retry.stop
