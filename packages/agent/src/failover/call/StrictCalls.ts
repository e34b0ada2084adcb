/**
 * Tool calls that effect/ai would run, or fail for with an error that says little, although the model got them wrong.
 *
 * effect/ai checks arguments by the tool's own schema, and reports them as its tool's `failureMode` says. Two mistakes
 * it does not see: a name that no tool has, which fails as output of another schema, and arguments that are no JSON for
 * a tool with a JSON Schema only, whose handler would get their text. Programs that take calls unchecked
 * (`toolCallValidation: "deferred"`), as `Agent` and `toAiSdk` do, get both.
 */
import { AiError, Tool } from "effect/ai"
import type { LanguageModel, Response } from "effect/ai"

/** Why the parts of an answer cannot be given to effect/ai. */
export const mistakeIn = (
  { tools, toolChoice, toolCallValidation }: LanguageModel.ProviderOptions,
  parts: ReadonlyArray<Response.AllPartsEncoded>
): AiError.AiErrorReason | undefined => {
  // A choice among the tools leaves the others out here.
  if (toolCallValidation === "deferred" || (typeof toolChoice === "object" && "oneOf" in toolChoice)) {
    return undefined
  }
  for (const part of parts) {
    if (part.type !== "tool-call" || part.providerExecuted === true) continue
    const tool = tools.find(({ name }) => name === part.name)
    if (tool === undefined) {
      const availableTools = tools.map(({ name }) => name)
      return new AiError.ToolNotFoundError({ toolName: part.name, availableTools })
    }
    if (typeof part.params === "string" && Tool.isDynamic(tool)) {
      const description = "The arguments are not valid JSON."
      return new AiError.ToolParameterValidationError({ toolName: part.name, description })
    }
  }
  return undefined
}
