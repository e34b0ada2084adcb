/**
 * Reads and writes the request body of Anthropic Messages. Pure.
 *
 * Tool results become separate messages, before the rest of the user's message. Consecutive assistant messages are
 * joined from thinking or a call on, as in the API; messages with only text may be removed separately. Unknown blocks
 * count by their length and are passed through unchanged.
 */
import { Prompt } from "effect/ai"
import type { FileData } from "./Files.ts"
import { addressed, ResultFiles } from "./Files.ts"
import type { JsonObject } from "./Json.ts"
import type { JsonCursor } from "./JsonCursor.ts"
import type { Kept, Run } from "./Sources.ts"
import { Sources } from "./Sources.ts"
import type { Transcript } from "./Transcript.ts"
import { limitIn, opaque, saidIn, tool, userMessage } from "./Transcript.ts"

/** Reads a body. Throws `Broken`. */
export const read = (body: JsonCursor): Transcript => {
  const messages = body.field("messages").items
  const reader = new Reader()
  const system = body.maybe("system")
  const first =
    system === undefined
      ? []
      : typeof system.value === "string"
        ? [Prompt.makeMessage("system", { content: system.value })]
        : system.items.map((block) => Prompt.makeMessage("system", { content: block.field("text").text }))
  for (const [at, message] of messages.entries()) reader.message(at, message)
  const { sources, said } = reader
  sources.checkPairs(said)
  return {
    format: "anthropic-messages",
    prompt: Prompt.fromMessages([...first, ...said]),
    sources,
    tools: (body.maybe("tools")?.items ?? []).map((place) =>
      tool(
        // A toolset has no name.
        (place.maybe("name") ?? place.maybe("type") ?? place.field("name")).text,
        place.maybe("description"),
        place.maybe("input_schema")?.object ?? place.object
      )
    ),
    model: body.maybe("model")?.text,
    outputLimit: limitIn(body.maybe("max_tokens")),
    list: "messages",
    size: messages.length,
    write: ({ content }) => ({
      ...body.object,
      messages: placed(sources.runs(content).map((run) => written(run, messages, reader.files)))
    })
  }
}

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** Key of a string content. */
const whole = "content"

class Reader {
  readonly sources = new Sources()
  readonly said: Array<Prompt.Message> = []
  readonly files = new ResultFiles()
  /** Names of the most recent tool calls, by id. */
  #names = new Map<string, string>()
  /** True when the last assistant message was only text. */
  #talks = false

  message(at: number, place: JsonCursor): void {
    const role = place.field("role").oneOf(["user", "assistant", "system"])
    const content = place.field("content")
    const blocks = typeof content.value === "string" ? undefined : content.items
    switch (role) {
      case "system": {
        const text = blocks?.map((block) => block.field("text").text).join("\n") ?? content.text
        this.said.push(this.sources.addSystem(at, Prompt.makeMessage("system", { content: text })))
        return
      }
      case "assistant": {
        const parts = blocks?.map((block, key) => this.#assistant(at, key, block)) ?? []
        const before = this.said.at(-1)
        if (before?.role !== "assistant") this.#names = new Map()
        const together = before?.role === "assistant" && !this.#talks ? before.content : []
        if (together.length > 0) this.said.pop()
        // A message after thinking or a call, by our tools or by the provider's, can neither be removed nor kept
        // without it.
        this.#talks = together.length === 0 && !blocks?.some((block) => block.field("type").text !== "text")
        for (const part of parts) if (part.type === "tool-call") this.#names.set(part.id, part.name)
        const own = parts.length > 0 ? parts : [this.#text(at, content)]
        this.said.push(Prompt.makeMessage("assistant", { content: [...together, ...own] }))
        return
      }
      case "user": {
        const results: Array<Prompt.ToolResultPart> = []
        const others: Array<Prompt.UserMessagePart> = []
        for (const [key, block] of (blocks ?? []).entries()) {
          if (block.field("type").text === "tool_result") results.push(this.#result(at, key, block))
          else others.push(this.#user(at, key, block))
        }
        if (results.length > 0) this.said.push(Prompt.makeMessage("tool", { content: results }))
        else if (others.length === 0) others.push(this.#text(at, content))
        if (others.length > 0) this.said.push(userMessage(others))
      }
    }
  }

  /** Reads a message without a list of blocks, or with an empty one. */
  #text(at: number, content: JsonCursor): Prompt.TextPart {
    const text = typeof content.value === "string" ? content.value : ""
    return this.sources.add(at, whole, content.path, (options) => Prompt.makePart("text", { text, options }))
  }

  #assistant(at: number, key: number, block: JsonCursor): Prompt.AssistantMessagePart {
    const { sources } = this
    switch (block.field("type").text) {
      case "tool_use": {
        const id = block.field("id").text
        const name = block.field("name").text
        const params = block.field("input").object
        return sources.add(at, key, block.field("id").path, (options) =>
          Prompt.makePart("tool-call", { id, name, params, providerExecuted: false, options })
        )
      }
      case "thinking":
        return this.#thinking(at, key, block, block.field("thinking").text)
      case "redacted_thinking":
        // The content is in the field `data`.
        return this.#thinking(at, key, block, block.field("data").text)
      case "tool_result":
        return block.broken("a result of a tool belongs into a message of the user")
      default:
        return this.#user(at, key, block)
    }
  }

  #thinking(at: number, key: number, block: JsonCursor, text: string): Prompt.ReasoningPart {
    return this.sources.add(at, key, block.path, (options) => Prompt.makePart("reasoning", { text, options }))
  }

  #user(at: number, key: number, block: JsonCursor): Prompt.TextPart | Prompt.FilePart {
    const type = block.field("type")
    if (type.text === "tool_use")
      return type.broken("a call of a tool belongs into a message of the assistant")
    const made = content(block)
    return this.sources.add<Prompt.TextPart | Prompt.FilePart>(at, key, block.path, (options) => ({
      ...made,
      options
    }))
  }

  #result(at: number, key: number, block: JsonCursor): Prompt.ToolResultPart {
    const id = block.field("tool_use_id")
    const said = block.maybe("content")
    const output =
      said === undefined || typeof said.value === "string"
        ? { result: said?.value ?? "" }
        : this.files.read(said.items, content)
    return this.sources.add(at, key, id.path, (options) =>
      Prompt.makePart("tool-result", {
        id: id.text,
        name: this.#names.get(id.text) ?? "",
        isFailure: block.maybe("is_error")?.value === true,
        providerExecuted: false,
        options,
        ...output
      })
    )
  }
}

/** Reads a block that is neither a call nor a result. */
const content = (block: JsonCursor): Prompt.TextPart | Prompt.FilePart => {
  const text = (text: string) => Prompt.makePart("text", { text })
  const type = block.field("type").text
  if (type === "text") return text(block.field("text").text)
  if (type !== "image" && type !== "document") return text(opaque(block.value))
  const source = block.field("source")
  const file = (mediaType: string, data: FileData) => Prompt.makePart("file", { mediaType, data })
  const unknown = type === "image" ? "image/*" : "application/pdf"
  switch (source.field("type").text) {
    case "base64":
      return file(source.field("media_type").text, source.field("data").text)
    case "url":
      return file(unknown, addressed(source.field("url").text))
    case "file":
      return file(unknown, addressed(source.field("file_id").text))
    case "text":
      return text(source.field("data").text)
    default:
      return text(opaque(block.value))
  }
}

// -----------------------------------------------------------------------------
// Writing
// -----------------------------------------------------------------------------

const written = (run: Run, messages: ReadonlyArray<JsonCursor>, files: ResultFiles): JsonObject => {
  if (run._tag === "Added") return { role: "user", content: saidIn(run.message) }
  const message = messages[run.at]?.object ?? {}
  const blocks = message["content"]
  if (run.untouched || !Array.isArray(blocks)) return message
  return {
    ...message,
    content: blocks.flatMap((block: JsonObject, key) => {
      const kept = run.parts.get(key)
      return kept === undefined ? [] : [kept.untouched ? block : rewritten(block, kept, files)]
    })
  }
}

/** Writes a block whose result or arguments were cut. */
const rewritten = (block: JsonObject, { part }: Kept, files: ResultFiles): JsonObject => {
  if (part.type === "tool-call") return { ...block, input: part.params }
  return part.type === "tool-result" ? { ...block, content: files.content(part) } : block
}

/**
 * Places messages of the role `system` where the API accepts them: after a user message, and before an assistant
 * message or at the end. When their neighbours were removed, they move towards the end. Adjacent ones are joined.
 */
const placed = (messages: ReadonlyArray<JsonObject>): ReadonlyArray<JsonObject> => {
  const out: Array<JsonObject> = []
  let waiting: JsonObject | undefined
  for (const message of messages) {
    if (message["role"] === "system") {
      waiting = waiting === undefined ? message : joined(waiting, message)
      continue
    }
    if (message["role"] === "assistant" && waiting !== undefined) {
      out.push(waiting)
      waiting = undefined
    }
    out.push(message)
  }
  return waiting === undefined ? out : [...out, waiting]
}

const joined = (one: JsonObject, other: JsonObject): JsonObject => ({
  ...one,
  content: [...blocksOf(one), ...blocksOf(other)]
})

const blocksOf = ({ content }: JsonObject): ReadonlyArray<unknown> =>
  Array.isArray(content) ? content : [{ type: "text", text: content }]
