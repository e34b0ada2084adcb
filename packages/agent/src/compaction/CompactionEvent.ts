/**
 * What happens to conversations that become too long: a part of the resilience events. No event has content of the
 * conversation.
 */
import { Metric } from "effect"
import { EventDefinition } from "@outlast/resilience"
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

export interface ContextFilling extends OfConversation {
  readonly _tag: "ContextFilling"
  /** A summary is prepared meanwhile. */
  readonly preparing: boolean
}

export interface ContextCompacted extends OfConversation {
  readonly _tag: "ContextCompacted"
  readonly tier: Tier
  readonly tokensAfter: number
  /** A provider had found it too long. */
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

export type CompactionEvent = ContextFilling | ContextCompacted | CompactionTierFailed | CompactionGaveUp

const tier = ({ tier }: ContextCompacted) => tier

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<CompactionEvent> = {
  ContextFilling: {
    doc: "The window is getting full: once, until the conversation is smaller again.",
    line: EventDefinition.named(),
    metrics: []
  },
  ContextCompacted: {
    doc: "The conversation was made to fit.",
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
    doc: "A tier could not do its work; the next one has its turn.",
    line: EventDefinition.named(),
    metrics: []
  },
  CompactionGaveUp: {
    doc: "The conversation could not be made to fit, or was made to fit too often.",
    line: EventDefinition.named(),
    metrics: []
  }
}
