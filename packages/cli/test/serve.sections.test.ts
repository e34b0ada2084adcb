/** Sections of the status page, as pure functions. */
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
  costUsd: undefined
})

it("offers an approval only where every call is shown", () => {
  const [few, many] = Sections.tasks([waiting(20), waiting(21)])
  assert.lengthOf(few !== undefined && "calls" in few ? (few.calls ?? []) : [], 20)
  assert.notProperty(many, "calls")
  assert.isString(many?.decision)
})
