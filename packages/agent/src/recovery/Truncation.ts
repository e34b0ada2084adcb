/**
 * What to do about an answer that the output limit cut: the ladder, pure.
 *
 * First the limit is raised and the request repeated, without the cut answer; where that cannot be (text was seen, or
 * the retry budget is empty) the answer is continued at the raised limit. Then it is kept and continued, a few times,
 * as long as that adds enough; then it is delivered as it is. {@link climb} names the next rung.
 *
 * **What it does not do.** It sends nothing and joins nothing: `CallState` asks it, `Seam` joins the texts.
 */
import { Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"

const { is } = Options

export interface Truncation {
  /** The limit that calls begin with which set none (`OutputLimit`), in tokens; `undefined`: the provider's own. */
  readonly start: number | undefined
  /** What a limit is raised to, in tokens. */
  readonly raiseTo: number
  /** How often it is raised in one call. */
  readonly raises: number
  /** How often a cut answer is continued in one call. */
  readonly continuations: number
  /** So many continuations in a row … */
  readonly poorGains: number
  /** … that each added fewer tokens than this are the last. */
  readonly minGain: number
}

/** 64,000 tokens, three continuations and gains of 500 are what Claude Code is reported to use. */
export const defaults: Truncation = {
  start: undefined,
  raiseTo: 64_000,
  raises: 1,
  continuations: 3,
  poorGains: 3,
  minGain: 500
}

/** What a call has done so far about cut answers. */
export interface Rungs {
  readonly raises: number
  /** Tokens that each continuation added. */
  readonly gains: ReadonlyArray<number>
  readonly continuations: number
}

export const ground: Rungs = { raises: 0, gains: [], continuations: 0 }

/** What the cut answer and its surroundings allow. */
export interface Room {
  /** The limit that cut it, in tokens, where it is known. */
  readonly limit: number | undefined
  /** No limit may be above: the model's maximum, the window and the money that are left. */
  readonly ceiling: number
  /** The provider has not refused a higher limit. */
  readonly mayRaise: boolean
  /** No text of the answer was seen, and a repeat can be paid for. */
  readonly mayRepeat: boolean
  /** It is text, of which a part is worth something. */
  readonly mayContinue: boolean
}

export type Rung =
  | { readonly _tag: "Raise"; readonly limit: number }
  /** `limit`: the limit is raised for it. */
  | { readonly _tag: "Continue"; readonly limit: number | undefined }
  | { readonly _tag: "Stop" }

export const climb = (rule: Truncation, rungs: Rungs, room: Room): Rung => {
  const raised = Math.floor(Math.min(rule.raiseTo, room.ceiling))
  const isRaise =
    room.mayRaise && rungs.raises < rule.raises && room.limit !== undefined && raised > room.limit
  if (isRaise && room.mayRepeat) return { _tag: "Raise", limit: raised }
  const last = rungs.gains.slice(-rule.poorGains)
  const poor = last.length === rule.poorGains && last.every((gain) => gain < rule.minGain)
  return room.mayContinue && rungs.continuations < rule.continuations && !poor
    ? { _tag: "Continue", limit: isRaise ? raised : undefined }
    : { _tag: "Stop" }
}

/** The checks of its fields: `RecoveryPolicy.validate` makes them. */
export const checks: Options.Checks<Truncation> = {
  start: Kind.count,
  raiseTo: is.required(Kind.count),
  raises: is.required(Kind.countOrNone),
  continuations: is.required(Kind.countOrNone),
  poorGains: is.required(Kind.count),
  minGain: is.required(Kind.countOrNone)
}
