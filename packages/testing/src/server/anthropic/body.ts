/**
 * Reads the body of a Messages request, and the conversation in it.
 *
 * Fields without a rule have no type. Only their names are checked.
 */
import { Result, Schema } from "effect"
import type { Message } from "../../plan/Conversation.ts"
import type { Misfit } from "../shape.ts"
import { read } from "../shape.ts"

const Fields = Schema.Record(Schema.String, Schema.Json)
const CacheControl = Schema.optionalKey(Schema.NullOr(Schema.Struct({ type: Schema.Literal("ephemeral") })))
const cached = { cache_control: CacheControl }

/** The blocks of a request, by type. */
const Text = Schema.Struct({
  type: Schema.Literal("text"),
  text: Schema.String,
  citations: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Json))),
  ...cached
})
const Image = Schema.Struct({
  type: Schema.Literal("image"),
  source: Schema.Union([
    Schema.Struct({
      type: Schema.Literal("base64"),
      media_type: Schema.Literals(["image/jpeg", "image/png", "image/gif", "image/webp"]),
      data: Schema.String
    }),
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String }),
    Schema.Struct({ type: Schema.Literal("file"), file_id: Schema.String })
  ]),
  ...cached
})
const Document = Schema.Struct({ type: Schema.Literal("document"), source: Fields, ...cached })
const ToolUse = Schema.Struct({
  type: Schema.Literal("tool_use"),
  id: Schema.String,
  name: Schema.String,
  input: Fields,
  ...cached
})
const ToolResult = Schema.Struct({
  type: Schema.Literal("tool_result"),
  tool_use_id: Schema.String,
  content: Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(Fields)])),
  is_error: Schema.optionalKey(Schema.Boolean),
  ...cached
})
const Thinking = Schema.Struct({
  type: Schema.Literal("thinking"),
  thinking: Schema.String,
  signature: Schema.String,
  ...cached
})
const RedactedThinking = Schema.Struct({
  type: Schema.Literal("redacted_thinking"),
  data: Schema.String,
  ...cached
})

const schemas = {
  text: Text,
  image: Image,
  document: Document,
  tool_use: ToolUse,
  tool_result: ToolResult,
  thinking: Thinking,
  redacted_thinking: RedactedThinking
}

export type Block = (typeof schemas)[keyof typeof schemas]["Type"]

const Outer = Schema.Struct({
  model: Schema.String,
  max_tokens: Schema.Natural,
  messages: Schema.Array(
    Schema.Struct({
      role: Schema.Literals(["user", "assistant", "system"]),
      content: Schema.Union([Schema.String, Schema.Array(Fields)])
    })
  ),
  system: Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(Text)])),
  tools: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        // Tools of the provider have a dated type and no schema.
        type: Schema.optionalKey(Schema.String),
        name: Schema.String,
        description: Schema.optionalKey(Schema.String),
        input_schema: Schema.optionalKey(Fields),
        ...cached
      })
    )
  ),
  tool_choice: Schema.optionalKey(
    Schema.Struct({
      type: Schema.Literals(["auto", "any", "tool", "none"]),
      name: Schema.optionalKey(Schema.String)
    })
  ),
  thinking: Schema.optionalKey(
    Schema.Struct({
      type: Schema.Literals(["enabled", "adaptive", "between_tools", "disabled"]),
      budget_tokens: Schema.optionalKey(Schema.Natural),
      display: Schema.optionalKey(Schema.Literals(["summarized", "omitted"])),
      block_binding: Schema.optionalKey(
        Schema.Struct({ prefix_mismatch_behavior: Schema.optionalKey(Schema.String) })
      )
    })
  ),
  output_config: Schema.optionalKey(
    Schema.Struct({
      effort: Schema.optionalKey(Schema.Literals(["low", "medium", "high", "xhigh", "max"])),
      format: Schema.optionalKey(Schema.Struct({ type: Schema.Literal("json_schema"), schema: Fields }))
    })
  ),
  stream: Schema.optionalKey(Schema.Boolean),
  temperature: Schema.optionalKey(Schema.Finite),
  top_p: Schema.optionalKey(Schema.Finite),
  top_k: Schema.optionalKey(Schema.Finite),
  stop_sequences: Schema.optionalKey(Schema.Array(Schema.String)),
  ...cached
})

/** Allowed fields at the top level. */
export const knownFields: ReadonlySet<string> = new Set([
  ...Object.keys(Outer.fields),
  "metadata",
  "service_tier",
  "speed",
  "container",
  "diagnostics",
  "context_management",
  "mcp_servers",
  "inference_geo"
])

/** One message, with its content as blocks. */
export interface Turn {
  readonly role: "user" | "assistant" | "system"
  readonly blocks: ReadonlyArray<Placed>
  /** `messages.N` of the first message in the turn. */
  readonly path: string
}

/** A block and its path, for example `messages.1.content.0`. */
export interface Placed {
  readonly block: Block
  readonly path: string
}

export interface Body extends Omit<typeof Outer.Type, "messages"> {
  readonly raw: Readonly<Record<string, Schema.Json>>
  /** The messages in the form in which they were sent. */
  readonly messages: ReadonlyArray<Turn>
  /** The turns: consecutive messages of one role, joined. */
  readonly turns: ReadonlyArray<Turn>
}

/** Returns the body, or the message with which the API refuses its shape. */
export const bodyOf = (json: Schema.Json): Result.Result<Body, string> =>
  Result.gen(function* () {
    const outer = yield* Result.mapError(read(Outer, json), (misfit) => sentence(misfit))
    const messages: Array<Turn> = []
    for (const [i, { role, content }] of outer.messages.entries()) {
      const path = `messages.${i}`
      const fields =
        typeof content !== "string" ? content : content === "" ? [] : [{ type: "text", text: content }]
      const blocks: Array<Placed> = []
      for (const [j, field] of fields.entries()) blocks.push(yield* blockOf(field, `${path}.content.${j}`))
      messages.push({ role, blocks, path })
    }
    // An object, because the schema has accepted it as a struct.
    const raw = json as Readonly<Record<string, Schema.Json>>
    return { ...outer, raw, messages, turns: joined(messages) }
  })

const blockOf = (fields: typeof Fields.Type, path: string): Result.Result<Placed, string> => {
  const type = String(fields["type"])
  if (!isKnown(type)) {
    const tags = Object.keys(schemas).map((tag) => `'${tag}'`)
    const message = `Input tag '${type}' found using 'type' does not match any of the expected tags: ${tags.join(", ")}`
    return Result.fail(`${path}: ${message}`)
  }
  const schema: Schema.Decoder<Block> = schemas[type]
  return Result.mapBoth(read(schema, fields), {
    onFailure: (misfit) => sentence(misfit, `${path}.${type}`),
    onSuccess: (block) => ({ block, path })
  })
}

const isKnown = (type: string): type is keyof typeof schemas => Object.hasOwn(schemas, type)

const sentence = ({ path, missing, expected }: Misfit, prefix?: string): string => {
  const place = [...(prefix === undefined ? [] : [prefix]), ...path].join(".")
  return `${place === "" ? "body" : place}: ${missing ? "Field required" : `Input should be valid: ${expected}`}`
}

/** Joins consecutive messages of one role into turns. System messages are not joined. */
export const joined = (messages: ReadonlyArray<Turn>): ReadonlyArray<Turn> => {
  const turns: Array<Turn> = []
  for (const message of messages) {
    const last = turns.at(-1)
    if (last?.role === message.role && message.role !== "system") {
      turns[turns.length - 1] = { ...last, blocks: [...last.blocks, ...message.blocks] }
    } else turns.push(message)
  }
  return turns
}

/** Returns the conversation in the form that a plan reads. */
export const conversationOf = (body: Body): ReadonlyArray<Message> => [
  ...systemOf(body).map((text): Message => ({ role: "system", text })),
  ...body.turns.flatMap(({ role, blocks }): ReadonlyArray<Message> => {
    const text = blocks.map(({ block }) => (block.type === "text" ? block.text : "")).join("")
    switch (role) {
      case "system":
        return [{ role, text }]
      case "assistant": {
        const calls = blocks.flatMap(({ block }) => (block.type === "tool_use" ? [block] : []))
        return [{ role, text, toolCalls: calls.map(({ id, name, input }) => ({ id, name, params: input })) }]
      }
      case "user": {
        const results = blocks.flatMap(({ block }): ReadonlyArray<Message> =>
          block.type === "tool_result"
            ? [{ role: "tool", id: block.tool_use_id, text: resultText(block) }]
            : []
        )
        const said = blocks.some(({ block }) => block.type !== "tool_result")
        return said ? [...results, { role, text }] : results
      }
    }
  })
]

const systemOf = ({ system }: Body): ReadonlyArray<string> =>
  system === undefined ? [] : typeof system === "string" ? [system] : system.map(({ text }) => text)

const resultText = ({ content }: typeof ToolResult.Type): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map(({ text }) => (typeof text === "string" ? text : "")).join("")
