/**
 * The validated policy of a circuit: when it opens, for how long, and when it closes again.
 *
 * {@link Options} takes durations as `Duration.Input`; the policy holds milliseconds.
 */
import { Duration } from "effect"
import * as Check from "../Options.ts"
import * as Backoff from "../Backoff.ts"

/** The conditions that open a closed circuit. With both set, either one opens it. */
export interface TripOptions {
  /** Consecutive failures. `false` turns it off. */
  readonly consecutive?:
    | {
        /** Number of consecutive failures that open the circuit. Default: 5. */
        readonly failures?: number | undefined
        /** Only failures within this time count. Default: no limit. */
        readonly within?: Duration.Input | undefined
        /**
         * Number of distinct calls among the failures, when calls used the circuit concurrently (their attempts
         * overlapped or alternated). Capped at `failures`. Prevents one call's own retries from opening a shared
         * circuit. Default: 3. With 1, every failure counts.
         */
        readonly distinctCalls?: number | undefined
      }
    | false
    | undefined
  /**
   * The failure share of recent calls. Default: off.
   *
   * A call counts from its start until `window` after its end, and counts as not failed while in flight. Fast failures
   * therefore do not outvote slow successes that started earlier.
   */
  readonly rate?:
    | {
        /**
         * Time for which an ended call counts. The last tenth is approximate: a call may stop counting that much
         * earlier. Default: 1 minute.
         */
        readonly window?: Duration.Input | undefined
        /** Minimum number of calls, including those in flight, before the rates are judged. Default: 10. */
        readonly minimumCalls?: number | undefined
        /** Opens at this share of failures or above. `false` turns it off. Default: 0.5. */
        readonly failures?: number | false | undefined
        /** Opens at this share of slow calls or above. Requires `slowerThan`. Default: off. */
        readonly slow?: number | undefined
        /** A call that takes longer than this is slow, even if it succeeds. */
        readonly slowerThan?: Duration.Input | undefined
      }
    | undefined
}

export interface HalfOpenOptions {
  /** Number of concurrent probes. Default: 1. */
  readonly permits?: number | undefined
  /** Number of probes that must succeed to close the circuit. Default: 2. */
  readonly successes?: number | undefined
  /**
   * Maximum number of judged probes. The circuit opens again once too many have failed to reach `successes`. Default:
   * `successes` or `permits`, whichever is greater.
   */
  readonly outOf?: number | undefined
  /**
   * Time limit of a probe. A probe that takes longer loses its permit, and its outcome does not count. Default: 1
   * minute.
   */
  readonly probeLimit?: Duration.Input | undefined
}

export interface Options {
  readonly trip?: TripOptions | undefined
  readonly halfOpen?: HalfOpenOptions | undefined
  /**
   * Time that the circuit stays open, by the number of consecutive openings. Default: 10 s, doubled each time up to 120
   * s, ±10 % within that cap.
   *
   * `restart` says when the count starts again at one.
   */
  readonly open?: Backoff.Backoff | undefined
  /**
   * When the count of consecutive openings starts again at one:
   *
   * - `stable`: when the circuit stayed closed for at least as long as its last opening, so that one that flaps opens
   *   for longer each time
   * - `closed`: whenever it closes
   *
   * Default: `stable`.
   */
  readonly restart?: "stable" | "closed" | undefined
  /** Upper limit for a `retryAfter` of a failure. Default: 1 hour. */
  readonly maxRetryAfter?: Duration.Input | undefined
}

export interface RatePolicy {
  readonly window: number
  readonly minimumCalls: number
  /** Infinity turns the rule off. */
  readonly failures: number
  /** Infinity turns the rule off. */
  readonly slow: number
  readonly slowerThan: number
}

export interface CircuitPolicy {
  readonly consecutive:
    | { readonly failures: number; readonly within: number; readonly distinctCalls: number }
    | undefined
  readonly rate: RatePolicy | undefined
  readonly permits: number
  readonly successes: number
  readonly outOf: number
  readonly probeLimit: number
  readonly open: Backoff.Backoff
  readonly restart: "stable" | "closed"
  readonly maxRetryAfter: number
}

export const defaults = {
  consecutive: { failures: 5, distinctCalls: 3 },
  rate: { window: "1 minute", minimumCalls: 10, failures: 0.5 },
  halfOpen: { permits: 1, successes: 2, probeLimit: "1 minute" },
  open: Backoff.exponential({ initial: "10 seconds", factor: 2, cap: "120 seconds", jitter: 0.1 }),
  restart: "stable",
  maxRetryAfter: "1 hour"
} as const

/** Throws an `InvalidOption` (a `RangeError`) that names the field, its value and what is allowed. */
export const make = (options: Options = {}): CircuitPolicy => {
  Check.fields(module, options, checks)
  const { trip = {}, halfOpen = {}, open, maxRetryAfter } = options
  const successes = halfOpen.successes ?? defaults.halfOpen.successes
  const permits = halfOpen.permits ?? defaults.halfOpen.permits
  const { consecutive, rate } = trip
  Check.check(
    consecutive !== false || rate !== undefined,
    module,
    "trip",
    trip,
    "a policy that can open the circuit: consecutive, rate or both"
  )
  return {
    consecutive:
      consecutive === false
        ? undefined
        : {
            failures: consecutive?.failures ?? defaults.consecutive.failures,
            within: Duration.toMillis(consecutive?.within ?? Duration.infinity),
            distinctCalls: consecutive?.distinctCalls ?? defaults.consecutive.distinctCalls
          },
    rate: rate === undefined ? undefined : ratePolicy(rate),
    permits,
    successes,
    outOf: Check.integer(module, "halfOpen.outOf", halfOpen.outOf ?? Math.max(successes, permits), {
      min: successes
    }),
    probeLimit: Duration.toMillis(halfOpen.probeLimit ?? defaults.halfOpen.probeLimit),
    open: open ?? defaults.open,
    restart: options.restart ?? defaults.restart,
    maxRetryAfter: Duration.toMillis(maxRetryAfter ?? defaults.maxRetryAfter)
  }
}

const module = "CircuitBreaker"
const { is } = Check
const positive = is.integer({ min: 1 })
const atLeastOneMilli = is.duration({ min: "1 milli" })
/** A rate of 0 would open the circuit on the first call. */
const positiveShare = is.number({ above: 0, max: 1 })

/** The checks of {@link Options}. */
export const checks: Check.Checks<Options> = {
  trip: is.object<TripOptions>({
    consecutive: is.falseOr(
      is.object<Exclude<TripOptions["consecutive"], false | undefined>>({
        failures: positive,
        within: atLeastOneMilli,
        distinctCalls: is.integer({ min: 1 })
      })
    ),
    rate: is.object<NonNullable<TripOptions["rate"]>>({
      window: atLeastOneMilli,
      minimumCalls: positive,
      failures: is.falseOr(positiveShare),
      slow: positiveShare,
      slowerThan: is.duration()
    })
  }),
  halfOpen: is.object<HalfOpenOptions>({
    permits: positive,
    successes: positive,
    // `make` checks the lower end, because it depends on `successes`.
    outOf: positive,
    probeLimit: atLeastOneMilli
  }),
  open: Backoff.isBackoff,
  restart: is.oneOf("stable", "closed"),
  maxRetryAfter: is.duration()
}

const ratePolicy = (rate: NonNullable<TripOptions["rate"]>): RatePolicy => {
  const { failures = defaults.rate.failures, slow, slowerThan } = rate
  Check.check(
    failures !== false || slow !== undefined,
    module,
    "trip.rate.failures",
    failures,
    "a share from 0 to 1 unless trip.rate.slow is set"
  )
  Check.check(
    (slow === undefined) === (slowerThan === undefined),
    module,
    "trip.rate.slowerThan",
    slowerThan,
    "set together with trip.rate.slow"
  )
  return {
    window: Duration.toMillis(rate.window ?? defaults.rate.window),
    minimumCalls: rate.minimumCalls ?? defaults.rate.minimumCalls,
    failures: failures === false ? Infinity : failures,
    slow: slow ?? Infinity,
    slowerThan: Duration.toMillis(slowerThan ?? Duration.infinity)
  }
}
