/**
 * How a resilient tool fails when it is not its handler that says so: it took too long, or its circuit is open.
 *
 * A tool with `failureMode: "return"` gives the sentence to the model. One with `failureMode: "error"` fails with
 * {@link ToolFailed}, an `AiError`: the type that effect/ai has for failures of tools beside the declared ones.
 */
import { Duration, Schema } from "effect"
import { AiError } from "effect/ai"
import { ErrorText } from "@outlast/resilience"

const id = (name: string) => `@outlast/agent/resilient/${name}`

/** The handler was interrupted at its limit. */
export class ToolTimedOut extends Schema.TaggedError<ToolTimedOut>(id("ToolTimedOut"))("ToolTimedOut", {
  tool: Schema.String,
  limit: Schema.Duration,
  /** Calling it again does no harm. */
  repeatable: Schema.Boolean
}) {
  override get message(): string {
    const effects = this.repeatable ? "" : " Whether it had an effect is not known."
    return `The tool ${this.tool} gave no result within ${Duration.format(this.limit)} and was stopped.${effects}`
  }
}

/** The handler was not called. */
export class ToolRefused extends Schema.TaggedError<ToolRefused>(id("ToolRefused"))("ToolRefused", {
  tool: Schema.String,
  circuit: Schema.String,
  /** Until it is called again, where that is known. */
  retryAfter: Schema.optional(Schema.Duration)
}) {
  override get message(): string {
    const when =
      this.retryAfter === undefined ? "later" : `in ${Duration.format(this.retryAfter)} at the earliest`
    return `The tool ${this.tool} kept failing and was not called. Try it again ${when}, or go on without it.`
  }
}

export const Failure = Schema.Union([ToolTimedOut, ToolRefused])
export type Failure = typeof Failure.Type

/** Never retryable: what could be done was done. */
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
