/**
 * Reads a request of OpenAI Responses for targets of other formats. Pure. Throws {@link Untranslatable}.
 *
 * - A tool of a namespace becomes a function with both names.
 * - A tool whose input is any text becomes a function with one text. Its calls are written as the caller expects them.
 */
import { fields, isFields, list, number, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { CallOptions, UserPart } from "../Conversation.ts"
import { argumentsOf, callPart, Conversation, filePart, outputOf, textPart } from "../Conversation.ts"
import type { FunctionTool, Settings, Translation } from "../Translation.ts"
import {
  checkLimit,
  chosen,
  Dropped,
  effortOf,
  formatOf,
  functionTool,
  given,
  isKnownFormat,
  shared,
  sharedDrops,
  unknownKind,
  Untranslatable,
  withoutVendorTools
} from "../Translation.ts"

/** Fields that are translated, or that ask for nothing that is missed. */
const known: ReadonlySet<string> = new Set([
  "model",
  "input",
  "instructions",
  "stream",
  "stream_options",
  "max_output_tokens",
  "temperature",
  "top_p",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "text",
  "reasoning",
  "user",
  "prompt_cache_key",
  "store",
  "background",
  "top_logprobs"
])

/** The field for which only a target of this format can answer. */
export const refuses = (body: Fields): string | undefined => {
  if ((number(body["top_logprobs"]) ?? 0) > 0) return "top_logprobs"
  return ["previous_response_id", "conversation", "prompt"].find(
    (name) => body[name] !== undefined && body[name] !== null
  )
}

export const translate = (body: Fields): Translation => {
  checkLimit(body, "max_output_tokens")
  const dropped = new Dropped()
  dropped.unread(body, known)
  sharedDrops(body, dropped)
  if (body["store"] === true) dropped.add("store")
  const said = fields(body["text"])
  if (text(said["verbosity"]) !== "") dropped.add("text.verbosity", "openai")
  const format = fields(said["format"])
  const calls = new Map<string, Fields>()
  const tools = toolsOf(list(body["tools"]).map(fields), calls, dropped)
  const read = {
    temperature: number(body["temperature"]),
    top_p: number(body["top_p"]),
    tool_choice: choiceOf(body["tool_choice"], tools)
  }
  const { effort, summary } = fields(body["reasoning"])
  const reasoning = effortOf(effort)
  dropped.misread(body, read)
  dropped.misread({ effort }, { effort: reasoning }, "reasoning.")
  dropped.misread(said, { format: isKnownFormat(format["type"]) }, "text.")
  return {
    dropped: dropped.all,
    names: { response_format: "text.format", reasoning_summary: "reasoning.summary" },
    calls,
    options: {
      prompt: promptOf(body, dropped),
      ...given<Settings>({
        tools: tools.length === 0 ? undefined : tools,
        toolChoice: read.tool_choice,
        temperature: read.temperature,
        topP: read.top_p,
        reasoning,
        responseFormat: formatOf(text(format["type"]), format),
        providerOptions: shared({
          user: body["user"],
          parallel: body["parallel_tool_calls"],
          cacheKey: body["prompt_cache_key"],
          verbosity: said["verbosity"],
          showsThinking: text(summary) !== ""
        })
      })
    }
  }
}

const anyText = { type: "object", properties: { input: { type: "string" } }, required: ["input"] }

const nameIn = (namespace: unknown, name: unknown): string =>
  text(namespace) === "" ? text(name) : `${text(namespace)}__${text(name)}`

const toolsOf = (
  tools: ReadonlyArray<Fields>,
  calls: Map<string, Fields>,
  dropped: Dropped
): Array<FunctionTool> => {
  const vendors: Array<string> = []
  const functions = functionsOf(tools, { calls, dropped, vendors, namespace: undefined })
  withoutVendorTools(functions, vendors, dropped)
  return functions
}

interface Reading {
  readonly calls: Map<string, Fields>
  readonly dropped: Dropped
  /** Types of tools that are no functions. */
  readonly vendors: Array<string>
  readonly namespace: string | undefined
}

const functionsOf = (tools: ReadonlyArray<Fields>, reading: Reading): Array<FunctionTool> =>
  tools.flatMap((tool): ReadonlyArray<FunctionTool> => {
    const { calls, dropped, namespace, vendors } = reading
    const type = text(tool["type"])
    if (type === "namespace") {
      return functionsOf(list(tool["tools"]).map(fields), { ...reading, namespace: text(tool["name"]) })
    }
    const isCustom = type === "custom"
    if (!isCustom && type !== "function") {
      vendors.push(type)
      return []
    }
    const name = nameIn(namespace, tool["name"])
    if (isCustom || namespace !== undefined) {
      calls.set(name, {
        type: isCustom ? "custom_tool_call" : "function_call",
        name: tool["name"],
        ...(namespace === undefined ? {} : { namespace })
      })
    }
    if (isCustom && fields(tool["format"])["type"] === "grammar") dropped.add("tools.format")
    return [functionTool(name, tool, isCustom ? anyText : tool["parameters"])]
  })

const choiceOf = (
  choice: unknown,
  tools: ReadonlyArray<FunctionTool>
): CallOptions["toolChoice"] | undefined => {
  if (choice === "none" || choice === "auto" || choice === "required") return { type: choice }
  if (!isFields(choice)) return undefined
  if (choice["type"] !== "function" && choice["type"] !== "custom") throw new Untranslatable("tool_choice")
  return chosen(nameIn(choice["namespace"], choice["name"]), tools)
}

// -----------------------------------------------------------------------------
// Input
// -----------------------------------------------------------------------------

const promptOf = (body: Fields, dropped: Dropped): CallOptions["prompt"] => {
  const talk = new Conversation()
  talk.system(text(body["instructions"]))
  const { input } = body
  if (typeof input === "string") talk.user([textPart(input)])
  list(input)
    .map(fields)
    .forEach((item, i) => readItem(item, `input[${i}]`, talk, dropped))
  return talk.messages
}

const readItem = (item: Fields, at: string, talk: Conversation, dropped: Dropped): void => {
  const type = text(item["type"]) || "message"
  switch (type) {
    case "message":
      return readMessage(item, at, talk)
    case "function_call":
      return talk.assistant([
        callPart(item["call_id"], nameIn(item["namespace"], item["name"]), argumentsOf(item["arguments"]))
      ])
    case "custom_tool_call":
      return talk.assistant([
        callPart(item["call_id"], nameIn(item["namespace"], item["name"]), { input: item["input"] })
      ])
    case "function_call_output":
    case "custom_tool_call_output":
      return talk.result(text(item["call_id"]), outputOf(parts(item["output"], `${at}.output`)))
    default:
      // Only the model that made them understands them. What came of them stands in its text.
      if (type !== "reasoning" && !ofVendor.has(type)) throw unknownKind(at, type)
      dropped.add(`input.${type}`)
  }
}

/** Items of tools that OpenAI runs. */
const ofVendor: ReadonlySet<string> = new Set([
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "mcp_list_tools",
  "mcp_call",
  "tool_search_call",
  "tool_search_output"
])

const readMessage = ({ content, role }: Fields, at: string, talk: Conversation): void => {
  const said = parts(content, `${at}.content`)
  switch (role) {
    case "system":
    case "developer":
      for (const part of said) if (part.type === "text") talk.system(part.text)
      return
    case "assistant":
      return talk.assistant(said)
    case "user":
      return talk.user(said)
    default:
      throw unknownKind(at, role)
  }
}

const parts = (content: unknown, at: string): Array<UserPart> =>
  typeof content === "string"
    ? [textPart(content)]
    : list(content).map((part, i) => partOf(fields(part), `${at}[${i}]`))

const partOf = (part: Fields, at: string): UserPart => {
  switch (part["type"]) {
    case "input_text":
    case "output_text":
    case "text":
      return textPart(text(part["text"]))
    case "refusal":
      return textPart(text(part["refusal"]))
    case "input_image":
    case "input_file": {
      const data = text(part["image_url"]) || text(part["file_data"]) || text(part["file_url"])
      if (data === "") throw new Untranslatable(`${at}.file_id`, "names a file that only its vendor has")
      return filePart(data, part["type"] === "input_image" ? "image/*" : "application/pdf", part)
    }
    case "input_audio": {
      const { data, format } = fields(part["input_audio"])
      return filePart(text(data), format === "mp3" ? "audio/mpeg" : `audio/${text(format)}`)
    }
    default:
      throw unknownKind(at, part["type"])
  }
}
