/** Agent runs that survive their process. Each namespace is one module. */
export * as Journal from "./journal/Journal.ts"
export * as Restart from "./restart/Restart.ts"
export * as Task from "./Task.ts"
export { KeyReused, NoSuchTask, NotNow, QueueFull, StaleDecision } from "./state/TaskErrors.ts"
export * as Tasks from "./Tasks.ts"
export { TaskStore } from "./store/TaskStore.ts"
export { EngineRows } from "./cluster/EngineRows.ts"
export { TaskEvent } from "./telemetry/TaskEvent.ts"
export * as TaskMetrics from "./telemetry/TaskMetrics.ts"
export {
  type EffectRecord,
  type FailReason,
  type StateTag,
  TaskFailed,
  TaskState,
  type TaskStatus,
  type Unreadable,
  Verdict,
  type WaitingCall
} from "./state/TaskState.ts"
export type { Worker } from "./worker/Worker.ts"
