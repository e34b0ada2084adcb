/**
 * Judges a connection by a bounded window of recent outcomes. Pure.
 *
 * The window holds the last `size` outcomes that are younger than `span`. Success rate, failure rate and the latency of
 * successes are computed from it. The consecutive failures and the times of the last success and failure reach further
 * back than the window.
 *
 * The verdict:
 *
 * - **unknown**: fewer than `minimum` outcomes. Treated as healthy.
 * - **unhealthy**: starts with a failure, when at least `minimum` outcomes exist and a share of at least `unhealthyAt`
 *   failed. Ends after `recovery` consecutive successes, which clear all earlier outcomes. Also ends when the share
 *   falls below `unhealthyAt`, through a success or because failures leave the window. Time alone can end the state,
 *   but never start it.
 * - **healthy**: everything else.
 *
 * **Memory and time.** A window holds at most `size` outcomes and no timer. Expired outcomes are dropped at the next
 * outcome, and {@link read} ignores them before that. Each outcome copies the window; {@link isUnhealthy} is one
 * comparison. Times are monotonic milliseconds. A time before the latest outcome is raised to it, because concurrent
 * calls may report out of order.
 *
 * **Limits.** The window has no names and no clock. The caller decides which outcomes count (`ConnectionMonitor`).
 *
 * **Example** (Two of three calls failed)
 *
 * ```ts
 * const spec = HealthWindow.spec()
 * const window = [true, false, false].reduce(
 *   (state, ok, second) => HealthWindow.step(spec, state, { _tag: ok ? "Succeeded" : "Failed" }, second * 1_000),
 *   HealthWindow.empty
 * )
 * HealthWindow.read(spec, window, 3_000).verdict // => "unhealthy"
 * ```
 */
import { Duration } from "effect"
import * as Check from "../Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** The outcome of one call or ping. */
export type Outcome =
  | {
      readonly _tag: "Succeeded"
      /** Milliseconds. */
      readonly latency?: number | undefined
    }
  | { readonly _tag: "Failed" }

export interface Spec {
  /** Outcomes of this age or older do not count. */
  readonly span: Duration.Duration
  /** Maximum number of outcomes. */
  readonly size: number
  /** Minimum number of outcomes for a verdict. */
  readonly minimum: number
  /** The connection is unhealthy at this share of failures or above. */
  readonly unhealthyAt: number
  /** Number of consecutive successes that end the unhealthy state. */
  readonly recovery: number
}

/** Options of {@link spec}. Defaults: see {@link defaults}. */
export interface Options {
  /** Outcomes of this age or older do not count. Above zero. Default: 5 minutes. */
  readonly span?: Duration.Input | undefined
  /** Maximum number of outcomes, from 1 to {@link maxSize}. Default: 20. */
  readonly size?: number | undefined
  /** Minimum number of outcomes for a verdict, from 1 to `size`. Default: 3, or `size` if that is less. */
  readonly minimum?: number | undefined
  /** Share of failures at which the connection is unhealthy. Above 0, at most 1. Default: 0.5. */
  readonly unhealthyAt?: number | undefined
  /** Number of consecutive successes that end the unhealthy state. At least 1. Default: 2. */
  readonly recovery?: number | undefined
}

interface Entry {
  readonly at: number
  readonly failed: boolean
  readonly latency: number | undefined
}

export interface HealthWindow {
  /** Oldest first. */
  readonly entries: ReadonlyArray<Entry>
  /** Number of successes since the last failure, including those before the window. */
  readonly consecutiveSuccesses: number
  /** Number of failures since the last success, including those before the window. */
  readonly consecutiveFailures: number
  readonly lastSuccess: number | undefined
  readonly lastFailure: number | undefined
  /** The connection is unhealthy until this time, when enough failures will have left the window. */
  readonly unhealthyUntil: number
}

export type Verdict = "unknown" | "healthy" | "unhealthy"

/** Latency in milliseconds. Percentiles are measured values (nearest rank). */
export interface Latency {
  readonly mean: number
  readonly p50: number
  readonly p95: number
}

export interface Reading {
  readonly verdict: Verdict
  readonly outcomes: number
  /** From 0 to 1; `undefined` without outcomes. */
  readonly successRate: number | undefined
  readonly failureRate: number | undefined
  /** Latency of successes only. A refused connection fails fast and does not show how fast answers are. */
  readonly latency: Latency | undefined
  readonly consecutiveFailures: number
  readonly lastSuccess: number | undefined
  readonly lastFailure: number | undefined
}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** 20 outcomes, judged from the third, unhealthy at half of them. */
export const defaults = {
  span: "5 minutes",
  size: 20,
  minimum: 3,
  unhealthyAt: 0.5,
  recovery: 2
} as const satisfies Options

/** Upper limit of `size`, because every outcome copies the window. */
export const maxSize = 1_000

/** Validates options and fills in defaults. Throws a `RangeError` that names the field. */
export const spec = (options: Options = {}): Spec => {
  const module = "HealthWindow"
  Check.fields(module, options, checks)
  const size = options.size ?? defaults.size
  // A window smaller than the default minimum is judged once it is full.
  const minimum = options.minimum ?? Math.min(defaults.minimum, size)
  return {
    span: Duration.fromInputUnsafe(options.span ?? defaults.span),
    size,
    minimum: Check.integer(module, "minimum", minimum, { min: 1, max: size }),
    unhealthyAt: options.unhealthyAt ?? defaults.unhealthyAt,
    recovery: options.recovery ?? defaults.recovery
  }
}

const { is } = Check

const checks: Check.Checks<Options> = {
  span: is.duration({ min: "1 millis" }),
  size: is.integer({ min: 1, max: maxSize }),
  // `spec` checks the upper limit, which is `size`.
  minimum: is.anything,
  unhealthyAt: is.number({ above: 0, max: 1 }),
  recovery: is.integer({ min: 1 })
}

export const empty: HealthWindow = {
  entries: [],
  consecutiveSuccesses: 0,
  consecutiveFailures: 0,
  lastSuccess: undefined,
  lastFailure: undefined,
  unhealthyUntil: -Infinity
}

// -----------------------------------------------------------------------------
// Transitions
// -----------------------------------------------------------------------------

/** Adds an outcome. */
export const step = (spec: Spec, state: HealthWindow, outcome: Outcome, time: number): HealthWindow => {
  const now = Math.max(time, state.entries.at(-1)?.at ?? time)
  const failed = outcome._tag === "Failed"
  const entry: Entry = { at: now, failed, latency: outcome._tag === "Failed" ? undefined : outcome.latency }
  const entries = [...young(spec, state.entries, now), entry].slice(-spec.size)
  const counted: HealthWindow = {
    entries,
    consecutiveSuccesses: failed ? 0 : state.consecutiveSuccesses + 1,
    consecutiveFailures: failed ? state.consecutiveFailures + 1 : 0,
    lastSuccess: failed ? state.lastSuccess : now,
    lastFailure: failed ? now : state.lastFailure,
    unhealthyUntil: -Infinity
  }
  const wasUnhealthy = isUnhealthy(state, now)
  if (failed) return { ...counted, unhealthyUntil: endOf(spec, entries) }
  if (!wasUnhealthy) return counted
  if (counted.consecutiveSuccesses >= spec.recovery) {
    return { ...counted, entries: entries.slice(-spec.recovery) }
  }
  return { ...counted, unhealthyUntil: endOf(spec, entries) }
}

/** True when calls should not be made. */
export const isUnhealthy = (state: HealthWindow, now: number): boolean => now < state.unhealthyUntil

/** Returns the verdict and the figures of a window at a time. */
export const read = (spec: Spec, state: HealthWindow, now: number): Reading => {
  const entries = young(spec, state.entries, now)
  const outcomes = entries.length
  const failures = failuresIn(entries)
  return {
    verdict: isUnhealthy(state, now) ? "unhealthy" : outcomes < spec.minimum ? "unknown" : "healthy",
    outcomes,
    successRate: outcomes === 0 ? undefined : (outcomes - failures) / outcomes,
    failureRate: outcomes === 0 ? undefined : failures / outcomes,
    latency: latencyOf(entries),
    consecutiveFailures: state.consecutiveFailures,
    lastSuccess: state.lastSuccess,
    lastFailure: state.lastFailure
  }
}

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const young = (spec: Spec, entries: ReadonlyArray<Entry>, now: number): ReadonlyArray<Entry> => {
  const span = Duration.toMillis(spec.span)
  const first = entries.findIndex(({ at }) => now - at < span)
  return first === -1 ? [] : first === 0 ? entries : entries.slice(first)
}

const failuresIn = (entries: ReadonlyArray<Entry>): number =>
  entries.reduce((count, { failed }) => (failed ? count + 1 : count), 0)

/** Time at which age alone ends the unhealthy state. −∞ if the window is not unhealthy now. */
const endOf = (spec: Spec, entries: ReadonlyArray<Entry>): number => {
  const span = Duration.toMillis(spec.span)
  let outcomes = entries.length
  let failures = failuresIn(entries)
  let end = -Infinity
  for (const { at, failed } of entries) {
    if (outcomes < spec.minimum || failures / outcomes < spec.unhealthyAt) break
    end = at + span
    outcomes -= 1
    if (failed) failures -= 1
  }
  return end
}

const latencyOf = (entries: ReadonlyArray<Entry>): Latency | undefined => {
  const sorted = entries
    .flatMap(({ latency }) => (latency === undefined ? [] : [latency]))
    .sort((a, b) => a - b)
  const p50 = rank(sorted, 0.5)
  const p95 = rank(sorted, 0.95)
  if (p50 === undefined || p95 === undefined) return undefined
  return { mean: sorted.reduce((sum, latency) => sum + latency, 0) / sorted.length, p50, p95 }
}

const rank = (sorted: ReadonlyArray<number>, share: number): number | undefined =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)]
