/**
 * The run as a pure step machine: a state and an event give the next action, the transitions and the next state.
 *
 * `step` reads no clock and runs no Effect. A state is a fold of its events, so folding the same events gives the same
 * state, byte for byte. `Agent.run` and `Agent.stream` interpret it; a durable task folds the events that it has
 * stored. An interpreter publishes the transitions of the events that it executed, not those of replayed ones.
 *
 * **States.** `new` · `fitting` · `asking` · `hooking` · `approving` · `tools` · `ended`. `Stopped` and `Interrupted`
 * may come in every state but the last.
 *
 * **Composition.** The conversation is `RunTranscript`, a second fold of the same events. `RunModel` has the state;
 * `RunTurn`, `RunAnswer`, `RunTools` and `RunEnd` are the parts of the machine. `RunGuard` has the limits and the loop
 * evidence, `TokenBudget` the nudges, `RunTally` the usage.
 *
 * **Limits.** As JSON a state has at most 16 KB, beside about 100 bytes for each call of the current turn.
 *
 * **Example** (Replay)
 *
 * ```ts
 * const replay = (events: ReadonlyArray<RunEvent.RunEvent>) => {
 *   let state = RunState.initial
 *   for (const event of events) state = RunState.step(state, event).state
 *   return state
 * }
 * ```
 */
import { answered, hookReplied } from "./RunAnswer.ts"
import { end, failed, finish, stopped } from "./RunEnd.ts"
import type { RunEvent } from "./RunEvent.ts"
import type { Moved, RunState } from "./RunModel.ts"
import { approved, toolsFinished } from "./RunTools.ts"
import { askFailed, fitted, remembering, started } from "./RunTurn.ts"

export type { Moved, Pending } from "./RunModel.ts"
export { initial, RunState } from "./RunModel.ts"

/** An event that does not answer the last action: the events are from another version, or out of order. */
export class UnexpectedEvent extends Error {
  override readonly name = "UnexpectedEvent"
  constructor(phase: string, event: string) {
    super(
      `RunState: the event ${event} does not fit a run that is ${phase}. Replay the events in their order, with the version that stored them.`
    )
  }
}

/** Returns what follows an event. Throws {@link UnexpectedEvent} for one that does not answer the last action. */
export const step = (before: RunState, event: RunEvent): Moved => {
  if (!expected[before.phase].has(event._tag)) throw new UnexpectedEvent(before.phase, event._tag)
  const state = event._tag === "Started" ? before : timed(before, event)
  switch (event._tag) {
    case "Started":
      return started(event)
    case "Fitted":
      return fitted(state, event)
    case "FitFailed":
      return failed(remembering(state, event.memory), event.reason, state.fit)
    case "Answered":
      return answered(state, event)
    case "AskFailed":
      return askFailed(state, event)
    case "Approved":
      return approved(state, event.decisions)
    case "ToolsFinished":
      return toolsFinished(state, event)
    case "ToolFailed": {
      const { turn } = state
      return end(state, { _tag: "Fail", turn }, [{ turn, transition: "tool_failed" }])
    }
    case "HookReplied":
      return hookReplied(state, event)
    case "Stopped":
      return stopped(state, event.tripped)
    case "Interrupted":
      return finish(state, state.calls.length === 0 ? "aborted_streaming" : "aborted_tools", "cancelled")
  }
}

const events = (...tags: ReadonlyArray<RunEvent["_tag"]>): ReadonlySet<RunEvent["_tag"]> =>
  new Set<RunEvent["_tag"]>([...tags, "ToolFailed", "Stopped", "Interrupted"])

const expected: Readonly<Record<RunState["phase"], ReadonlySet<RunEvent["_tag"]>>> = {
  new: new Set<RunEvent["_tag"]>(["Started"]),
  fitting: events("Fitted", "FitFailed"),
  asking: events("Answered", "AskFailed"),
  hooking: events("HookReplied"),
  approving: events("Approved"),
  tools: events("ToolsFinished"),
  ended: new Set()
}

type Timed = { readonly elapsed?: number | undefined; readonly active?: number | undefined }

const timed = (state: RunState, { elapsed = 0, active = 0 }: Timed): RunState =>
  elapsed === 0 && active === 0
    ? state
    : {
        ...state,
        guard: {
          ...state.guard,
          elapsed: state.guard.elapsed + elapsed,
          active: state.guard.active + active
        }
      }
