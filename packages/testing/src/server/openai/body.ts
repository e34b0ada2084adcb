/**
 * Reads the body of a Chat Completions request, and the conversation in it.
 *
 * Fields without a rule have no type. Only their names are checked.
 */
import { Result, Schema } from "effect"
import type { Message } from "../../plan/Conversation.ts"
import { parse, read } from "../shape.ts"
import type { OpenAiError } from "./errors.ts"
import { misshapen } from "./problems.ts"

const Fields = Schema.Record(Schema.String, Schema.Json)

const Part = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literal("refusal"), refusal: Schema.String }),
  Schema.Struct({
    type: Schema.Literal("image_url"),
    image_url: Schema.Struct({ url: Schema.String })
  }),
  Schema.Struct({ type: Schema.Literal("input_audio"), input_audio: Fields }),
  Schema.Struct({
    type: Schema.Literal("file"),
    file: Schema.Struct({
      file_id: Schema.optionalKey(Schema.String),
      filename: Schema.optionalKey(Schema.String),
      file_data: Schema.optionalKey(Schema.String)
    })
  })
])
type Part = typeof Part.Type

const Content = Schema.Union([Schema.String, Schema.Array(Part)])

const ToolCall = Schema.Struct({
  id: Schema.String,
  type: Schema.Literal("function"),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
})

const Plain = Schema.Struct({ role: Schema.Literals(["system", "developer", "user"]), content: Content })
const Assistant = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.optionalKey(Schema.NullOr(Content)),
  tool_calls: Schema.optionalKey(Schema.Array(ToolCall))
})
const ToolMessage = Schema.Struct({
  role: Schema.Literal("tool"),
  tool_call_id: Schema.String,
  content: Content
})

const MessageSchema = Schema.Union([Plain, Assistant, ToolMessage])
export type ChatMessage = typeof MessageSchema.Type

const Outer = Schema.Struct({
  model: Schema.String,
  messages: Schema.Array(MessageSchema),
  tools: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        type: Schema.Literal("function"),
        function: Schema.Struct({
          name: Schema.String,
          parameters: Schema.optionalKey(Fields),
          strict: Schema.optionalKey(Schema.NullOr(Schema.Boolean))
        })
      })
    )
  ),
  max_tokens: Schema.optionalKey(Schema.Natural),
  max_completion_tokens: Schema.optionalKey(Schema.Natural),
  reasoning_effort: Schema.optionalKey(
    Schema.Literals(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
  ),
  temperature: Schema.optionalKey(Schema.Finite),
  top_p: Schema.optionalKey(Schema.Finite),
  response_format: Schema.optionalKey(
    Schema.Union([
      Schema.Struct({ type: Schema.Literals(["text", "json_object"]) }),
      Schema.Struct({
        type: Schema.Literal("json_schema"),
        json_schema: Schema.Struct({
          name: Schema.String,
          schema: Schema.optionalKey(Fields),
          strict: Schema.optionalKey(Schema.NullOr(Schema.Boolean))
        })
      })
    ])
  ),
  stream: Schema.optionalKey(Schema.NullOr(Schema.Boolean)),
  stream_options: Schema.optionalKey(
    Schema.NullOr(Schema.Struct({ include_usage: Schema.optionalKey(Schema.Boolean) }))
  )
})

/** Allowed fields at the top level. */
export const knownFields: ReadonlySet<string> = new Set([
  ...Object.keys(Outer.fields),
  "audio",
  "frequency_penalty",
  "function_call",
  "functions",
  "logit_bias",
  "logprobs",
  "metadata",
  "modalities",
  "n",
  "parallel_tool_calls",
  "prediction",
  "presence_penalty",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "seed",
  "service_tier",
  "stop",
  "store",
  "tool_choice",
  "top_logprobs",
  "user",
  "verbosity",
  "web_search_options"
])

export interface Body extends Readonly<typeof Outer.Type> {
  readonly raw: Readonly<Record<string, Schema.Json>>
}

/** Returns the body, or the error with which the API refuses its shape. */
export const bodyOf = (json: Schema.Json): Result.Result<Body, OpenAiError> =>
  Result.mapBoth(read(Outer, json), {
    onFailure: (misfit) => misshapen(misfit),
    // An object, because the schema has accepted it as a struct.
    onSuccess: (body) => ({ ...body, raw: json as Readonly<Record<string, Schema.Json>> })
  })

/** Returns the conversation in the form that a plan reads. */
export const conversationOf = ({ messages }: Body): ReadonlyArray<Message> =>
  messages.map((message): Message => {
    const text = textOf(message.content)
    switch (message.role) {
      case "system":
      case "developer":
        return { role: "system", text }
      case "user":
        return { role: "user", text }
      case "tool":
        return { role: "tool", id: message.tool_call_id, text }
      case "assistant":
        return {
          role: "assistant",
          text,
          toolCalls: (message.tool_calls ?? []).map(({ id, function: { name, arguments: params } }) => ({
            id,
            name,
            params: parse(params)
          }))
        }
    }
  })

export const textOf = (content: ChatMessage["content"]): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map((part) => (part.type === "text" ? part.text : "")).join("")
