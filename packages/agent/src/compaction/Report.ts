/**
 * What a compaction did: plain data, without content of the conversation but for names of tools and ids of calls.
 */
import type { Tier } from "./CompactionPolicy.ts"
import type { Kept } from "./Layout.ts"
import type { Spent } from "./Summariser.ts"

/** Something that is no longer there as it was. */
export interface Dropped {
  /** A whole message, or of one that stays the result, the arguments, the thinking. */
  readonly what: "message" | "result" | "arguments" | "thinking"
  /** The place of the message in the conversation before, from 0. */
  readonly at: number
  readonly role: "system" | "user" | "assistant" | "tool"
  /** Of a result or arguments. */
  readonly tool?: string
  /** The id of the call. */
  readonly call?: string
  /** Characters that are gone of a result or arguments, since the tool gave them. */
  readonly characters?: number
  /** By what the store finds them. */
  readonly recall?: string
}

/** How a tier went. */
export interface Tried {
  readonly tier: Tier
  /** It got down to `downTo`; it did not; it failed, or had nothing to work on. */
  readonly outcome: "enough" | "too_little" | "failed"
  /** Tokens that it came to. */
  readonly tokens?: number
  /** Why it failed. */
  readonly why?: string
}

export interface Report {
  /** What made it fit; `none`: it did, or does not have to. */
  readonly tier: Tier | "none"
  readonly tokensBefore: number
  readonly tokensAfter: number
  /** Tokens: of the model; that it must not have more of; that it was compacted down to, where possible. */
  readonly window: number
  readonly limit: number
  readonly downTo: number
  readonly dropped: ReadonlyArray<Dropped>
  readonly tried: ReadonlyArray<Tried>
  /** What the summaries took. */
  readonly summaries: Spent
}

/** The tiers by number: 0 none, 1 cap and strip, 2 chunks, 3 half, 4 plain. */
export const numberOf: Readonly<Record<Tier | "none", 0 | 1 | 2 | 3 | 4>> = {
  none: 0,
  cap: 1,
  strip: 1,
  chunks: 2,
  half: 3,
  plain: 4
}

/** What cannot be cut, and what it takes. */
export interface Uncuttable {
  readonly what: Kept | "tools"
  readonly tokens: number
}
