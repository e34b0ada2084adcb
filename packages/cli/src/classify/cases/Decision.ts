/**
 * The first decision of the default policy about a failure, and the decisions that count as right.
 *
 * The decision is the action of `CallState.step` after the first attempt of a call fails, on a fresh chain. Computed
 * twice: for a single target, and with a second key and another provider's model. Later steps of the call are not
 * shown. Pure.
 */
import { Duration } from "effect"
import { CallState, Cooldown } from "@outlast/agent/failover"
import { RecoveryPolicy } from "@outlast/agent"
import type { ProviderFailure } from "@outlast/agent"
import type { TargetRef } from "@outlast/agent/conversation"
import type { Label } from "./Label.ts"
import { remediesOf } from "./Label.ts"

/**
 * The possible decisions: `repeat` (same target, at once or later), `key` (another key of it), `target` (another
 * target), `compact` (a smaller request, by compaction or a lower output limit), `stop` (end the call).
 */
export const actions = ["repeat", "key", "target", "compact", "stop"] as const

export type Action = (typeof actions)[number]

export const isAction = (value: unknown): value is Action => actions.some((action) => action === value)

/** Returns the right actions when a case lists none. A wait above the policy's `maxWait` must not be slept. */
export const rightOf = (label: Label, wait: number | undefined): ReadonlyArray<Action> =>
  wait !== undefined && wait > Duration.toMillis(policy.maxWait)
    ? [...remediesOf(label).filter((action) => action !== "repeat"), "stop"]
    : remediesOf(label)

/** The decision in a chain with a second key and another target, and with a single target. */
export interface Decision {
  readonly beside: Action
  readonly alone: Action
}

export const of = (failure: ProviderFailure.ProviderFailure): Decision => ({
  beside: decide(failure, [here, otherKey, otherTarget]),
  alone: decide(failure, [here])
})

/** A single target has to stop where only another target would be right. */
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
  let [action, state] = CallState.step(policy, attempting, failed, snapshot, 0)
  // The conversation is not known. Without a part to leave out, the call goes on to its next remedy.
  while (action._tag === "LeaveOut") {
    const nothing = { _tag: "LeftOut", part: action.part, dropped: 0 } as const
    ;[action, state] = CallState.step(policy, state, nothing, snapshot, 0)
  }
  if (action._tag === "Compact" || action._tag === "LowerOutputLimit") return "compact"
  if (action._tag === "Wait") return "repeat"
  if (!("probe" in action)) return "stop"
  const { provider, key } = action.target
  if (provider !== here.provider) return "target"
  return key === here.key ? "repeat" : "key"
}
