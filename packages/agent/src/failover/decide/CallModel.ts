/**
 * Types of `CallState`: the events of a call, the actions in response, and the view of the chain.
 */
import type { CallFailure, TargetOut } from "../../failure/reasons/CallFailure.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
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
  /** True when the call has tools that the provider runs. It neither looks nor is hedged: a tool could run twice. */
  readonly providerTools: boolean
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
  /** Milliseconds of the attempt in which another one of the call was in flight. Default 0. */
  readonly overlap?: number | undefined
  /** True when the attempt is late and another one hedges it: see `Flight.late`. Default false. */
  readonly isLate?: boolean | undefined
}

/** One of two attempts has sent content first, and the other one was aborted. `Spent` is that of the aborted one. */
export interface Overtaken extends Spent {
  readonly _tag: "Overtaken"
  /** True when the late attempt was aborted, false when the hedge was. */
  readonly isLate: boolean
  /** See {@link Failed.isProven}. */
  readonly isProven: boolean
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
  /** The first token of the attempt in flight is late. */
  | {
      readonly _tag: "Late"
      /** Estimated tokens of the prompt. */
      readonly inputTokens: number
      /** True when the share of hedges allows one more. */
      readonly mayHedge: boolean
    }
  | Overtaken
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
  /** True when this attempt probes a target that is cooling, or looks whether it is back. */
  readonly probe: boolean
  /** True when no other target is left. The target's circuit may then let the attempt pass although it is open. */
  readonly lastResort: boolean
  /** True when the attempt takes no token of the retry budget. */
  readonly isFree: boolean
  /** The target of the late attempt that this one hedges. That attempt stays in flight. */
  readonly hedges?: TargetRef | undefined
  /** True when the hedge counts against the share of calls that may be hedged. */
  readonly isCounted?: boolean | undefined
}

export type Action =
  /** Sends the call to `target` after `delay` milliseconds: the first attempt, or a repeat on the same target. */
  | (Sent & {
      readonly _tag: "Attempt"
      /** True when the attempt begins the answer again. The consumer must drop the text that it has seen. */
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /** Sends the call to another target. */
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
  /** Goes on with the one attempt that is in flight. */
  | { readonly _tag: "Await"; readonly cooldown: Cooldown | undefined }
  /** Delivers the cut answer as it is. */
  | { readonly _tag: "Deliver"; readonly cooldown: Cooldown | undefined }
  | { readonly _tag: "GiveUp"; readonly failure: CallFailure; readonly cooldown: Cooldown | undefined }

// -----------------------------------------------------------------------------
// Snapshot
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
  readonly streaks: Pick<ReadonlyMap<string, Streak>, "get" | "has">
  /** Time of the last answer of each target, by id. */
  readonly answered: Pick<ReadonlyMap<string, number>, "get" | "has"> & {
    readonly values: () => Iterable<number>
  }
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
