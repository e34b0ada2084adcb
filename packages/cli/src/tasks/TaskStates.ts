/** The states of a task that `outlast tasks list` can select. */
import type { TaskStatus } from "@outlast/tasks"

export const states = [
  "Queued",
  "Running",
  "Retrying",
  "WaitingUntil",
  "WaitingForWorker",
  "WaitingForApproval",
  "InDoubt",
  "Done",
  "Failed",
  "Cancelled"
] as const satisfies ReadonlyArray<TaskStatus["state"]["_tag"]>

export type State = (typeof states)[number]
