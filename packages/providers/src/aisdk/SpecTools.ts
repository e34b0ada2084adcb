/**
 * Tools, tool choice and answer formats in the form of an AI SDK model.
 */
import { LanguageModel, Tool } from "effect/ai"
import { Context, Option, Predicate } from "effect"
import type { Schema } from "effect"
import type * as Spec from "./Spec.ts"

/** The AI SDK tool from which an effect/ai tool was made. */
export class Original extends Context.Service<Original, Spec.FunctionTool | Spec.ProviderTool>()(
  "@outlast/providers/aisdk/SpecTools/Original"
) {}

// Cached, because tools do not change and a JSON Schema is expensive to make.
const known = new WeakMap<Tool.Any, Spec.FunctionTool | Spec.ProviderTool>()

/** `asGiven`: a tool of the AI SDK stays unchanged, with the `$schema` of its JSON Schema. */
export const tool = (self: Tool.Any, asGiven = false): Spec.FunctionTool | Spec.ProviderTool => {
  const cached = known.get(self)
  if (cached !== undefined) return cached
  const original = Context.getOption(self.annotations, Original)
  if (Option.isSome(original)) return renamed(original.value, self.name, asGiven)
  const made = Tool.isProviderDefined(self) ? providerTool(self.id, self.name, self.args) : functionTool(self)
  known.set(self, made)
  return made
}

const renamed = (
  tool: Spec.FunctionTool | Spec.ProviderTool,
  name: string,
  asGiven: boolean
): Spec.FunctionTool | Spec.ProviderTool => {
  if (tool.type === "provider" || asGiven) return { ...tool, name }
  const { $schema: _version, ...schema } = tool.inputSchema as JsonSchema // a JSON Schema is an object
  // `closed` of an object is an object.
  return { ...tool, name, inputSchema: tool.strict === true ? (closed(schema) as object) : schema }
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
  // Gemini refuses a schema with `$schema`, and no provider reads it.
  const { $schema: _, ...schema } = Tool.getJsonSchema(self)
  return {
    type: "function",
    name: self.name,
    // Strict decoding accepts closed objects only.
    inputSchema: strict === true ? (closed(schema) as object) : schema,
    ...(description === undefined ? undefined : { description }),
    ...(strict === undefined ? undefined : { strict })
  }
}

/** `oneOf` has already filtered the tools. Only its mode matters here. */
export const toolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): Spec.ToolChoice => {
  if (typeof choice === "string") return { type: choice }
  return "tool" in choice ? { type: "tool", toolName: choice.tool } : { type: choice.mode ?? "auto" }
}

export interface JsonFormat {
  readonly name: string
  readonly schema: object
  /** True when OpenAI's strict decoding accepts the schema. */
  readonly strict: boolean
}

/** The schema of an object request. Objects with named properties are closed, so that models invent fewer others. */
export const jsonFormat = (
  format: Extract<LanguageModel.ProviderOptions["responseFormat"], { readonly type: "json" }>
): JsonFormat => {
  // The format carries any schema; `generateObject` has checked that this one can be encoded.
  const { jsonSchema } = LanguageModel.defaultCodecTransformer(format.schema as Schema.Codec<unknown>)
  const schema = closed(jsonSchema) as JsonSchema // an object stays one
  return { name: format.objectName, schema, strict: schema["type"] === "object" && isStrict(schema) }
}

type JsonSchema = Readonly<Record<string, unknown>>

/** Maps the schemas inside of a schema: under keywords, in lists, and by name. */
const mapInner = (schema: JsonSchema, f: (inner: unknown) => unknown): JsonSchema =>
  Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => {
      if (named.has(keyword) && Predicate.isObject(value)) {
        return [keyword, Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, f(inner)]))]
      }
      return [keyword, verbatim.has(keyword) ? value : Array.isArray(value) ? value.map(f) : f(value)]
    })
  )

/** The schema, with `additionalProperties: false` on every object that names properties. */
const closed = (node: unknown): unknown => {
  if (!Predicate.isObject(node)) return node
  const schema = mapInner(node, closed)
  const open = Predicate.isObject(schema["additionalProperties"]) || namesOf(schema).length === 0
  return schema["type"] === "object" && !open ? { ...schema, additionalProperties: false } : schema
}

/** True when OpenAI's strict decoding accepts the schema: few keywords, no optional property. */
const isStrict = (node: unknown): boolean => {
  if (!Predicate.isObject(node)) return true
  const keywords = Object.keys(node)
  if (!keywords.every((keyword) => strictKeywords.has(keyword))) return false
  if (!["type", "anyOf", "$ref", "enum", "const"].some((keyword) => keyword in node)) return false
  // Strict decoding supports no lookaround in patterns.
  if (typeof node["pattern"] === "string" && node["pattern"].includes("(?")) return false
  if (typeof node["format"] === "string" && !strictFormats.has(node["format"])) return false
  if (node["type"] === "object") {
    const required = new Set(Array.isArray(node["required"]) ? node["required"] : [])
    if (node["additionalProperties"] !== false || namesOf(node).some((name) => !required.has(name)))
      return false
  }
  let strict = true
  mapInner(node, (inner) => {
    strict &&= isStrict(inner)
    return inner
  })
  return strict
}

const namesOf = (schema: JsonSchema): ReadonlyArray<string> =>
  Object.keys(Predicate.isObject(schema["properties"]) ? schema["properties"] : {})

// Keywords whose values are data, not schemas.
const verbatim = new Set(["const", "enum", "default", "examples", "required"])

// Keywords whose values are schemas by name.
const named = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"])

// https://developers.openai.com/api/docs/guides/structured-outputs, supported schemas. `OpenAiStructuredOutput` of
// effect/ai has the same list and rewrites a schema to fit. Here the schema stays and strict decoding is turned off.
const strictKeywords = new Set([
  "type",
  "title",
  "description",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "anyOf",
  "enum",
  "const",
  "$ref",
  "$defs",
  "pattern",
  "format",
  "multipleOf",
  "minimum",
  "maximum",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "minItems",
  "maxItems"
])

const strictFormats = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid"
])
