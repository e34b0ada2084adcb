/**
 * How a connection has done lately: a bounded window of outcomes. Pure.
 *
 * The window holds the last `size` outcomes that are younger than `span`; the oldest leave first. From it come
 * success and failure rate and the latency of what succeeded. Two counters look further back than the window:
 * how many failures there were in a row, and when the last success and failure were.
 *
 * The verdict:
 *
 * - **unknown**: fewer than `minimum` outcomes. Nothing is held against it.
 * - **unhealthy**: begins with a failure, when of at least `minimum` outcomes a share of at least `unhealthyAt`
 *   failed. Ends with `recovery` successes in a row, which forget what was before them; or when the share falls
 *   below `unhealthyAt`, by another success or because failures have left the window. Time alone ends it, time
 *   alone never begins it.
 * - **healthy**: everything else.
 *
 * **Memory and time.** A window holds at most `size` outcomes and no timer. What has left by age is dropped at the
 * next outcome and not seen by {@link read} before that; an outcome costs a copy of the window, asking whether it
 * is unhealthy costs one comparison. Times are monotonic milliseconds; a time before the latest outcome counts as
 * that outcome's, since concurrent calls may report out of order.
 *
 * It knows no names, no clock and no cause: which outcomes count is the caller's word (`ConnectionMonitor`).
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

/** One call or ping that has ended. */
export type Outcome =
  | {
      readonly _tag: "Succeeded"
      /** Milliseconds. */
      readonly latency?: number | undefined
    }
  | { readonly _tag: "Failed" }

export interface Spec {
  /** Outcomes of at least this age do not count. */
  readonly span: Duration.Duration
  /** Outcomes kept, at most. */
  readonly size: number
  /** With fewer outcomes nothing is said. */
  readonly minimum: number
  /** The share of failures from which on it is unhealthy. */
  readonly unhealthyAt: number
  /** Successes in a row that end an unhealthy time. */
  readonly recovery: number
}

/** What {@link spec} takes; for what is left out see {@link defaults}. */
export interface Options {
  /** More than zero. Default 5 minutes. */
  readonly span?: Duration.Input | undefined
  /** From 1 to {@link maxSize}. Default 20. */
  readonly size?: number | undefined
  /** From 1 to `size`. Default 3. */
  readonly minimum?: number | undefined
  /** Above 0, at most 1. Default 0.5. */
  readonly unhealthyAt?: number | undefined
  /** At least 1. Default 2. */
  readonly recovery?: number | undefined
}

interface Entry {
  readonly at: number
  /** Whether it failed. */
  readonly failed: boolean
  readonly latency: number | undefined
}

export interface HealthWindow {
  /** Oldest first. */
  readonly entries: ReadonlyArray<Entry>
  /** Successes since the last failure; those before the window count too. */
  readonly consecutiveSuccesses: number
  /** Failures since the last success; those before the window count too. */
  readonly consecutiveFailures: number
  readonly lastSuccess: number | undefined
  readonly lastFailure: number | undefined
  /** It is unhealthy before this moment: when enough failures will have left the window. */
  readonly unhealthyUntil: number
}

export type Verdict = "unknown" | "healthy" | "unhealthy"

/** Milliseconds. Percentiles by nearest rank: a value that was measured. */
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
  /** Of what succeeded: a refused connection is quick and says nothing about how fast answers are. */
  readonly latency: Latency | undefined
  readonly consecutiveFailures: number
  readonly lastSuccess: number | undefined
  readonly lastFailure: number | undefined
}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** 20 outcomes, judged from 3 on, unhealthy at half of them. */
export const defaults = {
  span: "5 minutes",
  size: 20,
  minimum: 3,
  unhealthyAt: 0.5,
  recovery: 2
} as const satisfies Options

/** Every outcome copies the window, so it is kept small. */
export const maxSize = 1_000

/** Checks and completes options. Throws a `RangeError` that names the field. */
export const spec = (options: Options = {}): Spec => {
  const module = "HealthWindow"
  Check.fields(module, options, checks)
  const size = options.size ?? defaults.size
  // A small window is judged by what fits in it.
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
  // `spec` knows its most.
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

/** Whether calls had better not be made. */
export const isUnhealthy = (state: HealthWindow, now: number): boolean => now < state.unhealthyUntil

/** Everything about a window at a time. */
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

/** When age alone will have made the window good again; −∞ if it is good now. */
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
