/**
 * The health of each provider, derived from the logs of its targets and from their open cooldowns. Pure.
 *
 * **States.** `healthy`; `slow` when attempts were aborted since its last content because their first token was late;
 * `degraded` after any failure since the last success, or while all of its targets cool;
 * `down` after `pacing.downAfter` consecutive failures, or when all of its keys are dead: missing, or out until they are reset.
 * One failure of a provider's only key therefore degrades it, although it gets no calls for a while. Health is for
 * people and dashboards. Cooldowns and circuits decide which target a call is sent to.
 *
 * **Not counted** are failures that do not show a problem of the provider: a cancelled call, a malformed request, a
 * request larger than the window, refused content.
 *
 * Times are monotonic milliseconds.
 */
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import { definitionOf } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { whatHappened } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Cooldowns } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Fault, TargetLog } from "./TargetLog.ts"

export interface ProviderHealth {
  readonly provider: string
  readonly status: "healthy" | "slow" | "degraded" | "down"
  /** Failures since the last success. */
  readonly errorCount: number
  /** The last failure and the provider's message, without secrets, in at most {@link maxError} characters. */
  readonly lastError: string | undefined
  readonly lastErrorReason: ReasonTag | undefined
  readonly lastSuccessAt: number | undefined
  /** Time when the first target is back, while all of them are out. `Infinity`: not before a reset. */
  readonly cooldownUntil: number | undefined
}

/** Maximum length of {@link ProviderHealth.lastError}, in characters. 200, as in codebuddy. */
export const maxError = 200

/**
 * True when a failure counts against its provider. A cancel does not count, nor does a request that fails everywhere.
 */
export const isItsFault = ({ reason }: ProviderFailure): boolean => definitionOf(reason).isItsFault(reason)

/** Answers of a provider. */
const answersOf = (logs: Iterable<TargetLog>, provider: string): number => {
  let sum = 0
  for (const { answers, target } of logs) if (target.provider === provider) sum += answers
  return sum
}

/** The fault of a target after one more failure. `logs` are those of the chain. */
export const faultOf = (
  logs: Iterable<TargetLog>,
  { fault, target }: TargetLog,
  failure: ProviderFailure,
  at: number
): Fault => {
  const answers = answersOf(logs, target.provider)
  const count = fault?.answers === answers ? fault.count + 1 : 1
  return { failure, at, count, answers }
}

/**
 * Returns the health of each provider of `targets`, in their order. `unbuilt` are targets that could never be chosen.
 * A provider with no other targets is
 * down, and so is one that has failed `downAfter` times since its last answer.
 */
export const healthOf = (
  logs: ReadonlyArray<TargetLog>,
  cooldowns: Cooldowns,
  targets: ReadonlyArray<TargetRef>,
  now: number,
  downAfter: number,
  unbuilt: ReadonlyArray<TargetRef> = []
): ReadonlyArray<ProviderHealth> => {
  const providers = new Set([...targets, ...unbuilt].map(({ provider }) => provider))
  return Array.from(providers, (provider) => {
    const past = pastOf(logs, provider)
    const own = targets.filter((target) => target.provider === provider)
    const back = Math.min(
      Infinity,
      ...own.map((target) => Cool.outOf(cooldowns, target, now)?.until ?? -Infinity)
    )
    const isOut = back !== -Infinity
    const isDown = back === Infinity || past.errorCount >= downAfter
    const isLate = logs.some(({ late, target }) => target.provider === provider && late > 0)
    const status = statusOf({ isDown, isFailing: past.errorCount > 0, isLate, isOut })
    return { provider, status, ...past, cooldownUntil: isOut ? back : undefined }
  })
}

/** The worst that holds. A late answer says more than a cooldown of the past. */
const statusOf = (
  is: Readonly<Record<"isDown" | "isFailing" | "isLate" | "isOut", boolean>>
): ProviderHealth["status"] => {
  if (is.isDown) return "down"
  if (is.isFailing) return "degraded"
  if (is.isLate) return "slow"
  return is.isOut ? "degraded" : "healthy"
}

/** The part of a provider's health that the logs of its targets show. */
const pastOf = (all: ReadonlyArray<TargetLog>, provider: string) => {
  const answers = answersOf(all, provider)
  const logs = all.filter(({ target }) => target.provider === provider)
  const faults = logs.flatMap(({ fault }) => fault ?? []).toSorted((a, b) => a.at - b.at)
  const failure = faults.at(-1)?.failure
  const detail = failure === undefined || failure.detail === "" ? "" : `: ${failure.detail}`
  const answeredAt = logs.flatMap((log) => log.answeredAt ?? [])
  return {
    errorCount: faults.reduce((sum, fault) => sum + (fault.answers === answers ? fault.count : 0), 0),
    lastError: failure && `${whatHappened(failure)}${detail}`.slice(0, maxError),
    lastErrorReason: failure?.reason._tag,
    lastSuccessAt: answeredAt.length === 0 ? undefined : Math.max(...answeredAt)
  }
}
