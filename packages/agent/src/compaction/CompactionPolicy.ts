/**
 * When and how a conversation is compacted, as data.
 *
 * {@link defaults} is the recommended policy. {@link tokenTail} protects the newest tokens instead of the newest
 * messages. {@link codebuddy}, {@link claw0} and {@link s11} imitate those systems.
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
 * The tiers, cheapest first:
 * - `cap`: cuts the middle out of every result larger than {@link CompactionPolicy.maxResult}, anywhere in the
 *   conversation, and the results of the protected end together when it alone is too large
 * - `strip`: cuts large results and arguments outside the protected tail, oldest first, until enough is freed
 * - `chunks`: summarises everything unprotected in overlapping chunks and merges the summaries
 * - `half`: summarises the oldest half of it in one call
 * - `plain`: replaces the oldest of it with a few lines, without a model; only when no earlier tier has a lasting
 *   effect
 */
export type Tier = "cap" | "strip" | "chunks" | "half" | "plain"

/**
 * Protected end of the conversation: a number of messages, or the newest messages within a number of tokens (at most
 * half of `downTo`).
 */
export type Tail = { readonly messages: number } | { readonly tokens: number }

export interface CompactionPolicy {
  /**
   * Share of the window from which the conversation is filling: an event is published, a summary may be prepared.
   * Default 0.8.
   */
  readonly warn: number
  /** Share of the window above which the conversation is compacted. Default 0.9. */
  readonly act: number
  /** Share of the window that stays free in addition to the output limit. Default 0.02. */
  readonly reserve: number
  /**
   * Largest share of a window given by hand that is kept for the answer. The whole output limit stays free in a
   * window that is the model's own. Default 0.2.
   */
  readonly maxAnswer: number
  /** Target size after a compaction, as a share of the window. Default 0.6. */
  readonly downTo: number
  /** Largest share of the window for one tool result. Default 0.3. */
  readonly maxResult: number
  /** Protected end. Default 4 messages. Calls and results that belong to the first of them are protected, too. */
  readonly tail: Tail
  /** Tiers in the order in which they are tried, until the size is down to `downTo`. Default: all. */
  readonly tiers: ReadonlyArray<Tier>
  /** Number of messages below which no model summarises. Default 6. */
  readonly minMessages: number
  /** Number of characters above which a result or an argument is large. Default 200. */
  readonly large: number
  readonly chunks: {
    /** Maximum tokens of a chunk, limited by the summariser's window. Default 12,000. */
    readonly maxTokens: number
    /** Share of a chunk that the next one repeats. Default 0.1. */
    readonly overlap: number
    /** Number of chunks that are summarised concurrently. Default 3. */
    readonly concurrency: number
  }
  readonly messages: {
    /** Maximum characters of a message in the summariser's transcript: its beginning and end. Default 10,000. */
    readonly maxCharacters: number
    /** Share of the summariser's window above which a message is omitted. Default 0.5. */
    readonly omitAbove: number
  }
  readonly plain: {
    /** Number of user requests that are quoted. Default 10. */
    readonly requests: number
    /** Characters of each quoted request. Default 80. */
    readonly characters: number
    /** Characters that are kept of an earlier summary. Default 4,000. */
    readonly earlier: number
    /** True to keep as many newer messages as `downTo` has room for, in addition to the tail. Default true. */
    readonly fill: boolean
  }
  readonly thrash: {
    /** Share of the limit below which the tokens freed by a compaction are a poor gain. Default 0.1. */
    readonly poorGain: number
    /** Consecutive poor gains after which compaction stops. Default 3. */
    readonly poorGains: number
    /**
     * Number of turns after a compaction within which a full window counts as a refill. The next compaction then
     * uses a stronger tier. Refills never stop compaction. Default 3.
     */
    readonly refillTurns: number
  }
  /** Maximum compactions of one call after its provider rejected the prompt as too long. Default 2. */
  readonly maxReactive: number
  readonly wording: CompactionWording
}

export const defaults: CompactionPolicy = {
  warn: 0.8,
  act: 0.9,
  reserve: 0.02,
  maxAnswer: 0.2,
  downTo: 0.6,
  maxResult: 0.3,
  tail: { messages: 4 },
  tiers: ["cap", "strip", "chunks", "half", "plain"],
  minMessages: 6,
  large: 200,
  chunks: { maxTokens: 12_000, overlap: 0.1, concurrency: 3 },
  messages: { maxCharacters: 10_000, omitAbove: 0.5 },
  plain: { requests: 10, characters: 80, earlier: 4_000, fill: true },
  thrash: { poorGain: 0.1, poorGains: 3, refillTurns: 3 },
  maxReactive: 2,
  wording
}

/** Protects the newest tokens instead of the newest messages. OpenClaw keeps 20,000. */
export const tokenTail = (tokens: number): CompactionPolicy => {
  Check.positiveInteger("CompactionPolicy", "tail.tokens", tokens)
  return { ...defaults, tail: { tokens } }
}

/**
 * CodeBuddy's layer 4: tool results, chunks, the oldest half, plain text. It warns at 80 % and acts at 90 %.
 *
 * It compacts to the limit, not below it. Chunks overlap in its documentation but not in its code. Here they overlap.
 */
export const codebuddy: CompactionPolicy = {
  ...defaults,
  downTo: 0.9,
  plain: { ...defaults.plain, fill: false }
}

/**
 * claw0: truncates results above 30 % of the window, then summarises the first half; three compactions per call.
 *
 * claw0 keeps a fifth of the messages at the end, at least four; here it is always four. When its summary fails,
 * claw0 silently drops the old messages; here that is a typed failure.
 */
export const claw0: CompactionPolicy = { ...defaults, tiers: ["cap", "half"], minMessages: 0, maxReactive: 3 }

/**
 * learn-claude-code's s11: keeps the last five messages and replaces the others with one sentence, once per call.
 *
 * The original also drops the first message. Here it stays, like pinned messages.
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

/** Exactly one of `messages` and `tokens`. */
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
  maxAnswer: share,
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
    Kind.object<CompactionPolicy["thrash"]>("{ poorGain, poorGains, refillTurns }", {
      poorGain: required(is.share),
      poorGains: count,
      refillTurns: count
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
