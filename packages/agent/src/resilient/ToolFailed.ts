/**
 * Failures of a resilient tool that do not come from its handler: it took too long, or its circuit is open.
 *
 * A tool with `failureMode: "return"` gives the sentence to the model. One with `failureMode: "error"` fails with
 * {@link ToolFailed}, an `AiError`: effect/ai's type for failures of tools besides the declared ones.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import { ErrorText } from "@outlast/resilience"
import { limitInWords, waitInWords } from "../failure/reasons/ProviderFailure.ts"

const id = (name: string) => `@outlast/agent/resilient/${name}`

/** The handler was interrupted at its time limit. */
export class ToolTimedOut extends Schema.TaggedError<ToolTimedOut>(id("ToolTimedOut"))("ToolTimedOut", {
  tool: Schema.String,
  limit: Schema.Duration,
  /** True when the tool is safe to call again. */
  repeatable: Schema.Boolean
}) {
  override get message(): string {
    const effects = this.repeatable ? "" : " Whether it had an effect is not known."
    return `The tool ${this.tool} gave no result within ${limitInWords(this.limit)} and was stopped.${effects}`
  }
}

/** The handler was not called, because its circuit is open. */
export class ToolRefused extends Schema.TaggedError<ToolRefused>(id("ToolRefused"))("ToolRefused", {
  tool: Schema.String,
  circuit: Schema.String,
  /** Time until the circuit allows a call, if known. */
  retryAfter: Schema.optional(Schema.Duration)
}) {
  override get message(): string {
    const when =
      this.retryAfter === undefined ? "later" : `in ${waitInWords(this.retryAfter)} at the earliest`
    return `The tool ${this.tool} kept failing and was not called. Try it again ${when}, or go on without it.`
  }
}

export const Failure = Schema.Union([ToolTimedOut, ToolRefused])
export type Failure = typeof Failure.Type

/** Not retryable, because the retries are used up. */
export class ToolFailed extends AiError.AiError.extend<ToolFailed>(id("ToolFailed"))({ failure: Failure }) {
  override get isRetryable(): boolean {
    return false
  }

  override get message(): string {
    return this.failure.message
  }
}

ErrorText.printedOnce(ToolFailed)

export const fromFailure = (failure: Failure): ToolFailed =>
  new ToolFailed({
    module: "Resilient",
    method: `${failure.tool}.handle`,
    reason: ErrorText.inner(new AiError.UnknownError({ description: failure.message })),
    failure
  })
