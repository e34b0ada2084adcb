/**
 * Reads and writes the request body of Gemini's `generateContent`, in camel case or snake case. Google accepts and
 * documents both. Pure.
 *
 * A call without an id is identified by its position. A call with a thought signature keeps its arguments, because the
 * API refuses edited ones. Unknown parts count by their length and are passed through unchanged.
 */
import { Predicate } from "effect"
import { Prompt } from "effect/ai"
import { addressed, ResultFiles, textOf } from "./Files.ts"
import type { JsonObject } from "./Json.ts"
import type { JsonCursor } from "./JsonCursor.ts"
import type { Kept, Run } from "./Sources.ts"
import { Sources } from "./Sources.ts"
import type { Transcript } from "./Transcript.ts"
import { limitIn, opaque, saidIn, tool, userMessage } from "./Transcript.ts"

/** Reads a body. Throws `Broken`. */
export const read = (body: JsonCursor): Transcript => {
  const contents = body.field("contents").items
  const reader = new Reader()
  const system = (either(body, "systemInstruction")?.field("parts").items ?? []).map((part) =>
    Prompt.makeMessage("system", { content: part.field("text").text })
  )
  for (const [at, content] of contents.entries()) reader.content(at, content)
  const { sources, said } = reader
  sources.checkPairs(said)
  const config = either(body, "generationConfig")
  return {
    format: "gemini",
    prompt: Prompt.fromMessages([...system, ...said]),
    sources,
    tools: (body.maybe("tools")?.items ?? []).flatMap(toolsOf),
    model: body.maybe("model")?.text,
    outputLimit: limitIn(config === undefined ? undefined : either(config, "maxOutputTokens")),
    list: "contents",
    size: contents.length,
    write: ({ content }) => ({
      ...body.object,
      contents: sources.runs(content).map((run) => written(run, contents, reader.files))
    })
  }
}

const snakeOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Returns the field in either spelling, unless it is absent or null. */
const either = (place: JsonCursor, name: string): JsonCursor | undefined =>
  place.maybe(name) ?? place.maybe(snakeOf(name))

/** Returns a required field in either spelling. Errors use the camel case. */
const needed = (place: JsonCursor, name: string): JsonCursor => either(place, name) ?? place.field(name)

const declarations = "functionDeclarations"

const toolsOf = (place: JsonCursor) => [
  ...(either(place, declarations)?.items ?? []).map((own) =>
    tool(
      own.field("name").text,
      own.maybe("description"),
      (either(own, "parametersJsonSchema") ?? own.maybe("parameters"))?.object
    )
  ),
  // Tools that Google runs itself.
  ...Object.entries(place.object)
    .filter(([name]) => name !== declarations && name !== snakeOf(declarations))
    .map(([name, options]) => tool(name, undefined, options))
]

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

class Reader {
  readonly sources = new Sources()
  readonly said: Array<Prompt.Message> = []
  readonly files = new ResultFiles()
  /** Calls without a response, in their order. `given`: the call has its own id. */
  #open: Array<{ readonly id: string; readonly name: string; readonly given: boolean }> = []

  content(at: number, place: JsonCursor): void {
    const isModel = (place.maybe("role")?.oneOf(["user", "model", "function"]) ?? "user") === "model"
    const parts = place.maybe("parts")?.items ?? []
    if (isModel) {
      this.#open = []
      const content = parts.map((part, key) => this.#model(at, key, part))
      this.said.push(
        Prompt.makeMessage("assistant", { content: content.length > 0 ? content : [this.#empty(at, place)] })
      )
      return
    }
    const results: Array<Prompt.ToolResultPart> = []
    const others: Array<Prompt.UserMessagePart> = []
    for (const [key, part] of parts.entries()) {
      if (either(part, "functionResponse") !== undefined) results.push(this.#result(at, key, part))
      else others.push(this.#user(at, key, part))
    }
    if (results.length > 0) this.said.push(Prompt.makeMessage("tool", { content: results }))
    else if (others.length === 0) others.push(this.#empty(at, place))
    if (others.length > 0) this.said.push(userMessage(others))
  }

  #empty(at: number, place: JsonCursor): Prompt.TextPart {
    return this.sources.add(at, "parts", place.path, (options) =>
      Prompt.makePart("text", { text: "", options })
    )
  }

  #model(at: number, key: number, part: JsonCursor): Prompt.AssistantMessagePart {
    const called = either(part, "functionCall")
    if (called !== undefined) {
      const given = called.maybe("id")?.text
      const name = called.field("name").text
      const id = given ?? called.path
      const signature = either(part, "thoughtSignature")?.text
      this.#open.push({ id, name, given: given !== undefined })
      return this.sources.add(at, key, called.path, (options) =>
        Prompt.makePart("tool-call", {
          id,
          name,
          params: called.maybe("args")?.object ?? {},
          providerExecuted: false,
          options: signature === undefined ? options : { ...options, google: { thoughtSignature: signature } }
        })
      )
    }
    if (either(part, "functionResponse") !== undefined) {
      return part.broken("a functionResponse belongs into a content of the user")
    }
    const thought = part.maybe("thought")?.value === true ? part.maybe("text")?.text : undefined
    return thought === undefined
      ? this.#user(at, key, part)
      : this.sources.add(at, key, part.path, (options) =>
          Prompt.makePart("reasoning", { text: thought, options })
        )
  }

  #user(at: number, key: number, part: JsonCursor): Prompt.TextPart | Prompt.FilePart {
    if (either(part, "functionCall") !== undefined) {
      return part.broken("a functionCall belongs into a content of the model")
    }
    const made = partOf(part)
    return this.sources.add<Prompt.TextPart | Prompt.FilePart>(at, key, part.path, (options) => ({
      ...made,
      options
    }))
  }

  #result(at: number, key: number, part: JsonCursor): Prompt.ToolResultPart {
    const answer = needed(part, "functionResponse")
    const name = answer.field("name").text
    const given = answer.maybe("id")?.text
    const response = answer.field("response").object
    const index = this.#open.findIndex((call) =>
      given !== undefined && call.given ? call.id === given : call.name === name
    )
    const [call] = index < 0 ? [] : this.#open.splice(index, 1)
    const files = this.files.add(answer.maybe("parts")?.items ?? [], partOf)
    const field = textField(response)
    const result = field === undefined ? response : response[field]
    const text = typeof result === "string" ? result : JSON.stringify(result)
    return this.sources.add(at, key, answer.path, (options) =>
      Prompt.makePart("tool-result", {
        // A response without a call. Its empty id makes the check of pairs fail.
        id: call?.id ?? "",
        name,
        isFailure: "error" in response,
        result,
        providerExecuted: false,
        options,
        ...(files.length === 0 ? {} : { modelOutput: [Prompt.makePart("text", { text }), ...files] })
      })
    )
  }
}

/** Returns the name of the only field if it is a text. A cut text is written back under that name. */
const textField = (response: JsonObject): string | undefined => {
  const [field, ...others] = Object.keys(response)
  return field !== undefined && others.length === 0 && typeof response[field] === "string" ? field : undefined
}

const partOf = (part: JsonCursor): Prompt.TextPart | Prompt.FilePart => {
  const inline = either(part, "inlineData")
  if (inline !== undefined) {
    const mediaType = needed(inline, "mimeType").text
    return Prompt.makePart("file", { mediaType, data: inline.field("data").text })
  }
  const file = either(part, "fileData")
  if (file !== undefined) {
    const mediaType = either(file, "mimeType")?.text ?? "application/pdf"
    return Prompt.makePart("file", { mediaType, data: addressed(needed(file, "fileUri").text) })
  }
  return Prompt.makePart("text", { text: part.maybe("text")?.text ?? opaque(part.object) })
}

// -----------------------------------------------------------------------------
// Writing
// -----------------------------------------------------------------------------

const written = (run: Run, contents: ReadonlyArray<JsonCursor>, files: ResultFiles): JsonObject => {
  if (run._tag === "Added") return { role: "user", parts: [{ text: saidIn(run.message) }] }
  const content = contents[run.at]?.object ?? {}
  const { parts } = content
  if (run.untouched || !Array.isArray(parts)) return content
  return {
    ...content,
    parts: parts.flatMap((part: JsonObject, key) => {
      const kept = run.parts.get(key)
      return kept === undefined ? [] : [kept.untouched ? part : rewritten(part, kept, files)]
    })
  }
}

/** Returns the spelling with which a field was read, like {@link either}. */
const spellingIn = (part: JsonObject, name: string): string =>
  Predicate.isObject(part[name]) ? name : snakeOf(name)

/** Writes a part whose response or arguments were cut. */
const rewritten = (part: JsonObject, kept: Kept, files: ResultFiles): JsonObject => {
  const [called, answered] = [spellingIn(part, "functionCall"), spellingIn(part, "functionResponse")]
  const functionCall = part[called]
  const functionResponse = part[answered]
  if (kept.part.type === "tool-call" && Predicate.isObject(functionCall)) {
    return { ...part, [called]: { ...functionCall, args: kept.part.params } }
  }
  if (kept.part.type !== "tool-result" || !Predicate.isObject(functionResponse)) return part
  const { parts: _files, response, ...own } = functionResponse as JsonObject
  const before = response as JsonObject // read as an object before
  const field = textField(before) ?? ("error" in before ? "error" : "output")
  const stay = files.kept(kept.part)
  return {
    ...part,
    [answered]: {
      ...own,
      response: { [field]: textOf(kept.part) },
      ...(stay.length === 0 ? {} : { parts: stay })
    }
  }
}
