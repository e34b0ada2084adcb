/**
 * Reads the body of a Responses request, and the conversation in it: stored items, and the items that were sent.
 *
 * Fields without a rule have no type. Only their names are checked.
 */
import { Result, Schema } from "effect"
import type { Message as PlanMessage } from "../../plan/Conversation.ts"
import type { OpenAiError } from "../openai/errors.ts"
import { misshapen, type as invalid } from "../openai/problems.ts"
import { parse, read } from "../shape.ts"
import type { Kept } from "../Wire.ts"

const Fields = Schema.Record(Schema.String, Schema.Json)
const nullable = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Part = Schema.Struct({ type: Schema.String, text: Schema.optionalKey(Schema.String) })
const Content = Schema.Union([Schema.String, Schema.Array(Part)])
const id = { id: nullable(Schema.String) }

/** The items of a request, by type. */
const schemas = {
  message: Schema.Struct({
    type: Schema.Literal("message"),
    role: Schema.Literals(["user", "system", "developer", "assistant"]),
    content: Content,
    ...id
  }),
  function_call: Schema.Struct({
    type: Schema.Literal("function_call"),
    call_id: Schema.String,
    name: Schema.String,
    arguments: Schema.String,
    ...id
  }),
  function_call_output: Schema.Struct({
    type: Schema.Literal("function_call_output"),
    call_id: Schema.String,
    output: Content,
    ...id
  }),
  reasoning: Schema.Struct({
    type: Schema.Literal("reasoning"),
    summary: Schema.Array(Fields),
    encrypted_content: nullable(Schema.String),
    ...id
  }),
  item_reference: Schema.Struct({ type: Schema.Literal("item_reference"), id: Schema.String })
}

export type Item = (typeof schemas)[keyof typeof schemas]["Type"]

const Outer = Schema.Struct({
  model: Schema.String,
  input: Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(Fields)])),
  instructions: nullable(Schema.String),
  previous_response_id: nullable(Schema.String),
  conversation: nullable(Schema.Json),
  include: nullable(Schema.Array(Schema.String)),
  store: nullable(Schema.Boolean),
  tools: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        type: Schema.String,
        name: Schema.optionalKey(Schema.String),
        parameters: nullable(Fields),
        strict: nullable(Schema.Boolean)
      })
    )
  ),
  tool_choice: Schema.optionalKey(
    Schema.Union([
      Schema.Literals(["none", "auto", "required"]),
      Schema.Struct({ type: Schema.String, name: Schema.optionalKey(Schema.String) })
    ])
  ),
  max_output_tokens: nullable(Schema.Int),
  reasoning: nullable(
    Schema.Struct({
      effort: nullable(Schema.Literals(["none", "minimal", "low", "medium", "high", "xhigh", "max"]))
    })
  ),
  temperature: nullable(Schema.Finite),
  top_p: nullable(Schema.Finite),
  text: nullable(
    Schema.Struct({
      format: nullable(
        Schema.Union([
          Schema.Struct({ type: Schema.Literals(["text", "json_object"]) }),
          Schema.Struct({
            type: Schema.Literal("json_schema"),
            name: Schema.String,
            schema: Fields,
            strict: nullable(Schema.Boolean)
          })
        ])
      )
    })
  ),
  truncation: nullable(Schema.Literals(["auto", "disabled"])),
  stream: nullable(Schema.Boolean),
  stream_options: nullable(Fields)
})

/** Allowed fields at the top level. */
export const knownFields: ReadonlySet<string> = new Set([
  ...Object.keys(Outer.fields),
  "background",
  "context_management",
  "max_tool_calls",
  "metadata",
  "parallel_tool_calls",
  "prompt",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "service_tier",
  "top_logprobs",
  "user"
])

/** An item and its path, for example `input[3]`. */
interface Placed {
  readonly item: Item
  readonly path: string
}

export interface Body extends Omit<typeof Outer.Type, "input"> {
  readonly raw: Readonly<Record<string, Schema.Json>>
  /** The items in the form in which they were sent. */
  readonly input: ReadonlyArray<Placed>
  /** The items before the input. `undefined` when the request names a previous response that is not stored. */
  readonly previous: ReadonlyArray<Placed> | undefined
  /** The whole conversation: stored items, then the input with its references resolved. */
  readonly items: ReadonlyArray<Placed>
  /** The same as JSON, to be stored. */
  readonly json: Kept
  readonly isKept: (id: string) => boolean
}

/** Returns the body, or the error with which the API refuses its shape. */
export const bodyOf = (
  json: Schema.Json,
  kept: (id: string) => Kept | undefined
): Result.Result<Body, OpenAiError> =>
  Result.gen(function* () {
    const outer = yield* Result.mapError(read(Outer, json), (misfit) => misshapen(misfit))
    const { input: said = [], previous_response_id: before } = outer
    const sent: Kept = typeof said === "string" ? [{ role: "user", content: said }] : said
    const stored = typeof before === "string" ? kept(before) : []
    const input = yield* itemsOf(sent)
    const resolved = sent.map((item, i) => {
      const placed = input[i]?.item
      return placed?.type === "item_reference" ? (kept(placed.id)?.[0] ?? item) : item
    })
    const previous = stored === undefined ? undefined : yield* itemsOf(stored)
    return {
      ...outer,
      // An object, because the schema has accepted it as a struct.
      raw: json as Readonly<Record<string, Schema.Json>>,
      input,
      previous,
      items: [...(previous ?? []), ...(yield* itemsOf(resolved))],
      json: [...(stored ?? []), ...resolved],
      isKept: (id) => kept(id) !== undefined
    }
  })

const itemsOf = (items: Kept): Result.Result<ReadonlyArray<Placed>, OpenAiError> =>
  Result.gen(function* () {
    const placed: Array<Placed> = []
    for (const [i, item] of items.entries()) placed.push(yield* itemOf(item, `input[${i}]`))
    return placed
  })

const itemOf = (json: Schema.Json, path: string): Result.Result<Placed, OpenAiError> => {
  // A message needs no type.
  const fields = { type: "message", ...(json as Readonly<Record<string, Schema.Json>>) }
  const type = String(fields.type)
  if (!isKnown(type)) {
    const known = Object.keys(schemas).map((name) => `'${name}'`)
    return Result.fail({
      type: invalid,
      message: `Invalid value: '${type}'. Supported values are: ${known.join(", ")}.`,
      param: path,
      code: "invalid_value"
    })
  }
  const schema: Schema.Decoder<Item> = schemas[type]
  return Result.mapBoth(read(schema, fields), {
    onFailure: (misfit) => misshapen(misfit, path),
    onSuccess: (item) => ({ item, path })
  })
}

const isKnown = (type: string): type is keyof typeof schemas => Object.hasOwn(schemas, type)

/** Returns the conversation in the form that a plan reads. */
export const conversationOf = ({ instructions, items }: Body): ReadonlyArray<PlanMessage> => [
  ...(typeof instructions === "string" ? [{ role: "system", text: instructions } as const] : []),
  ...items.flatMap(({ item }): ReadonlyArray<PlanMessage> => {
    switch (item.type) {
      case "message": {
        const text = textOf(item.content)
        if (item.role === "assistant") return [{ role: "assistant", text, toolCalls: [] }]
        return [{ role: item.role === "user" ? "user" : "system", text }]
      }
      case "function_call": {
        const call = { id: item.call_id, name: item.name, params: parse(item.arguments) }
        return [{ role: "assistant", text: "", toolCalls: [call] }]
      }
      case "function_call_output":
        return [{ role: "tool", id: item.call_id, text: textOf(item.output) }]
      case "reasoning":
      case "item_reference":
        return []
    }
  })
]

export const textOf = (content: typeof Content.Type): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("")
