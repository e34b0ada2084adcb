/**
 * How a guarded run ends that was stopped: the only error of the guard, at its boundary and nowhere inside.
 *
 * **Example** (Going on after the stop)
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
import { Data } from "effect"
import { ErrorText } from "@outlast/resilience"
import type { Transcript } from "../conversation/Transcript.ts"
import type { BlockedCall } from "./BlockedCalls.ts"
import type { Counts, StopReason } from "./StopReason.ts"

export class SafetyStop extends Data.TaggedError("SafetyStop")<{
  readonly reason: StopReason
  /** In the unit of the reason: a count, milliseconds, tokens, US dollars. None for loops. */
  readonly limit: number | undefined
  /** The tool, the file or the time (`active`, `total`) whose limit was reached; `undefined` for other limits. */
  readonly subject: string | undefined
  /** What the run had taken. */
  readonly counts: Counts
  /** Calls that were not run, by loops or without permission: the last 100, oldest first. */
  readonly blocked: ReadonlyArray<BlockedCall>
  /**
   * The conversation, legal as a prompt: every tool call in it has its result. Of several at once it is the one that
   * began last; those of sub-agents are not in it. One that has asked for nothing has not begun.
   */
  readonly transcript: Transcript
  readonly message: string
}> {
  /** Never: what is repeated is stopped again. */
  readonly isRetryable = false

  /** For loggers: leaves out the conversation. */
  override toJSON(): unknown {
    const { _tag, message, reason, limit, subject, counts } = this
    return { _tag, message, reason, limit, subject, counts }
  }
}

ErrorText.printedOnce(SafetyStop)
