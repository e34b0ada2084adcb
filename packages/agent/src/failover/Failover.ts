/**
 * Layer 1: a `LanguageModel` that sends each call to the targets of a chain until one answers.
 *
 * Code that uses `LanguageModel`, `Chat` or `Toolkit` does not change: it gets this layer instead of one provider's.
 * One owner makes every attempt of a call: `CallState` decides and `CallRun` carries out. Text and objects share one
 * path, streams have another. No tool handler runs for a failed attempt.
 *
 * **Limits.** This layer does not shorten conversations by itself (see `compact`). Calls do not survive the process.
 *
 * **Example** (Two keys of one model, then another provider)
 *
 * ```ts
 * const Model = Failover.layer([
 *   Anthropic.model("claude-sonnet-4-5", { keys: ["ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_2"] }),
 *   OpenAi.model("gpt-5.1")
 * ])
 * program.pipe(Effect.provide(Model))
 * ```
 */
import { Context, Effect, Layer, Stream } from "effect"
import type { Scope } from "effect"
import { AiError, LanguageModel } from "effect/ai"
import { CircuitBreaker, RetryBudget } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import type { TargetRef } from "../conversation/TargetRef.ts"
import { guardable } from "./CallGuard.ts"
import type { CallFailed } from "../failure/reasons/CallFailed.ts"
import { fromFailure } from "../failure/reasons/CallFailed.ts"
import type { ChainError, NonEmpty, Services, Specs } from "./chain/Chain.ts"
import * as Chain from "./chain/Chain.ts"
import { HedgeShare } from "./chain/HedgeShare.ts"
import * as CallLimiter from "../limiter/CallLimiter.ts"
import { Priority } from "../limiter/Priority.ts"
import type { ChainStore } from "./chain/ChainStore.ts"
import { check as isStore } from "./chain/ChainStore.ts"
import * as Kind from "../options/Kind.ts"
import * as Order from "./decide/Order.ts"
import * as Permits from "./chain/Permits.ts"
import type { DefaultClass, RecoveryPolicy } from "./decide/RecoveryPolicy.ts"
import { validateModels } from "./decide/PolicyChecks.ts"
import { interactive, validate } from "./decide/RecoveryPolicy.ts"
import { streamText } from "./call/StreamCall.ts"
import { mistakeIn } from "./call/StrictCalls.ts"
import { make as makeTargets, Targets } from "./chain/Targets.ts"
import { generateText } from "./call/TextCall.ts"
import * as UndeclaredTools from "./call/UndeclaredTools.ts"

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
 * Makes a model over a chain of at least one entry. Fails only when no target can be built.
 *
 * Dies with an `InvalidOption` (a `RangeError`) for an empty chain, an entry that is not a target, and an option that
 * is unknown or not allowed.
 */
export const make = <const S extends Specs, Class extends string = DefaultClass>(
  chain: NonEmpty<S>,
  options: Options<Class> = {}
): Effect.Effect<
  Context.Service.Shape<typeof LanguageModel.LanguageModel>,
  ChainError,
  Services<S> | Scope.Scope
> => Effect.map(makeContext(chain, options), (context) => Context.get(context, LanguageModel.LanguageModel))

/** Services that {@link layer} provides. */
export type Provided = LanguageModel.LanguageModel | Targets

/**
 * The layer of {@link make}, used instead of one provider's layer. Also provides `Targets` for operators.
 *
 * Errors: `ChainError` when no target can be built, for example because no key is set. Wrong options and an empty
 * chain are defects, as in {@link make}.
 */
export const layer = <const S extends Specs, Class extends string = DefaultClass>(
  chain: NonEmpty<S>,
  options: Options<Class> = {}
): Layer.Layer<Provided, ChainError, Services<S>> =>
  // `Layer.effectContext` provides the scope.
  Layer.effectContext(makeContext(chain, options)) as Layer.Layer<Provided, ChainError, Services<S>>

const makeContext = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  options: Options<Class>
): Effect.Effect<Context.Context<Provided>, ChainError, Services<S> | Scope.Scope> =>
  Effect.gen(function* () {
    Chain.validate("Failover", "chain", chain)
    Check.fields("Failover", options, checks)
    const policy: RecoveryPolicy<string> = options.policy ?? interactive
    validateModels(
      policy,
      chain.map(({ model }) => model)
    )
    const built = yield* Chain.build(chain, yield* settingsOf(policy, options))
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
    const chainOf = (priority: Priority): Chain.Chain =>
      priority === "background" ? (unhurried ?? built) : built
    const boundary = makeBoundary()
    const model = yield* UndeclaredTools.make({
      generateText: (request) =>
        boundary.repeated(request) ??
        Effect.flatMap(
          unhurried === undefined
            ? generateText(built, request, boundary.toAiError("generateText", request))
            : Effect.flatMap(Priority, (priority) =>
                generateText(chainOf(priority), request, boundary.toAiError("generateText", request))
              ),
          (parts) => {
            const mistake = mistakeIn(request, parts)
            return mistake === undefined
              ? Effect.succeed(UndeclaredTools.inAnswer(parts, request))
              : Effect.fail(mistaken("generateText")(mistake))
          }
        ),
      streamText: (request) => {
        const repeated = boundary.repeated(request)
        if (repeated !== undefined) return Stream.fromEffect(repeated)
        const streamed = (chain: Chain.Chain) =>
          streamText(chain, request, boundary.toAiError("streamText", request), mistaken("streamText"))
        return unhurried === undefined
          ? streamed(built)
          : Stream.unwrap(Effect.map(Priority, (priority) => streamed(chainOf(priority))))
      }
    })
    const compacts = built.compact !== undefined && policy.maxCompactions > 0
    return Context.make(LanguageModel.LanguageModel, guardable(model)).pipe(
      Context.add(Targets, makeTargets({ ...built, compacts }))
    )
    // `Specs` leaves the entries' services open; `Services` names them.
  }) as Effect.Effect<Context.Context<Provided>, ChainError, Services<S> | Scope.Scope>

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
): Effect.Effect<Chain.Settings, never, Scope.Scope> =>
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

/** An error inside `LanguageModel.make` that is not a failure of the call. */
const mistaken =
  (method: string) =>
  (reason: AiError.AiErrorReason): AiError.AiError =>
    AiError.make({ module: "Outlast", method, reason })

/**
 * Converts failures to `CallFailed`. `LanguageModel.make` reacts to an InvalidRequestError of an incremental request
 * with a second call. Ours has sent the whole prompt already, so the second call gets the first one's error.
 */
const makeBoundary = () => {
  const incremental = new WeakMap<object, CallFailed>()
  return {
    repeated: (request: LanguageModel.ProviderOptions): Effect.Effect<never, CallFailed> | undefined => {
      const error = request.incrementalFallback === true ? incremental.get(request.span) : undefined
      return error === undefined ? undefined : Effect.fail(error)
    },
    toAiError:
      (method: string, request: LanguageModel.ProviderOptions) =>
      (failure: CallFailure, object?: string): CallFailed => {
        const error = fromFailure(method, failure, object)
        if (request.incrementalPrompt !== undefined) incremental.set(request.span, error)
        return error
      }
  }
}
