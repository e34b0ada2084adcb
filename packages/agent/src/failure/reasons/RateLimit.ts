/**
 * A limit per unit of time was reached: requests, tokens, concurrency.
 */
import { Effect, Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id } from "./ReasonDefinition.ts"

/** The rule of a call that limits which are known would make wait too long. */
export const knownLimit = "limit/known"

/** A limit per unit of time was reached: requests, tokens, concurrency. */
export class RateLimit extends Schema.TaggedClass<RateLimit>(id("RateLimit"))("RateLimit", {
  /** `false` when waiting cannot lift it: a single request is larger than the limit, or the limit is 0. */
  liftable: Schema.Boolean.pipe(Schema.withConstructorDefault(Effect.succeed(true)))
}) {}

export const rateLimit: ReasonDefinition<RateLimit> = {
  label: "rate_limit",
  samples: [new RateLimit(), new RateLimit({ liftable: false })],
  labelled: [new RateLimit()],
  happened: ({ rule, status }) =>
    rule === knownLimit ? "the known limits of the key allow no call yet" : `rate limited${status}`,
  advice: () => "Wait, or add another key or target to the chain.",
  notice: "is rate limited",
  nearest: ({ retryAfter }) => new AiError.RateLimitError(retryAfter === undefined ? {} : { retryAfter }),
  isTransient: ({ liftable }) => liftable,
  needsPerson: false,
  isItsFault: always,
  wait: "reset",
  remedies: ["repeat", "key", "target"]
}
