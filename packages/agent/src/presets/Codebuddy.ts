/**
 * CodeBuddy's "self-healing execution", its layers 1 to 3: a failing stream is tried again twice, with a nudge; then
 * its provider cools for as long as the reason says, and the next one answers. {@link limits} are those of its guard.
 *
 * **Where it differs** from the document:
 *
 * - Its two retries give the first two waits of "1.5 s → 3 s → 6 s". The third comes with {@link withRetries}`(3)`:
 *   the number is configurable there, too.
 * - Its table of reasons has no word for what its second layer knows. `unknown` is cut: what is transient (500) is
 *   `server_error`, with the cooldown of `unknown`; what must never be repeated (a cancel) is `cancelled`; a
 *   conversation that does not fit is `too_long`: it is layer 4's work, and no provider cools for it.
 * - Errors of the safety guard are never retried there. Here they never come to be a provider's failure.
 * - The code fixes its nudges so that no error text reaches the model, the document wants them to tell what happened.
 *   Both hold: the reason is told in words of ours. A nudge also goes along when retries are used up and the next
 *   provider is asked.
 * - The cooldown is that of the provider at its endpoint, for all of its keys and models. A chain of one provider has
 *   none: in the code, too, that one is asked as a last resort.
 * - Any provider is probed before its cooldown ends, not only the first. A cooldown of 30 s can be probed at once. A
 *   probe that fails is neither retried nor followed by a second one, and does not begin the cooldown again.
 * - When all providers cool, each is asked once more, the soonest first. The document is silent; the code asks the
 *   primary.
 *
 * The document has no deadline for a call; here it is the ten minutes of the safety guard.
 *
 * Of the guard: the document stops "above" four edits of a file, and so does this; its code stops at the fourth. Its
 * caps count names whatever the calls bring, and tools that only read have none. Beside them the loop detector watches,
 * as everywhere; `loops: false` leaves it out.
 *
 * The document has no limit on turns. A guard has one always: here it is above the limit on events, of which each turn
 * has one at least, so that tool calls and events are what a run is stopped for. (`Agent.run` has a `maxTurns` of its own,
 * 50.) Its time limit is absolute: waits for a cooldown and for a person count.
 *
 * **Example** (Its guard, with a cap of one's own)
 *
 * ```ts
 * const { limits } = Presets.codebuddy
 * SafetyGuard.run({ ...limits, tools: { ...limits.tools, web_search: 20 } })(program)
 * ```
 */
import { Duration } from "effect"
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

/** The eight reasons of the document, and what its recovery of streams tells apart in `unknown`. */
export type Class = CodebuddyReason | "server_error" | "too_long" | "cancelled"

const classOf = ({ reason }: ProviderFailure): Class => {
  switch (reason._tag) {
    case "Cancelled":
      return "cancelled"
    case "ContextOverflow":
      return "too_long"
    case "ServerError":
      return "server_error"
    default:
      return Vocabulary.codebuddy(reason)
  }
}

const cooldown = (length: Duration.Input): CooldownRule => steady("endpoint", length)

/** What a retry tells the model: what happened, and the second time that it should come to an end. */
export const nudge = ({ inWords, attempt }: NudgeContext): string =>
  attempt <= 2
    ? `Something outside of our conversation went wrong for a moment: ${inWords}. Carry on from where you were and finish your answer.`
    : `It went wrong again: ${inWords}. Give your final answer now, from what you have found out so far.`

/**
 * The policy with so many retries of a stream, where the document has 2. Throws an `InvalidOption` (a `RangeError`) for a
 * number that is not whole, or below 0.
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
    classOf,
    rows: {
      auth: { ...permanent, cooldown: cooldown("10 minutes") },
      rate_limit: { ...transient, cooldown: cooldown("1 minute") },
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
    // Three for each of the eight providers that its settings list.
    maxAttempts: 8 * (1 + maxRetries),
    deadline: taskTimeout,
    patience: taskTimeout,
    retryAfterJitter: 0,
    circuits: false,
    probe: { share: 1, atMost: Duration.seconds(30) },
    retryBudget: false,
    whenAllOut: "probe",
    truncation: false,
    nudges: { ...nudges, interrupted: nudge }
  }
}

const taskTimeout = Duration.minutes(10)

export const policy: RecoveryPolicy<Class> = withRetries(2)

/** The numbers that its settings have, under their names; each has the default and the range of the document. */
export interface GuardSettings {
  /** Default 2,000; 500 to 10,000. */
  readonly maxEventCount?: number | undefined
  /** Default 400; 50 to 2,000. */
  readonly maxToolInvocations?: number | undefined
  /** Default 10; 1 to 60. */
  readonly maxDurationMinutes?: number | undefined
}

/** Its guard with other settings. Throws an `InvalidOption` (a `RangeError`) for a number out of its range. */
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

/** The limits of its guard. */
export const limits = withSettings({})
