/** Error of a publish to a full outbox. The event was not stored. The caller decides whether to retry or drop it. */
import { Schema } from "effect"
import { ErrorText } from "@outlast/resilience"

export class OutboxFull extends Schema.TaggedError<OutboxFull>("@outlast/delivery/outbox/OutboxFull")(
  "OutboxFull",
  {
    /** The limit that is reached: stored events, their bytes, or publishes in flight. */
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
