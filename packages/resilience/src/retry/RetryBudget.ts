/**
 * The share of a process's traffic that may be retries.
 *
 * When a provider is down, every call would make all of its attempts, and the provider would get several times its
 * normal load just when it can bear least. The budget is shared by all calls: each call pays a fifth of a retry, and a
 * small reserve covers programs with few calls. `RetryBudgetState` is the rule and says what always holds.
 *
 * Deposit once for each call; withdraw before each attempt after its first. A refusal is at once: whoever gets one
 * fails with the failure it has. Continuations of an answer that was cut are no retries and cost nothing.
 *
 * It never waits and never retries by itself, keeps nothing when the process ends, and is not shared between processes.
 *
 * Metrics: `outlast_retry_budget_calls_total`, `outlast_retry_budget_attempts_total` (first attempts and retries) and
 * `outlast_retry_budget_refusals_total`. The rate of attempts by the rate of calls is the amplification.
 *
 * **Example** (A retry that asks first)
 *
 * ```ts
 * const budget = yield* RetryBudget.RetryBudget
 * yield* budget.deposit
 * yield* attempt.pipe(
 *   Effect.catch((error) =>
 *     Effect.flatMap(budget.withdraw, (granted) => (granted ? attempt : Effect.fail(error)))
 *   )
 * )
 * ```
 */
import { Clock, Context, Effect, Layer, Metric } from "effect"
import * as Budget from "./RetryBudgetState.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Service {
  /** Counts a call. Once for each call, before its first attempt. */
  readonly deposit: Effect.Effect<void>
  /** Whether one more attempt of a call may be made. Before each attempt after its first. */
  readonly withdraw: Effect.Effect<boolean>
  /** Attempts for each call since this budget was made: 1 without retries. */
  readonly amplification: Effect.Effect<number>
}

export class RetryBudget extends Context.Service<RetryBudget, Service>()(
  "@outlast/resilience/retry/RetryBudget"
) {}

export const metrics = {
  calls: Metric.counter("outlast_retry_budget_calls_total", {
    description: "Calls that paid into the retry budget.",
    incremental: true
  }),
  attempts: Metric.counter("outlast_retry_budget_attempts_total", {
    description: "First attempts of these calls, and retries that the budget allowed.",
    incremental: true
  }),
  refusals: Metric.counter("outlast_retry_budget_refusals_total", {
    description: "Retries that the budget refused.",
    incremental: true
  })
} as const

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/**
 * A budget of its own. Defaults: see `RetryBudgetState.defaults`. Throws an `InvalidOption` (a `RangeError`) for a
 * number out of range.
 */
export const make = (options: Budget.RetryBudgetOptions = {}): Effect.Effect<Service> => {
  const rule = Budget.rule(options)
  return Effect.sync(() => {
    // Changed in one synchronous piece, so that no fiber comes between reading and writing.
    let state = Budget.initial
    const count = (metric: Metric.Counter<number>) => Metric.update(metric, 1)
    return {
      deposit: Effect.flatMap(now, (millis) => {
        state = Budget.deposit(rule, state, millis)
        return Effect.andThen(count(metrics.calls), count(metrics.attempts))
      }),
      withdraw: Effect.flatMap(now, (millis) => {
        const [granted, after] = Budget.withdraw(rule, state, millis)
        state = after
        return Effect.as(count(granted ? metrics.attempts : metrics.refusals), granted)
      }),
      amplification: Effect.sync(() => Budget.amplification(state))
    }
  })
}

const now: Effect.Effect<number> = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** One budget for everything that is built with this layer. See {@link make}. */
export const layer = (options: Budget.RetryBudgetOptions = {}): Layer.Layer<RetryBudget> =>
  Layer.effect(RetryBudget, make(options))
