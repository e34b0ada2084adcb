/**
 * The reaction to failed calls as data: one row per class of failure, and the limits of a whole call.
 *
 * `CallState` reads it and decides; this module has no behaviour. Two policies ship, {@link interactive} (the
 * default) and {@link background}. They have the same rows and differ in patience. {@link unattended} waits for hours. `Presets` has five more, each
 * after a known system.
 */
import { Duration } from "effect"
import type { CircuitBreaker } from "@outlast/resilience"
import { Backoff } from "@outlast/resilience"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as Kind from "../../options/Kind.ts"
import * as Nudging from "../../recovery/Nudge.ts"
import * as Ladder from "../../recovery/Truncation.ts"
import { classOf, rows } from "./DefaultRows.ts"
import * as Notice from "./Notice.ts"
import * as PolicyChecks from "./PolicyChecks.ts"
import type { CooldownRule, RecoveryPolicy, Row } from "./PolicyModel.ts"

export type * from "./PolicyModel.ts"
export { base, steady } from "./DefaultRows.ts"

/**
 * Circuits that never turn a partly healthy target into an outage. They judge the share of failures among many
 * attempts, let several probes through at once, and stay open for ten seconds each time: a longer time would keep calls
 * from a target that is back. `docs/internals/load.md` has the measurements behind these values.
 */
export const circuits = {
  trip: { consecutive: false, rate: { window: "1 minute", minimumCalls: 20, failures: 0.8 } },
  halfOpen: { permits: 3, successes: 2 },
  open: Backoff.exponential({ initial: "10 seconds", factor: 1, cap: "10 seconds", jitter: 0.1 })
} as const satisfies CircuitBreaker.Options

/** For a user who waits for the answer: five seconds of patience, two minutes in all. The default. */
export const interactive: RecoveryPolicy = {
  classOf,
  rows,
  maxAttempts: 12,
  deadline: Duration.minutes(2),
  maxWait: Duration.seconds(60),
  patience: Duration.seconds(5),
  shortWait: Duration.seconds(2),
  retryAfterJitter: 0.1,
  maxCost: undefined,
  counters: "call",
  maxCompactions: 2,
  circuits,
  probe: { share: 0.25, atMost: Duration.seconds(30) },
  retryBudget: { paidBy: "successes" },
  whenAllOut: "wait",
  lastResort: true,
  sharedBackoff: true,
  midStream: "continue",
  truncation: Ladder.defaults,
  nudges: Nudging.defaults,
  notices: Notice.defaults,
  limits: {
    connect: Duration.seconds(10),
    firstToken: Duration.seconds(60),
    firstTokenReasoning: Duration.seconds(180),
    idle: Duration.seconds(60),
    idleReasoning: Duration.seconds(180),
    total: Duration.minutes(10),
    slow: undefined
  },
  hedge: {
    after: Duration.seconds(10),
    afterLook: Duration.seconds(2),
    atMost: 0.05,
    reserve: 3
  },
  outputRoom: { margin: 1_000, least: 3_000 },
  pacing: {
    worksFor: Duration.seconds(20),
    hopesFor: Duration.seconds(15),
    releaseEvery: Duration.seconds(2),
    savedSuccesses: 10,
    leastWait: Duration.seconds(1),
    lookEvery: Duration.seconds(1),
    provenBy: 2,
    downAfter: 3,
    trustedFor: Duration.hours(1),
    forgetAfter: Duration.hours(24)
  }
}

/** For work in the background: a minute of patience before another model, half an hour in all, and no hedge. */
export const background: RecoveryPolicy = {
  ...interactive,
  hedge: false,
  deadline: Duration.minutes(30),
  patience: Duration.seconds(60),
  limits: {
    ...interactive.limits,
    firstToken: Duration.seconds(300),
    firstTokenReasoning: Duration.seconds(300),
    idle: Duration.seconds(300),
    idleReasoning: Duration.seconds(300),
    total: Duration.minutes(30)
  }
}

const patient = (row: Row): Row =>
  row.worthWaiting || row.then === "retry"
    ? {
        ...row,
        attempts: Math.max(row.attempts, unattendedAttempts),
        backoff: Backoff.exponential({ initial: "1 second", factor: 2, cap: "5 minutes", jitter: 0.2 })
      }
    : row

const unattendedAttempts = 200

/**
 * For an unattended run. A call waits out an outage of up to twelve hours, at most six hours at a time, and
 * publishes `CallStillWaiting` every 30 seconds. Backoff grows to five minutes. Failures that waiting cannot lift end
 * it at once, as in {@link background}.
 */
export const unattended: RecoveryPolicy = {
  ...background,
  // Object.entries forgets the key type; the keys are those of `rows`.
  rows: Object.fromEntries(
    Object.entries<Row>(rows).map(([name, row]) => [name, patient(row)])
  ) as RecoveryPolicy["rows"],
  maxAttempts: 5 * unattendedAttempts,
  deadline: Duration.hours(12),
  maxWait: Duration.hours(6),
  heartbeat: Duration.seconds(30)
}

/** Returns the policy with every wait exact. Use it to test what a policy does. */
export const withoutJitter = <Class extends string>(policy: RecoveryPolicy<Class>): RecoveryPolicy<Class> => {
  Kind.plain("a policy, for example Policy.interactive")("RecoveryPolicy.withoutJitter", "policy", policy)
  return {
    ...policy,
    retryAfterJitter: 0,
    // Object.entries forgets the key type; the keys are those of `rows`.
    rows: Object.fromEntries(
      Object.entries<Row>(policy.rows).map(([name, row]) => [
        name,
        { ...row, backoff: { ...row.backoff, jitter: 0 } }
      ])
    ) as { [C in Class]: Row }
  }
}

/**
 * Returns the row for a failure. When only words support a verdict that ends the call, or that asks for another wire
 * format, the row says `move` instead: the call then asks one other model. Throws an `InvalidOption` for a class
 * without a row that {@link validate} could not foresee.
 */
export const rowOf = <Class extends string>(policy: RecoveryPolicy<Class>, failure: ProviderFailure): Row => {
  const of = policy.classOf(failure)
  if (!PolicyChecks.isClass(policy, of)) throw PolicyChecks.missingRow(of, failure)
  const row = withShortCooldown(policy.rows[of], failure)
  const ends = row.then === "stop" || row.to === "other-dialect"
  return ends && isHearsay(failure)
    ? { ...row, then: "move", to: "other-model", targets: row.targets ?? 2 }
    : row
}

/** True when the policy hedges attempts at a model. */
export const isHedged = (
  { hedge }: Pick<RecoveryPolicy<string>, "hedge">,
  info: ModelInfo | undefined
): boolean => hedge !== false && (info?.reasoning !== true || hedge.thinking === true)

/** Shortens the cooldown of a verdict that rests on words alone, and asks for more proof. */
const withShortCooldown = (row: Row, failure: ProviderFailure): Row =>
  row.cooldown?.byWords === undefined || !restsOnWords(failure)
    ? row
    : { ...row, cooldown: { ...atMost(row.cooldown, row.cooldown.byWords), proof: "several-calls" } }

const atMost = (rule: CooldownRule, limit: Duration.Duration): CooldownRule => ({
  ...rule,
  initial: rule.initial === "forever" ? limit : Duration.min(rule.initial, limit),
  cap: Duration.min(rule.cap, limit)
})

/**
 * True when neither a code, a named wait nor the status says what happened: a 400 and a 500 stand for anything. Less is
 * needed than for {@link isHearsay}, because a cooldown concerns other calls.
 */
const restsOnWords = ({ evidence: { signal, status }, retryAfter }: ProviderFailure): boolean =>
  signal === "text" && retryAfter === undefined && (status === undefined || !telling.has(status))

/** Statuses that say what is wrong: the key, the money, the model, the size, the pace, the load. */
const telling: ReadonlySet<number> = new Set([401, 402, 403, 404, 407, 408, 410, 413, 429, 503, 504, 529])

/** True when a verdict rests on words alone: without a code, and without a status that blames the request. */
export const isHearsay = ({ evidence: { signal, status } }: ProviderFailure): boolean =>
  signal === "text" && (status === undefined || status < 400 || status > 499)

/**
 * Throws an `InvalidOption` (a `RangeError`) that names the field: a value that is not allowed, a missing or unknown
 * field, or a class of `classOf` without a row. With the `classOf` of the default policies, a row of any other class
 * is rejected too.
 */
export const validate = (policy: RecoveryPolicy<string>): void =>
  PolicyChecks.validate(policy, policy.classOf === classOf)
