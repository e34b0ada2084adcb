/**
 * The conversation of a run: a second fold of its events, beside `RunState`. Pure.
 *
 * {@link promptOf} is legal at every moment: each call of the run has its result, or one that says why there is none.
 * The record also has what an outcome shows and the state does not keep: the last blocked calls.
 */
import { Prompt } from "effect/ai"
import * as BlockedCalls from "../guard/BlockedCalls.ts"
import type { Verdict } from "./RunAction.ts"
import type { Edit, HookReply, RunEvent } from "./RunEvent.ts"
import type { Moved, RunState } from "./RunModel.ts"
import { textOf } from "./RunModel.ts"

/** A call of the last answer. */
export interface Call {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

export interface RunTranscript {
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Calls of the last answer that the run executes, in order. */
  readonly calls: ReadonlyArray<Call>
  /** Those of them that have no result yet: all or none. */
  readonly open: ReadonlyArray<Call>
  /** Why an open call has no result. */
  readonly closing: string
  readonly blocked: BlockedCalls.BlockedCalls
  /** The text of the last answer. */
  readonly text: string
}

export const empty: RunTranscript = {
  messages: [],
  calls: [],
  open: [],
  closing: "This call was not run.",
  blocked: BlockedCalls.none,
  text: ""
}

/** Adds an event. `state` is the state before it, and `transitions` are those that `RunState.step` made of it. */
export const add = (
  before: RunTranscript,
  state: RunState,
  event: RunEvent,
  { transitions }: Moved
): RunTranscript => {
  const after = withEvent(before, state, event)
  const said = transitions.flatMap(({ message }) => (message === undefined ? [] : [message]))
  return said.length === 0 ? after : { ...after, messages: [...after.messages, ...said.map(user)] }
}

const user = (text: string): Prompt.Message =>
  Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text })] })

const withEvent = (before: RunTranscript, state: RunState, event: RunEvent): RunTranscript => {
  switch (event._tag) {
    case "Started":
      return { ...empty, messages: event.messages }
    case "Fitted":
      return event.edits.length === 0 ? before : { ...before, messages: edited(before.messages, event.edits) }
    case "Answered": {
      const calls = callsOf(event.messages)
      return {
        ...before,
        messages: [...before.messages, ...event.messages],
        calls,
        open: calls,
        text: textOf(event.messages)
      }
    }
    case "AskFailed":
      return event.partial === undefined
        ? before
        : { ...before, messages: [...before.messages, ...event.partial] }
    case "ToolsFinished": {
      const { results } = event
      let { blocked } = before
      for (const [i, { blocked: around }] of results.entries()) {
        const call = state.calls[i]
        const why = around ?? blockOf(call?.verdict)
        if (why !== undefined && call !== undefined) {
          blocked = BlockedCalls.add(blocked, { tool: call.name, turn: state.turn, ...why })
        }
      }
      const parts = results.map(({ part }) => part)
      return { ...before, messages: withResults(before.messages, parts), open: [], blocked }
    }
    case "HookReplied":
      return state.hook === "afterTool"
        ? { ...before, messages: replaced(before.messages, state, event.replies) }
        : before
    case "ToolFailed":
    case "Stopped":
    case "Interrupted": {
      const closing = closings[event._tag][state.phase === "tools" ? "during" : "before"]
      const partial = event._tag === "Interrupted" ? (event.partial ?? []) : []
      const messages = [...before.messages, ...partial]
      if (event.results === undefined) return { ...before, messages, closing }
      const parts = before.open.map((call, i) => event.results?.[i] ?? refusal(call, closing))
      return { ...before, messages: withResults(messages, parts), open: [], closing }
    }
    default:
      return before
  }
}

/** What the model reads about a call without a result: the run ended `before` the call ran, or `during` it. */
const closings = {
  ToolFailed: {
    before: "The run failed before this call was run.",
    during: "A tool ended the run."
  },
  Stopped: {
    before: "The run was stopped before this call was run.",
    during:
      "The run was stopped while this call ran: it has no result, and whether it had an effect is not known."
  },
  Interrupted: {
    before: "The run was cancelled before this call was run.",
    during:
      "The run was cancelled while this call ran: it has no result, and whether it had an effect is not known."
  }
} as const

const blockOf = (
  verdict: Verdict | undefined
): Pick<BlockedCalls.BlockedCall, "pattern" | "message"> | undefined =>
  verdict?._tag === "Block" && verdict.pattern !== undefined
    ? { pattern: verdict.pattern, message: verdict.message }
    : undefined

const withResults = (
  messages: ReadonlyArray<Prompt.Message>,
  parts: ReadonlyArray<Prompt.ToolResultPart>
): ReadonlyArray<Prompt.Message> =>
  parts.length === 0 ? messages : [...messages, Prompt.makeMessage("tool", { content: parts })]

const refusal = ({ id, name }: Call, reason: string): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", {
    id,
    name,
    isFailure: true,
    result: { type: "execution-failed", reason },
    providerExecuted: false
  })

/** Calls that the run executes, in order. */
export const callsOf = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Call> =>
  messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((part) =>
          part.type === "tool-call" && !part.providerExecuted
            ? [{ id: part.id, name: part.name, params: part.params }]
            : []
        )
      : []
  )

/** The conversation as a legal prompt. */
export const promptOf = ({ messages, open, closing }: RunTranscript): Prompt.Prompt =>
  Prompt.fromMessages(
    withResults(
      messages,
      open.map((call) => refusal(call, closing))
    )
  )

// -----------------------------------------------------------------------------
// Edits
// -----------------------------------------------------------------------------

const edited = (
  messages: ReadonlyArray<Prompt.Message>,
  edits: ReadonlyArray<Edit>
): ReadonlyArray<Prompt.Message> => {
  const after: Array<Prompt.Message> = []
  let from = 0
  for (const edit of edits) {
    for (; from < edit.at; from++) {
      const kept = messages[from]
      if (kept !== undefined) after.push(kept)
    }
    for (const message of edit.messages) after.push(message)
    from = edit.at + edit.remove
  }
  for (const message of messages.slice(from)) after.push(message)
  return after
}

/** The edits that turn one list of messages into another. Messages that stayed are found by identity. */
export const editsOf = (
  before: ReadonlyArray<Prompt.Message>,
  after: ReadonlyArray<Prompt.Message>
): ReadonlyArray<Edit> => {
  if (before === after) return []
  const places = new Map(before.map((message, i) => [message, i]))
  const edits: Array<Edit> = []
  let from = 0
  let messages: Array<Prompt.Message> = []
  const flush = (to: number): void => {
    if (to > from || messages.length > 0) edits.push({ at: from, remove: to - from, messages })
    messages = []
  }
  for (const message of after) {
    const at = places.get(message)
    if (at === undefined || at < from) {
      messages.push(message)
      continue
    }
    flush(at)
    from = at + 1
  }
  flush(before.length)
  return edits
}

/** Replaces results that a hook has blocked with its message. The results are the last message. */
const replaced = (
  messages: ReadonlyArray<Prompt.Message>,
  { calls }: RunState,
  replies: ReadonlyArray<HookReply>
): ReadonlyArray<Prompt.Message> => {
  const last = messages.at(-1)
  if (last?.role !== "tool" || !replies.some(({ _tag }) => _tag === "Block")) return messages
  let at = 0
  const content = last.content.map((part, i) => {
    // A blocked call was not shown to the hook.
    const reply = calls[i]?.verdict._tag === "Block" ? undefined : replies[at++]
    return part.type === "tool-result" && reply?._tag === "Block"
      ? Prompt.makePart("tool-result", {
          id: part.id,
          name: part.name,
          isFailure: true,
          result: { type: "execution-denied", reason: reply.message },
          providerExecuted: false
        })
      : part
  })
  return [...messages.slice(0, -1), Prompt.makeMessage("tool", { content })]
}
