/**
 * Converts the tools of an AI SDK call to those of effect/ai, which only offer them. `SpecTools` is the opposite
 * direction.
 */
import type { JSONSchema7, LanguageModelV4CallOptions } from "@ai-sdk/provider"
import { Schema } from "effect"
import { Tool } from "effect/ai"
import * as Tools from "./SpecTools.ts"

export type AnyTool = NonNullable<LanguageModelV4CallOptions["tools"]>[number]

export const offered = (tool: AnyTool): Tool.Any => {
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
    // JSON Schema: two names for the same type.
    parameters: plain(tool.inputSchema),
    failure: Schema.Unknown
  }).annotate(Tools.Original, tool)
  return tool.strict === undefined ? made : made.annotate(Tool.Strict, tool.strict)
}

/** Strict decoding rejects the keyword `$schema`. */
export const plain = (schema: JSONSchema7): Record<string, unknown> => {
  const { $schema: _version, ...rest } = schema
  return rest
}
