/** Reads a request of Chat Completions for targets of other formats. Pure. Throws {@link Untranslatable}. */
import { fields, isFields, list, number, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { AssistantPart, CallOptions, UserPart } from "../Conversation.ts"
import {
  argumentsOf,
  callPart,
  Conversation,
  filePart,
  marksCache,
  outputOf,
  textPart,
  textsOf
} from "../Conversation.ts"
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
  linkAt,
  shared,
  sharedDrops,
  unknownKind,
  Untranslatable,
  withoutVendorTools
} from "../Translation.ts"

/** Fields that are translated, or that ask for nothing that is missed. */
const known: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "stream",
  "stream_options",
  "max_tokens",
  "max_completion_tokens",
  "n",
  "temperature",
  "top_p",
  "stop",
  "seed",
  "presence_penalty",
  "frequency_penalty",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "response_format",
  "reasoning_effort",
  "user",
  "prompt_cache_key",
  "verbosity",
  "modalities",
  "logprobs",
  "store"
])

/** The field for which only a target of this format can answer. */
export const refuses = (body: Fields): string | undefined => {
  if ((number(body["n"]) ?? 1) > 1) return "n"
  if (body["logprobs"] === true) return "logprobs"
  if (list(body["modalities"]).includes("audio") || isFields(body["audio"])) return "modalities"
  return ["functions", "function_call", "web_search_options"].find(
    (name) => isFields(body[name]) || Array.isArray(body[name])
  )
}

export const translate = (body: Fields): Translation => {
  checkLimit(body, "max_tokens", "max_completion_tokens")
  const dropped = new Dropped()
  dropped.unread(body, known)
  sharedDrops(body, dropped)
  if (body["store"] === true) dropped.add("store")
  if (text(body["verbosity"]) !== "") dropped.add("verbosity", "openai")
  if (marksCache(body["messages"]) || marksCache(body["tools"])) dropped.add("cache_control", "anthropic")
  const tools = toolsOf(body, dropped)
  const format = fields(body["response_format"])
  const read = {
    temperature: number(body["temperature"]),
    top_p: number(body["top_p"]),
    seed: number(body["seed"]),
    presence_penalty: number(body["presence_penalty"]),
    frequency_penalty: number(body["frequency_penalty"]),
    stop: stopsOf(body["stop"]),
    reasoning_effort: effortOf(body["reasoning_effort"]),
    tool_choice: choiceOf(body["tool_choice"], tools),
    response_format: isKnownFormat(format["type"])
  }
  dropped.misread(body, read)
  return {
    dropped: dropped.all,
    names: { stop_sequences: "stop" },
    calls: new Map(),
    options: {
      prompt: promptOf(list(body["messages"]), dropped),
      ...given<Settings>({
        tools: tools.length === 0 ? undefined : tools,
        toolChoice: read.tool_choice,
        temperature: read.temperature,
        topP: read.top_p,
        seed: read.seed,
        presencePenalty: read.presence_penalty,
        frequencyPenalty: read.frequency_penalty,
        stopSequences: read.stop,
        reasoning: read.reasoning_effort,
        responseFormat: formatOf(text(format["type"]), fields(format["json_schema"])),
        providerOptions: shared({
          user: body["user"],
          parallel: body["parallel_tool_calls"],
          cacheKey: body["prompt_cache_key"],
          verbosity: body["verbosity"],
          // The format has no place for it.
          showsThinking: false
        })
      })
    }
  }
}

const stopsOf = (stop: unknown): Array<string> | undefined =>
  typeof stop === "string" ? [stop] : Array.isArray(stop) ? stop.map(text) : undefined

const toolsOf = (body: Fields, dropped: Dropped): Array<FunctionTool> => {
  const tools = list(body["tools"]).map(fields)
  // Some callers leave the type out.
  const isFunction = (tool: Fields) => isFields(tool["function"])
  const functions = tools.filter(isFunction).map((tool) => {
    const own = fields(tool["function"])
    return functionTool(text(own["name"]), { ...tool, ...own }, own["parameters"])
  })
  const others = tools.filter((tool) => !isFunction(tool)).map(({ type }) => text(type))
  if (others.includes("custom")) throw new Untranslatable("tools.custom")
  withoutVendorTools(functions, others, dropped)
  return functions
}

const choiceOf = (
  choice: unknown,
  tools: ReadonlyArray<FunctionTool>
): CallOptions["toolChoice"] | undefined => {
  if (choice === "none" || choice === "auto" || choice === "required") return { type: choice }
  if (!isFields(choice)) return undefined
  if (choice["type"] !== "function") throw new Untranslatable("tool_choice")
  return chosen(text(fields(choice["function"])["name"]), tools)
}

// -----------------------------------------------------------------------------
// Messages
// -----------------------------------------------------------------------------

const promptOf = (messages: ReadonlyArray<unknown>, dropped: Dropped): CallOptions["prompt"] => {
  const talk = new Conversation()
  messages.map(fields).forEach((message, i) => {
    const at = `messages[${i}]`
    const { content, role } = message
    switch (role) {
      case "system":
      case "developer":
        if (typeof content === "string") return talk.system(content, message)
        for (const part of list(content).map(fields)) talk.system(text(part["text"]), part)
        return
      case "user":
        return talk.user(userParts(content, at))
      case "assistant":
        return talk.assistant(assistantParts(message, at, dropped))
      case "tool":
        return talk.result(text(message["tool_call_id"]), outputOf(userParts(content, at)), message)
      default:
        throw unknownKind(at, role)
    }
  })
  return talk.messages
}

const userParts = (content: unknown, at: string): Array<UserPart> =>
  typeof content === "string"
    ? [textPart(content)]
    : list(content).map((part, i) => userPart(fields(part), `${at}.content[${i}]`))

const userPart = (part: Fields, at: string): UserPart => {
  switch (part["type"]) {
    case "text":
      return textPart(text(part["text"]), part)
    case "image_url": {
      const { detail, url } = fields(part["image_url"])
      const file = filePart(linkAt(`${at}.image_url.url`, url), "image/*", part)
      if (text(detail) === "") return file
      const { providerOptions } = file
      return { ...file, providerOptions: { ...providerOptions, openai: { imageDetail: text(detail) } } }
    }
    case "input_audio": {
      const { data, format } = fields(part["input_audio"])
      return filePart(text(data), format === "mp3" ? "audio/mpeg" : `audio/${text(format)}`, part)
    }
    case "file": {
      const file = fields(part["file"])
      const data = text(file["file_data"])
      if (data === "") throw new Untranslatable(`${at}.file.file_id`, "names a file that only its vendor has")
      return filePart(data, "application/pdf", { ...part, filename: file["filename"] })
    }
    default:
      throw unknownKind(at, part["type"])
  }
}

const assistantParts = (message: Fields, at: string, dropped: Dropped): ReadonlyArray<AssistantPart> => {
  const only = ["audio", "function_call"].find((name) => isFields(message[name]))
  if (only !== undefined) throw new Untranslatable(`${at}.${only}`)
  if (text(message["reasoning_content"]) !== "") dropped.add("messages.reasoning_content")
  const said = list(message["content"]).map((part) => {
    const { refusal, text: own } = fields(part)
    return textPart(text(own) || text(refusal), fields(part))
  })
  const whole = textsOf(message["content"]) || text(message["refusal"])
  const calls = list(message["tool_calls"]).map((each, i) => {
    const call = fields(each)
    if (call["type"] === "custom") throw new Untranslatable(`${at}.tool_calls[${i}].custom`)
    const { arguments: given, name } = fields(call["function"])
    return callPart(call["id"], text(name), argumentsOf(given))
  })
  return [...(said.length > 0 ? said : whole === "" ? [] : [textPart(whole, message)]), ...calls]
}
