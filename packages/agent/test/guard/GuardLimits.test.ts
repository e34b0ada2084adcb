/** Each limit of `GuardState` at its edge, with the reason it gives. */
import { assert, describe, it } from "@effect/vitest"
import type { StopReason } from "@outlast/agent"
import { Limits } from "@outlast/agent"
import { GuardState } from "@outlast/agent/guard"

const { initial } = GuardState
const denied = { tool: "a", turn: 1, pattern: "identical", message: "" } as const

/** Takes the same step until it is refused. Returns the number of admitted steps and the refusal. */
const until = (
  step: (state: GuardState.GuardState) => GuardState.Step,
  start = initial
): { readonly admitted: number; readonly state: GuardState.GuardState; readonly tripped: unknown } => {
  let state = start
  for (let admitted = 0; admitted < 100; admitted++) {
    const [tripped, next] = step(state)
    if (tripped !== undefined) return { admitted, state, tripped }
    state = next
  }
  return { admitted: 100, state, tripped: undefined }
}

interface Case {
  readonly limits: Limits.Limits
  readonly step: (bounds: Limits.Bounds, state: GuardState.GuardState) => GuardState.Step
  readonly admitted: number
  readonly tripped: StopReason.Tripped
}

const call: Case["step"] = GuardState.admitCall
const event: Case["step"] = GuardState.admitEvent
const tool: Case["step"] = (bounds, state) => GuardState.admitTool(bounds, state, { tool: "a", files: ["f"] })
const denial: Case["step"] = (bounds, state) => GuardState.admitDenial(bounds, state, denied)
const agent =
  (depth: number, running: number): Case["step"] =>
  (bounds, state) =>
    GuardState.admitAgent(bounds, state, { depth, running })
const paid: Case["step"] = (bounds, state) => {
  const [tripped, next] = GuardState.admitCall(bounds, state)
  return [tripped, GuardState.spent(next, { tokens: 10, costUsd: 1 })]
}
const subagents = { depth: 2, breadth: 3, total: 4 }
const detail = (what: string) => `reached maximum of ${what}.`

const cases: Readonly<Record<string, Case>> = {
  "turns, at a call of the model": {
    limits: { turns: 3 },
    step: call,
    admitted: 3,
    tripped: { reason: "turns", limit: 3 }
  },
  "tokens, at the next call": {
    limits: { tokens: 20 },
    step: paid,
    admitted: 2,
    tripped: { reason: "tokens", limit: 20 }
  },
  "money, at the next call": {
    limits: { money: 2 },
    step: paid,
    admitted: 2,
    tripped: { reason: "money", limit: 2 }
  },
  events: { limits: { events: 3 }, step: event, admitted: 3, tripped: { reason: "max_events", limit: 3 } },
  "events, at tool calls, which are two each": {
    limits: { events: 4 },
    step: tool,
    admitted: 2,
    tripped: { reason: "max_events", limit: 4 }
  },
  "events, at a tool call for which one is left": {
    limits: { events: 5 },
    step: tool,
    admitted: 2,
    tripped: { reason: "max_events", limit: 5 }
  },
  "events, at denials, which are two each": {
    limits: { events: 4 },
    step: denial,
    admitted: 2,
    tripped: { reason: "max_events", limit: 4 }
  },
  "tool calls": {
    limits: { toolCalls: 2 },
    step: tool,
    admitted: 2,
    tripped: { reason: "max_tool_calls", limit: 2 }
  },
  "calls of one tool": {
    limits: { tools: { a: 2 } },
    step: tool,
    admitted: 2,
    tripped: { reason: "tool_limit", limit: 2, subject: "a" }
  },
  "edits of one file": {
    limits: { fileEdits: 2 },
    step: tool,
    admitted: 2,
    tripped: { reason: "file_loop", limit: 2, subject: "f" }
  },
  "all sub-agents": {
    limits: { subagents },
    step: agent(2, 2),
    admitted: 4,
    tripped: { reason: "subagents", limit: 4, detail: detail("4 sub-agents") }
  },
  "sub-agents of one agent at a time": {
    limits: { subagents },
    step: agent(1, 3),
    admitted: 0,
    tripped: { reason: "subagents", limit: 3, detail: detail("3 sub-agents of one agent at a time") }
  },
  "levels of sub-agents": {
    limits: { subagents },
    step: agent(3, 0),
    admitted: 0,
    tripped: { reason: "subagents", limit: 2, detail: detail("2 levels of sub-agents") }
  }
}

describe("a limit admits exactly its number, and gives its reason", () => {
  for (const [name, { limits, step, admitted, tripped }] of Object.entries(cases)) {
    it(name, () => {
      const bounds = Limits.make(limits)
      const end = until((state) => step(bounds, state))
      assert.strictEqual(end.admitted, admitted)
      assert.deepStrictEqual(end.tripped, tripped)
      const [, stopped] = step(bounds, end.state)
      assert.deepStrictEqual(stopped.stopped, tripped)
      assert.isUndefined(GuardState.resumed(stopped).stopped)
      assert.deepStrictEqual({ ...GuardState.resumed(stopped), stopped: tripped }, stopped)
    })
  }

  it("events, at a call of the model", () => {
    const bounds = Limits.make({ events: 1 })
    const [, full] = GuardState.admitEvent(bounds, initial)
    assert.deepStrictEqual(GuardState.admitCall(bounds, full)[0], { reason: "max_events", limit: 1 })
  })
})

describe("GuardState", () => {
  it("counts calls only of tools with a limit of their own", () => {
    const bounds = Limits.make({ tools: { a: 5 } })
    const use = (state: GuardState.GuardState, tool: string) =>
      GuardState.admitTool(bounds, state, { tool, files: [] })[1]
    const state = ["a", "b", "a", "toString"].reduce(use, initial)
    assert.deepStrictEqual([...state.tools], [["a", 2]])
    assert.strictEqual(state.toolCalls, 4)
  })

  it("counts no agent of depth 0, and always admits it", () => {
    const bounds = { ...Limits.make(), breadth: 0, subagents: 0 }
    assert.deepStrictEqual(GuardState.admitAgent(bounds, initial, { depth: 0, running: 9 }), [
      undefined,
      initial
    ])
  })

  it("admits nothing after a stop, and keeps the first reason", () => {
    const first = { reason: "cycle" } as const
    const stopped = GuardState.stop(initial, first)
    const bounds = Limits.make()
    for (const step of [call, event, tool, denial, agent(0, 0), agent(1, 0)]) {
      assert.deepStrictEqual(step(bounds, stopped), [first, stopped])
    }
    assert.strictEqual(GuardState.stop(stopped, { reason: "timeout" }), stopped)
  })

  it("shortens names and texts of a stop", () => {
    const { stopped } = GuardState.stop(initial, {
      reason: "tool_loop",
      subject: "s".repeat(300),
      detail: "d".repeat(2_000)
    })
    assert.deepStrictEqual(stopped, {
      reason: "tool_loop",
      subject: "s".repeat(200),
      detail: "d".repeat(1_000)
    })
  })
})
