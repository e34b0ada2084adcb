/**
 * What `CallState` works with: the events that happen to a call, the actions that it answers with, the view of the
 * chain that it is given, and its state. Types and starting points only.
 */
import type { CallFailure, TargetOut } from "../../failure/reasons/CallFailure.ts"
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

/** What an attempt took, as far as it is known. */
export interface Spent {
  /** Milliseconds. */
  readonly elapsed: number
  /** US dollars. */
  readonly cost: number
  /** Input and output. */
  readonly tokens: number
}

/** What a call is like. */
export interface CallFacts {
  /** An object is asked for: half of one is worth nothing. */
  readonly structured: boolean
  /** The consumer can be told that what it has seen is void. */
  readonly rewindable: boolean
  /** Instead of the policy's. */
  readonly midStream: MidStream | undefined
  /** The output limit that it begins with, and the one that it may be raised to, in tokens. */
  readonly outputLimit: { readonly start: number | undefined; readonly max: number }
}

export interface Failed extends Spent {
  readonly _tag: "Failed"
  readonly failure: ProviderFailure
  readonly commit: Commit
  /**
   * What the chain has seen proves that the whole scope of the row's cooldown is out, and not only that this call had bad
   * luck: see `Evidence`. Default false.
   */
  readonly isProven?: boolean | undefined
}

/** An answer came, and the output limit had cut it. */
export interface Cut extends Spent {
  readonly _tag: "Cut"
  readonly commit: Commit
  /** Output tokens. */
  readonly gain: number
  /** Input tokens, where they are known. */
  readonly input: number | undefined
  /** The output limit that it was asked with, in tokens; `undefined` for the provider's own. */
  readonly limit: number | undefined
  /** It was cut inside a tool call, or has one, which must not run. */
  readonly inToolCall: boolean
  /** There is text in it, which can be delivered. */
  readonly hasText: boolean
}

export type Event =
  | ({ readonly _tag: "Started" } & CallFacts)
  | Failed
  | Cut
  /** The conversation is shorter by `freed` tokens, an estimate. */
  | { readonly _tag: "Compacted"; readonly freed: number }
  | { readonly _tag: "CompactionFailed" }
  /** Images and files of the request that will be sent as a note from now on; 0: there are none. */
  | { readonly _tag: "MediaDropped"; readonly dropped: number }
  /** The key has been asked for anew; `renewed`: there is another one. */
  | { readonly _tag: "KeyAsked"; readonly renewed: boolean }
  /** A circuit or a limit of ours did not let the attempt through: it was not sent. */
  | {
      readonly _tag: "PermitRefused"
      readonly until: number
      readonly failure: ProviderFailure
      /** The delay before the attempt has been waited; else it was foreseen. */
      readonly waited: boolean
      /** Milliseconds that asking took: a health check. Default 0. */
      readonly took?: number | undefined
      /** An open circuit refused it: where the call has nowhere else to go, it may pass as a last resort. */
      readonly byCircuit: boolean
    }
  /** While an attempt was delayed another call opened a cooldown over its target: it was not sent. */
  | { readonly _tag: "TakenAway" }
  | {
      readonly _tag: "Woke"
      /** Milliseconds before the end of the wait. */
      readonly early?: number
    }

// -----------------------------------------------------------------------------
// Actions
// -----------------------------------------------------------------------------

/** The target that is back first, of those that are worth waiting for. */
export interface Soonest extends Out {
  readonly target: TargetRef
  /** It is a circuit or a limit of ours that keeps it. */
  readonly refused: boolean
}

/** What the actions have in common that send something. */
export interface Sent {
  readonly target: TargetRef
  readonly delay: number
  readonly cooldown: Cooldown | undefined
  /** The target is cooling: this asks whether it is back. */
  readonly probe: boolean
  /** The call has nowhere else to go: its circuit may let it pass although it is open. */
  readonly lastResort: boolean
  /** It costs nothing of the retry budget. */
  readonly isFree: boolean
}

export type Action =
  /** Send the call to `target` after `delay`: the first attempt, or one more on the same target. */
  | (Sent & {
      readonly _tag: "Attempt"
      /** What the consumer has seen is void. */
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /** Send the call to another target at once. */
  | (Sent & {
      readonly _tag: "Switch"
      readonly from: TargetRef
      readonly failure: ProviderFailure
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /** Send the partial answer that is kept to `target`, to be continued there. `failure`: none if the limit cut it. */
  | (Sent & {
      readonly _tag: "Continue"
      readonly from: TargetRef
      readonly failure: ProviderFailure | undefined
      readonly rewind: false
      readonly nudge: string
      /** The output limit is raised to this for it, in tokens. */
      readonly raisedTo: number | undefined
    })
  /** Repeat the call with room for a longer answer. The cut one is delivered if the repeat gives none. */
  | (Sent & { readonly _tag: "RaiseOutputLimit"; readonly limit: number })
  /** Repeat the call with an output limit that the model takes, or that leaves room for the input. */
  | (Sent & {
      readonly _tag: "LowerOutputLimit"
      readonly limit: number
      readonly rewind: boolean
      readonly nudge: string | undefined
    })
  /** Make the conversation shorter, then `Compacted` or `CompactionFailed`. */
  | {
      readonly _tag: "Compact"
      readonly target: TargetRef
      readonly failure: ProviderFailure
      readonly cooldown: undefined
    }
  /** Put a note in the place of the images and files that `target` refuses, then `MediaDropped`. */
  | {
      readonly _tag: "DropMedia"
      readonly target: TargetRef
      readonly failure: ProviderFailure
      readonly cooldown: undefined
    }
  /** Ask for the key of `target` anew, then `KeyAsked`. */
  | { readonly _tag: "RenewKey"; readonly target: TargetRef; readonly cooldown: undefined }
  /** All targets are out: sleep, then `Woke`. `soonest` is what is waited for. */
  | {
      readonly _tag: "Wait"
      readonly until: number
      readonly cooldown: Cooldown | undefined
      readonly soonest: Soonest
    }
  /** The answer stays cut: it is delivered as it is. */
  | { readonly _tag: "Deliver"; readonly cooldown: Cooldown | undefined }
  | { readonly _tag: "GiveUp"; readonly failure: CallFailure; readonly cooldown: Cooldown | undefined }

/** What the machine answers an event with. */
export type Step = readonly [Action, CallState]

// -----------------------------------------------------------------------------
// Snapshot and state
// -----------------------------------------------------------------------------

/** A target as the machine sees it. */
export interface TargetView {
  readonly ref: TargetRef
  readonly info: ModelInfo
  /** Its key can be asked for anew. */
  readonly renewable: boolean
}

/** An immutable view of the chain. */
export interface Snapshot {
  readonly now: number
  /** When the time of the program around the call is up; `Infinity` for never. */
  readonly deadline: number
  /** In order of preference. */
  readonly targets: ReadonlyArray<TargetView>
  /** Targets that could not be built: never chosen, and named when all are out. */
  readonly dead: ReadonlyArray<TargetOut>
  readonly cooldowns: Cooldowns
  /** The retry budget has a token. */
  readonly mayRetry: boolean
  readonly canCompact: boolean
  /** By target id: failures since its last success. Read only where the policy counts per target. */
  readonly streaks: ReadonlyMap<string, Streak>
  /** Targets that have answered, by id. */
  readonly answered: Pick<ReadonlyMap<string, unknown>, "has">
  /** Attempts in flight, of all calls. */
  readonly flying: { readonly values: () => Iterable<{ readonly target: TargetRef }> }
}

export interface Streak {
  readonly failures: number
  /** Milliseconds that the last repeat waited; none before the first. */
  readonly delay: number | undefined
}

/** What one call has spent so far. */
export interface Ledger {
  readonly attempts: number
  /** Of these, first attempts at a target after another one refused the call ({@link isRefusal}): they are not limited. */
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

/** What a call has tried on one target. */
export interface Tries {
  readonly count: number
  readonly delay: number | undefined
  readonly failure: ProviderFailure | undefined
  /** Failures by class. */
  readonly classes: ReadonlyMap<string, number>
  /** When the server allowed the next attempt, where its last failure named a wait of more than 0. */
  readonly notBefore?: number | undefined
  /** When this call may come back, where the last failure named a wait: later with each attempt of the call. */
  readonly backAt?: number | undefined
}

/** A target that did not let an attempt pass. */
export interface Refused extends Out {
  /** Its circuit may let this call pass as a last resort. */
  readonly mayResort: boolean
  readonly byCircuit: boolean
}

/** A raised output limit that no provider has taken yet. */
export interface Raise {
  /** The limit before, in tokens. */
  readonly from: number
  /** The answer that it was raised for. */
  readonly cut: Cut
}

export interface CallState {
  readonly phase: "idle" | "attempting" | "mending" | "waiting" | "done"
  readonly call: CallFacts
  readonly target: TargetRef | undefined
  /** Where the last attempt ended that was sent. */
  readonly left: TargetRef | undefined
  readonly ledger: Ledger
  /** A partial answer is kept: every further attempt continues it. */
  readonly partial: boolean
  /** The consumer has seen text. */
  readonly seen: boolean
  /** A cut answer is there. */
  readonly cut: boolean
  /** It has text, and so it is delivered if nothing better comes. */
  readonly hasText: boolean
  /** The output limit was raised, and no attempt has shown yet that the provider takes it. */
  readonly raise: Raise | undefined
  /** The next attempt that is sent begins the answer anew: what was seen and kept is void then, and not before. */
  readonly anew: boolean
  readonly outputLimit: number | undefined
  readonly rungs: Rungs
  readonly compactions: number
  /**
   * Targets whose key has been asked for anew, whose output limit was lowered, that got notes for images, that were asked
   * while cooling.
   */
  readonly mended: ReadonlySet<string>
  /** The failure that is being mended. */
  readonly pending: Failed | undefined
  readonly lastFailure: ProviderFailure | undefined
  readonly inARow: { readonly class: string; readonly count: number } | undefined
  /** The largest window that the conversation did not fit, in tokens. */
  readonly overflowed: number | undefined
  /** By target id: refused by a circuit or a limit of ours. */
  readonly refused: ReadonlyMap<string, Refused>
  /** The attempt under way is a last resort. */
  readonly lastResort: boolean
  /** By target id. */
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
  rungs: ground,
  compactions: 0,
  mended: new Set(),
  pending: undefined,
  lastFailure: undefined,
  inARow: undefined,
  overflowed: undefined,
  refused: new Map(),
  lastResort: false,
  tries: new Map()
}

/** The attempt under way goes on with a partial answer. */
export const isContinuing = ({ partial, anew }: CallState): boolean => partial && !anew

/** It is the output limit that ended the answer last, and no failure. */
export const wasCut = ({ cut, inARow }: CallState): boolean => cut && inARow === undefined

/**
 * The provider refused the call without working on it, because of its key: rate limited, no valid key, no money. To ask
 * another target then is no retry, and costs neither an attempt of the call's nor retry budget.
 */
export const isRefusal = ({ reason }: ProviderFailure): boolean =>
  reason._tag === "RateLimit" || reason._tag === "Auth" || reason._tag === "Billing"

/** The next attempt at `target` is the first there, after another target refused the call. */
export const isSweep = ({ left, lastFailure, tries }: CallState, target: TargetRef): boolean =>
  left !== undefined &&
  left.id !== target.id &&
  lastFailure !== undefined &&
  isRefusal(lastFailure) &&
  !tries.has(target.id)

/** A call of which nothing special is known. */
export const started: Event = { _tag: "Started", ...initial.call }

/** The surroundings of a call that nothing around it limits, and that is alone. */
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
