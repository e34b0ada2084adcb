/**
 * The agent of the demo: a plain program of the AI SDK without any code for Outlast.
 *
 * The demo runs it twice, with the SDK's default retries, and changes one value: the model.
 */
import { isStepCount, streamText } from "ai"
import type { LanguageModel, ToolSet } from "ai"
import { Data, Effect, Predicate } from "effect"
import { task } from "./Project.ts"

/** The program failed: with the error that the AI SDK gave it. */
class ProgramFailed extends Data.TaggedError("ProgramFailed")<{ readonly message: string }> {}

/** More turns than the job needs, so that a model that never stops is cut off. */
const maxTurns = 20

/** Works until the model asks for no more tools. */
export const fixTheTest = (
  model: LanguageModel,
  tools: ToolSet,
  show: (text: string) => Promise<void>
): Effect.Effect<void, ProgramFailed> =>
  Effect.tryPromise({
    try: async (signal) => {
      const result = streamText({
        model,
        tools,
        instructions: "You are a careful programmer.",
        prompt: task,
        stopWhen: isStepCount(maxTurns),
        abortSignal: signal,
        // Errors arrive in the stream. By default the SDK also prints them.
        onError: () => {}
      })
      let text = ""
      let last = ""
      for await (const part of result.stream) {
        if (part.type === "text-delta") text += part.text
        if (part.type === "text-end") {
          await show(text)
          text = ""
        }
        if (part.type === "finish-step") last = part.finishReason
        if (part.type === "error") {
          if (text !== "") await show(`${text}…`)
          throw part.error
        }
      }
      if (last === "tool-calls") throw new Error(`The model asked for tools in ${maxTurns} turns in a row.`)
    },
    catch: (error) => new ProgramFailed({ message: said(error) })
  })

/** An error of the AI SDK, with its cause: "terminated" alone says little. */
const said = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = Predicate.hasProperty(error, "cause") ? error.cause : undefined
  const because = cause instanceof Error && cause.message !== error.message ? ` (${cause.message})` : ""
  return `${error.message}${because}`
}
