/**
 * Types of `CallState`: the events of a call, the actions in response, the view of the chain, and the state. Contains
 * only types, starting points and a few predicates.
 */
import type { CallFailure, TargetOut } from "../../failure/reasons/CallFailure.ts"
import type { Leavable } from "../../failure/reasons/Leavable.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { Rungs } from "../../recovery/Truncation.ts"
import { ground } from "../../recovery/Truncation.ts"
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

/** Attempts, time and money that one call has used. */
export interface Ledger {
  readonly attempts: number
  /**
   * First attempts at a target after another one refused the call ({@link isRefusal}). They are part of `attempts`
   * but do not count against its limit.
   */
  readonly sweeps: number
  readonly waits: number
  readonly switches: number
  /** Milliseconds of waits and failed attempts. */
  readonly spent: number
  /** US dollars of attempts that failed or were cut. */
  readonly cost: number
  /** Tokens of attempts that failed or were cut. */
  readonly tokens: number
}

/** History of one call on one target. */
export interface Tries {
  readonly count: number
  /** Failed attempts that waited for the retry budget. They do not count against the attempts of the row. */
  readonly released: number
  readonly delay: number | undefined
  readonly failure: ProviderFailure | undefined
  /** Time of the first failure there. */
  readonly firstFailedAt?: number | undefined
  /** Failures by class. */
  readonly classes: ReadonlyMap<string, number>
  /** End of the wait that the target's last failure named; `undefined` when it named none, or 0. */
  readonly notBefore?: number | undefined
  /**
   * Earliest time at which this call may return to the target, when its last failure named a wait. The wait grows
   * with each attempt of the call.
   */
  readonly backAt?: number | undefined
}

/** A target that refused an attempt before it was sent. */
export interface Refused extends Out {
  /** True when the target's circuit may let this call pass as a last resort. */
  readonly mayResort: boolean
  readonly byCircuit: boolean
}

/** A raised output limit that no provider has accepted yet. */
export interface Raise {
  /** The limit before the raise, in tokens. */
  readonly from: number
  /** The cut answer that was the reason for the raise. */
  readonly cut: Cut
}

export interface CallState {
  readonly phase: "idle" | "attempting" | "mending" | "waiting" | "queued" | "done"
  readonly call: CallFacts
  readonly target: TargetRef | undefined
  /** Target of the last attempt that was sent and has ended. */
  readonly left: TargetRef | undefined
  readonly ledger: Ledger
  /** True when a partial answer is kept. Every further attempt continues it. */
  readonly partial: boolean
  /** True when the consumer has seen text. */
  readonly seen: boolean
  /** True when there is a cut answer. */
  readonly cut: boolean
  /** True when the cut answer has text, which is delivered if no attempt gives a better one. */
  readonly hasText: boolean
  /** The raised output limit, until an attempt shows that the provider accepts it. */
  readonly raise: Raise | undefined
  /** True when the next attempt begins the answer again. The text seen and kept is void once that attempt is sent. */
  readonly anew: boolean
  readonly outputLimit: number | undefined
  /**
   * Output limits that providers lowered, in tokens by model. They hold for that model only, and may count thinking that
   * `outputLimit` does not count.
   */
  readonly lowered: ReadonlyMap<string, number>
  readonly rungs: Rungs
  readonly compactions: number
  /** Id of the target that the last compaction was for. */
  readonly compactedAt: string | undefined
  /**
   * Remedies that the call has used already, each with its target: a refreshed key, parts that were
   * left out, a probe of a cooling target.
   */
  readonly mended: ReadonlySet<string>
  /** The failure that a remedy is in progress for, for example a compaction. */
  readonly pending: Failed | undefined
  readonly lastFailure: ProviderFailure | undefined
  /** Milliseconds until that failure. */
  readonly failedAfter: number
  readonly inARow: { readonly class: string; readonly count: number } | undefined
  /** The largest known context window that the conversation did not fit, in tokens; 0 where none is known. */
  readonly overflowed: number | undefined
  /** Targets that a circuit or a limit on our side refused, by target id. */
  readonly refused: ReadonlyMap<string, Refused>
  /** True when the attempt in flight is a last resort. */
  readonly lastResort: boolean
  /** True when the attempt in flight waited for the retry budget. */
  readonly isReleased: boolean
  /** History of each target, by target id. */
  readonly tries: ReadonlyMap<string, Tries>
}

export const initial: CallState = {
  phase: "idle",
  call: {
    structured: false,
    rewindable: false,
    midStream: undefined,
    outputLimit: { start: undefined, max: Infinity }
  },
  target: undefined,
  left: undefined,
  ledger: { attempts: 0, sweeps: 0, waits: 0, switches: 0, spent: 0, cost: 0, tokens: 0 },
  partial: false,
  seen: false,
  cut: false,
  hasText: false,
  raise: undefined,
  anew: false,
  outputLimit: undefined,
  lowered: new Map(),
  rungs: ground,
  compactions: 0,
  compactedAt: undefined,
  mended: new Set(),
  pending: undefined,
  lastFailure: undefined,
  failedAfter: 0,
  inARow: undefined,
  overflowed: undefined,
  refused: new Map(),
  lastResort: false,
  isReleased: false,
  tries: new Map()
}

/** True when the attempt in flight continues a partial answer. */
export const isContinuing = ({ partial, anew }: CallState): boolean => partial && !anew

/** The output limit of an attempt at a target, in tokens. */
export const outputLimitAt = (
  { lowered, outputLimit }: CallState,
  { model }: TargetRef
): number | undefined => lowered.get(model) ?? outputLimit

/** True when the output limit, and not a failure, ended the last answer. */
export const wasCut = ({ cut, inARow }: CallState): boolean => cut && inARow === undefined

/**
 * True when the provider refused the call because of its key without working on it: rate limited, invalid key, no
 * money. Asking another target is then not a retry: it takes no attempt of the call and no token of the retry budget.
 */
export const isRefusal = ({ reason }: ProviderFailure): boolean =>
  reason._tag === "RateLimit" || reason._tag === "Auth" || reason._tag === "Billing"

/** True when the next attempt is the first one at `target`, after another target refused the call. */
export const isSweep = ({ left, lastFailure, tries }: CallState, target: TargetRef): boolean =>
  left !== undefined &&
  left.id !== target.id &&
  lastFailure !== undefined &&
  isRefusal(lastFailure) &&
  !tries.has(target.id)

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
