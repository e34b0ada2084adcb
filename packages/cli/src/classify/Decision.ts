/**
 * What the default policy does first about a failure, and what it may do.
 *
 * The decision is the action of `CallState.step` after the first attempt of a call fails, on a fresh chain: once
 * alone, and once beside a second key and another provider's model. Pure. It shows no later step of the call.
 */
import { Duration } from "effect"
import { CallState, Cooldown } from "@outlast/agent/failover"
import { RecoveryPolicy } from "@outlast/agent"
import type { ProviderFailure } from "@outlast/agent"
import type { TargetRef } from "@outlast/agent/conversation"
import type { Label } from "./Label.ts"

/**
 * The same target again, at once or later; another key of it; another target; a smaller request, by a compaction or by
 * a lower output limit; the end of the call.
 */
export const actions = ["repeat", "key", "target", "compact", "stop"] as const

export type Action = (typeof actions)[number]

export const isAction = (value: unknown): value is Action => actions.some((action) => action === value)

/** What a label allows where a case names no `right` actions of its own. */
const rightFor: { readonly [L in Label]: ReadonlyArray<Action> } = {
  auth: ["key", "target"],
  billing: ["key", "target"],
  rate_limit: ["repeat", "key", "target"],
  overloaded: ["repeat", "target"],
  server_error: ["repeat", "target"],
  timeout: ["repeat", "target"],
  network: ["repeat", "target"],
  permanent_network: ["target"],
  context_overflow: ["compact", "target"],
  model_not_found: ["target"],
  format: ["target", "stop"],
  content_policy: ["target", "stop"],
  // The caller's own cancelling interrupts the call: where an error says so, somebody else may have cancelled.
  cancelled: ["target", "stop"],
  unknown: ["repeat", "target"]
}

/** What a case allows that names no actions: nobody sleeps through a wait above what the policy waits. */
export const rightOf = (label: Label, wait: number | undefined): ReadonlyArray<Action> =>
  wait !== undefined && wait > Duration.toMillis(policy.maxWait)
    ? [...rightFor[label].filter((action) => action !== "repeat"), "stop"]
    : rightFor[label]

/** The decision in a chain with a second key and another target, and with one target alone. */
export interface Decision {
  readonly beside: Action
  readonly alone: Action
}

export const of = (failure: ProviderFailure.ProviderFailure): Decision => ({
  beside: decide(failure, [here, otherKey, otherTarget]),
  alone: decide(failure, [here])
})

/** Alone, a call that could only go elsewhere has to stop. */
export const isRight = (right: ReadonlyArray<Action>, { beside, alone }: Decision) => {
  const staying: ReadonlyArray<Action> = right.filter((action) => action !== "key" && action !== "target")
  return {
    beside: right.includes(beside),
    alone: staying.length === 0 ? alone === "stop" : staying.includes(alone)
  }
}

const targetOf = (provider: string, key: string): TargetRef.TargetRef => ({
  id: `${provider}#${key}`,
  provider,
  model: `model of ${provider}`,
  endpoint: `https://${provider}.example`,
  key
})

const here = targetOf("first", "KEY_1")
const otherKey = targetOf("first", "KEY_2")
const otherTarget = targetOf("second", "KEY_1")

const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)

const decide = (
  failure: ProviderFailure.ProviderFailure,
  targets: ReadonlyArray<TargetRef.TargetRef>
): Action => {
  const snapshot: CallState.Snapshot = {
    ...CallState.unbounded,
    canCompact: true,
    now: 0,
    targets: targets.map((ref) => ({ ref, info: { contextWindow: 200_000 }, renewable: false })),
    dead: [],
    cooldowns: Cooldown.empty
  }
  const [, attempting] = CallState.step(policy, CallState.initial, CallState.started, snapshot, 0)
  const failed: CallState.Event = {
    _tag: "Failed",
    failure: failure.at(here, {}),
    commit: "nothing",
    elapsed: 0,
    cost: 0,
    tokens: 0
  }
  const [action] = CallState.step(policy, attempting, failed, snapshot, 0)
  if (action._tag === "Compact" || action._tag === "LowerOutputLimit") return "compact"
  if (action._tag === "Wait") return "repeat"
  if (!("probe" in action)) return "stop"
  const { provider, key } = action.target
  if (provider !== here.provider) return "target"
  return key === here.key ? "repeat" : "key"
}
