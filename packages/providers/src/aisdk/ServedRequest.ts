/**
 * What an AI SDK call asks for, as options of an effect/ai call, and warnings for what it asks in vain.
 *
 * Tools are offered and never run here: their calls go back to the AI SDK unchecked, which runs them. Sampling,
 * thinking, headers and provider options go to the targets in the `ClientCall`.
 */
import type { JSONSchema7, LanguageModelV4CallOptions, SharedV4Warning } from "@ai-sdk/provider"
import { JsonShape } from "@outlast/agent/conversation"
import { Schema } from "effect"
import type { LanguageModel, Prompt, Toolkit } from "effect/ai"
import { Tool } from "effect/ai"
import * as Tools from "./SpecTools.ts"
import { ClientCall } from "./ClientCall.ts"
import { isCredential } from "./Secrets.ts"
import * as ServedPrompt from "./ServedPrompt.ts"

export interface Request {
  readonly client: ClientCall
  readonly call: Call
  /** What the answer must be, when it is to be an object. */
  readonly object: { readonly name: string; readonly schema: ObjectSchema } | undefined
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

/** JSON that has what the schema asks for: the AI SDK does the rest, with its own schema. */
type ObjectSchema = Schema.Codec<Record<string, unknown>>

export const make = (options: LanguageModelV4CallOptions): Request => {
  const { responseFormat, tools = [] } = options
  const format = responseFormat?.type === "json" ? responseFormat : undefined
  return {
    client: new ClientCall(options),
    call: {
      prompt: ServedPrompt.decode(options.prompt),
      toolkit: offering(tools),
      toolChoice: toolChoice(options.toolChoice),
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    },
    object:
      format?.schema === undefined
        ? undefined
        : { name: format.name ?? "response", schema: objectSchema(format.schema, format.description) },
    maxOutputTokens: options.maxOutputTokens,
    warnings: warningsOf(options)
  }
}

type AnyTool = NonNullable<LanguageModelV4CallOptions["tools"]>[number]

/** Typed as empty: calls come back unchecked, whatever tools there are. */
const offering = (tools: ReadonlyArray<AnyTool>): Toolkit.WithHandler<{}> => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, offered(tool)])),
  // No name is in the empty type: nobody can ask for a handler.
  handle: (name: never) => name
})

const offered = (tool: AnyTool): Tool.Any => {
  if (tool.type === "provider") {
    return Tool.providerDefined({
      id: tool.id,
      customName: tool.name,
      providerName: tool.name,
      args: Schema.Unknown,
      parameters: Schema.Unknown,
      success: Schema.Unknown,
      failure: Schema.Unknown
    })(tool.args).annotate(Tools.Original, tool)
  }
  const made = Tool.dynamic(tool.name, {
    description: tool.description,
    // JSON Schema, by two names for the same type.
    parameters: plain(tool.inputSchema),
    failure: Schema.Unknown
  }).annotate(Tools.Original, tool)
  return tool.strict === undefined ? made : made.annotate(Tool.Strict, tool.strict)
}

const toolChoice = (choice: LanguageModelV4CallOptions["toolChoice"]): LanguageModel.ToolChoice<never> => {
  if (choice === undefined) return "auto"
  // It names one of the tools, whose names the empty type does not know.
  return choice.type === "tool" ? { tool: choice.toolName as never } : choice.type
}

/** The version of JSON Schema is no keyword that strict decoding takes. */
const plain = (schema: JSONSchema7): Record<string, unknown> => {
  const { $schema: _version, ...rest } = schema
  return rest
}

/** What fits this JSON Schema as far as `JsonShape` looks: defaults and transformations are the AI SDK's. */
const objectSchema = (schema: JSONSchema7, description: string | undefined): ObjectSchema => {
  const written = description === undefined ? plain(schema) : { description, ...plain(schema) }
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
      details: "It would go to every target. Set it on its own: `keys` or `headers`."
    }))
