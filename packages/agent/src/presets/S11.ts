/**
 * learn-claude-code's s11, "error recovery": ten retries of a rate limit or an overload, the third overload in a row
 * switches to the fallback model; a cut answer gets room, then continuations; one compaction.
 *
 * The fallback model is the next model of the chain ({@link policy}), or the one that the environment variable
 * FALLBACK_MODEL_ID names ({@link fromConfig}). A chain without it goes on retrying.
 *
 * **Where it differs** from the document:
 *
 * - Its ten retries are those of one request; here they are those of the call, raised limits and continuations
 *   included. Only a call that is both cut and refused again and again notices.
 * - A call begins with the first model of the chain; there the fallback model stays until the agent ends. From a
 *   fallback that is overloaded three times in a row as well, {@link policy} goes back.
 * - A switch is not delayed. The document does not say whether it is.
 * - Retry-After takes priority up to the deadline, which there is none of in the document: half an hour here.
 * - `LanguageModel.streamText` cannot take back what it has shown: there an answer is continued by the other model.
 *   `Outlast.streamText` says `Rewind`, and clears what was shown of it.
 * - Of transient failures only 429 and 529 are handled, as the document says of itself; the others are raised.
 *
 * **Example** (The fallback model from the environment)
 *
 * ```ts
 * const Model = Layer.unwrap(
 *   Effect.map(Presets.s11.fromConfig, (policy) => Failover.layer([opus, sonnet], { policy }))
 * )
 * ```
 */
import { Config, Duration, Option } from "effect"
import type { Change, Notices } from "../failover/decide/Notice.ts"
import { defaults as notices } from "../failover/decide/Notice.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import * as Kind from "../options/Kind.ts"
import { base, interactive } from "../failover/decide/RecoveryPolicy.ts"
import type { Truncation } from "../recovery/Truncation.ts"
import * as Backoffs from "./Backoffs.ts"
import type { S11Class } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** What the document recovers from, and all the rest. */
export type Class = S11Class

/** From 8,000 to 64,000 tokens once, three continuations; three gains under 500 tokens in a row are the last. */
export const truncation: Truncation = {
  start: 8_000,
  raiseTo: 64_000,
  raises: 1,
  continuations: 3,
  poorGains: 3,
  minGain: 500
}

const switched = (change: Change): string =>
  change.reason === "Overloaded"
    ? `Switched to ${change.target.model} due to high demand`
    : notices.switched(change)

const told: Notices = { ...notices, switched }

const retries = 10

const nowhere: Row["to"] = []

const transient: Row = {
  ...base,
  attempts: 1 + retries,
  repeatsBeforeEquivalent: retries,
  backoff: Backoffs.s11,
  retryAfter: "wins",
  to: nowhere
}

const deadline = Duration.minutes(30)

const switchingTo = (to: Row["to"]): RecoveryPolicy<Class> => ({
  ...interactive,
  classOf: ({ reason }) => Vocabulary.s11(reason),
  rows: {
    rate_limit: transient,
    overloaded: { ...transient, switchAfter: 3, to, midStream: "restart" },
    // What is still too long then is raised, whatever windows the others have.
    prompt_too_long: { ...base, then: "grow", to: nowhere },
    unrecoverable: { ...base, then: "stop" }
  },
  maxAttempts: 1 + retries,
  deadline,
  maxWait: deadline,
  patience: deadline,
  retryAfterJitter: 0,
  maxCompactions: 1,
  circuits: false,
  probe: false,
  retryBudget: false,
  truncation,
  notices: told
})

/** The fallback model is the next one of the chain that is another. */
export const policy: RecoveryPolicy<Class> = switchingTo("other-model")

/** The fallback models are these, by the names that they have in the chain; none: it goes on retrying. */
export const withFallback = (...models: ReadonlyArray<string>): RecoveryPolicy<Class> => {
  Kind.names("S11", "models", models)
  return switchingTo(models)
}

/** {@link withFallback} with what FALLBACK_MODEL_ID says, if it is set. */
export const fromConfig: Config.Config<RecoveryPolicy<Class>> = Config.map(
  Config.option(Config.NonEmptyString("FALLBACK_MODEL_ID")),
  (model) => withFallback(...Option.toArray(model))
)
