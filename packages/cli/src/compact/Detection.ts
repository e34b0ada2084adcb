/**
 * Detects the format of a body by its shape. Pure.
 *
 * `contents` is Gemini's field, and `content` with messages is effect/ai's. Anthropic and OpenAI both use `messages`:
 * they are distinguished by the content of the messages, then by the tools, then by other fields, then by the name of
 * the model.
 */
import { Predicate, Result } from "effect"
import { Catalogue } from "@outlast/providers"
import * as AnthropicMessages from "./AnthropicMessages.ts"
import * as ChatCompletions from "./ChatCompletions.ts"
import * as EffectPrompt from "./EffectPrompt.ts"
import * as Gemini from "./Gemini.ts"
import type { JsonObject } from "./Json.ts"
import { Broken, JsonCursor } from "./JsonCursor.ts"
import type { Format, Transcript } from "./Transcript.ts"

const readers: { readonly [F in Format]: (body: JsonCursor) => Transcript } = {
  "anthropic-messages": AnthropicMessages.read,
  "openai-chat": ChatCompletions.read,
  gemini: Gemini.read,
  "effect-ai": EffectPrompt.read
}

/** Reads the transcript in a body, in the detected format. */
export const read = (body: unknown): Result.Result<Transcript, Broken> =>
  Result.flatMap(formatOf(body), (format) =>
    Result.try({
      try: () => readers[format](new JsonCursor(body)),
      catch: (error) => {
        if (error instanceof Broken) return error
        throw error
      }
    })
  )

const expected =
  "Expected one JSON object: the body of a request of Anthropic Messages or OpenAI Chat Completions (with `messages`), of Gemini (with `contents`), or a prompt of effect/ai (with `content`)"

const none = (problem: string): Result.Result<never, Broken> =>
  Result.fail(new Broken({ path: "", problem: `${problem} ${expected}.` }))

export const formatOf = (body: unknown): Result.Result<Format, Broken> => {
  if (!Predicate.isObject(body) || Array.isArray(body)) return none("The JSON is not an object.")
  // An object, because a list was rejected above.
  const fields = body as JsonObject
  const found = (["messages", "contents", "content"] as const).filter((name) => Array.isArray(fields[name]))
  const [list, other] = found
  if (list === undefined) {
    return "input" in fields
      ? none("This looks like a request of OpenAI Responses, which is not read.")
      : none("It has no list of messages.")
  }
  if (other !== undefined) return none(`It has both \`${list}\` and \`${other}\`.`)
  if (list === "contents") return Result.succeed("gemini")
  if (list === "messages") return formatOfMessages(fields)
  const messages = objectsIn(fields[list])
  return messages.length === 0 || messages.some((message) => "role" in message)
    ? Result.succeed("effect-ai")
    : none("Its `content` has no messages: it may be one message, or the answer of a model.")
}

// -----------------------------------------------------------------------------
// Anthropic or OpenAI
// -----------------------------------------------------------------------------

type Clues = { readonly [F in "anthropic-messages" | "openai-chat"]: ReadonlySet<string> }

const blocks: Clues = {
  "anthropic-messages": new Set([
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "image",
    "document",
    "server_tool_use"
  ]),
  "openai-chat": new Set(["image_url", "input_audio", "file", "refusal"])
}

const fieldsOf: Clues = {
  "anthropic-messages": new Set([
    "system",
    "thinking",
    "stop_sequences",
    "output_config",
    "top_k",
    "context_management",
    "anthropic_version"
  ]),
  "openai-chat": new Set([
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "n",
    "parallel_tool_calls",
    "stream_options",
    "stop",
    "seed",
    "user"
  ])
}

/** A feature that only one of the two formats has, and its name. */
interface Clue {
  readonly format: keyof Clues
  readonly what: string
}

const formatOfMessages = (body: JsonObject): Result.Result<Format, Broken> => {
  for (const clues of [inMessages(body["messages"]), inTools(body["tools"]), inFields(body)]) {
    const [first] = clues
    const other = clues.find(({ format }) => format !== first?.format)
    if (first === undefined) continue
    return other === undefined
      ? Result.succeed(first.format)
      : none(`It has both ${first.what} and ${other.what}: it is of two formats.`)
  }
  const { model } = body
  const entry = typeof model === "string" ? Catalogue.find(model) : undefined
  if (entry === undefined) {
    return none(
      "Nothing in it tells Anthropic Messages from OpenAI Chat Completions: no tool, no system prompt, no `model` that is known. Add one of them."
    )
  }
  return Result.succeed(entry.provider === "anthropic" ? "anthropic-messages" : "openai-chat")
}

const objectsIn = (list: unknown): ReadonlyArray<JsonObject> =>
  Array.isArray(list) ? list.filter((item): item is JsonObject => Predicate.isObject(item)) : []

const named = (name: unknown, clues: Clues): ReadonlyArray<Clue> =>
  (["anthropic-messages", "openai-chat"] as const).flatMap((format) =>
    typeof name === "string" && clues[format].has(name) ? [{ format, what: `\`${name}\`` }] : []
  )

const inMessages = (messages: unknown): ReadonlyArray<Clue> => {
  const all = objectsIn(messages)
  return all.flatMap(({ role, content, tool_calls: calls }, i): ReadonlyArray<Clue> => [
    // Anthropic has no message of the role system at the start.
    ...(role === "tool" || role === "developer" || (role === "system" && i === 0)
      ? [{ format: "openai-chat", what: `the role \`${role}\`` } as const]
      : []),
    ...(calls === undefined ? [] : [{ format: "openai-chat", what: "`tool_calls`" } as const]),
    ...objectsIn(content).flatMap(({ type }) => named(type, blocks))
  ])
}

const inTools = (tools: unknown): ReadonlyArray<Clue> =>
  objectsIn(tools).flatMap((tool): ReadonlyArray<Clue> => {
    if ("input_schema" in tool) return [{ format: "anthropic-messages", what: "a tool with `input_schema`" }]
    return "function" in tool ? [{ format: "openai-chat", what: "a tool with `function`" }] : []
  })

const inFields = (body: JsonObject): ReadonlyArray<Clue> =>
  Object.keys(body).flatMap((name) => named(name, fieldsOf))
