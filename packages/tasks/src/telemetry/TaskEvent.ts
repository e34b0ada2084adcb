/** Events of tasks on `ResilienceEvents`: plain data, without ids, parameters and conversations. */
import { Metric, Schema } from "effect"
import type { Warnings } from "@outlast/resilience"
import { EventDefinition, StoreError } from "@outlast/resilience"

/** Unix time in milliseconds. */
const at = Schema.Finite

const ofTask = {
  at,
  /** Name of the agent. */
  task: Schema.String
}

const TaskSubmitted = Schema.TaggedStruct("TaskSubmitted", ofTask)
const TaskStarted = Schema.TaggedStruct("TaskStarted", ofTask)

const TaskRestarting = Schema.TaggedStruct("TaskRestarting", {
  ...ofTask,
  restart: Schema.Finite,
  /** The failure: `Network`. */
  reason: Schema.String,
  /** Milliseconds. */
  delay: Schema.Finite
})

const TaskInDoubt = Schema.TaggedStruct("TaskInDoubt", { ...ofTask, tool: Schema.String })

const TaskKilledProcess = Schema.TaggedStruct("TaskKilledProcess", {
  ...ofTask,
  /** Deaths of its process since its last recorded step. */
  deaths: Schema.Finite,
  /** True when its process has died three times with nothing beside the task: its step does not run again. */
  condemned: Schema.Boolean
})

const TaskEnded = Schema.TaggedStruct("TaskEnded", {
  ...ofTask,
  state: Schema.Literals(["Done", "Failed", "Cancelled"]),
  restarts: Schema.Finite
})

/** The worker cannot store what its tasks do. Once, until {@link TaskStoreBack}. */
const TaskStoreLost = Schema.TaggedStruct("TaskStoreLost", {
  at,
  reason: Schema.Literals(StoreError.reasons),
  message: Schema.String
})

/** Everything that waited for the store is stored. */
const TaskStoreBack = Schema.TaggedStruct("TaskStoreBack", {
  at,
  /** Milliseconds since {@link TaskStoreLost}. */
  after: Schema.Finite
})

/** Schema of every event of tasks. */
export const TaskEvent = Schema.Union([
  TaskSubmitted,
  TaskStarted,
  TaskRestarting,
  TaskInDoubt,
  TaskKilledProcess,
  TaskEnded,
  TaskStoreLost,
  TaskStoreBack
])
export type TaskEvent = typeof TaskEvent.Type

// -----------------------------------------------------------------------------
// Definitions
// -----------------------------------------------------------------------------

const counter = (name: string, description: string) =>
  Metric.counter(`outlast_${name}`, { description, incremental: true })

export const submitted = counter("tasks_submitted_total", "Tasks that were added to the queue")
export const started = counter("tasks_started_total", "Tasks that a worker began, resumed ones again")
export const restarts = counter("task_restarts_total", "Restarts of tasks that had lost their model")
export const inDoubt = counter("tasks_in_doubt_total", "Effects whose outcome a person has to tell")
export const killed = counter("task_process_deaths_total", "Deaths of a process that a task is suspected of")
export const storeLost = Metric.gauge("outlast_task_store_lost", {
  description: "1 while a worker waits for its store, else 0"
})
export const ended = counter("tasks_ended_total", "Tasks that ended, by their state")

const { named, seconds, silent } = EventDefinition
const warn = (text: string): Warnings.Line => ({ level: "Warn", text })
/** The label of an agent. */
const names = { agent: ({ task }: { readonly task: string }) => task }

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<TaskEvent> = {
  TaskSubmitted: {
    doc: "A task was added to the queue. A submission of a key that is there already adds none.",
    line: named(),
    metrics: [{ metric: submitted, names }]
  },
  TaskStarted: {
    doc: "A worker began a task. A task that was resumed begins again.",
    line: named(),
    metrics: [{ metric: started, names }]
  },
  TaskRestarting: {
    doc: "A task has lost its model, and asks again later.",
    line: ({ task, restart, reason, delay }) =>
      warn(`… a task of ${task} restarts in ${seconds(delay)} (${reason}, restart ${restart})`),
    metrics: [{ metric: restarts, names, words: { reason: ({ reason }) => reason } }]
  },
  TaskInDoubt: {
    doc: "The outcome of a tool's effect is not known. The task waits for a person.",
    line: ({ task, tool }) =>
      warn(`✗ a task of ${task} is in doubt: has ${tool} happened? See outlast tasks list --state InDoubt`),
    metrics: [{ metric: inDoubt, names }]
  },
  TaskKilledProcess: {
    doc: "The process of a task died twice or more at one step, so the task begins alone. At the third death alone its step is condemned.",
    line: ({ task, deaths, condemned }) =>
      warn(
        condemned
          ? `✗ a task of ${task} killed its process: ${deaths} deaths at one step, the last ones alone`
          : `… a task of ${task} begins alone: its process died ${deaths} times at one step`
      ),
    metrics: [
      { metric: killed, names, words: { verdict: ({ condemned }) => (condemned ? "condemned" : "suspect") } }
    ]
  },
  TaskEnded: {
    doc: "A task is done, failed, or was cancelled.",
    line: ({ task, state }) => ({
      level: state === "Failed" ? "Warn" : "Info",
      text: `  a task of ${task} ended: ${state}`
    }),
    metrics: [{ metric: ended, names, words: { state: ({ state }) => state } }]
  },
  TaskStoreLost: {
    doc: "A worker cannot store what its tasks do: they wait. Once, until `TaskStoreBack`.",
    // The worker logs it.
    line: silent,
    metrics: [{ metric: storeLost, value: () => 1 }]
  },
  TaskStoreBack: {
    doc: "Everything that waited for the store of tasks is stored.",
    line: silent,
    metrics: [{ metric: storeLost, value: () => 0 }]
  }
}
