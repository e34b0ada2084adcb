/**
 * The state of a call, and how it is read.
 */
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Rungs } from "../../recovery/Truncation.ts"
import { ground } from "../../recovery/Truncation.ts"
import type { Answer } from "./AnswerSoFar.ts"
import { none } from "./AnswerSoFar.ts"
import type { CallLog } from "./CallLog.ts"
import { empty } from "./CallLog.ts"
import type { Action, CallFacts, Event, Failed } from "./CallModel.ts"

/** An attempt in flight, or one that is about to be sent. */
export interface Flight {
  readonly _tag: "Attempt"
  readonly target: TargetRef
  /** Milliseconds that it waits before it is sent. */
  readonly delay: number
  /** True when it waited for the retry budget. */
  readonly isReleased: boolean
  /** True when the target's circuit may let it pass although it is open. */
  readonly lastResort: boolean
  /** True when it looks whether the target is back: see `CooldownRule.looks`. */
  readonly looks: boolean
  /** The attempt that this one hedges. Its first token is late, and it is still in flight. */
  readonly late?: Flight | undefined
  /** Estimated tokens of the prompt, for a hedge. */
  readonly inputTokens?: number | undefined
  /** The other one of two attempts, whose failure decides how the call goes on when this one fails, too. */
  readonly decides?: Ended | undefined
  /** See `CallLog.isSweep`. */
  readonly isSweep: boolean
}

/** A failed attempt at `target`. */
interface Ended {
  readonly target: TargetRef
  readonly failed: Failed
}

/** What the call does now. */
export type Doing =
  /** Nothing: an attempt has ended, or the call begins. */
  | { readonly _tag: "Choose" }
  | Flight
  /** A remedy is tried before the next attempt at the target, for example a compaction. */
  | (Ended & { readonly _tag: "Mend" })
  /** All targets are out: it waits for one of them. */
  | { readonly _tag: "Wait" }
  /**
   * The retry budget is empty. The call does not go on before `restsUntil`. After `hopesUntil` it waits only while a
   * target answers. Both in monotonic milliseconds.
   */
  | { readonly _tag: "Queue"; readonly restsUntil: number; readonly hopesUntil: number }
  | { readonly _tag: "Done" }

/** A remedy that a call has tried at a target: a refreshed key, parts left out, a probe of its cooldown. */
export interface Remedy {
  readonly what: Leavable | "key" | "probe"
  /** Id of the target. */
  readonly at: string
}

/** How the request has changed since the call began, and what was tried besides attempts. */
export interface Changes {
  readonly tried: ReadonlyArray<Remedy>
  readonly compactions: number
  /** Id of the target that the last compaction was for. */
  readonly compactedAt: string | undefined
  /** The largest known context window that the conversation did not fit, in tokens; 0 where none is known. */
  readonly overflowed: number | undefined
  readonly outputLimit: number | undefined
  /**
   * Output limits that providers lowered, in tokens by model. They hold for that model only, and may count thinking that
   * `outputLimit` does not count.
   */
  readonly lowered: ReadonlyMap<string, number>
  readonly rungs: Rungs
}

export interface CallState {
  readonly call: CallFacts
  /** What the attempts that have ended add up to. */
  readonly made: CallLog
  readonly answer: Answer
  readonly mended: Changes
  readonly doing: Doing
}

/** The reaction of the machine to an event. */
export type Step = readonly [Action, CallState]

export const choosing: Doing = { _tag: "Choose" }

export const initial: CallState = {
  call: {
    structured: false,
    rewindable: false,
    providerTools: false,
    midStream: undefined,
    outputLimit: { start: undefined, max: Infinity }
  },
  made: empty,
  answer: none,
  mended: {
    tried: [],
    compactions: 0,
    compactedAt: undefined,
    overflowed: undefined,
    outputLimit: undefined,
    lowered: new Map(),
    rungs: ground
  },
  doing: choosing
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** The attempt in flight. */
export const flightOf = ({ doing }: CallState): Flight | undefined =>
  doing._tag === "Attempt" ? doing : undefined

/** Number of attempts, those in flight included. */
export const attemptsOf = ({ doing, made }: CallState): number =>
  made.attempts + (doing._tag !== "Attempt" ? 0 : doing.late === undefined ? 1 : 2)

/** Number of changes of the target, the attempt in flight included. */
export const switchesOf = (state: CallState): number => {
  const { left, switches } = state.made
  const flight = flightOf(state)
  return switches + (flight === undefined || left === undefined || left.id === flight.target.id ? 0 : 1)
}

/** The output limit of an attempt at a target, in tokens. */
export const outputLimitAt = (
  { mended: { lowered, outputLimit } }: CallState,
  { model }: TargetRef
): number | undefined => lowered.get(model) ?? outputLimit

/** True when the output limit, and not a failure, ended the last answer. */
export const wasCut = ({ answer, made }: CallState): boolean =>
  answer._tag === "Cut" && made.inARow === undefined

/** The first event of a plain call: no object, no rewind, no limits. */
export const started: Event = { _tag: "Started", ...initial.call }
