/**
 * The health of each provider, derived from its last failures and successes and from its open cooldowns. Pure.
 *
 * **States.** `healthy`; `degraded` after any failure since the last success, or while all of its targets cool;
 * `down` after three consecutive failures, or when all of its keys are dead: missing, or out until they are reset.
 * One failure of a provider's only key therefore degrades it, although it gets no calls for a while. Health is for
 * people and dashboards. Cooldowns and circuits decide which target a call is sent to.
 *
 * **Not counted** are failures that do not show a problem of the provider: a cancelled call, a malformed request, a
 * request larger than the window, refused content.
 *
 * Times are milliseconds of the caller's clock, which must be the same one everywhere.
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
  /** The last failure and the provider's message, without secrets, in at most {@link maxError} characters. */
  readonly lastError: string | undefined
  readonly lastErrorReason: ReasonTag | undefined
  readonly lastSuccessAt: number | undefined
  /** Time when the first target is back, while all of them are out. `Infinity`: not before a reset. */
  readonly cooldownUntil: number | undefined
}

/** The remembered part of a provider's health. */
type Record = Pick<ProviderHealth, "errorCount" | "lastError" | "lastErrorReason" | "lastSuccessAt">

/** Records by provider. Bounded, because a chain has finitely many providers. */
export type ProviderRecords = ReadonlyMap<string, Record>

export const empty: ProviderRecords = new Map()

/** Consecutive failures after which a provider is down. 3, as in codebuddy. */
export const downAfter = 3

/** Maximum length of {@link ProviderHealth.lastError}, in characters. 200, as in codebuddy. */
export const maxError = 200

const unknown: Record = {
  errorCount: 0,
  lastError: undefined,
  lastErrorReason: undefined,
  lastSuccessAt: undefined
}

// -----------------------------------------------------------------------------
// Recording
// -----------------------------------------------------------------------------

/** Records a failed attempt at a target of `provider`. */
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

/** Records a success. The last error is kept. */
export const succeeded = (records: ProviderRecords, provider: string, now: number): ProviderRecords =>
  new Map(records).set(provider, {
    ...(records.get(provider) ?? unknown),
    errorCount: 0,
    lastSuccessAt: now
  })

/**
 * Applies {@link succeeded} to a cell. Consecutive successes change only the time, which is written at most once a
 * second.
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

/** Sets the failure count to 0 after an operator's reset. */
export const reset = (records: ProviderRecords, provider: string): ProviderRecords => {
  const record = records.get(provider)
  return record === undefined || record.errorCount === 0
    ? records
    : new Map(records).set(provider, { ...record, errorCount: 0 })
}

/**
 * True when a failure counts against its provider. A cancel does not count, nor does a request that fails everywhere.
 */
export const isItsFault = ({ reason }: ProviderFailure): boolean => definitionOf(reason).isItsFault(reason)

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/**
 * Returns the health of each provider of `targets`, in their order. `unbuilt` are targets that could never be chosen.
 * A provider with no other targets is down.
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
