/**
 * Processes that share a `ChainStore`: each has its own cooldowns and a `ChainSync`. Time is virtual, but the store's
 * I/O may be real: time passes only while the store is idle.
 */
import type { ChainStore, ChainStoreError, Connection } from "#agent/failover/chain/ChainStore"
import type { ChainStoreEvent } from "#agent/failover/chain/ChainStoreEvent"
import * as ChainSync from "#agent/failover/chain/ChainSync"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import type { TargetRef } from "#agent/conversation/TargetRef"
import type { Scope as CooldownScope } from "#agent/failover/decide/RecoveryPolicy"
import { ResilienceEvents } from "@outlast/resilience"
import { Clock, Effect, Exit, Layer, MutableRef, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import { failureOf, targetOf } from "./chainSupport.ts"

/** Lets real I/O continue for one turn of the event loop. */
const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Waits for a result of real I/O. The test's own time limit ends the wait. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (condition() ? Effect.void : Effect.andThen(turn, until(condition))))

/** A store that counts its pending operations. */
export interface Watched extends ChainStore {
  readonly busy: () => number
}

export const watched = (store: ChainStore): Watched => {
  let busy = 0
  const watch = <A, R>(effect: Effect.Effect<A, ChainStoreError, R>) =>
    Effect.acquireUseRelease(
      Effect.sync(() => busy++),
      () => effect,
      () => Effect.sync(() => busy--)
    )
  return {
    busy: () => busy,
    open: Effect.map(watch(store.open), ({ load, swap, changes }): Connection => ({
      load: watch(load),
      swap: (...of) => watch(swap(...of)),
      changes
    }))
  }
}

/** Waits until the stores have no pending operation. */
export const quiet = (...stores: ReadonlyArray<Watched>): Effect.Effect<void> =>
  Effect.gen(function* () {
    for (let idle = 0; idle < 5; idle++) {
      if (stores.some((store) => store.busy() > 0)) idle = 0
      yield* turn
    }
  })

/** Lets virtual time pass, and waits for the stores after each step. */
export const pass = (
  store: Watched,
  millis: number,
  ...others: ReadonlyArray<Watched>
): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* quiet(store, ...others)
    for (let left = millis; left > 0; left -= 100) {
      yield* TestClock.adjust(Math.min(left, 100))
      yield* quiet(store, ...others)
    }
  })

export const a = targetOf("opus", "KEY_A")
export const b = targetOf("opus", "KEY_B")

export interface Process {
  readonly cooldowns: MutableRef.MutableRef<Cooldown.Cooldowns>
  readonly sync: ChainSync.ChainSync
  readonly events: ReadonlyArray<ChainStoreEvent>
  readonly tags: () => string
  readonly now: () => number
  /** Fails an attempt and takes its target out for `length` milliseconds. */
  readonly fail: (target: TargetRef, length: number, scope?: CooldownScope) => void
  /** Lets an attempt succeed that began `took` milliseconds ago. */
  readonly succeed: (target: TargetRef, took: number) => void
  readonly resetAll: () => void
  /** Milliseconds that a target is still out. */
  readonly left: (target: TargetRef) => number | undefined
  readonly stop: Effect.Effect<void>
}

export interface ProcessOptions extends Partial<Omit<ChainSync.Options, "store">> {
  /** Values of the keys by name. */
  readonly keys?: Readonly<Record<string, string>>
  /** Error of its wall clock in milliseconds. */
  readonly wall?: { off: number }
}

/** Starts a process that has read the store. The process stops with the scope, or by `stop`. */
export const start = (
  store: ChainStore,
  {
    keys = {},
    wall = { off: 0 },
    cooldowns = MutableRef.make(Cooldown.empty),
    ...options
  }: ProcessOptions = {}
): Effect.Effect<Process, never, Scope.Scope> =>
  Effect.gen(function* () {
    const real = yield* Clock.Clock
    const clock: Clock.Clock = {
      ...real,
      currentTimeMillisUnsafe: () => real.currentTimeMillisUnsafe() + wall.off
    }
    const events: Array<ChainStoreEvent> = []
    const scope = yield* Scope.fork(yield* Effect.scope)
    const handler = ResilienceEvents.layerHandler((event) =>
      // Only this process publishes events here.
      Effect.sync(() => events.push(event as ChainStoreEvent))
    )
    const targets = [a, b].map((ref) => ({
      ref,
      key: Redacted.make(keys[ref.key] ?? `secret-of-${ref.key}`)
    }))
    const telemetry = yield* Scope.provide(Layer.build(handler), scope)
    const sync = yield* ChainSync.make({ store, cooldowns, targets, ...options }).pipe(
      Effect.provide(telemetry),
      Effect.provideService(Clock.Clock, clock),
      Scope.provide(scope)
    )
    const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
    const change = (f: (cooldowns: Cooldown.Cooldowns) => Cooldown.Cooldowns, startedAt?: number) => {
      const before = MutableRef.get(cooldowns)
      MutableRef.set(cooldowns, f(before))
      sync.changed(before, MutableRef.get(cooldowns), startedAt)
    }
    return {
      cooldowns,
      sync,
      events,
      tags: () => events.map(({ _tag }) => _tag).join(" "),
      now,
      fail: (target, length, scope = "key") => {
        const failure = failureOf(length === Infinity ? "Auth" : "RateLimit")
        change((all) => Cooldown.open(all, { scope, target, until: now() + length, failure }, now()))
      },
      succeed: (target, took) => change((all) => Cooldown.clear(all, target, now() - took), now() - took),
      resetAll: () => change((all) => Cooldown.reset(all, () => true), now()),
      left: (target) => {
        const out = Cooldown.outOf(MutableRef.get(cooldowns), target, now())
        return out === undefined ? undefined : Math.round(out.until - now())
      },
      stop: Scope.close(scope, Exit.void)
    }
  })
