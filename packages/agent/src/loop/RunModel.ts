/**
 * State of a run, and what the modules of the machine share: its Schema, the result of a step, small constructors.
 *
 * `RunState.step` is the machine. As JSON a state has at most 16 KB, beside about 100 bytes for each call of the
 * current turn.
 */
import { Schema } from "effect"
import { Response } from "effect/ai"
import type { Prompt } from "effect/ai"
import { Memory } from "../compaction/Memory.ts"
import type { RunAction } from "./RunAction.ts"
import { Verdict } from "./RunAction.ts"
import { AnsweredBy, RaisedLimit } from "./RunEvent.ts"
import * as RunGuard from "./RunGuard.ts"
import type { HookPoint } from "./RunSettings.ts"
import * as Settings from "./RunSettings.ts"
import * as RunTally from "./RunTally.ts"
import * as TokenBudget from "./TokenBudget.ts"
import type { Cause, Passed, Transition } from "./Transition.ts"

/** A call of the current turn. */
const Pending = Schema.Struct({
  name: Schema.String,
  verdict: Verdict,
  /** Files that the call edits, where edits are limited. */
  files: Schema.optional(Schema.Array(RunGuard.EditedFile))
})
export type Pending = typeof Pending.Type

export const RunState = Schema.Struct({
  version: Schema.Literal(1),
  settings: Settings.RunSettings,
  phase: Schema.Literals(["new", "fitting", "asking", "hooking", "approving", "tools", "ended"]),
  /** Number of the current turn, from 1; 0 before the run starts. */
  turn: Schema.Finite,
  /** Compactions left in this turn after a rejection. */
  refits: Schema.Finite,
  /** Cause of the fit that is under way. */
  fit: Schema.Literals(["before", "refused"]),
  /** Where a hook is asked. */
  hook: Schema.optional(Settings.HookPoint),
  /** Finish reason of the last answer. */
  finish: Response.FinishReason,
  /** Calls of the current turn, in order. */
  calls: Schema.Array(Pending),
  tally: RunTally.RunTally,
  guard: RunGuard.RunGuard,
  budget: TokenBudget.TokenBudget,
  /** Hints for the next call of the model. */
  nudges: Schema.Array(Schema.String),
  /** The target that answered last; absent before, and for a model that is not Outlast's. */
  by: Schema.optional(AnsweredBy),
  raised: Schema.optional(RaisedLimit),
  memory: Schema.optional(Memory)
})
export type RunState = typeof RunState.Type

export const initial: RunState = {
  version: 1,
  settings: Settings.defaults,
  phase: "new",
  turn: 0,
  refits: 0,
  fit: "before",
  finish: "unknown",
  calls: [],
  tally: RunTally.initial,
  guard: RunGuard.initial,
  budget: TokenBudget.initial,
  nudges: []
}

export interface Moved {
  readonly action: RunAction
  readonly transitions: ReadonlyArray<Passed>
  readonly state: RunState
}

export const none: ReadonlyArray<never> = []

export const passed = (
  { turn }: RunState,
  transition: Transition,
  cause?: Cause,
  message?: string
): Passed => ({
  turn,
  transition,
  ...(cause === undefined ? {} : { cause }),
  ...(message === undefined ? {} : { message })
})

/** True when a hook is asked there. */
export const asks = (state: RunState, point: HookPoint): boolean => state.settings.hooks.includes(point)

/** Arguments of the calls that the run executes, in order. */
export const paramsOf = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<unknown> =>
  messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((part) =>
          part.type === "tool-call" && !part.providerExecuted ? [part.params] : []
        )
      : []
  )

/** The text of answers, or their text and thinking. */
export const textOf = (messages: ReadonlyArray<Prompt.Message>, withThinking = false): string =>
  messages
    .flatMap((message) =>
      message.role === "assistant"
        ? message.content.map((part) =>
            part.type === "text" || (withThinking && part.type === "reasoning") ? part.text : ""
          )
        : []
    )
    .join("")

/** Hints that wait for the next call, at most. */
const maxNudges = 4

/** Adds a hint for the next call of the model. */
export const nudged = (state: RunState, message: string): RunState =>
  state.nudges.includes(message) ? state : { ...state, nudges: [...state.nudges, message].slice(-maxNudges) }
