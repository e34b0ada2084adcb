/** Agent runs that survive their process. Each namespace is one module. */
export * as Journal from "./journal/Journal.ts"
export * as Restart from "./restart/Restart.ts"
export * as Task from "./Task.ts"
export { KeyReused, NoSuchTask, NotNow, QueueFull } from "./TaskErrors.ts"
export * as Tasks from "./Tasks.ts"
export type { TaskEvent } from "./telemetry/TaskEvent.ts"
export { type EffectRecord, TaskFailed, TaskState, type TaskStatus, Verdict } from "./TaskState.ts"
