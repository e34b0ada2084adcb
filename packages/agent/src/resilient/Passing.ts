/** Which failures pass by themselves, for what has no chain behind it. */
import { Retry } from "@outlast/resilience"
import { definitionOf } from "../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"

/** Again, no sooner than the server said, for what passes. The class is the reason's tag. */
export const verdict = ({ reason, retryAfter }: ProviderFailure): Retry.Verdict =>
  definitionOf(reason).isTransient(reason) ? Retry.again({ class: reason._tag, retryAfter }) : Retry.stop
