/**
 * Settings that are changed while a program runs, with a kill switch.
 *
 * {@link make} holds the current `OutlastConfig`. Each part of it is followed by one of these:
 *
 * | settings | follows them | a change applies to |
 * |---|---|---|
 * | `enabled`, `policy` | {@link layerFailover} | the next call |
 * | `guard` | {@link guard} | the next run |
 * | `compaction` | {@link layerCompaction} | the next turn |
 *
 * Calls and runs under way end with the settings that they began with. Cooldowns, known limits, circuits and the retry
 * budget carry over, except for circuits and budgets whose own settings changed.
 *
 * **Kill switch.** With `enabled: false` each call goes once to the first target of the chain, with its first key, as
 * without Outlast: no retry, no switch, no cooldown. `enabled: true` brings the policy back. The limits of the guard
 * and the compaction stay, because a program without them may run away.
 *
 * **Limits.** The chain itself does not change. Settings live in this process: to share them, set them in each one.
 *
 * **Example** (An operator's switch)
 *
 * ```ts
 * const live = yield* LiveConfig.make({ policy: { preset: "background" } })
 * const Model = LiveConfig.layerFailover([claude, gpt], live)
 *
 * yield* live.set({ enabled: false }) // the next call goes straight to the provider
 * ```
 */
import { Context, Effect, Exit, Layer, Ref, Result, Scope, Semaphore, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { CircuitBreaker, RetryBudget } from "@outlast/resilience"
import * as Compaction from "../compaction/Compaction.ts"
import * as CompactionPolicy from "../compaction/CompactionPolicy.ts"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import * as ChainStore from "../failover/chain/ChainStore.ts"
import { Targets } from "../failover/chain/Targets.ts"
import { bareOf, guardable } from "../failover/CallGuard.ts"
import type { RecoveryPolicy } from "../failover/decide/RecoveryPolicy.ts"
import * as Failover from "../failover/Failover.ts"
import type { Limits } from "../guard/Limits.ts"
import * as SafetyGuard from "../guard/SafetyGuard.ts"
import * as CallLimiter from "../limiter/CallLimiter.ts"
import type { ConfigInvalid } from "./Fields.ts"
import type { OutlastConfig } from "./OutlastConfig.ts"
import { checked, compactionOf, limitsOf, policyOf, unprotected } from "./OutlastConfig.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Service {
  readonly get: Effect.Effect<OutlastConfig>
  readonly getUnsafe: () => OutlastConfig
  /** Replaces the settings. Wrong ones fail, and the current ones stay. */
  readonly set: (config: OutlastConfig) => Effect.Effect<void, ConfigInvalid>
  /** Changes the settings. Wrong ones fail, and the current ones stay. */
  readonly update: (
    change: (config: OutlastConfig) => OutlastConfig
  ) => Effect.Effect<OutlastConfig, ConfigInvalid>
}

/** Holds settings. Fails for settings that do not fit together. */
export const make = (initial: OutlastConfig = {}): Effect.Effect<Service, ConfigInvalid> =>
  Effect.gen(function* () {
    const state = yield* Ref.make(yield* Effect.fromResult(checked(initial)))
    const update: Service["update"] = (change) =>
      Effect.flatMap(
        Ref.modify(state, (before) => {
          const after = checked(change(before))
          return [after, Result.isSuccess(after) ? after.success : before]
        }),
        Effect.fromResult
      )
    return {
      get: Ref.get(state),
      getUnsafe: () => Ref.getUnsafe(state),
      set: (config) => Effect.asVoid(update(() => config)),
      update
    }
  })

// -----------------------------------------------------------------------------
// Guard and compaction
// -----------------------------------------------------------------------------

/** Options of the guard that settings do not change. */
export type GuardOptions = Omit<SafetyGuard.Options, keyof Limits>

/**
 * `SafetyGuard.run` and `SafetyGuard.runStream` that follow the settings: each run is guarded by the limits at its
 * beginning.
 */
export const guard = (
  live: Service,
  options: GuardOptions = {}
): Pick<SafetyGuard.Host, "run" | "runStream"> => {
  const host = Effect.suspend(() => SafetyGuard.make({ ...options, ...limitsOf(live.getUnsafe()) }))
  return {
    run: (program) => Effect.flatMap(host, ({ run }) => run(program)),
    runStream: (program) => Stream.unwrap(Effect.map(host, ({ runStream }) => runStream(program)))
  }
}

/** A `Compaction.layer` that follows the settings: each turn is fitted by the policy at that moment. */
export const layerCompaction = <E = never, R = never>(
  live: Service,
  options: Omit<Compaction.Options<E, R>, "policy"> = {}
): Layer.Layer<Compaction.Compaction, E, R> => {
  let of: OutlastConfig | undefined
  let policy = CompactionPolicy.defaults
  return Compaction.layer({
    ...options,
    policy: () => {
      const config = live.getUnsafe()
      if (config !== of) [of, policy] = [config, compactionOf(config)]
      return policy
    }
  })
}

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

type Model = Context.Service.Shape<typeof LanguageModel.LanguageModel>

/** A chain that was built for one version of the settings. */
interface Generation {
  readonly config: OutlastConfig
  readonly model: Model
  readonly targets: Targets["Service"]
  readonly scope: Scope.Closeable
  /** Calls under way. A replaced generation is closed with its last one. */
  users: number
}

/** State that outlives a change of settings. */
interface Shared {
  readonly store: ChainStore.ChainStore
  readonly limiter: CallLimiter.Service | false
  readonly scope: Scope.Scope
  breaker:
    | { readonly of: RecoveryPolicy<string>["circuits"]; readonly service: CircuitBreaker.Service }
    | undefined
  budget:
    | { readonly of: RecoveryPolicy<string>["retryBudget"]; readonly service: RetryBudget.Service }
    | undefined
}

/**
 * Options of the chain that settings do not change. With a `breaker` of your own, which an operator can trip, settings
 * turn its circuits on and off, and its policy stays.
 */
export type Options = Omit<Failover.Options<string>, "policy" | "retryBudget">

/**
 * A `Failover.layer` that follows the settings. Fails like `Failover.layer` when no target can be built.
 */
export const layerFailover = <const S extends Specs>(
  chain: NonEmpty<S>,
  live: Service,
  options: Options = {}
): Layer.Layer<Failover.Provided, ChainError, Services<S>> =>
  Layer.effectContext(
    Effect.gen(function* () {
      const services = yield* Effect.context<Services<S>>()
      const scope = yield* Effect.scope
      const shared: Shared = {
        store: options.store ?? ChainStore.memory(),
        limiter: options.limiter ?? (yield* CallLimiter.make()),
        scope,
        breaker: undefined,
        budget: undefined
      }
      const build = (config: OutlastConfig): Effect.Effect<Generation, ChainError> =>
        Effect.gen(function* () {
          const own = yield* Scope.fork(scope)
          const layer = yield* layerOf(chain, config, options, shared)
          const context = yield* Layer.buildWithScope(layer, own).pipe(
            Effect.provideContext(services),
            Effect.onError(() => Scope.close(own, Exit.void))
          )
          return {
            config,
            model: Context.get(context, LanguageModel.LanguageModel),
            targets: Context.get(context, Targets),
            scope: own,
            users: 0
          }
        })
      const lock = yield* Semaphore.make(1)
      let current = yield* build(yield* live.get)

      const replaced = (config: OutlastConfig): Effect.Effect<void> =>
        Effect.gen(function* () {
          if (current.config === config) return
          const next = yield* Effect.exit(build(config))
          if (Exit.isFailure(next)) {
            // The chain could be built before, so calls go on with the old settings.
            return yield* Effect.logWarning("The changed settings cannot be applied.", next.cause)
          }
          const before = current
          current = next.value
          if (before.users === 0) yield* Scope.close(before.scope, Exit.void)
        })
      const entered: Effect.Effect<Generation> = Effect.gen(function* () {
        const config = yield* live.get
        if (current.config !== config) yield* replaced(config).pipe(Semaphore.withPermit(lock))
        const generation = current
        generation.users++
        return generation
      })
      const left = (generation: Generation): Effect.Effect<void> =>
        Effect.suspend(() => {
          generation.users--
          return generation !== current && generation.users === 0
            ? Scope.close(generation.scope, Exit.void)
            : Effect.void
        })
      // Calls of a chain that is switched off pass by its compaction.
      const compacts = () => current.targets.compacts && current.config.enabled !== false
      return contextOf(entered, left, compacts)
    })
  )

/** The layer for one version of the settings. */
const layerOf = <const S extends Specs>(
  chain: NonEmpty<S>,
  config: OutlastConfig,
  options: Options,
  shared: Shared
): Effect.Effect<Layer.Layer<Failover.Provided, ChainError, Services<S>>> =>
  Effect.gen(function* () {
    const policy = policyOf(config)
    const { circuits, retryBudget } = policy
    if (circuits !== false && options.breaker === undefined && shared.breaker?.of !== circuits) {
      shared.breaker = {
        of: circuits,
        service: yield* Scope.provide(CircuitBreaker.make(circuits), shared.scope)
      }
    }
    if (retryBudget !== false && shared.budget?.of !== retryBudget) {
      shared.budget = { of: retryBudget, service: yield* RetryBudget.make(retryBudget) }
    }
    const { store, limiter } = shared
    const protectedChain = Failover.layer<S, string>(chain, {
      ...options,
      policy,
      store,
      limiter,
      breaker: circuits === false ? undefined : (options.breaker ?? shared.breaker?.service),
      retryBudget: retryBudget === false ? undefined : shared.budget?.service
    })
    if (config.enabled !== false) return protectedChain
    // The targets stay visible to operators. Calls pass them by.
    return Layer.merge(protectedChain, unprotected(chain))
  })

interface Methods {
  readonly generateText: (options: unknown) => Effect.Effect<unknown, unknown>
  readonly generateObject: (options: unknown) => Effect.Effect<unknown, unknown>
  readonly streamText: (options: unknown) => Stream.Stream<unknown, unknown>
}

const contextOf = (
  entered: Effect.Effect<Generation>,
  left: (generation: Generation) => Effect.Effect<void>,
  compacts: () => boolean
): Context.Context<Failover.Provided> => {
  // The methods pass arguments and results through unchanged, so they have the types of the model.
  // A guard counts a call once, at the model that is provided.
  const methodsOf = ({ model }: Generation) => bareOf(model) as unknown as Methods
  const use = <A, E>(call: (methods: Methods) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.acquireUseRelease(entered, (generation) => call(methodsOf(generation)), left)
  const methods: Methods = {
    generateText: (options) => use((model) => model.generateText(options)),
    generateObject: (options) => use((model) => model.generateObject(options)),
    streamText: (options) =>
      Stream.unwrap(
        Effect.map(Effect.acquireRelease(entered, left), (generation) =>
          methodsOf(generation).streamText(options)
        )
      )
  }
  const model = guardable({ [LanguageModel.TypeId]: LanguageModel.TypeId, ...methods } as unknown as Model)
  const at = <A, E>(read: (targets: Targets["Service"]) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.acquireUseRelease(entered, ({ targets }) => read(targets), left)
  return Context.make(LanguageModel.LanguageModel, model).pipe(
    Context.add(Targets, {
      get compacts() {
        return compacts()
      },
      list: at(({ list }) => list),
      providers: at(({ providers }) => providers),
      retryBudget: at(({ retryBudget }) => retryBudget),
      reset: (which) => at(({ reset }) => reset(which))
    })
  )
}
