/**
 * When and how a conversation is made to fit, as data.
 *
 * {@link defaults} is what we would take. {@link tokenTail} protects the newest tokens instead of the newest messages.
 * {@link codebuddy}, {@link claw0} and {@link s11} do as those systems do.
 *
 * **Example** (Never a summary by a model)
 *
 * ```ts
 * const policy = { ...CompactionPolicy.defaults, tiers: ["cap", "strip", "plain"] } as const
 * ```
 */
import { Options as Check } from "@outlast/resilience"
import type { CompactionWording } from "./CompactionWording.ts"
import { checks as wordingChecks, defaults as wording } from "./CompactionWording.ts"
import * as Kind from "../options/Kind.ts"

/**
 * What is done, from the cheapest on:
 * - `cap`: the middle of results that are larger than {@link CompactionPolicy.maxResult} is cut out, wherever they stand
 * - `strip`: large results and arguments outside the protected tail are cut, oldest first, until it is enough
 * - `chunks`: all that is not protected is summarised in overlapping chunks, and the summaries merged
 * - `half`: the oldest half of it is summarised at once
 * - `plain`: the oldest of it become a few lines, without a model; only where nothing before lasts
 */
export type Tier = "cap" | "strip" | "chunks" | "half" | "plain"

/** What is always kept at the end: so many messages, or the newest within so many tokens (at most half of `downTo`). */
export type Tail = { readonly messages: number } | { readonly tokens: number }

export interface CompactionPolicy {
  /** Share of the window at which an event says that it is getting full, and a summary may be prepared. Default 0.8. */
  readonly warn: number
  /** Share of the window above which it is compacted. Default 0.9. */
  readonly act: number
  /** Share of the window that is left free beside the output limit. Default 0.02. */
  readonly reserve: number
  /** Share of the window down to which it is compacted, where it can be. Default 0.6. */
  readonly downTo: number
  /** Share of the window that one result of a tool may have. Default 0.3. */
  readonly maxResult: number
  /** Default 4 messages. Calls and results that belong to the first of them are protected, too. */
  readonly tail: Tail
  /** In this order, until it is down to `downTo`. Default: all. */
  readonly tiers: ReadonlyArray<Tier>
  /** A model summarises nothing in a conversation of fewer messages. Default 6. */
  readonly minMessages: number
  /** Results and arguments with more characters than this are large. Default 200. */
  readonly large: number
  readonly chunks: {
    /** Tokens of a chunk at most, and never more than the summariser's window holds. Default 12,000. */
    readonly maxTokens: number
    /** Share of a chunk that the next one repeats. Default 0.1. */
    readonly overlap: number
    /** Chunks that are summarised at the same time. Default 3. */
    readonly concurrency: number
  }
  readonly messages: {
    /** Characters of one message that the summariser is shown: beginning and end. Default 10,000. */
    readonly maxCharacters: number
    /** Share of the summariser's window above which a message is not shown at all. Default 0.5. */
    readonly omitAbove: number
  }
  readonly plain: {
    /** How many requests of the user are named. Default 10. */
    readonly requests: number
    /** Characters of each. Default 80. */
    readonly characters: number
    /** Characters that stay of the summary before. Default 4,000. */
    readonly earlier: number
    /** Beside the protected end as many of the newest messages stay as `downTo` has room for. Default true. */
    readonly fill: boolean
  }
  readonly thrash: {
    /** A compaction that frees less than this share of the limit is a poor one. Default 0.1. */
    readonly poorGain: number
    /** After so many poor ones in a row there is no other. Default 3. */
    readonly poorGains: number
    /** It is a refill when the window is full again within so many turns. Default 3. */
    readonly refillTurns: number
    /** At the refill of this number in a row it ends. Default 3. */
    readonly refills: number
  }
  /** Compactions of one call after its provider found the conversation too long. Default 2. */
  readonly maxReactive: number
  readonly wording: CompactionWording
}

export const defaults: CompactionPolicy = {
  warn: 0.8,
  act: 0.9,
  reserve: 0.02,
  downTo: 0.6,
  maxResult: 0.3,
  tail: { messages: 4 },
  tiers: ["cap", "strip", "chunks", "half", "plain"],
  minMessages: 6,
  large: 200,
  chunks: { maxTokens: 12_000, overlap: 0.1, concurrency: 3 },
  messages: { maxCharacters: 10_000, omitAbove: 0.5 },
  plain: { requests: 10, characters: 80, earlier: 4_000, fill: true },
  thrash: { poorGain: 0.1, poorGains: 3, refillTurns: 3, refills: 3 },
  maxReactive: 2,
  wording
}

/** The newest tokens are protected instead of the newest messages; OpenClaw keeps 20,000. */
export const tokenTail = (tokens: number): CompactionPolicy => {
  Check.positiveInteger("CompactionPolicy", "tail.tokens", tokens)
  return { ...defaults, tail: { tokens } }
}

/**
 * CodeBuddy's layer 4: tool results, chunks, the oldest half, plain text; warns at 80 %, acts at 90 %.
 *
 * It compacts to the limit, not below it. The chunks of its document overlap; those of its code do not. Here they do.
 */
export const codebuddy: CompactionPolicy = {
  ...defaults,
  downTo: 0.9,
  plain: { ...defaults.plain, fill: false },
  thrash: { ...defaults.thrash, refills: 20 }
}

/**
 * claw0: results above 30 % of the window are truncated, then the first half is summarised; three compactions of a call.
 *
 * What it keeps of the end is a fifth of the messages, at least four; here it is four. Where its summary fails it drops
 * the old messages without a word; here that is a typed failure.
 */
export const claw0: CompactionPolicy = { ...defaults, tiers: ["cap", "half"], minMessages: 0, maxReactive: 3 }

/**
 * learn-claude-code's s11: the last five messages stay, a sentence says that the others are gone; once in a call.
 *
 * There the first message goes, too. Here it stays, as pinned ones do.
 */
export const s11: CompactionPolicy = {
  ...defaults,
  tail: { messages: 5 },
  tiers: ["plain"],
  plain: { ...defaults.plain, fill: false },
  maxReactive: 1,
  wording: { ...wording, plain: () => "[Reactive compact] The conversation before this was trimmed." }
}

const { is } = Check
const { required } = is

const share = required(is.number({ min: 0.01, max: 1 }))
const count = required(Kind.count)
const countOrNone = required(Kind.countOrNone)

/** One of two: by messages, or by tokens. */
const tail: Check.Check = (module, field, value) => {
  const noun = "{ messages } or { tokens }"
  Kind.object<{ readonly messages?: number; readonly tokens?: number }>(noun, {
    messages: Kind.count,
    tokens: Kind.count
  })(module, field, value)
  Check.check(Kind.isObject(value) && "messages" in value !== "tokens" in value, module, field, value, noun)
}

const checks: Check.Checks<CompactionPolicy> = {
  warn: share,
  act: share,
  reserve: required(is.number({ min: 0, max: 0.9 })),
  downTo: share,
  maxResult: share,
  tail: required(tail),
  tiers: required(Kind.list(is.oneOf(...defaults.tiers), "a list of tiers")),
  minMessages: countOrNone,
  large: countOrNone,
  chunks: required(
    Kind.object<CompactionPolicy["chunks"]>("{ maxTokens, overlap, concurrency }", {
      maxTokens: required(is.integer({ min: 100 })),
      overlap: required(is.number({ min: 0, max: 0.5 })),
      concurrency: count
    })
  ),
  messages: required(
    Kind.object<CompactionPolicy["messages"]>("{ maxCharacters, omitAbove }", {
      maxCharacters: required(is.integer({ min: 100 })),
      omitAbove: share
    })
  ),
  plain: required(
    Kind.object<CompactionPolicy["plain"]>("{ requests, characters, earlier, fill }", {
      requests: countOrNone,
      characters: countOrNone,
      earlier: countOrNone,
      fill: required(is.flag)
    })
  ),
  thrash: required(
    Kind.object<CompactionPolicy["thrash"]>("{ poorGain, poorGains, refillTurns, refills }", {
      poorGain: required(is.share),
      poorGains: count,
      refillTurns: count,
      refills: count
    })
  ),
  maxReactive: countOrNone,
  wording: required(Kind.object("a wording, for example CompactionWording.defaults", wordingChecks))
}

/** Throws an `InvalidOption` (a `RangeError`) for a field that is missing, unknown or not allowed. */
export const validate = (policy: CompactionPolicy): CompactionPolicy => {
  const module = "CompactionPolicy"
  Check.fields(module, policy, checks)
  const { act, downTo } = policy
  Check.check(downTo <= act, module, "downTo", downTo, `at most act (${act})`)
  return policy
}
