/** The one workflow type of all tasks, and what its executions wait for. */
import { Schema } from "effect"
import { DurableDeferred, Workflow } from "effect/workflow"
import type { Row } from "../store/TaskStore.ts"
import { Verdict } from "../state/TaskState.ts"

/** Identifies a generation of a task: a key that is used again after a `prune` is another task. */
export const runOf = ({
  id,
  submittedAt,
  generation
}: Pick<Row, "id" | "submittedAt" | "generation">): string => `${id}#${submittedAt}.${generation}`

/** Version of the body. A worker refuses a task whose body it does not know. */
export const body = 2

/** The agent's name and version are in the payload: an engine loses tasks of a workflow type that no worker knows. */
export const TaskWorkflow = Workflow.make("Outlast/Task/v1", {
  payload: {
    id: Schema.String,
    submittedAt: Schema.Finite,
    generation: Schema.Int,
    task: Schema.String,
    version: Schema.Int,
    body: Schema.Int
  },
  idempotencyKey: (payload) => runOf(payload)
})
export type Payload = typeof TaskWorkflow.payloadSchema.Type

/** Why a wait ended. */
export const Wake = Schema.Union([
  Schema.TaggedStruct("Due", {}),
  Schema.TaggedStruct("Cancelled", {}),
  Schema.TaggedStruct("Decided", { verdict: Verdict })
])
export type Wake = typeof Wake.Type
export const wakeJson = Schema.fromJsonString(Schema.toCodecJson(Wake))

/** The wait of a task that has this name. */
export const deferred = (name: string) => DurableDeferred.make(`wait/${name}`, { success: Wake })

/** The payload of a task for the engine. */
export const payloadOf = ({ id, submittedAt, generation, task, version }: Row): Payload => ({
  id,
  submittedAt,
  generation,
  task,
  version,
  body
})
