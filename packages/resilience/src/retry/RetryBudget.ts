/**
 * Limits the share of a process's traffic that may be retries.
 *
 * When a provider is down, every call would make all of its attempts. The provider would get several times its normal
 * load when it can least handle it. All calls share the budget. `RetryBudgetState` has its two forms: each call pays
 * for 0.2 retries (the default), or each success pays for 1.5 (the default of a chain of models). A small reserve
 * covers programs with few calls.
 *
 * Call `deposit` once for each call, but not for a call that a circuit refuses. Call `withdraw` before each attempt
 * after the first. Wrap each attempt in `track`, so that its success pays. When the budget refuses, fail with the last
 * failure. Continuations of a cut answer are not retries and cost nothing.
 *
 * **Limits.** The budget never waits and never retries. Its state is lost when the process ends, and is not shared
 * between processes.
 *
 * Metrics: `outlast_retry_budget_calls_total`, `outlast_retry_budget_attempts_total` (first attempts and retries) and
 * `outlast_retry_budget_refusals_total`. The rate of attempts divided by the rate of calls is the amplification.
 *
 * **Example** (A retry within the budget)
 *
 * ```ts
 * const budget = yield* RetryBudget.RetryBudget
 * const tracked = budget.track(fetchAnswer)
 * yield* budget.deposit
 * yield* tracked.pipe(
 *   Effect.catch((error) =>
 *     Effect.flatMap(budget.withdraw, (granted) => (granted ? tracked : Effect.fail(error)))
 *   )
 * )
 * ```
 */
import { Clock, Config, Context, Effect, Exit, Layer, Metric } from "effect"
import type { Fiber } from "effect"
import * as Budget from "./RetryBudgetState.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/**
 * The retry budget. `now` is in monotonic milliseconds, for a caller that has already read the clock. Default: the
 * clock of the fiber.
 */
export interface Service {
  /** Counts a call. Run it once, when the first attempt starts: a call refused before that must not pay for retries. */
  readonly deposit: Effect.Effect<void>
  /** True when one more attempt is allowed, which is then counted. Run it before each attempt after the first. */
  readonly withdraw: Effect.Effect<boolean>
  /** Runs an attempt and counts it as in flight until it ends. A success may pay for retries. */
  readonly track: <A, E, R>(attempt: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Starts an attempt like {@link track}, for code that reports the end itself. */
  readonly beginUnsafe: (fiber: Fiber.Fiber<unknown, unknown>, now?: number) => Flight
  /**
   * True when {@link withdraw} would be granted now. For code that decides and withdraws in one synchronous step. With
   * `settled`: true when {@link takeUnsafe} would find a token.
   */
  readonly availableUnsafe: (fiber: Fiber.Fiber<unknown, unknown>, paidBy?: PaidBy) => boolean
  /** {@link withdraw} without an Effect. */
  readonly withdrawUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** Counts a retry that needs no permission. Uses a token if one is left; attempts in flight do not pay. */
  readonly takeUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => void
  /** Counts a refused retry in the metrics, for code that asks `availableUnsafe` and waits. */
  readonly refusedUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => void
  /** {@link deposit} without an Effect. */
  readonly depositUnsafe: (fiber: Fiber.Fiber<unknown, unknown>, now?: number) => void
  /** Attempts per call since this budget was created: 1 without retries. */
  readonly amplification: Effect.Effect<number>
  /** Retries that would be granted now, for operators. Changes nothing. */
  readonly status: Effect.Effect<Status>
}

export interface Status {
  /** Retries that calls or successes have paid for. */
  readonly paid: number
  /** Tokens of the reserve. */
  readonly reserve: number
}

/**
 * Selects what pays for a retry. `flights`: also attempts in flight, as long as they count as successes. `settled`: only
 * what has ended, for calls that wait for the budget. Default `flights`.
 */
export type PaidBy = "flights" | "settled"

/** An attempt in flight. */
export interface Flight {
  /**
   * Reports progress at `now` (monotonic milliseconds). The attempt then counts as a success again for as long as at
   * its start.
   */
  readonly progressUnsafe: (now: number) => void
  /** Reports the end. Only the first report counts. */
  readonly endUnsafe: (fiber: Fiber.Fiber<unknown, unknown>, hasSucceeded: boolean, now?: number) => void
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
    description: "First attempts of these calls, and their retries.",
    incremental: true
  }),
  refusals: Metric.counter("outlast_retry_budget_refusals_total", {
    description: "Retries that the budget refused. Each wait of a call for the budget counts as one.",
    incremental: true
  })
} as const

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/**
 * Creates a budget. Defaults: see `RetryBudgetState.defaults`. Throws an `InvalidOption` (a `RangeError`) for a number
 * out of range.
 */
export const make = (options: Budget.RetryBudgetOptions = {}): Effect.Effect<Service> => {
  const rule = Budget.rule(options)
  return Effect.sync(() => {
    // Changed in one synchronous step, so that no other fiber runs between reading and writing.
    let state = Budget.initial
    const flights: Budget.Flights = new Map()
    const withdrawn = (now: number, paidBy: PaidBy = "flights"): readonly [boolean, Budget.State] =>
      Budget.withdraw(rule, state, now, paidBy === "settled" ? 0 : Budget.flyingAt(rule, flights, now))
    const deposit: Service["depositUnsafe"] = (fiber, now = nowOf(fiber)) => {
      state = Budget.deposit(rule, state, now)
      metrics.calls.updateUnsafe(1, fiber.context)
      metrics.attempts.updateUnsafe(1, fiber.context)
    }
    const withdraw: Service["withdrawUnsafe"] = (fiber) => {
      const [granted, after] = withdrawn(nowOf(fiber))
      state = after
      const metric = granted ? metrics.attempts : metrics.refusals
      metric.updateUnsafe(1, fiber.context)
      return granted
    }
    // A class, because two closures for each attempt cost more.
    class Paying implements Flight {
      /** Slot in which the attempt is counted. `undefined` once it has ended. */
      #index: number | undefined

      constructor(now: number) {
        this.#index = Budget.flightAt(rule, now)
        Budget.began(flights, this.#index)
      }

      progressUnsafe(now: number): void {
        const at = Budget.flightAt(rule, now)
        if (this.#index === undefined || at <= this.#index) return
        Budget.left(flights, this.#index)
        Budget.began(flights, at)
        this.#index = at
      }

      endUnsafe(fiber: Fiber.Fiber<unknown, unknown>, hasSucceeded: boolean, now?: number): void {
        if (this.#index === undefined) return
        Budget.left(flights, this.#index)
        this.#index = undefined
        if (hasSucceeded) state = Budget.succeeded(rule, state, now ?? nowOf(fiber))
      }
    }
    const beginUnsafe: Service["beginUnsafe"] = (fiber, now) =>
      rule.paidBy === "calls" ? unpaid : new Paying(now ?? nowOf(fiber))
    return {
      beginUnsafe,
      track: (attempt) =>
        rule.paidBy === "calls"
          ? attempt
          : Effect.withFiber((fiber) => {
              const flight = beginUnsafe(fiber)
              return Effect.onExit(attempt, (exit) =>
                Effect.sync(() => flight.endUnsafe(fiber, Exit.isSuccess(exit)))
              )
            }),
      deposit: Effect.withFiber((fiber) => {
        deposit(fiber)
        return Effect.void
      }),
      withdraw: Effect.withFiber((fiber) => Effect.succeed(withdraw(fiber))),
      availableUnsafe: (fiber, paidBy) => withdrawn(nowOf(fiber), paidBy)[0],
      withdrawUnsafe: withdraw,
      takeUnsafe: (fiber) => {
        state = Budget.take(rule, state, nowOf(fiber))
        metrics.attempts.updateUnsafe(1, fiber.context)
      },
      refusedUnsafe: (fiber) => metrics.refusals.updateUnsafe(1, fiber.context),
      depositUnsafe: deposit,
      amplification: Effect.sync(() => Budget.amplification(state)),
      status: Effect.withFiber((fiber) => {
        const now = nowOf(fiber)
        return Effect.succeed(Budget.available(rule, state, now, Budget.flyingAt(rule, flights, now)))
      })
    }
  })
}

/** The flight of a budget that is paid by calls. Does nothing. */
const unpaid: Flight = { progressUnsafe: () => {}, endUnsafe: () => {} }

/** Monotonic milliseconds. Read from the fiber, because this runs on every call. */
const nowOf = (fiber: Fiber.Fiber<unknown, unknown>): number =>
  Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe()) / 1_000_000

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** Provides one budget for everything built with this layer. See {@link make}. */
export const layer = (options: Budget.RetryBudgetOptions = {}): Layer.Layer<RetryBudget> =>
  Layer.effect(RetryBudget, make(options))

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * RetryBudget.layerConfig({ ratio: Config.Finite("RETRY_RATIO") })
 * ```
 */
export const layerConfig = (
  options: Config.Wrap<Budget.RetryBudgetOptions>
): Layer.Layer<RetryBudget, Config.ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Budget.RetryBudgetOptions>(options))
    })
  )
