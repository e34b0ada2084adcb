/**
 * Simulates a policy's decisions about a failure: `CallState.step` in a loop, in virtual time, with every attempt
 * failing at once in the same way. Pure; waits are exact, without jitter.
 *
 * Shows one call on a fresh chain. State from earlier calls would shorten it.
 */
import { Duration } from "effect"
import { CallState, Cooldown } from "@outlast/agent/failover"
import { RecoveryPolicy } from "@outlast/agent"
import type { CallFailure, ProviderFailure } from "@outlast/agent"
import type { TargetRef } from "@outlast/agent/conversation"
import { Circuits } from "./Circuits.ts"

/** A chain: a number of models with a number of keys each. */
export interface Shape {
  readonly keys: number
  /** Each model is at another provider, and has a larger window than the previous one. */
  readonly models: number
}

/** An event at a time of virtual time, in milliseconds from the start of the call. */
export type Step = { readonly at: number } & (
  | { readonly _tag: "Attempt"; readonly number: number; readonly target: string; readonly waited: number }
  | {
      readonly _tag: "Cooldown"
      readonly scope: RecoveryPolicy.Scope
      readonly target: string
      /** Length in milliseconds. Null until reset. */
      readonly length: number | null
    }
  /** A circuit is open for this many more milliseconds: the attempt is not sent. */
  | {
      readonly _tag: "Refused"
      readonly target: string
      readonly circuit: string
      readonly length: number
    }
  | { readonly _tag: "Wait"; readonly length: number }
  | { readonly _tag: "GiveUp"; readonly failure: CallFailure.CallFailure["_tag"]; readonly why: string }
)

export const run = <Class extends string>(
  policy: RecoveryPolicy.RecoveryPolicy<Class>,
  failure: ProviderFailure.ProviderFailure,
  provider: string,
  shape: Shape
): ReadonlyArray<Step> => {
  const exact = RecoveryPolicy.withoutJitter(policy)
  const targets = targetsOf(provider, shape)
  const steps: Array<Step> = []
  const circuits = new Circuits(exact)
  const streaks = new Map<string, CallState.Streak>()
  let cooldowns = Cooldown.empty
  let now = 0
  let event: CallState.Event = CallState.started
  let state = CallState.initial
  for (;;) {
    const step: readonly [CallState.Action, CallState.CallState] = CallState.step(
      exact,
      state,
      event,
      { ...CallState.unbounded, now, targets, dead: [], cooldowns, streaks },
      0
    )
    const [action, next] = step
    state = next
    if (action.cooldown !== undefined) {
      const { scope, target, until } = action.cooldown
      cooldowns = Cooldown.open(cooldowns, action.cooldown, now)
      const length = until === Infinity ? null : until - now
      steps.push({ _tag: "Cooldown", at: now, scope, target: target.id, length })
    }
    if (action._tag === "GiveUp") {
      const why = whyOf(exact, action.failure, state, now)
      steps.push({ _tag: "GiveUp", at: now, failure: action.failure._tag, why })
      return steps
    }
    if (action._tag === "Wait") {
      steps.push({ _tag: "Wait", at: now, length: action.until - now })
      now = action.until
      event = { _tag: "Woke" }
      continue
    }
    // In a rehearsal nothing is cut, no key is renewed, and nothing can be compacted.
    if (!("probe" in action)) return steps
    const { target, delay } = action
    const refused = circuits.refusal(target, now)
    if (refused !== undefined) {
      steps.push({ _tag: "Refused", at: now, target: target.id, ...refused })
      event = {
        _tag: "PermitRefused",
        until: now + refused.length,
        failure: failure.at(target, {}),
        waited: false,
        byCircuit: true
      }
      continue
    }
    now += delay
    circuits.failed(target, RecoveryPolicy.rowOf(exact, failure).circuit, now)
    const streak = streaks.get(target.id)
    streaks.set(target.id, { failures: (streak?.failures ?? 0) + 1, delay: streak && delay })
    steps.push({
      _tag: "Attempt",
      at: now,
      number: CallState.attemptsOf(state),
      target: target.id,
      waited: delay
    })
    event = {
      _tag: "Failed",
      failure: failure.at(target, {}),
      commit: "nothing",
      elapsed: 0,
      cost: 0,
      tokens: 0
    }
  }
}

const whyOf = <Class extends string>(
  policy: RecoveryPolicy.RecoveryPolicy<Class>,
  failure: CallFailure.CallFailure,
  { made: { attempts, sweeps } }: CallState.CallState,
  now: number
): string => {
  if (failure._tag === "AllTargetsOut") return "no target is left"
  const { then, to } = RecoveryPolicy.rowOf(policy, failure)
  if (then === "stop") return "it would fail everywhere"
  if (attempts - sweeps >= policy.maxAttempts) {
    const uncounted = sweeps === 0 ? "" : ` (first attempts after a refusal do not count: ${sweeps})`
    return `the ${policy.maxAttempts} attempts of a call are used up${uncounted}`
  }
  if (then === "grow") {
    return to === "next" ? "no target has a larger window" : "it is not taken to another target"
  }
  if (now >= Duration.toMillis(policy.deadline)) {
    return `the ${Duration.format(policy.deadline)} of a call are used up`
  }
  return to === "other-dialect" ? "no target of another wire format is left" : "no target is left"
}

/** Window of the first model, in tokens. */
const window = 200_000

const targetsOf = (provider: string, { keys, models }: Shape): ReadonlyArray<CallState.TargetView> =>
  Array.from({ length: models }, (_, m) =>
    Array.from({ length: keys }, (_, k) => ({
      ref: targetOf(m === 0 ? provider : `provider-${m + 1}`, `model-${m + 1}`, `KEY_${k + 1}`),
      info: { contextWindow: window * (m + 1) },
      renewable: false
    }))
  ).flat()

const targetOf = (provider: string, model: string, key: string): TargetRef.TargetRef => ({
  id: `${provider}/${model}#${key}`,
  provider,
  model,
  endpoint: `https://${provider}.example`,
  key
})

/** Returns the time until the call gave up, in milliseconds. */
export const tookOf = (steps: ReadonlyArray<Step>): number => steps.at(-1)?.at ?? 0

export const attemptsOf = (steps: ReadonlyArray<Step>): number =>
  steps.filter(({ _tag }) => _tag === "Attempt").length

/** Formats a step as a line of text. */
export const lineOf = (step: Step): string => {
  switch (step._tag) {
    case "Attempt":
      return `attempt ${step.number} at ${step.target}${step.waited === 0 ? "" : `, after a wait of ${time(step.waited)}`}: fails`
    case "Cooldown": {
      const length = step.length === null ? "until it is reset" : `for ${time(step.length)}`
      return `cooldown of the ${scopes[step.scope]} ${length} (${step.target})`
    }
    case "Refused":
      return `the circuit ${step.circuit} is open for ${time(step.length)}: nothing is sent to ${step.target}`
    case "Wait":
      return `all targets are out: waits ${time(step.length)} for the soonest`
    case "GiveUp":
      return `gives up: ${step.why}`
  }
}

const scopes: { readonly [S in RecoveryPolicy.Scope]: string } = {
  key: "key",
  "key+model": "key for this model",
  model: "model",
  endpoint: "endpoint"
}

export const time = (ms: number): string => (ms < 1 ? "0s" : Duration.format(Duration.millis(Math.round(ms))))
