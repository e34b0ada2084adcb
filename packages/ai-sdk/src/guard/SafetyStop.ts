/**
 * The error of a stopped run, as a plain `Error`.
 *
 * `generateText` rejects with it. In a stream it is the error part, and `run.stopped` is set.
 */
import type { StopReason } from "@outlast/agent"
import { StopReason as Stops } from "@outlast/agent"

/** Amounts that the run had used. Times are milliseconds. */
export type Counts = StopReason.Counts

export class SafetyStop extends Error {
  override readonly name = "SafetyStop"
  /** The limit or loop that stopped the run. */
  readonly reason: StopReason.StopReason
  /** The limit in the unit of the reason: a count, milliseconds, tokens, US dollars. `undefined` for loops. */
  readonly limit: number | undefined
  /** The tool or the time (`active`, `total`) whose limit was reached; `undefined` for other limits. */
  readonly subject: string | undefined
  readonly counts: Counts
  /** Always false, for the AI SDK: a repeated call would be stopped again. */
  readonly isRetryable = false

  constructor(facts: StopReason.StopFacts) {
    super(
      `The run was stopped: ${Stops.whatHappened(facts)} To go on, raise the limit or tell the model what to do differently, and start another run with the messages so far.`
    )
    this.reason = facts.reason
    this.limit = facts.limit
    this.subject = facts.subject
    this.counts = facts.counts
  }
}
