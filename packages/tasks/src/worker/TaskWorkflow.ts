/** The one workflow type of all tasks, and what its executions wait for. */
import { Schema } from "effect"
import { DurableDeferred, Workflow } from "effect/workflow"
import { Verdict } from "../TaskState.ts"

/** Version of the body. A worker refuses a task whose body it does not know. */
export const body = 1

/** The agent's name and version are in the payload: an engine loses tasks of a workflow type that no worker knows. */
export const TaskWorkflow = Workflow.make("Outlast/Task/v1", {
  payload: {
    id: Schema.String,
    generation: Schema.Int,
    task: Schema.String,
    version: Schema.Int,
    body: Schema.Int
  },
  idempotencyKey: ({ id, generation }) => `${id}#${generation}`
})
export type Payload = typeof TaskWorkflow.payloadSchema.Type

/** Why a wait ended. */
export const Wake = Schema.Union([
  Schema.TaggedStruct("Due", {}),
  Schema.TaggedStruct("Cancelled", {}),
  Schema.TaggedStruct("Decided", { verdict: Verdict })
])
export type Wake = typeof Wake.Type

/** What a task waits for under a name. */
export const deferred = (name: string) => DurableDeferred.make(`wait/${name}`, { success: Wake })
