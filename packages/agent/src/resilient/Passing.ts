/** Retry decisions for transient failures, for components without a chain. */
import { Retry } from "@outlast/resilience"
import { definitionOf } from "../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"

/** Retries a transient failure, not before the wait that the server stated. The class is the reason's tag. */
export const verdict = ({ reason, retryAfter }: ProviderFailure): Retry.Verdict =>
  definitionOf(reason).isTransient(reason) ? Retry.again({ class: reason._tag, retryAfter }) : Retry.stop
