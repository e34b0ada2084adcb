/**
 * How long one answer may be, at the user's edge.
 *
 * A number is the limit that a call begins with, in tokens; if it cuts the answer, `RecoveryPolicy.truncation` may
 * raise it and continue. `{ start, max }` says how far: with both the same it is never raised. `undefined` (the
 * default) leaves it to the policy and the provider. It is lowered to what the model can do where that is known.
 *
 * **Gotcha** A stream reads it when it runs, not when it is made: provide it around the running.
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
import type { ModelInfo } from "../../conversation/ModelInfo.ts"

/** Tokens. */
export interface Range {
  /** What a call begins with; `undefined`: as the policy says, or `max`. */
  readonly start: number | undefined
  /** What it may be raised to. */
  readonly max: number
}

export const OutputLimit: Context.Reference<number | Range | undefined> = Context.Reference<
  number | Range | undefined
>("@outlast/agent/failover/decide/OutputLimit", { defaultValue: () => undefined })

/**
 * What the calls of one agent run know of a limit that was raised: the next call begins with it, at the target that has
 * answered with it. Others get the limit that the program or the policy says.
 */
export class Raised {
  #limit: number | undefined
  /** The id of the target. */
  #target: string | undefined

  /** What a call begins with; `said`: without this. */
  range(said: Range): Range {
    return said.start === undefined || this.#limit === undefined || this.#limit <= said.start
      ? said
      : { ...said, start: Math.min(this.#limit, said.max) }
  }

  /** The limit for an attempt at `target`, in a call that is at `limit`. */
  at(target: string, limit: number | undefined, said: Range): number | undefined {
    return limit === this.range(said).start && target !== this.#target ? said.start : limit
  }

  /** `target` has answered an attempt with this limit: a higher one, or a lower one than it took before. */
  answered(target: string, limit: number | undefined, said: Range): void {
    if (limit === undefined || said.start === undefined) return
    if (limit <= said.start && target !== this.#target) return
    this.#limit = limit
    this.#target = target
  }
}

/** `Agent` provides one for each run. */
export const RunLimit: Context.Reference<Raised | undefined> = Context.Reference<Raised | undefined>(
  "@outlast/agent/failover/decide/OutputLimit/RunLimit",
  { defaultValue: () => undefined }
)

/**
 * What is meant; `start` is used where the user says nothing. Throws an `InvalidOption` (a `RangeError`), a defect of the
 * call, for a limit that is no whole number of at least 1.
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
  // No answer may be longer than `max`, and so not the first one.
  return { start: Math.min(begun, max), max }
}

const checks: Options.Checks<Range> = {
  start: Kind.count,
  max: Options.is.required((module, field, value) => {
    if (value !== Infinity) Kind.count(module, field, value)
  })
}

const unlimited: Range = { start: undefined, max: Infinity }

/** The limit for a model: never above its own. */
export const within = (limit: number | undefined, { maxOutputTokens }: ModelInfo): number | undefined =>
  limit === undefined || maxOutputTokens === undefined ? limit : Math.min(limit, maxOutputTokens)

/** Tokens that are left free between input and answer, and the least that an answer needs, as Claude Code has them. */
const margin = 1_000
const leastOutput = 3_000

/**
 * The output limit with which the same request is taken: the one that the provider named as the model's, or what its
 * window leaves beside the input. Where the provider knows only that both together are too long, half of the limit.
 */
export const lowered = ({ reason }: ProviderFailure): number | undefined => {
  if (reason._tag === "Format") return reason.outputLimit
  if (reason._tag !== "ContextOverflow") return undefined
  const { limit, requested, output } = reason
  if (limit === undefined || output === undefined) return undefined
  const room = requested === undefined ? Math.floor(output / 2) : limit - (requested - output) - margin
  return room >= leastOutput && room < output ? room : undefined
}

/** True for the ways in which a provider refuses a request for a longer answer than it allows or the account pays for. */
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

/** What an answer may have at most behind `input` tokens: as the model can, in its window, for so many US dollars. */
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
