/**
 * Errors of an event bus. The reason decides whether the event is retried or becomes a dead letter.
 *
 * - `unavailable`: the broker did not take the event now: no connection, no answer, a full stream, a change of leader.
 *   It may have stored the event although the publish failed. Never counts towards the dead letters.
 * - `rejected`: the broker answered that it does not take this event. With `permanent` no later attempt can succeed.
 */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"

export class BusError extends Schema.TaggedError<BusError>("@outlast/delivery/bus/BusError")("BusError", {
  reason: Schema.Literals(["rejected", "unavailable"]),
  /** Says what happened and what to do, without credentials and without the event's body. */
  detail: Schema.String,
  /** The subject of the event, or of the subscription. */
  subject: Schema.optional(Schema.String),
  /** No later attempt can succeed. Only with `rejected`. Default false. */
  permanent: Schema.optional(Schema.Boolean),
  /**
   * Extent of the outage: the whole broker, or only the stream of this subject (e.g. a full stream). Only the former
   * counts for the circuit. Default: the broker.
   */
  scope: Schema.optional(Schema.Literals(["broker", "subject"])),
  /** The broker's code, for example `10077`. */
  code: Schema.optional(Schema.String),
  cause: Schema.optional(Schema.Defect())
}) {
  get isRetryable(): boolean {
    return this.permanent !== true
  }

  override get message(): string {
    const what = this.subject === undefined ? "The event bus" : `The event bus, for \`${this.subject}\`,`
    const verdict = this.reason === "rejected" ? "rejected the event" : "is unavailable"
    const code = this.code === undefined ? "" : ` (${this.code})`
    return `${what} ${verdict}: ${this.detail}${code}`
  }
}

ErrorText.printedOnce(BusError)
