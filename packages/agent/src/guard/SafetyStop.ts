/**
 * The error of a stopped run. It appears only at the boundary of the guard, never inside.
 *
 * **Example** (Continue after the stop)
 *
 * ```ts
 * guard.run(Agent.run(options)).pipe(
 *   Effect.catchTag("SafetyStop", (stop) =>
 *     Effect.andThen(
 *       guard.extend({ toolCalls: 100 }),
 *       guard.run(Agent.run({ ...options, prompt: stop.transcript.prompt }))
 *     )
 *   )
 * )
 * ```
 */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"
import * as Transcript from "../conversation/Transcript.ts"
import { BlockedCall } from "./BlockedCalls.ts"
import { Counts, StopReason } from "./StopReason.ts"

export class SafetyStop extends Schema.TaggedError<SafetyStop>("@outlast/agent/guard/SafetyStop")(
  "SafetyStop",
  {
    reason: StopReason,
    /** The limit in the unit of the reason: a count, milliseconds, tokens, US dollars. `undefined` for loops. */
    limit: Schema.optional(Schema.Finite),
    /** The tool, the file or the time (`active`, `total`) whose limit was reached; `undefined` for other limits. */
    subject: Schema.optional(Schema.String),
    /** Amounts that the run had used. */
    counts: Counts,
    /** Calls blocked by loops or refused permission: the last 100, oldest first. */
    blocked: Schema.Array(BlockedCall),
    /**
     * The conversation as a legal prompt: every tool call has its result. Of several concurrent conversations it is the
     * one that began last. Conversations of sub-agents are not included. A conversation begins with its first model or
     * tool call.
     */
    transcript: Transcript.schema,
    message: Schema.String
  }
) {
  /** Always false: a repeated run would be stopped again. */
  readonly isRetryable = false

  /** For loggers. Omits the conversation. */
  override toJSON(): unknown {
    const { _tag, message, reason, limit, subject, counts } = this
    return { _tag, message, reason, limit, subject, counts }
  }
}

ErrorText.printedOnce(SafetyStop)
