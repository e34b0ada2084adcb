/**
 * What happens to conversations that become too long: a part of the resilience events. No event has content of the
 * conversation.
 *
 * | metric                                 | kind    | labels | from               |
 * | -------------------------------------- | ------- | ------ | ------------------ |
 * | `outlast_compactions_total`            | counter | `tier` | `ContextCompacted` |
 * | `outlast_compaction_tokens_freed_total` | counter | `tier` | `ContextCompacted` |
 */
import { Effect, Metric } from "effect"
import type { Spent } from "./Summariser.ts"
import type { Tier } from "./CompactionPolicy.ts"

interface OfConversation {
  /** Unix time in milliseconds. */
  readonly at: number
  /** By what the conversation is known: see `ConversationKey`. */
  readonly conversation: string
  /** Of the conversation, counted as exactly as can be. */
  readonly tokens: number
  readonly window: number
}

/** The window is getting full: once, until the conversation is smaller again. */
export interface ContextFilling extends OfConversation {
  readonly _tag: "ContextFilling"
  /** A summary is prepared meanwhile. */
  readonly preparing: boolean
}

/** The conversation was made to fit. */
export interface ContextCompacted extends OfConversation {
  readonly _tag: "ContextCompacted"
  readonly tier: Tier
  readonly tokensAfter: number
  /** A provider had found it too long. */
  readonly reactive: boolean
  readonly summaries: Spent
}

/** A tier could not do its work; the next one has its turn. */
export interface CompactionTierFailed extends OfConversation {
  readonly _tag: "CompactionTierFailed"
  readonly tier: Tier
  readonly why: string
}

/** The conversation could not be made to fit, or was made to fit too often. */
export interface CompactionGaveUp extends OfConversation {
  readonly _tag: "CompactionGaveUp"
  readonly reason: "cannot_fit" | "poor_gains" | "refills"
}

export const compactions = Metric.counter("outlast_compactions_total", {
  description: "Conversations that were made to fit, by the tier that did it",
  incremental: true
})

export const tokensFreed = Metric.counter("outlast_compaction_tokens_freed_total", {
  description: "Tokens that compactions have freed, by tier",
  incremental: true
})

/** A compaction in the metrics. */
export const count = ({
  tier,
  tokens,
  tokensAfter
}: Pick<ContextCompacted, "tier" | "tokens" | "tokensAfter">): Effect.Effect<void> =>
  Effect.andThen(
    Metric.update(Metric.withAttributes(compactions, { tier }), 1),
    Metric.update(Metric.withAttributes(tokensFreed, { tier }), Math.max(0, tokens - tokensAfter))
  )

export type CompactionEvent = ContextFilling | ContextCompacted | CompactionTierFailed | CompactionGaveUp
