/**
 * learn-claude-code's s11, "error recovery". A rate limit or an overload is retried ten times; the third
 * consecutive overload switches to the fallback model. A cut answer is repeated with a higher limit, then
 * continued. A conversation that is too long is compacted once.
 *
 * The fallback model is the next model of the chain ({@link policy}), or the one that the environment variable
 * FALLBACK_MODEL_ID names ({@link fromConfig}). A chain without that model continues to retry.
 *
 * {@link deviations} lists where it differs from the document, and how gaps of the document are filled.
 *
 * **Example** (The fallback model from the environment)
 *
 * ```ts
 * const Model = Layer.unwrap(
 *   Effect.map(Presets.s11.fromConfig, (policy) => Failover.layer([opus, sonnet], { policy }))
 * )
 * ```
 */
import { Config, Duration, Effect, Layer, Option } from "effect"
import type { Tool } from "effect/ai"
import type { Warnings } from "@outlast/resilience"
import { s11 as compactionPolicy } from "../compaction/CompactionPolicy.ts"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import type { ReasonTag } from "../failure/reasons/FailoverReason.ts"
import type * as Agent from "../loop/Agent.ts"
import type { Outcome } from "../loop/Outcome.ts"
import * as Preset from "./PresetLayer.ts"
import type { Notices } from "../failover/decide/Notice.ts"
import { defaults as notices } from "../failover/decide/Notice.ts"
import { defaults as nudges } from "../recovery/Nudge.ts"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import * as Kind from "../options/Kind.ts"
import { base, interactive } from "../failover/decide/RecoveryPolicy.ts"
import type { Truncation } from "../recovery/Truncation.ts"
import * as Backoffs from "./Backoffs.ts"
import type { S11Class } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** Differences from the document, and how its gaps are filled. `outlast explain --preset` prints them. */
export const deviations: ReadonlyArray<string> = [
  "Its ten retries apply to one request. Here they apply to the whole call, including raised limits and continuations. Only a call that is both cut and rejected many times is affected.",
  "A call begins with the first model of the chain. In the document the fallback model stays until the agent ends. When the fallback, too, is overloaded three times in a row, `policy` switches back.",
  "A switch is not delayed. The document does not say whether it is.",
  "Retry-After takes priority up to the deadline, which is half an hour here. The document has no deadline.",
  "`LanguageModel.streamText` cannot retract what it has shown, so the other model continues the answer there. `Outlast.streamText` sends a `Rewind`, and the answer begins again.",
  "The document repeats a cut answer with the raised limit. A stream that has shown text continues with the raised limit instead, and the log says `[max_tokens] escalating` there, too.",
  "Of transient failures only 429 and 529 are handled, as the document says of itself. The others fail the call."
]

/** The failures that the document recovers from, and `unrecoverable` for all others. */
export type Class = S11Class

/**
 * Raises the limit once from 8,000 to 64,000 tokens, then continues up to three times. Ends after three consecutive
 * continuations of fewer than 500 tokens.
 */
export const truncation: Truncation = {
  start: 8_000,
  raiseTo: 64_000,
  raises: 1,
  continuations: 3,
  poorGains: 3,
  minGain: 500
}

const switched: Notices["switched"] = (change, failure) =>
  change.reason === "Overloaded"
    ? `Switched to ${change.target.model} due to high demand`
    : notices.switched(change, failure)

const told: Notices = { ...notices, switched }

/** Asks to go on behind a cut answer: at once, without a recap, in smaller pieces. */
const continuation =
  "Your answer reached the output limit. Go on directly where it stops, without an apology and without a recap. Do the rest in smaller pieces."

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
  hedge: false,
  classOf: ({ reason }) => Vocabulary.s11(reason),
  rows: {
    rate_limit: transient,
    overloaded: { ...transient, switchAfter: 3, to, midStream: "restart" },
    // If the conversation is still too long after compaction, the call fails, whatever windows the other targets
    // have.
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
  sharedBackoff: false,
  truncation,
  nudges: { ...nudges, cut: continuation },
  notices: told
})

/**
 * The policy for calls in the background: an overload fails at once, because retries of such calls would add to the
 * load. {@link layer} uses it for the priority `background`.
 */
export const inBackground = (policy: RecoveryPolicy<Class>): RecoveryPolicy<Class> => ({
  ...policy,
  rows: { ...policy.rows, overloaded: { ...base, then: "stop" } }
})

/** The policy with the next different model of the chain as the fallback. */
export const policy: RecoveryPolicy<Class> = switchingTo("other-model")

/** The policy with these fallback models, by their names in the chain. Without names it continues to retry. */
export const withFallback = (...models: ReadonlyArray<string>): RecoveryPolicy<Class> => {
  Kind.names("S11", "models", models)
  return switchingTo(models)
}

/** {@link withFallback} with the model that FALLBACK_MODEL_ID names, if it is set. */
export const fromConfig: Config.Config<RecoveryPolicy<Class>> = Config.map(
  Config.option(Config.NonEmptyString("FALLBACK_MODEL_ID")),
  (model) => withFallback(...Option.toArray(model))
)

/** Lines of the log, as the document's code prints them. */
export const lines: Preset.Lines = () => {
  const continuations = new Map<number, number>()
  return (event, failed) => {
    switch (event._tag) {
      case "CallWaiting": {
        if (event.reason !== "backoff") return undefined
        const what = failed === undefined ? undefined : waitsFor[failed.reason]
        if (what === undefined) return undefined
        const wait = Preset.seconds(event.delay ?? 0)
        return Preset.line("Info", `[${what}] retry ${event.attempt - 1}/${retries}, wait ${wait}`)
      }
      case "ModelChanged":
        return event.reason === "Overloaded"
          ? Preset.line("Info", `[529 x3] switching to ${event.target.model}`)
          : undefined
      case "OutputLimitRaised":
        return escalating(event.limit)
      case "AnswerContinued": {
        if (event.reason !== undefined) return undefined
        const count = (continuations.get(event.call) ?? 0) + 1
        continuations.set(event.call, count)
        // A stream that has shown text is not repeated: the raised limit is for its continuation.
        if (event.limit !== undefined) return escalating(event.limit)
        return Preset.line("Info", `[max_tokens] continuation ${count}/${truncation.continuations}`)
      }
      case "CutAnswerDelivered":
        return Preset.line("Warn", "[max_tokens] recovery limit reached")
      case "CallGaveUp":
        continuations.delete(event.call)
        return event.reason === "ContextOverflow"
          ? Preset.line("Warn", "[unrecoverable] still too long after compact")
          : undefined
      case "CallSucceeded":
      case "CallAbandoned":
        continuations.delete(event.call)
        return undefined
      default:
        return undefined
    }
  }
}

const escalating = (limit: number): Warnings.Line =>
  Preset.line("Info", `[max_tokens] escalating ${truncation.start} -> ${limit}`)

const waitsFor: { readonly [Tag in ReasonTag]?: string } = {
  RateLimit: "429 rate limit",
  Overloaded: "529 overloaded"
}

/** Keeps the last five messages and replaces the others with one sentence. */
export const compaction = compactionPolicy

export interface Options extends Preset.Options<Class> {
  /** Default: {@link fromConfig}, which reads FALLBACK_MODEL_ID. */
  readonly policy?: RecoveryPolicy<Class> | undefined
}

/** The preset over a chain: its policy, compaction, alerts and lines. The fallback model comes from FALLBACK_MODEL_ID. */
export const layer = <const S extends Specs>(
  chain: NonEmpty<S>,
  { policy, ...options }: Options = {}
): Layer.Layer<Preset.Provided, ChainError | Config.ConfigError, Services<S>> =>
  Layer.unwrap(
    Effect.map(policy === undefined ? fromConfig : Effect.succeed(policy), (policy) =>
      Preset.layerOf(chain, { policy, compaction, lines }, { background: inBackground(policy), ...options })
    )
  )

/** An agent run. The document has no limit of its own, so the defaults of `Agent` and `SafetyGuard` apply. */
export const agent = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>
): Effect.Effect<Outcome, Preset.Failures<Tools>, Agent.Services<Tools, R>> => Preset.guarded({}, options)
