/**
 * Types of `CallState`: the events of a call, the actions in response, the view of the chain, and the state. Contains
 * only types and starting points.
 */
import type { CallFailure, TargetOut } from "../../failure/reasons/CallFailure.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Rungs } from "../../recovery/Truncation.ts"
import { ground } from "../../recovery/Truncation.ts"
import type { Answer } from "./Answer.ts"
import { none } from "./Answer.ts"
import type { CallLog } from "./CallLog.ts"
import { empty } from "./CallLog.ts"
import type { Cooldown, Cooldowns, Out } from "./Cooldown.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { MidStream } from "./RecoveryPolicy.ts"

// -----------------------------------------------------------------------------
// Events
// -----------------------------------------------------------------------------

/** How much of an attempt the consumer has seen. */
export type Commit = "nothing" | "reasoning" | "text" | "tool"

/** Cost of one attempt, as far as it is known. */
export interface Spent {
  /** Milliseconds. */
  readonly elapsed: number
  /** US dollars. */
  readonly cost: number
  /** Input and output tokens together. */
  readonly tokens: number
}

/** Facts about a call that do not change while it runs. */
export interface CallFacts {
  /** True when the call asks for an object. A partial object is useless. */
  readonly structured: boolean
  /** True when the consumer understands a `Rewind`, which takes back text that it has seen. */
  readonly rewindable: boolean
  /** Overrides the policy's `midStream`. */
  readonly midStream: MidStream | undefined
  /** Output limits in tokens: the one that the call begins with, and the highest one that it may be raised to. */
  readonly outputLimit: { readonly start: number | undefined; readonly max: number }
}

export interface Failed extends Spent {
  readonly _tag: "Failed"
  readonly failure: ProviderFailure
  readonly commit: Commit
  /**
   * True when the chain has proof that the whole scope of the row's cooldown is out. One failed call can be bad luck:
   * see `Evidence`. Default false.
   */
  readonly isProven?: boolean | undefined
  /**
   * Set when the window cut the answer and its parts are kept: true when they have text. The text is continued after a
   * compaction, or delivered. Default: nothing is kept.
   */
  readonly keptText?: boolean | undefined
  /** Milliseconds that the call has waited since the last part of a stream that had begun. Default 0. */
  readonly silent?: number | undefined
}

/** An answer that the output limit cut. */
export interface Cut extends Spent {
  readonly _tag: "Cut"
  readonly commit: Commit
  /** Output tokens. */
  readonly gain: number
  /** Input tokens, when the provider reported them. */
  readonly input: number | undefined
  /** Output limit of the request in tokens; `undefined` for the provider's own limit. */
  readonly limit: number | undefined
  /** True when the answer has a tool call, complete or cut. Such a call must not run. */
  readonly inToolCall: boolean
  /** True when the answer has text, which can be delivered. */
  readonly hasText: boolean
}

export type Event =
  | ({ readonly _tag: "Started" } & CallFacts)
  | Failed
  | Cut
  /** Compaction shortened the conversation by about `freed` tokens. */
  | { readonly _tag: "Compacted"; readonly freed: number }
  | { readonly _tag: "CompactionFailed" }
  /**
   * `dropped` parts are left out from now on; 0 when the request has none. `left` of the same kind are still sent, and
   * may be left out next. Default 0.
   */
  | {
      readonly _tag: "LeftOut"
      readonly part: Leavable
      readonly dropped: number
      readonly left?: number | undefined
    }
  /** The key was refreshed. `renewed` is true when its value changed. */
  | { readonly _tag: "KeyAsked"; readonly renewed: boolean }
  /** A circuit, a health check or a limit on our side refused the attempt before it was sent. */
  | {
      readonly _tag: "PermitRefused"
      readonly until: number
      readonly failure: ProviderFailure
      /** True when the delay before the attempt has passed. False when the refusal was foreseen before the delay. */
      readonly waited: boolean
      /** Milliseconds that the permit took to answer, for example for a health check. Default 0. */
      readonly took?: number | undefined
      /**
       * True when an open circuit refused the attempt. The call may then pass as a last resort if no other target is
       * left.
       */
      readonly byCircuit: boolean
    }
  /**
   * While this attempt was delayed, another call opened a cooldown for the target, or an operator brought targets back.
   * The attempt was not sent.
   */
  | { readonly _tag: "TakenAway"; readonly early?: number; readonly reset?: Reset | undefined }
  | {
      readonly _tag: "Woke"
      /** Milliseconds between waking and the planned end of the wait. */
      readonly early?: number
      /** The target that answered another call, whose success pays for the next attempt of this one. */
      readonly to?: TargetRef | undefined
      readonly reset?: Reset | undefined
    }

/** Ids of targets that an operator brought back while the call waited. */
export type Reset = ReadonlySet<string>

// -----------------------------------------------------------------------------
// Actions
// -----------------------------------------------------------------------------

/** The target that is back first, among those worth waiting for. */
export interface Soonest extends Out {
  readonly target: TargetRef
  /** True when a circuit or a limit on our side keeps the target out. */
  readonly refused: boolean
}

/** Fields of every action that sends an attempt. */
export interface Sent {
  readonly target: TargetRef
  readonly delay: number
  readonly cooldown: Cooldown | undefined
  /** True when the target is cooling and this attempt probes it. */
  readonly probe: boolean
  /** True when no other target is left. The target's circuit may then let the attempt pass although it is open. */
  readonly lastResort: boolean
  /** True when the attempt takes no token of the retry budget. */
  readonly isFree: boolean
}

export type Action =
  /** Sends the call to `target` after `delay` milliseconds: the first attempt, or a repeat on the same target. */
  | (Sent & {
      readonly _tag: "Attempt"
      /** True when the attempt begins the answer again. The consumer must drop the text that it has seen. */
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /** Sends the call to another target at once. */
  | (Sent & {
      readonly _tag: "Switch"
      readonly from: TargetRef
      readonly failure: ProviderFailure
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /**
   * Sends the partial answer to `target`, which continues it. `failure` is `undefined` when the output limit cut the
   * answer.
   */
  | (Sent & {
      readonly _tag: "Continue"
      readonly from: TargetRef
      readonly failure: ProviderFailure | undefined
      readonly rewind: false
      readonly nudge: string
      /** The raised output limit of this attempt in tokens; `undefined` when it was not raised. */
      readonly raisedTo: number | undefined
    })
  /** Repeats the call with a higher output limit. The cut answer is delivered if the repeat fails. */
  | (Sent & { readonly _tag: "RaiseOutputLimit"; readonly limit: number })
  /** Repeats the call with an output limit that the model accepts, or that leaves room for the input. */
  | (Sent & {
      readonly _tag: "LowerOutputLimit"
      readonly limit: number
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /** Compacts the conversation. The next event is `Compacted` or `CompactionFailed`. */
  | {
      readonly _tag: "Compact"
      readonly target: TargetRef
      readonly failure: ProviderFailure
      readonly cooldown: undefined
    }
  /**
   * Leaves out what `target` refuses: images and files become a note, thinking goes without one. The next event is
   * `LeftOut`.
   */
  | {
      readonly _tag: "LeaveOut"
      readonly part: Leavable
      readonly target: TargetRef
      readonly failure: ProviderFailure
      readonly cooldown: undefined
    }
  /** Refreshes the key of `target`. The next event is `KeyAsked`. */
  | { readonly _tag: "RenewKey"; readonly target: TargetRef; readonly cooldown: undefined }
  /** Sleeps because all targets are out. The call waits for `soonest`. The next event is `Woke`. */
  | {
      readonly _tag: "Wait"
      readonly until: number
      readonly cooldown: Cooldown | undefined
      readonly soonest: Soonest
      /** True when the call waits for the retry budget. */
      readonly forBudget: boolean
    }
  /** Delivers the cut answer as it is. */
  | { readonly _tag: "Deliver"; readonly cooldown: Cooldown | undefined }
  | { readonly _tag: "GiveUp"; readonly failure: CallFailure; readonly cooldown: Cooldown | undefined }

/** The reaction of the machine to an event. */
export type Step = readonly [Action, CallState]

// -----------------------------------------------------------------------------
// Snapshot and state
// -----------------------------------------------------------------------------

/** A target as the state machine sees it. */
export interface TargetView {
  readonly ref: TargetRef
  readonly info: ModelInfo
  /** True when the key of the target can be refreshed. */
  readonly renewable: boolean
}

/** An immutable view of the chain. */
export interface Snapshot {
  readonly now: number
  /** End of the time limit that the program set around the call; `Infinity` when it set none. */
  readonly deadline: number
  /** Targets of the chain, in order of preference. */
  readonly targets: ReadonlyArray<TargetView>
  /** Targets that could not be built. They are never chosen, and are listed in the error when all targets are out. */
  readonly dead: ReadonlyArray<TargetOut>
  readonly cooldowns: Cooldowns
  /** True when the retry budget has a token. */
  readonly mayRetry: boolean
  readonly canCompact: boolean
  /** Failed attempts of all calls since the last answer, by target id. */
  readonly streaks: ReadonlyMap<string, Streak>
  /** Time of the last answer of each target, by id. */
  readonly answered: ReadonlyMap<string, number>
  /** Attempts in flight of all calls. */
  readonly flying: {
    readonly values: () => Iterable<{ readonly target: TargetRef; readonly startedAt: number }>
  }
}

export interface Streak {
  readonly failures: number
  /** Time of the last failure. */
  readonly at?: number | undefined
  /** Delay of the last repeat in milliseconds; `undefined` before the first repeat. */
  readonly delay: number | undefined
}

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
}

/** A wait of the call, until an absolute time in monotonic milliseconds. */
export type Pause =
  /** All targets are out. */
  | { readonly _tag: "Wait"; readonly until: number }
  /**
   * The retry budget is empty. The call does not go on before `restsUntil`. Behind `hopesUntil` it waits only while a
   * target answers.
   */
  | {
      readonly _tag: "Queue"
      readonly until: number
      readonly restsUntil: number
      readonly hopesUntil: number
    }

/** What the call does now. */
export type Doing =
  /** Nothing: an attempt has ended, or the call begins. */
  | { readonly _tag: "Choose" }
  | Flight
  /** A remedy is tried at `target` before the next attempt there, for example a compaction. `failed` is its reason. */
  | { readonly _tag: "Mend"; readonly target: TargetRef; readonly failed: Failed }
  | Pause
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

export const initial: CallState = {
  call: {
    structured: false,
    rewindable: false,
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
  doing: { _tag: "Choose" }
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** The attempt in flight. */
export const flightOf = ({ doing }: CallState): Flight | undefined =>
  doing._tag === "Attempt" ? doing : undefined

/** Number of attempts, the one in flight included. */
export const attemptsOf = ({ doing, made }: CallState): number =>
  made.attempts + (doing._tag === "Attempt" ? 1 : 0)

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

/** Parts of a snapshot for a call with no limits around it and no other calls. */
export const unbounded: Pick<
  Snapshot,
  "deadline" | "mayRetry" | "canCompact" | "streaks" | "answered" | "flying"
> = {
  deadline: Infinity,
  mayRetry: true,
  canCompact: false,
  streaks: new Map(),
  answered: new Map(),
  flying: []
}
