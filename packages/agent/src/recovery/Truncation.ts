/**
 * Decides how to go on after an answer that the output limit cut. Pure.
 *
 * The steps, as a ladder: first the limit is raised and the request repeated without the cut answer. When that is not
 * possible (the consumer has seen text, or the retry budget is empty), the answer is continued at the raised limit.
 * Then it is continued a few times, as long as each continuation adds enough. Finally it is delivered as it is.
 * {@link climb} returns the next step.
 *
 * **What it does not do.** It sends nothing and joins nothing: `CallState` asks it, `Seam` joins the texts.
 */
import { Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

const { is } = Options

export interface Truncation {
  /** Initial output limit of calls that set none (`OutputLimit`), in tokens; `undefined` for the provider's default. */
  readonly start: number | undefined
  /** Raised limit, in tokens. */
  readonly raiseTo: number
  /** Maximum number of raises in one call. */
  readonly raises: number
  /** Maximum number of continuations in one call. */
  readonly continuations: number
  /** Number of consecutive poor continuations after which the call stops continuing. */
  readonly poorGains: number
  /** Number of added tokens below which a continuation is poor. */
  readonly minGain: number
}

/** Claude Code is reported to use 64,000 tokens, three continuations and gains of 500. */
export const defaults: Truncation = {
  start: undefined,
  raiseTo: 64_000,
  raises: 1,
  continuations: 3,
  poorGains: 3,
  minGain: 500
}

/** Steps that a call has taken so far. */
export interface Rungs {
  readonly raises: number
  /** Tokens that each continuation added. */
  readonly gains: ReadonlyArray<number>
  readonly continuations: number
}

export const ground: Rungs = { raises: 0, gains: [], continuations: 0 }

/** Conditions of the cut answer. */
export interface Room {
  /** The limit that cut the answer, in tokens; `undefined` when unknown. */
  readonly limit: number | undefined
  /** Upper bound of any limit: the model's maximum, the window, and the remaining budget. */
  readonly ceiling: number
  /** True unless the provider has rejected a higher limit. */
  readonly mayRaise: boolean
  /** True when the consumer has seen no text, and the budget allows a repeat. */
  readonly mayRepeat: boolean
  /** True for a text, where a part is useful. */
  readonly mayContinue: boolean
}

export type Rung =
  | { readonly _tag: "Raise"; readonly limit: number }
  /** `limit` is set when the limit is raised, too. */
  | { readonly _tag: "Continue"; readonly limit: number | undefined }
  | { readonly _tag: "Stop" }

export const climb = (rule: Truncation, rungs: Rungs, room: Room): Rung => {
  const raised = Math.floor(Math.min(rule.raiseTo, room.ceiling))
  const isRaise =
    room.mayRaise && rungs.raises < rule.raises && room.limit !== undefined && raised > room.limit
  if (isRaise && room.mayRepeat) return { _tag: "Raise", limit: raised }
  return room.mayContinue && rungs.continuations < rule.continuations && !isDiminishing(rule, rungs)
    ? { _tag: "Continue", limit: isRaise ? raised : undefined }
    : { _tag: "Stop" }
}

/** True when each of the last continuations has added too little. */
export const isDiminishing = ({ poorGains, minGain }: Truncation, { gains }: Rungs): boolean => {
  const last = gains.slice(-poorGains)
  return last.length === poorGains && last.every((gain) => gain < minGain)
}

/** Checks of the options, by field. `RecoveryPolicy.validate` runs them. */
export const checks: Options.Checks<Truncation> = {
  start: Kind.count,
  raiseTo: is.required(Kind.count),
  raises: is.required(Kind.countOrNone),
  continuations: is.required(Kind.countOrNone),
  poorGains: is.required(Kind.count),
  minGain: is.required(Kind.countOrNone)
}
