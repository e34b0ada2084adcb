/** The outbox holds as much as it may. The event was not stored: the caller decides what becomes of it. */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"

export class OutboxFull extends Schema.TaggedError<OutboxFull>("@outlast/delivery/outbox/OutboxFull")(
  "OutboxFull",
  {
    /** What has reached its limit: stored events, their bytes, or publishes under way. */
    what: Schema.Literals(["events", "bytes", "inFlight"]),
    limit: Schema.Number
  }
) {
  readonly isRetryable = true

  override get message(): string {
    const full =
      this.what === "inFlight"
        ? `${this.limit} publishes are under way already`
        : `it holds ${this.limit} ${this.what}, its cap`
    return `The outbox is full: ${full}. The event was not stored. Bring the broker back, raise the limit, or publish less.`
  }
}

ErrorText.printedOnce(OutboxFull)
