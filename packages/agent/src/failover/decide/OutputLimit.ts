/**
 * The maximum length of one answer, as set by the user.
 *
 * A number is the limit in tokens that a call begins with. If it cuts the answer, `RecoveryPolicy.truncation` may
 * raise the limit and continue. `{ start, max }` also sets the highest limit; with equal values it is never raised.
 * A limit counts thinking and answer together, as the vendors do. `undefined` (the default) leaves the limit to the
 * policy and the provider. The limit never exceeds the model's own, where that is known.
 *
 * **Gotcha** A stream reads this service when it runs, not when it is created. Provide it around the running.
 *
 * **Example** (A short answer, and no longer one)
 *
 * ```ts
 * const limit = { start: 500, max: 500 }
 * LanguageModel.generateText({ prompt }).pipe(Effect.provideService(OutputLimit.OutputLimit, limit))
 * ```
 */
import { Context } from "effect"
import { Options } from "@outlast/resilience"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import * as Kind from "../../options/Kind.ts"
import { CallNotes } from "./CallNotes.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { OutputRoom } from "./PolicyModel.ts"

/** Output limits of a call, in tokens. */
export interface Range {
  /** The limit that a call begins with; `undefined` uses the policy's limit, or `max`. */
  readonly start: number | undefined
  /** The highest limit that it may be raised to. */
  readonly max: number
}

export const OutputLimit: Context.Reference<number | Range | undefined> = Context.Reference<
  number | Range | undefined
>("@outlast/agent/failover/decide/OutputLimit", { defaultValue: () => undefined })

/**
 * Remembers a raised limit for the calls of one agent run. The next call begins with it at the target that has
 * answered with it. Other targets get the limit of the program or the policy.
 */
export class Raised {
  #limit: number | undefined
  /** Id of the target that accepted the limit. */
  #target: string | undefined
  /** Notes of the current call. The run replaces them before each call. */
  notes = new CallNotes()

  constructor(known?: { readonly limit: number; readonly target: string }) {
    this.#limit = known?.limit
    this.#target = known?.target
  }

  /** The remembered limit; `undefined` without a raise. */
  get known(): { readonly limit: number; readonly target: string } | undefined {
    return this.#limit === undefined || this.#target === undefined
      ? undefined
      : { limit: this.#limit, target: this.#target }
  }

  /** Takes over the raise that an earlier process has learned. */
  restore(known: Raised["known"]): void {
    if (known === undefined || this.known !== undefined) return
    this.#limit = known.limit
    this.#target = known.target
  }

  /** Returns the limits that a call begins with. `said` are the limits without a remembered raise. */
  range(said: Range): Range {
    return said.start === undefined || this.#limit === undefined || this.#limit <= said.start
      ? said
      : { ...said, start: Math.min(this.#limit, said.max) }
  }

  /** Returns the limit for an attempt at `target`, in a call whose limit is `limit`. */
  at(target: string, limit: number | undefined, said: Range): number | undefined {
    return limit === this.range(said).start && target !== this.#target ? said.start : limit
  }

  /**
   * Records that `target` answered an attempt with this limit. The limit may be higher than before, or lower at the
   * same target.
   */
  answered(target: string, limit: number | undefined, said: Range): void {
    if (limit === undefined || said.start === undefined) return
    if (limit <= said.start && target !== this.#target) return
    this.#limit = limit
    this.#target = target
  }
}

/** The remembered raise of one agent run. `Agent` provides it. */
export const RunLimit: Context.Reference<Raised | undefined> = Context.Reference<Raised | undefined>(
  "@outlast/agent/failover/decide/OutputLimit/RunLimit",
  { defaultValue: () => undefined }
)

/**
 * Turns the user's option into a range. `start` applies when the user sets none. Throws an `InvalidOption` (a
 * `RangeError`), a defect of the call, for a limit that is not a whole number of at least 1.
 */
export const range = (limit: number | Range | undefined, start: number | undefined): Range => {
  if (limit === undefined) return start === undefined ? unlimited : { start, max: Infinity }
  if (typeof limit === "number") {
    return { start: Options.integer("OutputLimit", "start", limit, { min: 1 }), max: Infinity }
  }
  Kind.object("a number of tokens, or { start, max }", checks)("OutputLimit", "limit", limit)
  const { max } = limit
  const begun = limit.start ?? start
  if (begun === undefined) return max === Infinity ? unlimited : { start: max, max }
  // No answer may be longer than `max`, the first one included.
  return { start: Math.min(begun, max), max }
}

const checks: Options.Checks<Range> = {
  start: Kind.count,
  max: Options.is.required((module, field, value) => {
    if (value !== Infinity) Kind.count(module, field, value)
  })
}

const unlimited: Range = { start: undefined, max: Infinity }

/** Lowers the limit to the model's own, where that is known. */
export const within = (limit: number | undefined, { maxOutputTokens }: ModelInfo): number | undefined =>
  limit === undefined || maxOutputTokens === undefined ? limit : Math.min(limit, maxOutputTokens)

/**
 * Returns the output limit with which the provider accepts the same request. This is the model limit that the
 * provider named, or the room that the window leaves beside the input. When the provider only names the sum of both,
 * it is half of the limit.
 */
export const lowered = ({ margin, least }: OutputRoom, { reason }: ProviderFailure): number | undefined => {
  if (reason._tag === "Format") return reason.outputLimit
  if (reason._tag !== "ContextOverflow") return undefined
  const { limit, requested, output } = reason
  if (limit === undefined || output === undefined) return undefined
  const room = requested === undefined ? Math.floor(output / 2) : limit - (requested - output) - margin
  return room >= least && room < output ? room : undefined
}

/**
 * True for the failures with which providers refuse a request whose output limit is too high for the model or the
 * account.
 */
export const mayRefuse = ({ reason }: ProviderFailure): boolean => {
  switch (reason._tag) {
    case "Format":
      return reason.side === "request"
    case "RateLimit":
      return !reason.liftable
    case "ContextOverflow":
    case "Billing":
      return true
    default:
      return false
  }
}

/** Maximum output tokens after `input` tokens, by the model's limit, its window and `dollars` (US dollars). */
export const room = (
  { maxOutputTokens = Infinity, contextWindow = Infinity, price }: ModelInfo,
  input: number | undefined,
  dollars: number
): number => {
  const window = input === undefined ? Infinity : Math.max(0, contextWindow - input)
  if (dollars === Infinity || price === undefined || price.output === 0)
    return Math.min(maxOutputTokens, window)
  const left = Math.max(0, dollars * 1_000_000 - (input ?? 0) * price.input)
  return Math.min(maxOutputTokens, window, left / price.output)
}
