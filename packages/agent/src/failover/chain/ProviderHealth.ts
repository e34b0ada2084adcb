/**
 * How each provider is doing, derived from its last failures and successes and from what is out. Pure.
 *
 * **States.** `healthy`; `degraded` after any failure since the last success, or while all of its targets cool; `down`
 * after three failures in a row, or when all of its keys are dead: not set, or out until they are reset. So one failure
 * of an only key degrades a provider, although nothing can be sent to it for a while. It is for people and dashboards:
 * what a call is sent to depends on cooldowns and circuits.
 *
 * **What it does not count** is what says nothing about the provider: a call that was cancelled, a request that is
 * malformed or larger than the window, content that was refused.
 *
 * Times are milliseconds, of whatever clock the caller goes by: the same one everywhere.
 */
import { MutableRef } from "effect"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import { definitionOf } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { whatHappened } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Cooldowns } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface ProviderHealth {
  readonly provider: string
  readonly status: "healthy" | "degraded" | "down"
  /** Failures since the last success. */
  readonly errorCount: number
  /** What happened last and what the provider said, without secrets, in at most {@link maxError} characters. */
  readonly lastError: string | undefined
  readonly lastErrorReason: ReasonTag | undefined
  readonly lastSuccessAt: number | undefined
  /** While all of its targets are out: when the first is back. Infinity: not before a reset. */
  readonly cooldownUntil: number | undefined
}

/** What is remembered of a provider. */
type Record = Pick<ProviderHealth, "errorCount" | "lastError" | "lastErrorReason" | "lastSuccessAt">

/** By provider. Bounded: a chain has finitely many. */
export type ProviderRecords = ReadonlyMap<string, Record>

export const empty: ProviderRecords = new Map()

/** Failures in a row after which a provider is down. 3, as in codebuddy. */
export const downAfter = 3

/** Longest {@link ProviderHealth.lastError}, in characters. 200, as in codebuddy. */
export const maxError = 200

const unknown: Record = {
  errorCount: 0,
  lastError: undefined,
  lastErrorReason: undefined,
  lastSuccessAt: undefined
}

// -----------------------------------------------------------------------------
// What happened
// -----------------------------------------------------------------------------

/** An attempt at a target of `provider` failed. */
export const failed = (
  records: ProviderRecords,
  provider: string,
  failure: ProviderFailure
): ProviderRecords => {
  if (!isItsFault(failure)) return records
  const record = records.get(provider) ?? unknown
  const said = failure.detail === "" ? "" : `: ${failure.detail}`
  return new Map(records).set(provider, {
    ...record,
    errorCount: record.errorCount + 1,
    lastError: `${whatHappened(failure)}${said}`.slice(0, maxError),
    lastErrorReason: failure.reason._tag
  })
}

/** An attempt succeeded. What the last error was stays known. */
export const succeeded = (records: ProviderRecords, provider: string, now: number): ProviderRecords =>
  new Map(records).set(provider, {
    ...(records.get(provider) ?? unknown),
    errorCount: 0,
    lastSuccessAt: now
  })

/**
 * {@link succeeded} on a cell, at no cost for one success after another: then only the time is new, and that is
 * written once a second.
 */
export const succeed = (
  cell: MutableRef.MutableRef<ProviderRecords>,
  provider: string,
  now: number
): void => {
  const records = MutableRef.get(cell)
  const record = records.get(provider)
  if (record?.errorCount === 0 && now - (record.lastSuccessAt ?? -Infinity) < 1_000) return
  MutableRef.set(cell, succeeded(records, provider, now))
}

/** An operator has seen to it: failures count from 0 again. */
export const reset = (records: ProviderRecords, provider: string): ProviderRecords => {
  const record = records.get(provider)
  return record === undefined || record.errorCount === 0
    ? records
    : new Map(records).set(provider, { ...record, errorCount: 0 })
}

/** Whether a failure says something about its provider: not a cancel, nor a request that fails everywhere. */
export const isItsFault = ({ reason }: ProviderFailure): boolean => definitionOf(reason).isItsFault(reason)

// -----------------------------------------------------------------------------
// How it is
// -----------------------------------------------------------------------------

/**
 * The health of each provider of `targets`, in their order. `unbuilt` are targets that could never be chosen: a
 * provider that has no others is down.
 */
export const healthOf = (
  records: ProviderRecords,
  cooldowns: Cooldowns,
  targets: ReadonlyArray<TargetRef>,
  now: number,
  unbuilt: ReadonlyArray<TargetRef> = []
): ReadonlyArray<ProviderHealth> => {
  const providers = new Set([...targets, ...unbuilt].map(({ provider }) => provider))
  return Array.from(providers, (provider) => {
    const record = records.get(provider) ?? unknown
    const own = targets.filter((target) => target.provider === provider)
    const back = Math.min(
      Infinity,
      ...own.map((target) => Cool.outOf(cooldowns, target, now)?.until ?? -Infinity)
    )
    const isOut = back !== -Infinity
    const isDown = back === Infinity || record.errorCount >= downAfter
    const status = isDown ? "down" : isOut || record.errorCount > 0 ? "degraded" : "healthy"
    return { provider, status, ...record, cooldownUntil: isOut ? back : undefined }
  })
}
