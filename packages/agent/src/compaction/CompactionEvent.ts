/**
 * Events of conversations that become too long, part of the resilience events. No event contains text of the
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
  /** Identifies the conversation: see `ConversationKey`. */
  readonly conversation: string
  /** Tokens of the conversation, by the most exact count available. */
  readonly tokens: number
  readonly window: number
}

/** The window is getting full. Published once, until the conversation is smaller again. */
export interface ContextFilling extends OfConversation {
  readonly _tag: "ContextFilling"
  /** True when a summary is being prepared in the background. */
  readonly preparing: boolean
}

/** The conversation was compacted and fits now. */
export interface ContextCompacted extends OfConversation {
  readonly _tag: "ContextCompacted"
  readonly tier: Tier
  readonly tokensAfter: number
  /** True when a provider had rejected the prompt as too long. */
  readonly reactive: boolean
  readonly summaries: Spent
}

/** A tier failed. The next tier of the policy follows. */
export interface CompactionTierFailed extends OfConversation {
  readonly _tag: "CompactionTierFailed"
  readonly tier: Tier
  readonly why: string
}

/** The conversation cannot be made to fit, or compaction no longer helps. */
export interface CompactionGaveUp extends OfConversation {
  readonly _tag: "CompactionGaveUp"
  readonly reason: "cannot_fit" | "poor_gains" | "refills"
}

export const compactions = Metric.counter("outlast_compactions_total", {
  description: "Compactions that made a conversation fit, by tier",
  incremental: true
})

export const tokensFreed = Metric.counter("outlast_compaction_tokens_freed_total", {
  description: "Tokens freed by compactions, by tier",
  incremental: true
})

/** Adds a compaction to the metrics. */
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
