/**
 * The operator's view of a chain: which targets are ready, why and how long the others are out, and the health of the
 * providers. An operator can also bring targets back.
 *
 * The view is read from the live state of the calls. A reset also reaches the other processes that share the chain's
 * store or its circuits.
 *
 * **States of a target.** `ready`: a call may be sent to it. `cooling`: a cooldown covers it. `open`: one of its
 * circuits lets no call through. `dead`: only a person can bring it back. The state that lasts longest is shown. A
 * target whose known limits are used up stays `ready`, and its `limits` say how long a call would wait.
 *
 * **Limits.** An operator cannot take a target out: only failures do. A target that could not be built stays dead
 * until the layer is built again. An isolated circuit stays isolated until the program that isolated it releases it.
 *
 * **Example** (After the key was topped up)
 *
 * ```ts
 * const targets = yield* Targets.Targets
 * const { cooldowns } = yield* targets.reset({ key: "ANTHROPIC_API_KEY" })
 * ```
 */
import { Context, Duration, Effect, HashMap, MutableRef } from "effect"
import { Options as Check } from "@outlast/resilience"
import type { CircuitBreaker, RetryBudget } from "@outlast/resilience"
import type { TargetOut } from "../../failure/reasons/CallFailure.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import { whatHappened, whatToDo } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type * as CallLimiter from "../../limiter/CallLimiter.ts"
import type { ChainMemory } from "./ChainMemory.ts"
import type { Cooldowns, Entry, Out } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { Admission, Refused } from "./Permits.ts"
import type { ProviderHealth } from "./ProviderHealth.ts"
import * as Health from "./ProviderHealth.ts"
import * as BlockedTimes from "../decide/BlockedTimes.ts"
import type { RecoveryPolicy, Scope } from "../decide/RecoveryPolicy.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface TargetStatus {
  readonly target: TargetRef
  /** Known facts about the model; empty for a target that could not be built. */
  readonly info: ModelInfo
  readonly state: "ready" | "cooling" | "open" | "dead"
  /** Time until the target is back. Absent when it is ready, and when only a person can bring it back. */
  readonly availableIn: Duration.Duration | undefined
  /**
   * Time until a call may ask the target: the end of its cooldowns or the first moment of a probe, then its circuits and
   * known limits. Zero: now. Absent when only a person or the end of another call can tell.
   */
  readonly nextTryIn: Duration.Duration | undefined
  /** The reason of the failure that took it out. */
  readonly reason: ReasonTag | undefined
  /** Description of that failure, without secrets. */
  readonly message: string | undefined
  /** One sentence of advice. Absent when the target is ready. */
  readonly advice: string | undefined
  /**
   * Time of the last answer in Unix milliseconds. Absent when the target has not answered since the layer was built.
   */
  readonly lastSuccessAt: number | undefined
  /** All open cooldowns that cover the target. */
  readonly cooldowns: ReadonlyArray<CooldownStatus>
  /** The target's circuits that are not closed. */
  readonly circuits: ReadonlyArray<CircuitStatus>
  /** Known limits of the target's key and model. */
  readonly limits: ReadonlyArray<CallLimiter.LimitStatus>
}

export interface CooldownStatus {
  /** The part that the cooldown covers: the key, the key with this model, the model, or the endpoint. */
  readonly scope: Scope
  /** Time until the cooldown ends. Absent: until it is reset. */
  readonly availableIn: Duration.Duration | undefined
  readonly reason: ReasonTag
  readonly message: string
}

export interface CircuitStatus {
  /** Name of the circuit: the endpoint, or the model at the endpoint. */
  readonly circuit: string
  readonly phase: "open" | "half-open" | "isolated"
  /** Time until the circuit lets a probe through. Absent when it is half-open, and when it is held open by hand. */
  readonly availableIn: Duration.Duration | undefined
  /** The last failure that the circuit counted, in a few words. */
  readonly lastFailure: string | undefined
}

/**
 * Selects what to reset. Several fields must all match; no field selects everything. A name that the chain does not
 * have is rejected.
 */
export interface Which {
  /** Id of a target. Selects everything that keeps it out. */
  readonly target?: string | undefined
  /** Name of a key. Selects the cooldowns of the key, with one model or with all, and no circuits. */
  readonly key?: string | undefined
  readonly provider?: string | undefined
}

/** Counts and names of what a reset ended. */
export interface Lifted {
  /** Number of cooldowns that were open. */
  readonly cooldowns: number
  /** Names of circuits that were open or half-open and are closed now. */
  readonly circuits: ReadonlyArray<string>
  /** Number of targets whose limits named by the provider were dropped. Your own limits stay. */
  readonly limits: number
  /** Names of circuits that are held open by hand and stay open. The program that isolated them must release them. */
  readonly isolated: ReadonlyArray<string>
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Service {
  /** True when a call shortens a conversation that did not fit, with the layer's `compact`. */
  readonly compacts: boolean
  /** All targets in the order of the chain. Targets that could not be built come last. */
  readonly list: Effect.Effect<ReadonlyArray<TargetStatus>>
  /** Retries that the chain's budget would grant now. `undefined` without a budget. */
  readonly retryBudget: Effect.Effect<RetryBudget.Status | undefined>
  /** Health of each provider. Times are Unix milliseconds. */
  readonly providers: Effect.Effect<ReadonlyArray<ProviderHealth>>
  /**
   * Ends cooldowns and clears their streaks, closes circuits, and drops limits named by providers, for the targets that
   * `which` selects. Earlier failures of each target that is back count no more. Returns what it changed.
   *
   * Dies with an `InvalidOption` for an unknown field, and for a target, key or provider that the chain does not
   * have.
   */
  readonly reset: (which?: Which) => Effect.Effect<Lifted>
}

export class Targets extends Context.Service<Targets, Service>()("@outlast/agent/failover/chain/Targets") {}

export interface Options {
  readonly targets: ReadonlyArray<{ readonly ref: TargetRef; readonly info: ModelInfo }>
  /** Targets that could not be built. */
  readonly dead: ReadonlyArray<TargetOut>
  readonly memory: Pick<ChainMemory, "change" | "cooldowns" | "pacing" | "reset" | "targetLogs">
  /** `undefined` when the chain has no circuits. */
  readonly policy: Pick<RecoveryPolicy<string>, "probe">
  readonly admission: Pick<Admission, "foresee" | "circuits" | "close"> | undefined
  /** `undefined` when the chain has no limiter. */
  readonly limiter: Pick<CallLimiter.Service, "limits" | "forget"> | undefined
  readonly budget: Pick<RetryBudget.Service, "status"> | undefined
  readonly compacts: boolean
}

export const make = (options: Options): Service => {
  const { targets, dead, memory, budget, compacts } = options
  return {
    compacts,
    list: Effect.gen(function* () {
      const time = yield* now
      const built = yield* Effect.forEach(targets, (target) => look(options, target, time))
      return [...built, ...dead.map(unbuilt)]
    }),
    retryBudget: budget?.status ?? Effect.undefined,
    providers: Effect.map(now, (time) =>
      Health.healthOf(
        [...memory.targetLogs.values()],
        MutableRef.get(memory.cooldowns),
        targets.map(({ ref }) => ref),
        time.at,
        memory.pacing.downAfter,
        dead.map(({ target }) => target)
      ).map((health) => ({
        ...health,
        lastSuccessAt: toUnix(health.lastSuccessAt, time),
        cooldownUntil: toUnix(health.cooldownUntil, time)
      }))
    ),
    reset: (which = {}) => reset(options, which)
  }
}

/** Monotonic milliseconds, and what makes Unix milliseconds of them. */
interface Time {
  readonly at: number
  readonly shift: number
}

const now: Effect.Effect<Time> = Effect.clockWith((clock) =>
  Effect.sync(() => {
    const at = Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
    return { at, shift: clock.currentTimeMillisUnsafe() - at }
  })
)

const toUnix = (at: number | undefined, { shift }: Time): number | undefined =>
  at === undefined ? undefined : at + shift

// -----------------------------------------------------------------------------
// Status
// -----------------------------------------------------------------------------

/** What the chain knows of a target. */
interface Seen {
  readonly cooldowns: Cooldowns
  /** The time from which the cooldowns let a call go to it. */
  readonly opensAt: number
  readonly answeredAt: number | undefined
  readonly refused: Refused | undefined
  readonly circuits: ReadonlyArray<CircuitBreaker.Status>
  readonly limits: ReadonlyArray<CallLimiter.LimitStatus>
}

const look = (
  { admission, limiter, memory, policy }: Options,
  target: Options["targets"][number],
  time: Time
): Effect.Effect<TargetStatus> =>
  Effect.gen(function* () {
    const refused = yield* admission?.foresee(target.ref) ?? Effect.undefined
    const circuits = yield* admission?.circuits(target.ref) ?? Effect.succeed([])
    const limits = yield* limiter?.limits(target.ref) ?? Effect.succeed([])
    const cooldowns = MutableRef.get(memory.cooldowns)
    const answeredAt = memory.targetLogs.get(target.ref.id)?.answeredAt
    const opensAt = BlockedTimes.opensAt(policy, cooldowns, target.ref)
    return statusOf(target, { cooldowns, opensAt, answeredAt, refused, circuits, limits }, time)
  })

const statusOf = (
  { ref: target, info }: Options["targets"][number],
  { cooldowns, opensAt, answeredAt, refused, circuits, limits }: Seen,
  time: Time
): TargetStatus => {
  const { at } = time
  const cooling = Cool.outOf(cooldowns, target, at)
  const circuit: Out | undefined = refused && { until: at + refused.wait, failure: refused.failure }
  const isOpen = circuit !== undefined && circuit.until > (cooling?.until ?? at)
  const out = isOpen ? circuit : cooling
  const waits = limits.map(({ wait }) => at + (wait === undefined ? 0 : Duration.toMillis(wait)))
  return {
    target,
    info,
    state: isOpen ? "open" : Cool.stateOf(cooldowns, target, at)._tag,
    availableIn: leftOf(out?.until ?? Infinity, at),
    nextTryIn: leftOf(Math.max(at, opensAt, circuit?.until ?? at, ...waits), at),
    reason: out?.failure.reason._tag,
    message: out && whatHappened(out.failure),
    advice: out && whatToDo(out.failure),
    lastSuccessAt: toUnix(answeredAt, time),
    cooldowns: Cool.openOf(cooldowns, target, at).map(({ scope, until, failure }) => ({
      scope,
      availableIn: leftOf(until, at),
      reason: failure.reason._tag,
      message: whatHappened(failure)
    })),
    circuits: circuits.flatMap(({ circuit, phase, retryAfter, lastFailure }) =>
      phase === "closed" ? [] : [{ circuit, phase, availableIn: retryAfter, lastFailure }]
    ),
    limits
  }
}

const unbuilt = ({ target, failure }: TargetOut): TargetStatus => ({
  target,
  info: {},
  state: "dead",
  availableIn: undefined,
  nextTryIn: undefined,
  reason: failure.reason._tag,
  message: whatHappened(failure),
  advice: whatToDo(failure),
  lastSuccessAt: undefined,
  cooldowns: [],
  circuits: [],
  limits: []
})

/** Time until the end; `undefined` for an infinite one. */
const leftOf = (until: number, at: number): Duration.Duration | undefined =>
  until === Infinity ? undefined : Duration.millis(until - at)

// -----------------------------------------------------------------------------
// Reset
// -----------------------------------------------------------------------------

const reset = ({ targets, dead, memory, admission, limiter }: Options, which: Which): Effect.Effect<Lifted> =>
  Effect.gen(function* () {
    const { at } = yield* now
    const refs = targets.map(({ ref }) => ref)
    const entries = HashMap.toValues(MutableRef.get(memory.cooldowns))
    // With names from cooldowns: a store may hold cooldowns of a chain with other targets.
    const named = [...refs, ...dead.map(({ target }) => target), ...entries.map(({ target }) => target)]
    Check.fields("Targets.reset", which, checksOf(named))
    const lifted = entries.filter((entry) => covers(which, entry, refs))
    memory.change((cooldowns) => Cool.reset(cooldowns, (entry) => lifted.includes(entry)), at)
    const meant = refs.filter((ref) => selects(which, ref))
    // A circuit belongs to an endpoint and its models. Selecting a key selects no circuit.
    const closed = which.key === undefined ? yield* admission?.close(meant) ?? Effect.undefined : undefined
    const forgotten = limiter === undefined ? [] : yield* Effect.forEach(meant, limiter.forget)
    // Last: it wakes the calls that wait, which go on with all of the above.
    const isBack = (ref: TargetRef): boolean =>
      meant.includes(ref) || lifted.some(({ scope, target }) => Cool.covers(scope, target, ref))
    memory.reset(refs.filter(isBack), at)
    return {
      cooldowns: lifted.filter(({ until }) => until > at).length,
      circuits: closed?.closed ?? [],
      limits: forgotten.filter((wasKnown) => wasKnown).length,
      isolated: closed?.isolated ?? []
    }
  })

/** True when the target matches all fields. */
const selects = (which: Which, { id, provider, key }: TargetRef): boolean =>
  id === (which.target ?? id) && provider === (which.provider ?? provider) && key === (which.key ?? key)

/** True when the cooldown matches all fields. A target has all cooldowns that cover it, a key only those of its scope. */
const covers = (which: Which, { scope, target }: Entry, refs: ReadonlyArray<TargetRef>): boolean =>
  (which.provider === undefined || target.provider === which.provider) &&
  (which.key === undefined || (target.key === which.key && (scope === "key" || scope === "key+model"))) &&
  (which.target === undefined ||
    refs.some((ref) => ref.id === which.target && Cool.covers(scope, target, ref)))

const checksOf = (named: ReadonlyArray<TargetRef>): Check.Checks<Which> => {
  const one = (name: (target: TargetRef) => string) => Check.is.oneOf(...new Set(named.map(name)))
  return {
    target: one(({ id }) => id),
    key: one(({ key }) => key),
    provider: one(({ provider }) => provider)
  }
}
