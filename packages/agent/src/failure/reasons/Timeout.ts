/**
 * A time limit passed before the provider answered.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id } from "./ReasonDefinition.ts"

/** A time limit passed before the provider answered. */
export class Timeout extends Schema.TaggedClass<Timeout>(id("Timeout"))("Timeout", {
  /** The wait that took too long: for the connection, the first token, the next token, or the whole answer. */
  phase: Schema.Literals(["connect", "first-token", "idle", "total"]),
  /**
   * True when a limit on this side ended the wait: `Effect.timeout`, an `AbortSignal`, the SDK or the HTTP client
   * (undici's limits for connecting, headers and body). False when the provider, a gateway or the operating system
   * gave up, and when the cause is unknown.
   */
  local: Schema.Boolean,
  /** True when the limit for the whole answer passed and nothing had arrived from the provider, not even headers. */
  silent: Schema.optional(Schema.Boolean)
}) {}

const waitedFor = {
  connect: "connection",
  "first-token": "first token",
  idle: "further token",
  total: "complete answer"
} as const

export const timeout: ReasonDefinition<Timeout> = {
  label: "timeout",
  samples: (["connect", "first-token", "idle", "total"] as const).flatMap((phase) => [
    new Timeout({ phase, local: false }),
    new Timeout({ phase, local: true })
  ]),
  labelled: [new Timeout({ phase: "total", local: false })],
  happened: ({ reason, status }) =>
    reason.local ? `no ${waitedFor[reason.phase]} within our limit` : `the provider timed out${status}`,
  advice: () => "Try again, raise the time limit, or add another target to the chain.",
  notice: () => "did not answer in time",
  nearest: ({ url, description }) =>
    new AiError.NetworkError({ reason: "TransportError", method: "POST", url, description }),
  isTransient: always,
  needsPerson: false,
  isItsFault: always,
  wait: "any",
  remedies: ["repeat", "target"]
}
