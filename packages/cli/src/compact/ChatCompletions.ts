/**
 * Reads and writes the request body of OpenAI Chat Completions and compatible APIs. Pure.
 *
 * Unknown parts count by their length and are passed through unchanged. The old `function_call` and the role `function`
 * are not supported.
 */
import { Predicate } from "effect"
import { Prompt } from "effect/ai"
import { addressed, fileAt, ResultFiles } from "./Files.ts"
import type { JsonObject } from "./Json.ts"
import * as Json from "./Json.ts"
import type { JsonCursor } from "./JsonCursor.ts"
import type { Key, Run } from "./Sources.ts"
import { Sources } from "./Sources.ts"
import type { Transcript } from "./Transcript.ts"
import { limitIn, opaque, saidIn, tool, userMessage } from "./Transcript.ts"

/** Reads a body. Throws `Broken`. */
export const read = (body: JsonCursor): Transcript => {
  const messages = body.field("messages").items
  const reader = new Reader()
  const said = messages.map((message, at) => reader.message(at, message))
  const { sources } = reader
  sources.checkPairs(said)
  return {
    format: "openai-chat",
    prompt: Prompt.fromMessages(said),
    sources,
    tools: (body.maybe("tools")?.items ?? []).map((place) => {
      const own = place.maybe("function") ?? place.maybe("custom")
      if (own === undefined) return tool(place.field("type").text, undefined, place.object)
      return tool(own.field("name").text, own.maybe("description"), own.maybe("parameters")?.object)
    }),
    model: body.maybe("model")?.text,
    outputLimit: limitIn(body.maybe("max_completion_tokens") ?? body.maybe("max_tokens")),
    list: "messages",
    size: messages.length,
    write: ({ content }) => ({
      ...body.object,
      messages: sources.runs(content).map((run) => written(run, messages, reader.files))
    })
  }
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

const thinking = "reasoning_content"
const call = (index: number): Key => `tool_calls[${index}]`

class Reader {
  readonly sources = new Sources()
  readonly files = new ResultFiles()
  /** Names of the most recent tool calls, by id. */
  #names = new Map<string, string>()

  message(at: number, place: JsonCursor): Prompt.Message {
    const role = place.field("role").oneOf(["system", "developer", "user", "assistant", "tool"])
    const content = place.maybe("content")
    switch (role) {
      case "system":
      case "developer": {
        const said = place.field("content")
        const text =
          typeof said.value === "string"
            ? said.value
            : said.items.map((part) => part.field("text").text).join("\n")
        return this.sources.addSystem(at, Prompt.makeMessage("system", { content: text }))
      }
      case "user":
        return userMessage(this.#content(at, place.field("content")))
      case "assistant":
        return this.#assistant(at, place, content)
      case "tool":
        return Prompt.makeMessage("tool", { content: [this.#result(at, place, place.field("content"))] })
    }
  }

  #content(at: number, content: JsonCursor): ReadonlyArray<Prompt.TextPart | Prompt.FilePart> {
    if (typeof content.value === "string") return [this.#text(at, content.path, content.value)]
    const parts = content.items.map((part, key) => {
      const made = partOf(part)
      return this.sources.add<Prompt.TextPart | Prompt.FilePart>(at, key, part.path, (options) => ({
        ...made,
        options
      }))
    })
    return parts.length > 0 ? parts : [this.#text(at, content.path, "")]
  }

  #text(at: number, path: string, text: string): Prompt.TextPart {
    return this.sources.add(at, "content", path, (options) => Prompt.makePart("text", { text, options }))
  }

  #assistant(at: number, place: JsonCursor, content: JsonCursor | undefined): Prompt.AssistantMessage {
    const thought = place.maybe(thinking)
    const refusal = place.maybe("refusal")
    const calls = place.maybe("tool_calls")?.items ?? []
    this.#names = new Map()
    const parts: ReadonlyArray<Prompt.AssistantMessagePart> = [
      ...(thought === undefined
        ? []
        : [
            this.sources.add(at, thinking, thought.path, (options) =>
              Prompt.makePart("reasoning", { text: thought.text, options })
            )
          ]),
      ...(content === undefined ? [] : this.#content(at, content)),
      ...(refusal === undefined
        ? []
        : [
            this.sources.add(at, "refusal", refusal.path, (options) =>
              Prompt.makePart("text", { text: refusal.text, options })
            )
          ]),
      ...calls.map((one, index) => this.#call(at, index, one))
    ]
    return Prompt.makeMessage("assistant", {
      content: parts.length > 0 ? parts : [this.#text(at, place.path, "")]
    })
  }

  #call(at: number, index: number, place: JsonCursor): Prompt.ToolCallPart {
    const id = place.field("id")
    const custom = place.maybe("custom")
    const own = custom ?? place.field("function")
    const name = own.field("name").text
    const written = own.field(custom === undefined ? "arguments" : "input").text
    // Some servers put a signature here that Gemini has in its own format.
    const signed = place.maybe("extra_content") !== undefined
    this.#names.set(id.text, name)
    return this.sources.add(at, call(index), id.path, (options) =>
      Prompt.makePart("tool-call", {
        id: id.text,
        name,
        params: custom === undefined ? paramsOf(written) : written,
        providerExecuted: false,
        options: signed ? { ...options, extra: { content: true } } : options
      })
    )
  }

  #result(at: number, place: JsonCursor, content: JsonCursor): Prompt.ToolResultPart {
    const id = place.field("tool_call_id")
    const output =
      typeof content.value === "string" ? { result: content.value } : this.files.read(content.items, partOf)
    return this.sources.add(at, "content", id.path, (options) =>
      Prompt.makePart("tool-result", {
        id: id.text,
        name: this.#names.get(id.text) ?? "",
        isFailure: false,
        providerExecuted: false,
        options,
        ...output
      })
    )
  }
}

/** Arguments written by a model are not always JSON. Others are kept as text. */
const paramsOf = (text: string): unknown => {
  const read = Json.parse(text)
  return read._tag === "Success" && Predicate.isObject(read.success) ? read.success : text
}

const partOf = (part: JsonCursor): Prompt.TextPart | Prompt.FilePart => {
  const text = (text: string) => Prompt.makePart("text", { text })
  switch (part.field("type").text) {
    case "text":
      return text(part.field("text").text)
    case "refusal":
      return text(part.field("refusal").text)
    case "image_url":
      return Prompt.makePart("file", fileAt(part.field("image_url").field("url").text, "image/*"))
    case "input_audio": {
      const audio = part.field("input_audio")
      const mediaType = `audio/${audio.maybe("format")?.text ?? "*"}`
      return Prompt.makePart("file", { mediaType, data: audio.field("data").text })
    }
    case "file": {
      const file = part.field("file")
      const data = file.maybe("file_data")
      return Prompt.makePart(
        "file",
        data === undefined
          ? { mediaType: "application/pdf", data: addressed(file.field("file_id").text) }
          : fileAt(data.text, "application/pdf")
      )
    }
    default:
      return text(opaque(part.value))
  }
}

// -----------------------------------------------------------------------------
// Writing
// -----------------------------------------------------------------------------

const written = (run: Run, messages: ReadonlyArray<JsonCursor>, files: ResultFiles): JsonObject => {
  if (run._tag === "Added") return { role: "user", content: saidIn(run.message) }
  const message = messages[run.at]?.object ?? {}
  if (run.untouched) return message
  const result = run.parts.get("content")
  if (result?.part.type === "tool-result") {
    return { ...message, content: files.content(result.part) }
  }
  const { [thinking]: thought, tool_calls: calls, ...own } = message
  return {
    ...own,
    ...(run.parts.has(thinking) ? { [thinking]: thought } : {}),
    ...(Array.isArray(calls)
      ? {
          tool_calls: calls.map((one: JsonObject, index) => {
            const kept = run.parts.get(call(index))
            return kept === undefined || kept.untouched || kept.part.type !== "tool-call"
              ? one
              : withArguments(one, kept.part.params)
          })
        }
      : {})
  }
}

/** Only the arguments of functions are cut. The input of a custom tool is text. */
const withArguments = (one: JsonObject, params: unknown): JsonObject => {
  const own = Predicate.isObject(one["function"]) ? one["function"] : {}
  return { ...one, function: { ...own, arguments: JSON.stringify(params) } }
}
