/**
 * Errors of compaction. The caller's conversation is unchanged in each case.
 */
import { Data } from "effect"
import { ErrorText } from "@outlast/resilience"
import type { Tried, Uncuttable } from "./Report.ts"

const count = (n: number): string => n.toLocaleString("en-US")

const names: Readonly<Record<Uncuttable["what"], string>> = {
  system: "the system messages",
  pinned: "pinned messages",
  goal: "the first message of the user",
  tail: "the protected end",
  tools: "the schemas of tools"
}

/** The parts that cannot be cut are larger than the limit. */
export class CannotFit extends Data.TaggedError("CannotFit")<{
  readonly window: number
  /** Maximum tokens of the conversation. Less than the window, because the answer needs room. */
  readonly limit: number
  /** How the limit was computed. */
  readonly arithmetic: string
  readonly tokens: number
  /** The smallest size that was reached, in tokens. */
  readonly smallest: number
  /** Parts that cannot be cut, largest first. */
  readonly uncuttable: ReadonlyArray<Uncuttable>
  readonly tried: ReadonlyArray<Tried>
}> {
  /** The same conversation would not fit the next time either. */
  readonly isRetryable = false

  override get message(): string {
    const parts = this.uncuttable.map(({ what, tokens }) => `${names[what]} (${count(tokens)} tokens)`)
    const failed = this.tried.flatMap(({ tier, why }) => (why === undefined ? [] : [`${tier}: ${why}`]))
    return [
      `The conversation has ${count(this.tokens)} tokens and must not have more than ${count(this.limit)}: ${this.arithmetic}. The smallest size that was reached is ${count(this.smallest)} tokens.`,
      ...(parts.length === 0 ? [] : [`What cannot be cut: ${parts.join(", ")}.`]),
      ...(failed.length === 0 ? [] : [`What failed: ${failed.join("; ")}.`]),
      "Shorten the largest of these, lower the output limit, or use a model with a larger window."
    ].join("\n")
  }
}

ErrorText.printedOnce(CannotFit)

/** Repeated compactions did not help: each freed too little. */
export class ContextExhausted extends Data.TaggedError("ContextExhausted")<{
  /** `poor_gains`: consecutive compactions freed too little. Nothing else ends in this error. */
  readonly reason: "poor_gains"
  /** Number of consecutive compactions that freed too little. */
  readonly times: number
  readonly tokens: number
  readonly window: number
  readonly limit: number
  /** How the limit was computed. */
  readonly arithmetic: string
}> {
  readonly isRetryable = false

  override get message(): string {
    return `The conversation has ${count(this.tokens)} tokens and must not have more than ${count(this.limit)}: ${this.arithmetic}. The last ${this.times} compactions freed too little. Another compaction would not help: begin a new conversation with the essential facts, shorten tool results, unpin messages, or use a model with a larger window.`
  }
}

ErrorText.printedOnce(ContextExhausted)
