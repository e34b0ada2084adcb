/**
 * Options of a chain that makes calls, and how they become one: policy, circuits, retry budget, limiter, store.
 * `Failover` makes a `LanguageModel` over it, and `Calls` hands it on as it is.
 */
import { Effect } from "effect"
import type { Scope } from "effect"
import { CircuitBreaker, RetryBudget } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import type { TargetRef } from "../conversation/TargetRef.ts"
import type { ChainError, NonEmpty, Services, Specs } from "./chain/Chain.ts"
import * as Chain from "./chain/Chain.ts"
import { HedgeShare } from "./chain/HedgeShare.ts"
import * as CallLimiter from "../limiter/CallLimiter.ts"
import type { ChainStore } from "./chain/ChainStore.ts"
import { check as isStore } from "./chain/ChainStore.ts"
import * as Kind from "../options/Kind.ts"
import * as Order from "./decide/Order.ts"
import * as Permits from "./chain/Permits.ts"
import type { RecoveryPolicy } from "./decide/RecoveryPolicy.ts"
import { validateModels } from "./decide/PolicyChecks.ts"
import { interactive, validate } from "./decide/RecoveryPolicy.ts"

const { is } = Check

export interface Options<Class extends string> {
  /** Decides what happens when a call fails. Default: `RecoveryPolicy.interactive`. */
  readonly policy?: RecoveryPolicy<Class> | undefined
  /**
   * Policy for calls of the priority `background` (`Priority`). They share targets, cooldowns, circuits and retry budget
   * with the others. Default: `policy`.
   */
  readonly background?: RecoveryPolicy<Class> | undefined
  /** Circuits shared with other chains. Default: this chain's own, made from `policy.circuits`. */
  readonly breaker?: CircuitBreaker.Service | undefined
  /** Names of a target's circuits. Default: its endpoint, and its model there. */
  readonly circuitsOf?: ((target: TargetRef) => Permits.Circuits) | undefined
  /** Retry budget shared with other chains. Default: this chain's own, made from `policy.retryBudget`. */
  readonly retryBudget?: RetryBudget.Service | undefined
  /**
   * Health check before each attempt. A target that is not healthy gets no attempt. A check that fails, or does not
   * answer within `limits.connect` or the rest of the deadline, counts as healthy, so that a broken monitor does not
   * take the provider down. Default: all targets are healthy.
   */
  readonly isHealthy?: ((target: TargetRef) => Effect.Effect<boolean>) | undefined
  /** Order in which a call tries the targets. Default: `Order.inOrder`. */
  readonly order?: Order.Order | undefined
  /**
   * Store for cooldowns that outlive the process or are shared with others. Default: cooldowns end with the layer.
   */
  readonly store?: ChainStore | undefined
  /**
   * Keeps calls within known rate limits. Default: a limiter of this chain's own, which learns from the headers of
   * the providers' answers; `false`: none.
   */
  readonly limiter?: CallLimiter.Service | false | undefined
  /**
   * Shortens a conversation that did not fit, within `limits.total`. Default: none. The call then goes to a target
   * with a larger window, or fails.
   */
  readonly compact?: Chain.Compact | undefined
}

/**
 * Also shown for a policy with only a few fields, such as `{ maxAttempts: 3 }`. The other fields must come from a
 * policy that is spread.
 */
const policyNoun = "a policy, for example { ...Policy.interactive, maxAttempts: 3 }"

const policy: Check.Check = (module, field, value) => {
  Kind.plain(policyNoun)(module, field, value)
  const isBegun = Kind.isObject(value) && ("rows" in value || "classOf" in value)
  Check.check(isBegun, module, field, value, policyNoun)
  // `validate` checks every field.
  validate(value as RecoveryPolicy<string>)
}

const checks: Check.Checks<Options<string>> = {
  policy,
  background: policy,
  breaker: Kind.having("a circuit breaker, as CircuitBreaker.make gives it", "execute", "acquire"),
  circuitsOf: is.fn("(target) => { endpoint, model }"),
  retryBudget: Kind.having("a retry budget, as RetryBudget.make gives it", "withdraw", "depositUnsafe"),
  isHealthy: is.fn("(target) => Effect<boolean>"),
  order: Order.check,
  store: isStore,
  limiter: Kind.orFalse(
    Kind.having("false, or a limiter, as CallLimiter.make gives it", "acquire", "isFreeUnsafe", "learnUnsafe")
  ),
  compact: is.fn("(prompt, failure) => Effect<Prompt>, for example Compaction.reactive(compaction, request)")
}

/**
 * Builds the chain of these entries with these options. `background` has the policy of calls of that priority; it
 * shares everything else with `built`. `warnsOfBuilds`: a chain that is built again and again is a mistake of the program.
 *
 * Fails when no target can be built. Throws an `InvalidOption` (a `RangeError`) for an empty chain, an entry that is not
 * a target, and an option that is unknown or not allowed: a defect, as everything that a program got wrong.
 */
export const build = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  options: Options<Class>,
  warnsOfBuilds = true
): Effect.Effect<BuiltChain, ChainError, Services<S> | Scope.Scope> =>
  Effect.gen(function* () {
    Chain.validate("Failover", "chain", chain)
    Check.fields("Failover", options, checks)
    const policy: RecoveryPolicy<string> = options.policy ?? interactive
    validateModels(
      policy,
      chain.map(({ model }) => model)
    )
    const built = yield* Chain.build(chain, { ...(yield* settingsOf(policy, options)), warnsOfBuilds })
    const { background } = options
    if (background !== undefined) {
      validateModels(
        background,
        chain.map(({ model }) => model)
      )
    }
    // A call in the background differs in its policy alone, and in the share of hedges that it allows.
    const unhurried =
      background === undefined
        ? undefined
        : { ...built, policy: background, hedges: HedgeShare.of(background) }
    return { built, background: unhurried }
    // `Specs` leaves the entries' services open; `Services` names them.
  }) as Effect.Effect<BuiltChain, ChainError, Services<S> | Scope.Scope>

export interface BuiltChain {
  readonly built: Chain.Chain
  readonly background: Chain.Chain | undefined
}

// An untyped program may return any value from its functions. The checks below reject wrong ones with the expected
// type.

const isCircuits = (value: Permits.Circuits): Permits.Circuits => {
  const given: unknown = value
  const isGiven =
    Kind.isObject(given) && typeof given["endpoint"] === "string" && typeof given["model"] === "string"
  if (isGiven) return value
  throw Check.wrongReturn("Failover", "circuitsOf", value, "{ endpoint, model }, two names of circuits")
}

const healthOf = (value: Effect.Effect<boolean>): Effect.Effect<boolean> =>
  Effect.map(Check.returned("Failover", "isHealthy", value, healthNoun), (healthy) => {
    if (typeof healthy === "boolean") return healthy
    throw Check.wrongReturn("Failover", "isHealthy", healthy, healthNoun)
  })

const healthNoun = "an Effect<boolean>"

const compactNoun = "an Effect<Prompt>, for example by Compaction.reactive(compaction, request)"

const settingsOf = <Class extends string>(
  policy: RecoveryPolicy<string>,
  options: Options<Class>
): Effect.Effect<Omit<Chain.Settings, "warnsOfBuilds">, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { circuits, retryBudget } = policy
    const { circuitsOf, isHealthy } = options
    const breaker = options.breaker ?? (circuits === false ? undefined : yield* CircuitBreaker.make(circuits))
    const budget =
      options.retryBudget ?? (retryBudget === false ? undefined : yield* RetryBudget.make(retryBudget))
    const admission = Permits.make({
      breaker,
      circuitsOf: circuitsOf === undefined ? Permits.circuitsOf : (target) => isCircuits(circuitsOf(target)),
      isHealthy: isHealthy && ((target) => healthOf(isHealthy(target)))
    })
    const limiter = options.limiter === false ? undefined : (options.limiter ?? (yield* CallLimiter.make()))
    const { compact, order = Order.inOrder, store } = options
    // The default limiter only learns, so it needs the number of calls and not of tokens.
    const countsTokens = options.limiter !== undefined && options.limiter !== false
    const checked: Chain.Compact | undefined =
      compact &&
      ((prompt, failure) => Check.returned("Failover", "compact", compact(prompt, failure), compactNoun))
    return { policy, admission, budget, limiter, countsTokens, compact: checked, order, store }
  })
