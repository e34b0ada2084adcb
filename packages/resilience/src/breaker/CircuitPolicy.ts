/**
 * When a circuit opens, for how long, and what it takes to close again: validated data.
 *
 * Times are milliseconds here; users write `Duration.Input` in {@link Options}.
 */
import { Duration } from "effect"
import * as Check from "../Options.ts"
import * as Backoff from "../retry/Backoff.ts"

/** What opens a closed circuit. With both, either does. */
export interface TripOptions {
  /** Consecutive failures. `false` turns it off. */
  readonly consecutive?:
    | {
        /** Default 5. */
        readonly failures?: number | undefined
        /** They count only if they happened within this time. Default: however long ago. */
        readonly within?: Duration.Input | undefined
        /**
         * Where calls used the circuit at the same time (their attempts overlapped, or took turns), the failures must
         * come from at least this many distinct calls, or from `failures` calls where that is fewer: one call's own
         * attempts prove little. Default 3. With 1 the failures are counted literally.
         */
        readonly distinctCalls?: number | undefined
      }
    | false
    | undefined
  /**
   * The share of failures among the calls of the last while. A call counts from its start until `window` after its end;
   * while it is in flight it counts as not failed. So fast failures do not outvote slow successes that started earlier.
   * Default: off.
   */
  readonly rate?:
    | {
        /** A call that ended longer ago does not count; one that ended up to a tenth later may not count either. Default 1 minute. */
        readonly window?: Duration.Input | undefined
        /** With fewer calls, those in flight included, the rates are not judged. Default 10. */
        readonly minimumCalls?: number | undefined
        /** Opens at this share of failures, exactly or above. Default 0.5; `false`: off. */
        readonly failures?: number | false | undefined
        /** Opens at this share of slow calls, exactly or above. Default: off. Needs `slowerThan`. */
        readonly slow?: number | undefined
        /** A call that takes longer is slow, even when it succeeds. */
        readonly slowerThan?: Duration.Input | undefined
      }
    | undefined
}

export interface HalfOpenOptions {
  /** Probes at a time. Default 1. */
  readonly permits?: number | undefined
  /** Probes that must succeed. Default 2. */
  readonly successes?: number | undefined
  /**
   * Of so many; once too many have failed for that, the circuit opens again. Default: `successes`, or `permits` where
   * that is more.
   */
  readonly outOf?: number | undefined
  /** A probe that has not ended by then loses its permit, and its outcome no longer counts. Default 1 minute. */
  readonly probeLimit?: Duration.Input | undefined
}

export interface Options {
  readonly trip?: TripOptions | undefined
  readonly halfOpen?: HalfOpenOptions | undefined
  /**
   * How long the circuit stays open, by the number of openings in a row. Default 10 s ×2, cap 120 s, ±10 %
   * inside the cap. An opening is the first one again after the circuit stayed closed as long as the last lasted.
   */
  readonly open?: Backoff.Backoff | undefined
  /** No `retryAfter` of a failure keeps the circuit open for longer. Default 1 hour. */
  readonly maxRetryAfter?: Duration.Input | undefined
}

export interface RatePolicy {
  readonly window: number
  readonly minimumCalls: number
  /** Infinity: off. */
  readonly failures: number
  /** Infinity: off. */
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
  readonly maxRetryAfter: number
}

export const defaults = {
  consecutive: { failures: 5, distinctCalls: 3 },
  rate: { window: "1 minute", minimumCalls: 10, failures: 0.5 },
  halfOpen: { permits: 1, successes: 2, probeLimit: "1 minute" },
  open: Backoff.exponential({ initial: "10 seconds", factor: 2, cap: "120 seconds", jitter: 0.1 }),
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
    maxRetryAfter: Duration.toMillis(maxRetryAfter ?? defaults.maxRetryAfter)
  }
}

const module = "CircuitBreaker"
const { is } = Check
const positive = is.integer({ min: 1 })
const atLeastOneMilli = is.duration({ min: "1 milli" })
/** A rate of 0 would open the circuit with the first call. */
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
    // `make` knows its least.
    outOf: positive,
    probeLimit: atLeastOneMilli
  }),
  open: Backoff.isBackoff,
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
