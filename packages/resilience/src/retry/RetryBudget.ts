/**
 * The share of a process's traffic that may be retries.
 *
 * When a provider is down, every call would make all of its attempts, and the provider would get several times its
 * normal load just when it can bear least. The budget is shared by all calls: each call pays a fifth of a retry, and a
 * small reserve covers programs with few calls. `RetryBudgetState` is the rule and says what always holds.
 *
 * Deposit once for each call that is made, and none for one that a circuit refuses; withdraw before each attempt after its first. A refusal is at once: whoever gets one
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
import type { Fiber } from "effect"
import * as Budget from "./RetryBudgetState.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Service {
  /** Counts a call. Once for each call, when its first attempt runs: what is refused before that pays for no retries. */
  readonly deposit: Effect.Effect<void>
  /** Whether one more attempt of a call may be made. Before each attempt after its first. */
  readonly withdraw: Effect.Effect<boolean>
  /** Whether {@link withdraw} would be granted now. For whoever decides and withdraws in one synchronous piece. */
  readonly availableUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** {@link withdraw} without an Effect. */
  readonly withdrawUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** {@link deposit} without an Effect. */
  readonly depositUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => void
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
    const deposit: Service["depositUnsafe"] = (fiber) => {
      state = Budget.deposit(rule, state, nowOf(fiber))
      metrics.calls.updateUnsafe(1, fiber.context)
      metrics.attempts.updateUnsafe(1, fiber.context)
    }
    const withdraw: Service["withdrawUnsafe"] = (fiber) => {
      const [granted, after] = Budget.withdraw(rule, state, nowOf(fiber))
      state = after
      const metric = granted ? metrics.attempts : metrics.refusals
      metric.updateUnsafe(1, fiber.context)
      return granted
    }
    return {
      deposit: Effect.withFiber((fiber) => {
        deposit(fiber)
        return Effect.void
      }),
      withdraw: Effect.withFiber((fiber) => Effect.succeed(withdraw(fiber))),
      availableUnsafe: (fiber) => Budget.withdraw(rule, state, nowOf(fiber))[0],
      withdrawUnsafe: withdraw,
      depositUnsafe: deposit,
      amplification: Effect.sync(() => Budget.amplification(state))
    }
  })
}

/** Monotonic milliseconds. Read from the fiber: this is on the path of each call. */
const nowOf = (fiber: Fiber.Fiber<unknown, unknown>): number =>
  Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe()) / 1_000_000

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** One budget for everything that is built with this layer. See {@link make}. */
export const layer = (options: Budget.RetryBudgetOptions = {}): Layer.Layer<RetryBudget> =>
  Layer.effect(RetryBudget, make(options))
