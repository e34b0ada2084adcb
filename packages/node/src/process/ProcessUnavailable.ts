/** The error of a supervised process that is not there to be used. */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"

/**
 * - `starting`: it was not ready within the patience of the caller
 * - `restarting`: it died, and the backoff is not over
 * - `open`: it died too often, so it is not started for a while
 * - `stopped`: it was stopped
 * - `gone`: it ended while it was used; whether it did what it was asked is not known
 */
export class ProcessUnavailable extends Schema.TaggedError<ProcessUnavailable>(
  "@outlast/node/process/ProcessUnavailable"
)("ProcessUnavailable", {
  reason: Schema.Literals(["starting", "restarting", "open", "stopped", "gone"]),
  /** The name of the process. */
  name: Schema.String,
  /** Milliseconds until the next start, where that is known. */
  retryAfter: Schema.optional(Schema.Number),
  /** How the last life ended. */
  death: Schema.optional(Schema.String)
}) {
  get isRetryable(): boolean {
    return this.reason !== "stopped"
  }

  override get message(): string {
    const death = this.death === undefined ? "" : ` Its last end: ${this.death}.`
    const time =
      this.retryAfter === undefined ? "" : ` Next start in ${(this.retryAfter / 1_000).toFixed(1)} s.`
    return `Process \`${this.name}\` ${what[this.reason]}.${death}${time}`
  }
}

ErrorText.printedOnce(ProcessUnavailable)

const what = {
  starting: "is not ready yet",
  restarting: "died and is about to be started again",
  open: "keeps dying, so it is not started for a while",
  stopped: "was stopped",
  gone: "ended while it was used"
} as const
