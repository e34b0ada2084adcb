/**
 * What an operator sees of a chain and can do: which targets are ready, which are out, for how long and why; how the
 * providers are doing; and bring back what is out.
 *
 * It is read from the same state that calls go by, at the moment of asking. A reset reaches the other processes that
 * share the chain's store, too.
 *
 * **What it does not do.** It takes no target out: failures do. A target that could not be built stays dead until the
 * layer is built again.
 *
 * **Example** (After the key was topped up)
 *
 * ```ts
 * const targets = yield* Targets.Targets
 * const lifted = yield* targets.reset({ key: "ANTHROPIC_API_KEY" })
 * ```
 */
import { Clock, Context, Duration, Effect, MutableRef } from "effect"
import type { TargetOut } from "../failure/CallFailure.ts"
import type { ReasonTag } from "../failure/FailoverReason.ts"
import { whatHappened } from "../failure/ProviderFailure.ts"
import type { TargetRef } from "../failure/TargetRef.ts"
import type { ChainSync } from "./ChainSync.ts"
import type { Cooldowns, Entry } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { ModelInfo } from "./ModelInfo.ts"
import type { ProviderHealth, ProviderRecords } from "./ProviderHealth.ts"
import * as Health from "./ProviderHealth.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface TargetStatus {
  readonly target: TargetRef
  /** What is known of its model; nothing of one that could not be built. */
  readonly info: ModelInfo
  readonly state: "ready" | "cooling" | "dead"
  /** How long it is still out. Absent when it is ready, and when only a person can bring it back. */
  readonly availableIn: Duration.Duration | undefined
  readonly reason: ReasonTag | undefined
  /** What happened, in words, without secrets. */
  readonly message: string | undefined
}

/** What to reset; of several fields all must hold, and none is everything. */
export interface Which {
  /** The id of a target: whatever keeps it out. */
  readonly target?: string | undefined
  /** The name of a key: what holds for the key, with one model or with all. */
  readonly key?: string | undefined
  readonly provider?: string | undefined
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

export interface Service {
  /** A call makes a conversation shorter by itself that did not fit: `compact` of the layer. */
  readonly compacts: boolean
  /** In the order of the chain; those that could not be built come last. */
  readonly list: Effect.Effect<ReadonlyArray<TargetStatus>>
  /** Times in it are Unix milliseconds. */
  readonly providers: Effect.Effect<ReadonlyArray<ProviderHealth>>
  /**
   * Ends cooldowns and forgets their streaks, the failures in a row of the targets that it names, and those of their
   * providers. Gives how many were open.
   */
  readonly reset: (which?: Which) => Effect.Effect<number>
}

export class Targets extends Context.Service<Targets, Service>()("@outlast/agent/failover/Targets") {}

export interface Options {
  readonly targets: ReadonlyArray<{ readonly ref: TargetRef; readonly info: ModelInfo }>
  /** Targets that could not be built. */
  readonly dead: ReadonlyArray<TargetOut>
  readonly cooldowns: MutableRef.MutableRef<Cooldowns>
  /** Kept in monotonic milliseconds. */
  readonly health: MutableRef.MutableRef<ProviderRecords>
  /** Failures in a row by target id. */
  readonly streaks: Pick<Map<string, unknown>, "delete">
  readonly sync: ChainSync
  readonly compacts: boolean
}

export const make = ({ targets, dead, cooldowns, health, streaks, sync, compacts }: Options): Service => {
  const refs = targets.map(({ ref }) => ref)
  const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

  const statusOf = ({ ref: target, info }: Options["targets"][number], at: number): TargetStatus => {
    const known = MutableRef.get(cooldowns)
    const { _tag: state } = Cool.stateOf(known, target, at)
    const out = Cool.outOf(known, target, at)
    return {
      target,
      info,
      state,
      availableIn: out === undefined || state === "dead" ? undefined : Duration.millis(out.until - at),
      reason: out?.failure.reason._tag,
      message: out === undefined ? undefined : whatHappened(out.failure)
    }
  }

  const unbuilt = dead.map(({ target, failure }): TargetStatus => ({
    target,
    info: {},
    state: "dead",
    availableIn: undefined,
    reason: failure.reason._tag,
    message: whatHappened(failure)
  }))

  const matches = (which: Which, { scope, target }: Pick<Entry, "scope" | "target">): boolean =>
    (which.provider === undefined || target.provider === which.provider) &&
    (which.key === undefined || (target.key === which.key && (scope === "key" || scope === "key+model"))) &&
    (which.target === undefined ||
      refs.some((ref) => ref.id === which.target && Cool.covers(scope, target, ref)))

  return {
    compacts,
    list: Effect.map(now, (at) => [...targets.map((target) => statusOf(target, at)), ...unbuilt]),
    providers: Effect.gen(function* () {
      const at = yield* now
      const shift = (yield* Clock.currentTimeMillis) - at
      const toUnix = (time: number | undefined) => (time === undefined ? undefined : time + shift)
      const derived = Health.healthOf(
        MutableRef.get(health),
        MutableRef.get(cooldowns),
        refs,
        at,
        dead.map(({ target }) => target)
      )
      return derived.map((provider) => ({
        ...provider,
        lastSuccessAt: toUnix(provider.lastSuccessAt),
        cooldownUntil: toUnix(provider.cooldownUntil)
      }))
    }),
    reset: (which = {}) =>
      Effect.map(now, (at) => {
        const before = MutableRef.get(cooldowns)
        const lifted = [...before.values()].filter((entry) => matches(which, entry))
        const after = Cool.reset(before, (entry) => lifted.includes(entry))
        MutableRef.set(cooldowns, after)
        sync.changed(before, after, at)
        const meant = refs.filter(
          ({ id, provider, key }) =>
            id === (which.target ?? id) &&
            provider === (which.provider ?? provider) &&
            key === (which.key ?? key)
        )
        for (const { id } of meant) streaks.delete(id)
        MutableRef.update(health, (records) =>
          meant.reduce((all, { provider }) => Health.reset(all, provider), records)
        )
        return lifted.filter(({ until }) => until > at).length
      })
  }
}
