/** Reads a request of Anthropic Messages for targets of other formats. Pure. Throws {@link Untranslatable}. */
import { fields, list, number, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { AssistantPart, CallOptions, UserPart } from "../Conversation.ts"
import { callPart, Conversation, filePart, marksCache, outputOf, textPart } from "../Conversation.ts"
import type { FunctionTool, Settings, Translation } from "../Translation.ts"
import {
  checkLimit,
  chosen,
  Dropped,
  effortOf,
  formatOf,
  functionTool,
  given,
  linkAt,
  shared,
  unknownKind,
  userTakers,
  Untranslatable,
  withoutVendorTools
} from "../Translation.ts"

/** Fields that are translated. */
const known: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "system",
  "stream",
  "max_tokens",
  "temperature",
  "top_p",
  "top_k",
  "stop_sequences",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "output_format",
  "metadata"
])

/** The field for which only a target of this format can answer. */
export const refuses = (body: Fields): string | undefined =>
  list(body["mcp_servers"]).length > 0 ? "mcp_servers" : undefined

export const translate = (body: Fields): Translation => {
  checkLimit(body, "max_tokens")
  const dropped = new Dropped()
  dropped.unread(body, known)
  if (["system", "messages", "tools"].some((name) => marksCache(body[name]))) {
    dropped.add("cache_control", "anthropic")
  }
  const user = text(fields(body["metadata"])["user_id"])
  if (user !== "") dropped.add("metadata.user_id", ...userTakers(user))
  const config = fields(body["output_config"])
  const format = fields(config["format"] ?? body["output_format"])
  const tools = toolsOf(list(body["tools"]).map(fields), dropped)
  const choice = fields(body["tool_choice"])
  const thinking = fields(body["thinking"])
  const read = {
    temperature: number(body["temperature"]),
    top_p: number(body["top_p"]),
    top_k: number(body["top_k"]),
    stop_sequences: Array.isArray(body["stop_sequences"]) ? body["stop_sequences"].map(text) : undefined,
    tool_choice: choiceOf(choice, tools)
  }
  dropped.misread(body, read)
  dropped.misread(config, { effort: effortOf(config["effort"]) }, "output_config.")
  if (choice["disable_parallel_tool_use"] === true) {
    dropped.add("tool_choice.disable_parallel_tool_use", "openai", "openaiCompatible", "anthropic")
  }
  return {
    dropped: dropped.all,
    names: { response_format: "output_config.format", reasoning_summary: "thinking" },
    calls: new Map(),
    options: {
      prompt: promptOf(body, dropped),
      ...given<Settings>({
        tools: tools.length === 0 ? undefined : tools,
        toolChoice: read.tool_choice,
        temperature: read.temperature,
        topP: read.top_p,
        topK: read.top_k,
        stopSequences: read.stop_sequences,
        reasoning: reasoningOf(thinking, config["effort"]),
        responseFormat: formatOf(text(format["type"]), format),
        providerOptions: shared({
          user,
          parallel: choice["disable_parallel_tool_use"] === true ? false : undefined,
          showsThinking:
            ["enabled", "adaptive"].includes(text(thinking["type"])) && thinking["display"] !== "omitted"
        })
      })
    }
  }
}

/** Budgets of thinking, in tokens, up to which an effort is meant. */
const budgets = [
  [2_048, "low"],
  [8_192, "medium"]
] as const

/** Only the newer models are told an effort. A budget says the same to people. */
const reasoningOf = ({ budget_tokens, type }: Fields, effort: unknown): CallOptions["reasoning"] => {
  if (type === "disabled") return "none"
  const named = effortOf(effort)
  if (named !== undefined) return named
  const budget = number(budget_tokens)
  if (type !== "enabled" || budget === undefined) return undefined
  return budgets.find(([most]) => budget <= most)?.[1] ?? "high"
}

const toolsOf = (tools: ReadonlyArray<Fields>, dropped: Dropped): Array<FunctionTool> => {
  const isFunction = ({ type }: Fields) => type === undefined || type === null || type === "custom"
  const functions = tools
    .filter(isFunction)
    .map((tool) => functionTool(text(tool["name"]), tool, tool["input_schema"]))
  const others = tools.filter((tool) => !isFunction(tool)).map(({ type }) => text(type))
  withoutVendorTools(functions, others, dropped)
  return functions
}

const choiceOf = (
  { name, type }: Fields,
  tools: ReadonlyArray<FunctionTool>
): CallOptions["toolChoice"] | undefined => {
  if (type === "auto" || type === "none") return { type }
  if (type === "any") return { type: "required" }
  return type === "tool" ? chosen(text(name), tools) : undefined
}

// -----------------------------------------------------------------------------
// Messages
// -----------------------------------------------------------------------------

const blocksOf = (content: unknown): ReadonlyArray<Fields> =>
  typeof content === "string" ? [{ type: "text", text: content }] : list(content).map(fields)

const promptOf = (body: Fields, dropped: Dropped): CallOptions["prompt"] => {
  const talk = new Conversation()
  for (const block of blocksOf(body["system"])) talk.system(text(block["text"]), block)
  list(body["messages"])
    .map(fields)
    .forEach(({ content, role }, i) => {
      const at = `messages[${i}]`
      const blocks = blocksOf(content)
      switch (role) {
        case "system":
          for (const block of blocks) talk.system(text(block["text"]), block)
          return
        case "assistant":
          return talk.assistant(
            blocks.flatMap((block, j) => assistantPart(block, `${at}.content[${j}]`, dropped))
          )
        case "user": {
          const others: Array<UserPart> = []
          blocks.forEach((block, j) => {
            const place = `${at}.content[${j}]`
            if (block["type"] !== "tool_result") return others.push(userPart(block, place))
            const parts = blocksOf(block["content"]).map((part, k) =>
              userPart(part, `${place}.content[${k}]`)
            )
            return talk.result(text(block["tool_use_id"]), outputOf(parts, block["is_error"] === true), block)
          })
          return talk.user(others)
        }
        default:
          throw unknownKind(at, role)
      }
    })
  return talk.messages
}

const userPart = (block: Fields, at: string): UserPart => {
  switch (block["type"]) {
    case "text":
      return textPart(text(block["text"]), block)
    case "image":
    case "document": {
      const source = fields(block["source"])
      const more = { ...block, filename: block["title"] }
      const unknown = block["type"] === "image" ? "image/*" : "application/pdf"
      if (source["type"] === "base64") return filePart(text(source["data"]), text(source["media_type"]), more)
      if (source["type"] === "url") {
        return filePart(linkAt(`${at}.source.url`, source["url"]), unknown, more)
      }
      if (source["type"] === "text") return textPart(text(source["data"]), block)
      throw new Untranslatable(`${at}.source`, "names a file that only its vendor has")
    }
    case "search_result":
      return textPart(
        [block["title"], block["source"], ...blocksOf(block["content"]).map(({ text }) => text)].join("\n"),
        block
      )
    case "tool_reference":
      return textPart(text(block["tool_name"]), block)
    default:
      throw unknownKind(at, block["type"])
  }
}

const assistantPart = (block: Fields, at: string, dropped: Dropped): ReadonlyArray<AssistantPart> => {
  const type = text(block["type"])
  if (type === "text") return [textPart(text(block["text"]), block)]
  if (type === "tool_use") {
    return [callPart(block["id"], text(block["name"]), block["input"] ?? {}, block)]
  }
  // Only the model that made them understands them.
  const isOwn = /^(?:redacted_)?thinking$|^server_tool_use$|^mcp_tool_use$|_tool_result$/.test(type)
  if (!isOwn) throw unknownKind(at, block["type"])
  dropped.add(`messages.${type}`)
  return []
}
