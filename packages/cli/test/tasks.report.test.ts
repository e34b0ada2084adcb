/** Lines about tasks, as pure functions. */
import { assert, it } from "vitest"
import type { EffectRecord, TaskStatus } from "@outlast/tasks"
import * as Report from "#cli/tasks/Report"

const effect: EffectRecord = {
  key: "triage/1#1.1/turn/1/tool/look-1",
  task: "triage/1",
  generation: 1,
  tool: "look",
  turn: 1,
  callId: "look-1",
  params: {},
  attempt: 1,
  holder: "w",
  boot: "b",
  at: 1
}

const status = (state: TaskStatus["state"], deaths: number): TaskStatus => ({
  id: "triage/1",
  task: "triage",
  version: 1,
  generation: 1,
  state,
  since: 1,
  submittedAt: 1,
  restarts: 0,
  deaths,
  costUsd: undefined
})

it("shows how often the process of a task has died, and asks whether its step shall run again", () => {
  const running = { _tag: "Running", turn: 1, worker: "w" } as const
  const linesOf = (status: TaskStatus) => Report.lines(status, undefined, false).join("\n")
  assert.include(linesOf(status(running, 2)), "deaths      2 of its process at this step")
  assert.notInclude(linesOf(status(running, 0)), "deaths")
  assert.strictEqual(
    Report.words({ _tag: "InDoubt", effect: { ...effect, deaths: 3 } }),
    "in doubt: look ended its process 3 times; shall it run again?"
  )
  assert.strictEqual(Report.words({ _tag: "InDoubt", effect }), "in doubt: has look happened?")
})
