/**
 * Shows what calls do right now: why each one waits, which attempts it made, what is running but retrying, which
 * circuits and cooldowns are open, and how the last minutes went.
 *
 * {@link make} folds the events of the surrounding `ResilienceEvents`, from then on. The view is plain JSON without keys
 * and prompts, for a status page (`Host.section` of `@outlast/node`) or a console. `ActivityState` has its bounds.
 *
 * **Limits.** It starts empty after a restart. Dropped circuit events are missing (see `ResilienceEvents`), so ask the
 * breaker where the exact phase matters.
 *
 * **Example** (A section of the status page)
 *
 * ```ts
 * const activity = yield* Activity.make
 * yield* Host.section("activity", activity.json)
 * yield* Host.section("targets", Activity.chain)
 * ```
 */
import { Clock, Context, Duration, Effect } from "effect"
import type { Schema, Scope } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import type { View } from "./ActivityState.ts"
import { ActivityState } from "./ActivityState.ts"
import { needsPerson } from "./failure/reasons/CallFailure.ts"
import { Targets } from "./failover/chain/Targets.ts"

export { bounds } from "./ActivityState.ts"
export type {
  Alert,
  Call,
  Circuit,
  Cooldown,
  History,
  Minute,
  Notice,
  Slot,
  Step,
  View
} from "./ActivityState.ts"

export interface Service {
  readonly view: Effect.Effect<View>
  /** The view as JSON, without the fields that are undefined. For `Host.section`. */
  readonly json: Effect.Effect<Schema.Json>
}

/**
 * The name of the run that the surrounding fiber belongs to. The guard's and the compaction's notices have it. Default:
 * none.
 *
 * **Example** (Runs with a name)
 *
 * ```ts
 * const answer = Agent.run({ prompt }).pipe(Effect.provideService(Activity.CurrentRun, "ticket 4711"))
 * ```
 */
export const CurrentRun: Context.Reference<string | undefined> = Context.Reference<string | undefined>(
  "@outlast/agent/Activity/CurrentRun",
  { defaultValue: () => undefined }
)

/** Follows the events until the scope ends. */
export const make: Effect.Effect<Service, never, Scope.Scope> = Effect.gen(function* () {
  const state = new ActivityState()
  yield* ResilienceEvents.tap((event) =>
    Effect.withFiber((fiber) => Effect.sync(() => state.apply(event, fiber.getRef(CurrentRun))))
  )
  const view = Effect.map(Clock.currentTimeMillis, (now) => state.view(now))
  return { view, json: Effect.map(view, (view) => JSON.parse(JSON.stringify(view))) }
})

const untilOf = (left: Duration.Duration | undefined, now: number): number | null =>
  left === undefined ? null : now + Math.ceil(Duration.toMillis(left))

/** A target as JSON. Times are Unix milliseconds. */
export type ChainTarget = {
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly key: string
  readonly state: "ready" | "cooling" | "open" | "dead"
  readonly reason: string | null
  readonly message: string | null
  readonly advice: string | null
  /** Waiting cannot bring it back. */
  readonly needsPerson: boolean
  /** That of its provider. */
  readonly health: string | null
  /** When it is back, as far as that is known. */
  readonly until: number | null
  /** When a call may ask it: 0 now, `null` when nobody can tell. */
  readonly nextTry: number | null
  readonly lastSuccessAt: number | null
  readonly cooldowns: ReadonlyArray<{
    readonly scope: string
    readonly reason: string
    readonly until: number | null
  }>
  readonly circuits: ReadonlyArray<{
    readonly circuit: string
    readonly phase: string
    readonly until: number | null
  }>
}

/** The chain of the surrounding `Targets` as JSON, for `Host.section`. */
export const chain: Effect.Effect<ReadonlyArray<ChainTarget>, never, Targets> = Effect.gen(function* () {
  const targets = yield* Targets
  const list = yield* targets.list
  const health = new Map((yield* targets.providers).map(({ provider, status }) => [provider, status]))
  const now = yield* Clock.currentTimeMillis
  return list.map(
    ({
      advice,
      availableIn,
      circuits,
      cooldowns,
      lastSuccessAt,
      message,
      nextTryIn,
      reason,
      state,
      target
    }) => ({
      id: target.id,
      provider: target.provider,
      model: target.model,
      key: target.key,
      state,
      reason: reason ?? null,
      message: message ?? null,
      advice: advice ?? null,
      needsPerson:
        circuits.some(({ phase }) => phase === "isolated") ||
        (reason !== undefined && needsPerson.has(reason)),
      health: health.get(target.provider) ?? null,
      until: untilOf(availableIn, now),
      nextTry: nextTryIn !== undefined && Duration.isZero(nextTryIn) ? 0 : untilOf(nextTryIn, now),
      lastSuccessAt: lastSuccessAt ?? null,
      cooldowns: cooldowns.map((one) => ({
        scope: one.scope,
        reason: one.reason,
        until: untilOf(one.availableIn, now)
      })),
      circuits: circuits.map((one) => ({
        circuit: one.circuit,
        phase: one.phase,
        until: untilOf(one.availableIn, now)
      }))
    })
  )
})

/**
 * True when a call may be sent to a target now; otherwise the reason. For `Host.ready`, where a program asks for it: then
 * an outage of the providers makes every replica unready at once.
 *
 * **Example** (A probe that follows the providers)
 *
 * ```ts
 * yield* Host.ready("models", Activity.canAnswer)
 * ```
 */
export const canAnswer: Effect.Effect<true | string, never, Targets> = Effect.gen(function* () {
  const list = yield* (yield* Targets).list
  return list.some(({ state }) => state === "ready") || "no model can answer"
})
