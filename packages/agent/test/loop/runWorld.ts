/** Drives `RunState` with arbitrary events, as an interpreter would, and checks what must always hold. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { Prompt } from "effect/ai"
import type { Response } from "effect/ai"
import * as fc from "fast-check"
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { CompactionError } from "@outlast/agent/compaction"
import { LoopDetector } from "@outlast/agent/guard"
import type { RunAction, RunSettings } from "@outlast/agent/loop"
import { RunEvent, RunState, RunTranscript } from "@outlast/agent/loop"

export type Event = RunEvent.RunEvent

const stateJson = Schema.toCodecJson(RunState.RunState)
const eventJson = Schema.toCodecJson(RunEvent.RunEvent)

/** A state as the bytes that a store would keep. */
export const bytes = (state: RunState.RunState): string =>
  JSON.stringify(Schema.encodeUnknownSync(stateJson)(state))

/** An event after a store has written and read it. */
export const stored = (event: Event): Event =>
  Schema.decodeUnknownSync(eventJson)(JSON.parse(JSON.stringify(Schema.encodeUnknownSync(eventJson)(event))))

export interface Folded {
  readonly state: RunState.RunState
  readonly transcript: RunTranscript.RunTranscript
  readonly action: RunAction.RunAction
  readonly transitions: ReadonlyArray<string>
}

export const fold = (events: ReadonlyArray<Event>): Folded => {
  let state = RunState.initial
  let transcript = RunTranscript.empty
  let action: RunAction.RunAction = { _tag: "Fail", turn: 0 }
  const transitions: Array<string> = []
  for (const event of events) {
    const moved = RunState.step(state, event)
    transcript = RunTranscript.add(transcript, state, event, moved)
    state = moved.state
    action = moved.action
    transitions.push(...moved.transitions.map(({ transition }) => transition))
  }
  return { state, transcript, action, transitions }
}

export const failure = new ProviderFailure.ProviderFailure({
  reason: new FailoverReason.ServerError({}),
  evidence: { rule: "status/500", signal: "status", depth: 0 },
  detail: ""
})
const overflow = new ProviderFailure.ProviderFailure({
  reason: new FailoverReason.ContextOverflow({}),
  evidence: { rule: "status/400", signal: "status", depth: 0 },
  detail: ""
})
const exhausted = new CompactionError.ContextExhausted({
  reason: "poor_gains",
  times: 3,
  tokens: 10,
  window: 10,
  limit: 9,
  arithmetic: "10 of the window - 1 for the answer"
})

/** A source of choices: numbers below `n`. */
export type Draw = (n: number) => number

const finishes: ReadonlyArray<Response.FinishReason> = [
  "stop",
  "tool-calls",
  "length",
  "content-filter",
  "pause",
  "unknown"
]

const tools = ["read", "write", "bash"] as const

export const detector = LoopDetector.make("strict")

export const answer = (
  calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly params: unknown }>,
  options: Partial<Event & { readonly _tag: "Answered" }> = {},
  text = "text"
): Extract<Event, { readonly _tag: "Answered" }> => ({
  _tag: "Answered",
  messages: [
    Prompt.makeMessage("assistant", {
      content: [
        ...(text === "" ? [] : [Prompt.makePart("text", { text })]),
        ...calls.map((call) => Prompt.makePart("tool-call", { ...call, providerExecuted: false }))
      ]
    })
  ],
  finish: calls.length === 0 ? "stop" : "tool-calls",
  calls: calls.map(({ id, name }) => ({ id, name })),
  usage: { inputTokens: 100, cachedInputTokens: 10, outputTokens: 20 },
  ...options
})

export const result = (
  id: string,
  name: string,
  value: unknown,
  more: Partial<RunEvent.CallResult> = {}
): RunEvent.CallResult => ({
  part: Prompt.makePart("tool-result", {
    id,
    name,
    isFailure: false,
    result: value,
    providerExecuted: false
  }),
  ...more
})

/** Returns an event that may follow an action. */
export const reply = ({ action, transcript, state }: Folded, draw: Draw): Event => {
  const roll = draw(40)
  if (roll === 0) return { _tag: "Interrupted" }
  if (roll === 1) return { _tag: "Stopped", tripped: { reason: "money", limit: 1 } }
  if (roll === 2) return { _tag: "ToolFailed" }
  const took = { elapsed: draw(1_000), active: draw(500) }
  switch (action._tag) {
    case "Fit": {
      if (roll === 3) return { _tag: "FitFailed", reason: exhausted }
      const { length } = transcript.messages
      const remove = roll % 3 === 0 ? Math.min(length - 1, draw(4)) : 0
      // The end of the conversation is a whole turn, so that no pair is separated.
      const isCut = remove > 0 && transcript.messages[1 + remove]?.role === "assistant"
      const edits = isCut
        ? [
            {
              at: 1,
              remove,
              messages: [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "S" })] })]
            }
          ]
        : []
      return {
        _tag: "Fitted",
        edits,
        compacted: isCut,
        summaries: { calls: 0, tokens: 0, costUsd: undefined },
        memory: { thrash: { turn: state.turn, poor: 0 } },
        ...took
      }
    }
    case "Ask": {
      if (roll < 6) {
        return { _tag: "AskFailed", reason: roll < 5 ? failure : overflow, mayShrink: draw(2) === 0 }
      }
      const calls = Array.from({ length: draw(4) }, (_, i) => ({
        id: `${state.turn}-${draw(2) === 0 ? 0 : i}`,
        name: tools[draw(tools.length)] ?? "read",
        params: { path: `file-${draw(3)}`, content: "x" }
      }))
      const target = ["a", "b"][draw(2)] ?? "a"
      return answer(calls, {
        finish: calls.length > 0 && draw(5) > 0 ? "tool-calls" : (finishes[draw(finishes.length)] ?? "stop"),
        calls: calls.map(({ id, name }) => ({ id, name, approval: draw(4) === 0 })),
        usage: { inputTokens: draw(1_000), cachedInputTokens: 0, outputTokens: draw(1_000) },
        costUsd: draw(100) / 1_000,
        ...(draw(3) === 0 ? {} : { by: { target, provider: "p", model: target } }),
        ...(draw(9) === 0 ? { notes: { raisedTo: 64_000, continued: draw(3), mediaDropped: draw(2) } } : {}),
        ...took
      })
    }
    case "RunTools": {
      const results = transcript.open.map(({ id, name, params }, i) => {
        const value = draw(3) === 0 ? "same" : `result ${draw(1_000)}`
        const isRun = action.verdicts[i]?._tag !== "Block"
        const evidence = LoopDetector.evidence(detector, {
          turn: state.turn,
          tool: name,
          arguments: params,
          result: value,
          failed: false
        })
        return result(id, name, value, {
          ...(isRun ? { evidence } : {}),
          ...(draw(20) === 0
            ? { spent: { runs: 1, turns: 2, toolCalls: 3, events: 4, tokens: 5, costUsd: 0.01 } }
            : {})
        })
      })
      return { _tag: "ToolsFinished", results, ...took }
    }
    case "AskApproval":
      return { _tag: "Approved", decisions: action.calls.map(() => draw(2) === 0) }
    case "AskHook": {
      const count = action.point === "beforeStop" ? 1 : action.calls.length
      return {
        _tag: "HookReplied",
        replies: Array.from({ length: count }, (): RunEvent.HookReply => {
          const roll = draw(12)
          if (roll === 0) return { _tag: "Stop", message: "stop" }
          return roll < 3 ? { _tag: "Block", message: "blocked" } : { _tag: "Continue" }
        })
      }
    }
    default:
      throw new Error(`The run has ended with ${action._tag}.`)
  }
}

export const settings: fc.Arbitrary<RunSettings.RunSettings> = fc
  .record({
    maxTurns: fc.integer({ min: 1, max: 30 }),
    maxCost: fc.option(fc.double({ min: 0.05, max: 2, noNaN: true }), { nil: undefined }),
    limits: fc.option(
      fc.record(
        {
          toolCalls: fc.integer({ min: 1, max: 40 }),
          turns: fc.integer({ min: 1, max: 40 }),
          events: fc.integer({ min: 1, max: 200 }),
          fileEdits: fc.integer({ min: 1, max: 9 }),
          tokens: fc.integer({ min: 1, max: 30_000 }),
          time: fc.integer({ min: 1, max: 9_000 }),
          depth: fc.constantFrom(0, 2),
          subagents: fc.integer({ min: 0, max: 9 })
        },
        { requiredKeys: [] }
      ),
      { nil: undefined }
    ),
    loops: fc.constantFrom(undefined, "strict" as const, "soft" as const, "tell" as const),
    tokenBudget: fc.constantFrom(undefined, 5_000, 1_000_000),
    hooks: fc.subarray(["beforeTool", "afterTool", "beforeStop"] as const),
    suspends: fc.boolean(),
    maxReactive: fc.constantFrom(undefined, 0, 2)
  })
  .map((all) => all)

export const started = (settings: RunSettings.RunSettings): Event => ({
  _tag: "Started",
  settings,
  messages: [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "go" })] })]
})

/** Every call has exactly one result, in the message after it. */
export const assertLegal = ({ content }: Prompt.Prompt): void => {
  for (const [i, message] of content.entries()) {
    if (message.role === "tool") assert.strictEqual(content[i - 1]?.role, "assistant")
    if (message.role !== "assistant") continue
    const calls = message.content.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
    const after = content[i + 1]
    const results =
      after?.role === "tool"
        ? after.content.flatMap((part) => (part.type === "tool-result" ? [part.id] : []))
        : []
    assert.deepStrictEqual(results, calls)
  }
}
