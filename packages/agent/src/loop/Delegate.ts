/**
 * An agent as the handler of another agent's tool: the sub-agent gets a task and gives back a text.
 *
 * The sub-agent shares the limits of the run around it: those of a guard, and those of the run's own `limits`. It has
 * its own conversation. A sub-agent that fails or reaches a limit does not end the run: the model reads how it ended,
 * and its last text.
 *
 * **Example** (A tool that delegates research)
 *
 * ```ts
 * const Research = Tool.make("research", {
 *   parameters: Delegate.Task,
 *   success: Schema.String,
 *   dependencies: [LanguageModel.LanguageModel]
 * })
 * const Live = Toolkit.make(Research).toLayer({ research: Delegate.handler({ toolkit: Web, maxTurns: 20 }) })
 * ```
 */
import { Effect, Schema } from "effect"
import type { Tool } from "effect/ai"
import * as Agent from "./Agent.ts"
import type { AgentFailed } from "./AgentFailed.ts"
import type { Outcome } from "./Outcome.ts"

/** The parameters of a tool that delegates. */
export const Task = Schema.Struct({
  /** The task, with all that the sub-agent has to know: it does not see this conversation. */
  task: Schema.String
})
export type Task = typeof Task.Type

/** Returns a handler that runs an agent with the task as its prompt. Fails with what the sub-agent's tools declare. */
export const handler =
  <Tools extends Record<string, Tool.Any> = {}, R = never>(
    options: Omit<Agent.Options<Tools, R>, "prompt">
  ) =>
  ({ task }: Task): Effect.Effect<string, Agent.ToolFailure<Tools>, Agent.Services<Tools, R>> =>
    Agent.run<Tools, R>({ ...options, prompt: task }).pipe(
      Effect.map(textOf),
      Effect.catch((error): Effect.Effect<string, Agent.ToolFailure<Tools>> =>
        isFailed(error)
          ? Effect.succeed(`The sub-agent failed in turn ${error.turn}. ${error.reason.message}`)
          : Effect.fail(error as Agent.ToolFailure<Tools>)
      )
    )

const isFailed = (error: unknown): error is AgentFailed =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "AgentFailed"

/** How a sub-agent ended, for the model that has called it. */
const textOf = ({ status, text, stop }: Outcome): string => {
  if (status === "completed") return text
  const why = stop === undefined ? "" : ` ${stop.message}`
  return `The sub-agent did not finish (${status}).${why}${text === "" ? "" : `\nIts last words: ${text}`}`
}
