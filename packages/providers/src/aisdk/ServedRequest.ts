/**
 * Converts the options of an AI SDK call to those of an effect/ai call, with warnings for unsupported settings.
 *
 * Tools are offered and never run here. Their calls return to the AI SDK unchecked, which runs them. Sampling,
 * thinking, headers and provider options reach the targets through the `ClientCall`.
 */
import type { JSONSchema7, LanguageModelV4CallOptions, SharedV4Warning } from "@ai-sdk/provider"
import { JsonShape } from "@outlast/agent/conversation"
import { Schema } from "effect"
import type { LanguageModel, Prompt, Toolkit } from "effect/ai"
import { ClientCall } from "./ClientCall.ts"
import { isCredential } from "./Secrets.ts"
import * as ServedPrompt from "./ServedPrompt.ts"
import * as ServedTools from "./ServedTools.ts"

export interface Request {
  readonly client: ClientCall
  readonly call: Call
  /** The requested object, if the call asks for one. */
  readonly object: { readonly objectName: string; readonly schema: ObjectSchema } | undefined
  readonly maxOutputTokens: number | undefined
  readonly warnings: Array<SharedV4Warning>
}

/** An effect/ai call whose tools are not resolved. */
interface Call {
  readonly prompt: Prompt.Prompt
  readonly toolkit: Toolkit.WithHandler<{}>
  readonly toolChoice: LanguageModel.ToolChoice<never>
  readonly disableToolCallResolution: true
  readonly toolCallValidation: "deferred"
}

/** JSON with the fields that the schema requires. The AI SDK checks the rest with its own schema. */
type ObjectSchema = Schema.Codec<Record<string, unknown>>

/** `decode` converts the prompt. Default: as if it were the first of its conversation. */
export const make = (
  options: LanguageModelV4CallOptions,
  decode: typeof ServedPrompt.decode = ServedPrompt.decode
): Request => {
  const { responseFormat, tools = [] } = options
  const format = responseFormat?.type === "json" ? responseFormat : undefined
  return {
    client: new ClientCall(options),
    call: {
      prompt: decode(options.prompt),
      toolkit: offering(tools),
      toolChoice: toolChoice(options.toolChoice),
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    },
    object:
      format === undefined
        ? undefined
        : // Without a schema any JSON is right.
          {
            objectName: format.name ?? "response",
            schema: objectSchema(format.schema ?? {}, format.description)
          },
    maxOutputTokens: options.maxOutputTokens,
    warnings: warningsOf(options)
  }
}

/** Typed as empty, because calls return unchecked whatever the tools are. */
const offering = (tools: ReadonlyArray<ServedTools.AnyTool>): Toolkit.WithHandler<{}> => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, ServedTools.offered(tool)])),
  // The empty type has no names, so this handler cannot be called.
  handle: (name: never) => name
})

const toolChoice = (choice: LanguageModelV4CallOptions["toolChoice"]): LanguageModel.ToolChoice<never> => {
  if (choice === undefined) return "auto"
  // The choice names one of the tools, whose names the empty type does not have.
  return choice.type === "tool" ? { tool: choice.toolName as never } : choice.type
}

/** Accepts values that `JsonShape` accepts for this JSON Schema. The AI SDK applies defaults and transformations. */
const objectSchema = (schema: JSONSchema7, description: string | undefined): ObjectSchema => {
  const written =
    description === undefined ? ServedTools.plain(schema) : { description, ...ServedTools.plain(schema) }
  return Schema.Any.check(
    Schema.makeFilter(
      (value) => {
        const found = JsonShape.misfit(written, value)
        return found === undefined ? undefined : { path: found.path, issue: `Expected ${found.expected}` }
      },
      { toJsonSchema: () => written }
    )
  )
}

const warningsOf = (options: LanguageModelV4CallOptions): Array<SharedV4Warning> =>
  Object.entries(options.headers ?? {})
    .filter(([name, value]) => value !== undefined && isCredential(name))
    .map(([name]): SharedV4Warning => ({
      type: "unsupported",
      feature: `header ${name}`,
      details: "The header would reach every target. Set it on one target: `keys` or `headers`."
    }))
