/**
 * Errors of compaction. The caller's conversation is unchanged in each case.
 */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import type { Uncuttable } from "./Report.ts"
import * as Report from "./Report.ts"

const count = (n: number): string => n.toLocaleString("en-US")

const names: Readonly<Record<Uncuttable["what"], string>> = {
  system: "the system messages",
  pinned: "pinned messages",
  goal: "the first message of the user",
  tail: "the protected end",
  tools: "the schemas of tools"
}

/** The parts that cannot be cut are larger than the limit. */
export class CannotFit extends Schema.TaggedError<CannotFit>("@outlast/agent/compaction/CannotFit")(
  "CannotFit",
  {
    window: Schema.Finite,
    /** Maximum tokens of the conversation. Less than the window, because the answer needs room. */
    limit: Schema.Finite,
    /** How the limit was computed. */
    arithmetic: Schema.String,
    tokens: Schema.Finite,
    /** The smallest size that was reached, in tokens. */
    smallest: Schema.Finite,
    /** Parts that cannot be cut, largest first. */
    uncuttable: Schema.Array(Report.Uncuttable),
    tried: Schema.Array(Report.Tried)
  }
) {
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
export class ContextExhausted extends Schema.TaggedError<ContextExhausted>(
  "@outlast/agent/compaction/ContextExhausted"
)("ContextExhausted", {
  /** `poor_gains`: consecutive compactions freed too little. Nothing else ends in this error. */
  reason: Schema.Literal("poor_gains"),
  /** Number of consecutive compactions that freed too little. */
  times: Schema.Finite,
  tokens: Schema.Finite,
  window: Schema.Finite,
  limit: Schema.Finite,
  /** How the limit was computed. */
  arithmetic: Schema.String
}) {
  readonly isRetryable = false

  override get message(): string {
    return `The conversation has ${count(this.tokens)} tokens and must not have more than ${count(this.limit)}: ${this.arithmetic}. The last ${this.times} compactions freed too little. Another compaction would not help: begin a new conversation with the essential facts, shorten tool results, unpin messages, or use a model with a larger window.`
  }
}

ErrorText.printedOnce(ContextExhausted)
