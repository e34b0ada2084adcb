/**
 * Tools, tool choice and answer formats as an AI SDK model takes them.
 */
import { LanguageModel, Tool } from "effect/ai"
import { Predicate } from "effect"
import type { Schema } from "effect"
import type * as Spec from "./Spec.ts"

// Tools do not change, and making a JSON Schema costs more than sending it.
const known = new WeakMap<Tool.Any, Spec.FunctionTool | Spec.ProviderTool>()

export const tool = (self: Tool.Any): Spec.FunctionTool | Spec.ProviderTool => {
  const cached = known.get(self)
  if (cached !== undefined) return cached
  const made = Tool.isProviderDefined(self) ? providerTool(self.id, self.name, self.args) : functionTool(self)
  known.set(self, made)
  return made
}

const providerTool = (id: Spec.ProviderTool["id"], name: string, args: unknown): Spec.ProviderTool => ({
  type: "provider",
  id,
  name,
  args: Predicate.isObject(args) ? { ...args } : {}
})

const functionTool = (self: Tool.Any): Spec.FunctionTool => {
  const description = Tool.getDescription(self)
  const strict = Tool.getStrictMode(self)
  return {
    type: "function",
    name: self.name,
    inputSchema: Tool.getJsonSchema(self),
    ...(description === undefined ? undefined : { description }),
    ...(strict === undefined ? undefined : { strict })
  }
}

/** `oneOf` has already chosen the tools that are sent: here it is only its mode. */
export const toolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): Spec.ToolChoice => {
  if (typeof choice === "string") return { type: choice }
  return "tool" in choice ? { type: "tool", toolName: choice.tool } : { type: choice.mode ?? "auto" }
}

export interface JsonFormat {
  readonly name: string
  readonly schema: object
  /** Every object of the schema requires all its properties: what strict decoding at OpenAI demands. */
  readonly strict: boolean
}

/** The schema of an object request. Objects with named properties are closed: models invent fewer others. */
export const jsonFormat = (
  format: Extract<LanguageModel.ProviderOptions["responseFormat"], { readonly type: "json" }>
): JsonFormat => {
  // The format carries any schema; generateObject has checked that this one can be encoded.
  const { jsonSchema } = LanguageModel.defaultCodecTransformer(format.schema as Schema.Codec<unknown>)
  let strict = true
  const close = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(close)
    if (!Predicate.isObject(node)) return node
    const closed: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(node)) {
      closed[key] = verbatim.has(key) ? value : close(value)
    }
    if (closed["type"] === "object") {
      const names = Object.keys(Predicate.isObject(closed["properties"]) ? closed["properties"] : {})
      const required = new Set(Array.isArray(closed["required"]) ? closed["required"] : [])
      const open = Predicate.isObject(closed["additionalProperties"]) || names.length === 0
      if (!open) closed["additionalProperties"] = false
      if (open || names.some((name) => !required.has(name))) strict = false
    }
    return closed
  }
  const schema = close(jsonSchema) as object // an object stays one
  return { name: format.objectName, schema, strict }
}

// Keywords whose values are data, not schemas.
const verbatim = new Set(["const", "enum", "default", "examples", "required"])
