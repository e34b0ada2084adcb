/** Sections of the status page, as pure functions. */
import { Duration } from "effect"
import { assert, it } from "vitest"
import type { TaskStatus } from "@outlast/tasks"
import * as Sections from "#cli/serve/Sections"

const waiting = (calls: number): TaskStatus => ({
  id: "prompt/1",
  task: "prompt",
  version: 1,
  generation: 1,
  state: {
    _tag: "WaitingForApproval",
    calls: Array.from({ length: calls }, (_, n) => ({ id: `call-${n}`, tool: "pay", params: { cents: n } }))
  },
  since: 1,
  submittedAt: 1,
  restarts: 0,
  deaths: 0,
  costUsd: undefined
})

it("offers an approval only where every call is shown", () => {
  const [few, many] = Sections.tasks([waiting(20), waiting(21)])
  assert.lengthOf(few !== undefined && "calls" in few ? (few.calls ?? []) : [], 20)
  assert.notProperty(many, "calls")
  assert.isString(many?.decision)
})

it("shows what the settings come to, with durations as text and no texts for models", () => {
  const shown = Sections.configuration({
    policy: { preset: "background", maxAttempts: 7 },
    guard: { turns: 5, totalTime: Duration.hours(2), subagents: { depth: 1 } }
  })
  assert.deepNestedInclude(shown, {
    enabled: true,
    "policy.preset": "background",
    "policy.maxAttempts": 7,
    "policy.limits.connect": "10s",
    "policy.rows.ServerError.then": "retry",
    "guard.turns": 5,
    "guard.toolCalls": 400,
    "guard.time": { active: "60 minutes", total: "2h" },
    "guard.subagents": { depth: 1, breadth: 8, total: 32 },
    "compaction.act": 0.9
  })
  assert.notMatch(JSON.stringify(shown), /wording|notices|nudges|_id/)
})

it("shows known rate limits, with the time at which they are full and the next call may go", () => {
  const known = { kind: "requests", source: "provider", limit: 50, remaining: 0 } as const
  const limits = Sections.limits(
    "a/m",
    [
      { ...known, resetsIn: Duration.seconds(60), wait: Duration.seconds(2) },
      { ...known, resetsIn: undefined, wait: Duration.infinity },
      { ...known, remaining: 3, resetsIn: Duration.zero, wait: undefined }
    ],
    1_000
  )
  assert.deepStrictEqual(
    limits.map(({ freeAt, resetsAt, target }) => [target, resetsAt, freeAt]),
    [
      ["a/m", 61_000, 3_000],
      ["a/m", null, null],
      ["a/m", 1_000, 0]
    ]
  )
})
