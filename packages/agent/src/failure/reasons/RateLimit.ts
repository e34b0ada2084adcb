/**
 * The calls reached a limit per unit of time: requests, tokens, concurrency.
 */
import { Effect, Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id } from "./ReasonDefinition.ts"

/** Id of the rule for a call that would have to wait too long because of known limits. */
export const knownLimit = "limit/known"

/** The calls reached a limit per unit of time: requests, tokens, concurrency. */
export class RateLimit extends Schema.TaggedClass<RateLimit>(id("RateLimit"))("RateLimit", {
  /** False when waiting cannot help: a single request is larger than the limit, or the limit is 0. */
  liftable: Schema.Boolean.pipe(Schema.withConstructorDefault(Effect.succeed(true))),
  /** The limit in tokens and the tokens of the request, when the request alone is larger and the provider names them. */
  limit: Schema.optionalKey(Schema.Finite),
  requested: Schema.optionalKey(Schema.Finite),
  /** The unit of time after which the limit is renewed; `session` is one of several hours. Absent: not known. */
  window: Schema.optionalKey(Schema.Literals(["minute", "hour", "session", "day", "week", "month"]))
}) {}

export const rateLimit: ReasonDefinition<RateLimit> = {
  label: "rate_limit",
  samples: [new RateLimit(), new RateLimit({ liftable: false }), new RateLimit({ window: "day" })],
  labelled: [new RateLimit()],
  happened: ({ rule, status }) =>
    rule === knownLimit ? "the known limits of the key allow no call yet" : `rate limited${status}`,
  advice: ({ reason }) =>
    reason.liftable
      ? "Wait, or add another key or target to the chain."
      : "Waiting does not help: shorten the request, or add a key or target with a higher limit.",
  notice: () => "is rate limited",
  nearest: ({ retryAfter }) => new AiError.RateLimitError(retryAfter === undefined ? {} : { retryAfter }),
  isTransient: ({ liftable }) => liftable,
  needsPerson: false,
  isItsFault: always,
  wait: "reset",
  remedies: ["repeat", "key", "target"]
}
