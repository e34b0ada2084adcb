/**
 * CodeBuddy's "self-healing execution", its layers 1 to 3. A failing stream is retried twice, with a nudge. Then
 * its provider cools down for a time that depends on the reason, and the next one answers. {@link limits} has the
 * limits of its guard.
 *
 * {@link deviations} lists where it differs from the document, and how gaps of the document are filled.
 *
 * The document has no deadline for a call. Here the deadline is the ten minutes of the safety guard.
 *
 * Guard: the document stops "above" four edits of a file, and so does this preset; its code stops at the fourth.
 * Its caps count calls by tool name, whatever the arguments. Tools that only read have no cap. The loop detector
 * also runs; `loops: false` turns it off.
 *
 * The document has no limit on turns, but a guard always has one. Here that limit is above the limit on events.
 * Each turn has at least one event, so tool calls and events stop a run first. (`Agent.run` has its own `maxTurns`,
 * 50.) The time limit is absolute: waits for a cooldown and for a person count.
 *
 * **Example** (Its guard, with a cap of one's own)
 *
 * ```ts
 * const { limits } = Presets.codebuddy
 * SafetyGuard.run({ ...limits, tools: { ...limits.tools, web_search: 20 } })(program)
 * ```
 */
import type { Layer } from "effect"
import { Duration, Effect } from "effect"
import type { Tool } from "effect/ai"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import type * as Agent from "../loop/Agent.ts"
import type { Outcome } from "../loop/Outcome.ts"
import * as Preset from "./PresetLayer.ts"
import { codebuddy as compactionPolicy } from "../compaction/CompactionPolicy.ts"
import type { ProviderHealth } from "../failover/chain/ProviderHealth.ts"
import { Targets } from "../failover/chain/Targets.ts"
import type { StopFacts, Texts } from "../guard/StopReason.ts"
import { texts as defaultTexts } from "../guard/StopReason.ts"
import { Options as Check } from "@outlast/resilience"
import type { CooldownRule, RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { base, interactive, steady } from "../failover/decide/RecoveryPolicy.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import type { Limits } from "../guard/Limits.ts"
import type { NudgeContext } from "../recovery/Nudge.ts"
import { defaults as nudges } from "../recovery/Nudge.ts"
import * as Backoffs from "./Backoffs.ts"
import type { CodebuddyReason } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** Differences from the document, and how its gaps are filled. `outlast explain --preset` prints them. */
export const deviations: ReadonlyArray<string> = [
  'Its two retries use the first two waits of "1.5 s → 3 s → 6 s". `withRetries(3)` adds the third; the number is configurable there, too.',
  "Its table of reasons is coarser than its second layer, so `unknown` is split. A transient failure (500) is `server_error`, with the cooldown of `unknown`. A failure that must never be repeated (a cancel) is `cancelled`. A conversation that does not fit is `too_long`: layer 4 handles it, and no provider cools down for it.",
  "The document never retries errors of the safety guard. Here they are never failures of a provider.",
  "The code fixes its nudges so that no error text reaches the model; the document wants nudges to say what happened. Here a nudge states the reason in fixed words, which satisfies both. A nudge is also sent when retries are used up and the next provider is asked.",
  "A cooldown applies to the provider at its endpoint, for all of its keys and models. A chain of one provider has no cooldown: the code, too, asks it as a last resort.",
  "Any provider is probed before its cooldown ends, not only the first. A cooldown of 30 s can be probed at once. A probe that fails is not retried, is not followed by a second probe, and does not restart the cooldown.",
  "When all providers are cooling down, each is asked once more, the soonest to be available first. The document does not cover this; the code asks the primary."
]

/** The eight reasons of the document, with `unknown` and `rate_limit` split as its stream recovery needs. */
export type Class = CodebuddyReason | "quota" | "server_error" | "too_long" | "cancelled"

/** Layer 2 of the document never retries this text; layer 1 gives it the cooldown of a rate limit. */
const quotaExceeded = /quota.exceeded|exceeded.{1,20}quota/i

/** Texts of its guard, which layer 2 never retries, whatever else the error says. */
const ofGuard = /loop detected|infinite loop|same file edited|safety limit/i

const classOf = ({ reason, detail }: ProviderFailure): Class => {
  if (reason._tag === "Cancelled") return "cancelled"
  if (ofGuard.test(detail)) return "unknown"
  switch (reason._tag) {
    case "ContextOverflow":
      return "too_long"
    case "ServerError":
      return "server_error"
    case "RateLimit":
      return quotaExceeded.test(detail) ? "quota" : "rate_limit"
    default:
      return Vocabulary.codebuddy(reason)
  }
}

const cooldown = (length: Duration.Input): CooldownRule => steady("endpoint", length)

/** Text of a nudge: what happened, and on the second retry a request to finish. */
export const nudge = ({ inWords, attempt }: NudgeContext): string =>
  attempt <= 2
    ? `Something outside of our conversation went wrong for a moment: ${inWords}. Carry on from where you were and finish your answer.`
    : `It went wrong again: ${inWords}. Give your final answer now, from what you have found out so far.`

/**
 * The policy with another number of retries of a stream; the document has 2. Throws an `InvalidOption` (a
 * `RangeError`) for a number that is not an integer or below 0.
 */
export const withRetries = (maxRetries: number): RecoveryPolicy<Class> => {
  Check.integer("Codebuddy", "maxRetries", maxRetries, { min: 0 })
  const transient: Row = {
    ...base,
    attempts: 1 + maxRetries,
    repeatsBeforeEquivalent: maxRetries,
    backoff: Backoffs.codebuddy,
    retryAfter: "ignored",
    worthWaiting: true,
    nudge
  }
  const permanent: Row = { ...base, then: "move", worthWaiting: true }
  return {
    ...interactive,
    hedge: false,
    classOf,
    rows: {
      auth: { ...permanent, cooldown: cooldown("10 minutes") },
      rate_limit: { ...transient, cooldown: cooldown("1 minute") },
      quota: { ...permanent, cooldown: cooldown("1 minute") },
      billing: { ...permanent, cooldown: cooldown("30 minutes") },
      timeout: { ...transient, cooldown: cooldown("30 seconds") },
      overloaded: { ...transient, cooldown: cooldown("2 minutes") },
      model_not_found: { ...permanent, cooldown: cooldown("1 hour") },
      format: { ...base, then: "stop" },
      unknown: { ...permanent, cooldown: cooldown("30 seconds") },
      server_error: { ...transient, cooldown: cooldown("30 seconds") },
      too_long: { ...base, then: "grow" },
      cancelled: { ...base, then: "stop" }
    },
    // Three attempts for each of the eight providers that its settings list.
    maxAttempts: 8 * (1 + maxRetries),
    deadline: taskTimeout,
    patience: taskTimeout,
    retryAfterJitter: 0,
    circuits: false,
    probe: { share: 1, atMost: Duration.seconds(30) },
    retryBudget: false,
    sharedBackoff: false,
    whenAllOut: "probe",
    truncation: false,
    nudges: { ...nudges, interrupted: nudge }
  }
}

const taskTimeout = Duration.minutes(10)

export const policy: RecoveryPolicy<Class> = withRetries(2)

/** The settings of its guard, under their own names, with the document's defaults and ranges. */
export interface GuardSettings {
  /** Default 2,000; 500 to 10,000. */
  readonly maxEventCount?: number | undefined
  /** Default 400; 50 to 2,000. */
  readonly maxToolInvocations?: number | undefined
  /** Default 10; 1 to 60. */
  readonly maxDurationMinutes?: number | undefined
}

/**
 * The limits of its guard for other settings. Throws an `InvalidOption` (a `RangeError`) for an out-of-range
 * number.
 */
export const withSettings = (settings: GuardSettings) => {
  Check.fields("Codebuddy", settings, settingChecks)
  const { maxEventCount = 2_000, maxToolInvocations = 400, maxDurationMinutes = 10 } = settings
  return {
    events: maxEventCount,
    turns: maxEventCount + 1,
    toolCalls: maxToolInvocations,
    time: { total: Duration.minutes(maxDurationMinutes) },
    tools: { edit_file: 8, delete_file: 3, run_command: 10, run_terminal_command: 100, web_search: 8 },
    fileEdits: 4
  } satisfies Limits
}

const settingChecks: Check.Checks<GuardSettings> = {
  maxEventCount: Check.is.integer({ min: 500, max: 10_000 }),
  maxToolInvocations: Check.is.integer({ min: 50, max: 2_000 }),
  maxDurationMinutes: Check.is.number({ min: 1, max: 60 })
}

/** Texts of its guard: the sentence of the document, without the list of files and the advice of the default text. */
export const texts: Partial<Texts> = {
  stopped: (facts: StopFacts) => {
    const said = defaultTexts.stopped({ ...facts, counts: { ...facts.counts, files: 0 } })
    const end = said.indexOf(review)
    return end < 0 ? said : said.slice(0, end + review.length)
  }
}

const review = "Please review the work completed so far."

/** The limits of its guard with default settings. */
export const limits = withSettings({})

// -----------------------------------------------------------------------------
// Health
// -----------------------------------------------------------------------------

/** The health of a provider, with the names and words of the document. */
export interface Health {
  readonly provider: string
  readonly status: "healthy" | "degraded" | "down"
  readonly errorCount: number
  readonly lastError?: string
  readonly lastErrorReason?: CodebuddyReason
  /** Unix time in milliseconds. */
  readonly lastSuccessAt?: number
  /** Unix time in milliseconds; 0 when no cooldown is open. */
  readonly cooldownUntil: number
}

/** Converts the health that `Targets.providers` reports. */
export const healthOf = (health: ProviderHealth): Health => {
  const {
    provider,
    status,
    errorCount,
    lastError,
    lastErrorReason,
    lastSuccessAt,
    cooldownUntil = 0
  } = health
  return {
    provider,
    // The preset hedges no calls, so none of its providers is slow.
    status: status === "slow" ? "degraded" : status,
    errorCount,
    ...(lastError === undefined ? {} : { lastError }),
    ...(lastErrorReason === undefined
      ? {}
      : { lastErrorReason: Vocabulary.codebuddy({ _tag: lastErrorReason }) }),
    ...(lastSuccessAt === undefined ? {} : { lastSuccessAt }),
    cooldownUntil
  }
}

/** The health of every provider of the chain. */
export const health: Effect.Effect<ReadonlyArray<Health>, never, Targets> = Effect.flatMap(
  Targets,
  ({ providers }) => Effect.map(providers, (all) => all.map(healthOf))
)

// -----------------------------------------------------------------------------
// Layer and agent
// -----------------------------------------------------------------------------

/** Tool results, chunks, the oldest half, plain text; a warning at 80 % of the window, compaction at 90 %. */
export const compaction = compactionPolicy

/** Lines of the log: the warning at 80 % of the window, and each switch of provider. */
export const lines: Preset.Lines = () => (event) => {
  switch (event._tag) {
    case "ContextFilling": {
      const share = Math.floor((100 * event.tokens) / event.window)
      const next = event.preparing ? ": a summary is being prepared" : ""
      return Preset.line(
        "Warn",
        `Context window at ${share} % (${event.tokens} of ${event.window} tokens)${next}`
      )
    }
    case "TargetSwitched":
      return Preset.line(
        "Warn",
        `Provider switched from ${event.from.provider} to ${event.target.provider} (${Vocabulary.codebuddy({ _tag: event.reason })})`
      )
    default:
      return undefined
  }
}

export interface Options extends Preset.Options<Class> {
  /** Default: {@link policy}. */
  readonly policy?: RecoveryPolicy<Class> | undefined
}

/** The preset over a chain: its policy, compaction, alerts and lines. */
export const layer = <const S extends Specs>(
  chain: NonEmpty<S>,
  options: Options = {}
): Layer.Layer<Preset.Provided, ChainError, Services<S>> => {
  const { policy: own = policy, ...rest } = options
  return Preset.layerOf(chain, { policy: own, compaction, prepare: true, lines }, rest)
}

/** An agent run under the document's limits. `settings` changes them within its ranges. */
export const agent = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>,
  settings: GuardSettings = {}
): Effect.Effect<Outcome, Preset.Failures<Tools>, Agent.Services<Tools, R>> => {
  const own = withSettings(settings)
  return Preset.guarded({ ...own, texts }, { maxTurns: own.turns, ...options })
}
