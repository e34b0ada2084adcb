/** Events of tasks on `ResilienceEvents`: plain data, without ids, parameters and conversations. */
interface OfTask {
  /** Unix time in milliseconds. */
  readonly at: number
  /** Name of the agent. */
  readonly task: string
}

/** A task has lost its model, and asks again later. */
interface TaskRestarting extends OfTask {
  readonly _tag: "TaskRestarting"
  readonly restart: number
  /** The failure: `Network`. */
  readonly reason: string
  /** Milliseconds. */
  readonly delay: number
}

/** The outcome of a tool's effect is not known. The task waits for a person. */
interface TaskInDoubt extends OfTask {
  readonly _tag: "TaskInDoubt"
  readonly tool: string
}

interface TaskEnded extends OfTask {
  readonly _tag: "TaskEnded"
  readonly state: "Done" | "Failed" | "Cancelled"
  readonly restarts: number
}

export type TaskEvent = TaskRestarting | TaskInDoubt | TaskEnded
