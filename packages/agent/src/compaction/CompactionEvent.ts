/**
 * Events of conversations that become too long, part of the resilience events. No event contains text of the
 * conversation.
 */
import { Metric } from "effect"
import { EventDefinition } from "@outlast/resilience"
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

export interface ContextFilling extends OfConversation {
  readonly _tag: "ContextFilling"
  /** True when a summary is being prepared in the background. */
  readonly preparing: boolean
}

export interface ContextCompacted extends OfConversation {
  readonly _tag: "ContextCompacted"
  readonly tier: Tier
  readonly tokensAfter: number
  /** True when a provider had rejected the prompt as too long. */
  readonly reactive: boolean
  readonly summaries: Spent
}

export interface CompactionTierFailed extends OfConversation {
  readonly _tag: "CompactionTierFailed"
  readonly tier: Tier
  readonly why: string
}

export interface CompactionGaveUp extends OfConversation {
  readonly _tag: "CompactionGaveUp"
  readonly reason: "cannot_fit" | "poor_gains"
}

export const compactions = Metric.counter("outlast_compactions_total", {
  description: "Compactions that made a conversation fit, by tier",
  incremental: true
})

export const tokensFreed = Metric.counter("outlast_compaction_tokens_freed_total", {
  description: "Tokens freed by compactions, by tier",
  incremental: true
})

export type CompactionEvent = ContextFilling | ContextCompacted | CompactionTierFailed | CompactionGaveUp

const tier = ({ tier }: ContextCompacted) => tier

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<CompactionEvent> = {
  ContextFilling: {
    doc: "The window is getting full. Published once, until the conversation is smaller again.",
    line: EventDefinition.named(),
    metrics: []
  },
  ContextCompacted: {
    doc: "The conversation was compacted and fits now.",
    line: EventDefinition.named(),
    // Counted where it happens: these need no layer.
    metrics: [
      { metric: compactions, words: { tier } },
      {
        metric: tokensFreed,
        words: { tier },
        value: ({ tokens, tokensAfter }) => Math.max(0, tokens - tokensAfter)
      }
    ]
  },
  CompactionTierFailed: {
    doc: "A tier failed. The next tier of the policy follows.",
    line: EventDefinition.named(),
    metrics: []
  },
  CompactionGaveUp: {
    doc: "The conversation cannot be made to fit, or compaction no longer helps.",
    line: EventDefinition.named(),
    metrics: []
  }
}
