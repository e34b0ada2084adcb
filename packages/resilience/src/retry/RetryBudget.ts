/**
 * Limits how much of a process's traffic may be retries.
 *
 * When a provider is down, every call would make all of its attempts, and the provider would get several times its
 * normal load just when it can bear least. The budget is shared by all calls. `RetryBudgetState` has its two forms: each
 * call pays for a fifth of a retry (the default), or each success pays for 1.5 (the default of a chain of models). A
 * small reserve covers programs with few calls.
 *
 * Deposit once for each call that is made, and none for one that a circuit refuses; withdraw before each attempt after
 * its first; `track` each attempt, so that its success pays. A refusal is at once: the call then fails with the failure
 * that it has. Continuations of an answer that was cut are no retries and cost nothing.
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
 * const tracked = budget.track(attempt)
 * yield* budget.deposit
 * yield* tracked.pipe(
 *   Effect.catch((error) =>
 *     Effect.flatMap(budget.withdraw, (granted) => (granted ? tracked : Effect.fail(error)))
 *   )
 * )
 * ```
 */
import { Clock, Context, Effect, Exit, Layer, Metric } from "effect"
import type { Fiber } from "effect"
import * as Budget from "./RetryBudgetState.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** `now` is in monotonic milliseconds, for a caller that has read the clock. Default: the clock of the fiber. */
export interface Service {
  /** Counts a call. Once for each call, when its first attempt runs: what is refused before that pays for no retries. */
  readonly deposit: Effect.Effect<void>
  /** Whether one more attempt of a call may be made. Before each attempt after its first. */
  readonly withdraw: Effect.Effect<boolean>
  /** Runs an attempt: it is in flight until it ends, and its success may pay for retries. */
  readonly track: <A, E, R>(attempt: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** What {@link track} does, for code that knows better when an attempt begins and ends. */
  readonly beginUnsafe: (fiber: Fiber.Fiber<unknown, unknown>, now?: number) => Flight
  /** Whether {@link withdraw} would be granted now. For whoever decides and withdraws in one synchronous piece. */
  readonly availableUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** {@link withdraw} without an Effect. */
  readonly withdrawUnsafe: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** {@link deposit} without an Effect. */
  readonly depositUnsafe: (fiber: Fiber.Fiber<unknown, unknown>, now?: number) => void
  /** Attempts for each call since this budget was made: 1 without retries. */
  readonly amplification: Effect.Effect<number>
}

/** An attempt in flight. */
export interface Flight {
  /** It made progress at `now` (monotonic milliseconds): it counts as a success again, as long as when it began. */
  readonly progressUnsafe: (now: number) => void
  /** It ended. The first call counts; later ones do nothing. */
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
    const flights: Budget.Flights = new Map()
    const withdrawn = (now: number): readonly [boolean, Budget.State] =>
      Budget.withdraw(rule, state, now, Budget.flyingAt(rule, flights, now))
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
    // A class, because an attempt that makes two closures costs more.
    class Paying implements Flight {
      /** Where it is counted; `undefined` once it has ended. */
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
      availableUnsafe: (fiber) => withdrawn(nowOf(fiber))[0],
      withdrawUnsafe: withdraw,
      depositUnsafe: deposit,
      amplification: Effect.sync(() => Budget.amplification(state))
    }
  })
}

/** Of a budget that successes do not pay for. */
const unpaid: Flight = { progressUnsafe: () => {}, endUnsafe: () => {} }

/** Monotonic milliseconds. Read from the fiber: this is on the path of each call. */
const nowOf = (fiber: Fiber.Fiber<unknown, unknown>): number =>
  Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe()) / 1_000_000

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** One budget for everything that is built with this layer. See {@link make}. */
export const layer = (options: Budget.RetryBudgetOptions = {}): Layer.Layer<RetryBudget> =>
  Layer.effect(RetryBudget, make(options))
