/**
 * What a request says, in the terms that a target of any format takes, and what all decoders of requests share. Pure.
 *
 * - A setting that a target cannot express, and that changes little, is dropped by name. The answer names it in a header.
 * - A field without which the answer would be another one is {@link Untranslatable}.
 * - No file is fetched: a URL goes on as a URL.
 */
import type { ServedRequest } from "@outlast/providers/internal"
import { count, fields, isFields, list, parse, text } from "../json/Json.ts"
import type { Fields } from "../json/Json.ts"

/** A request in the terms of the AI SDK. */
export type CallOptions = Parameters<typeof ServedRequest.make>[0]
export type Settings = Omit<CallOptions, "prompt">
type Message = CallOptions["prompt"][number]
type Of<Role> = Extract<Message, { readonly role: Role }>
export type UserPart = Of<"user">["content"][number]
export type AssistantPart = Of<"assistant">["content"][number]
type ToolPart = Extract<Of<"tool">["content"][number], { readonly type: "tool-result" }>
type Output = ToolPart["output"]
export type FilePart = Extract<UserPart, { readonly type: "file" }>
type Tools = NonNullable<CallOptions["tools"]>
export type FunctionTool = Extract<Tools[number], { readonly type: "function" }>
type Reasoning = NonNullable<CallOptions["reasoning"]>
type Namespaced = NonNullable<CallOptions["providerOptions"]>

export interface Translation {
  readonly options: CallOptions
  /** Fields that are left out, by name, with the namespaces of the targets that take them nevertheless. */
  readonly dropped: ReadonlyMap<string, ReadonlyArray<string>>
  /** Names that settings of a client have in the wire, where they are others. */
  readonly names: Readonly<Record<string, string>>
  /** Fields that calls of a tool have in this wire, where the tool is no plain function: by the name that targets see. */
  readonly calls: ReadonlyMap<string, Fields>
}

/** A field of a request has no counterpart in the format of a target, and the answer would be another one without it. */
export class Untranslatable extends Error {
  override readonly name = "Untranslatable"
  readonly field: string
  constructor(field: string, why = "has no counterpart in other formats") {
    super(`The field ${field} ${why}.`)
    this.field = field
  }
}

/** A part of the conversation of a kind that other formats do not have. */
export const unknownKind = (at: string, kind: unknown): Untranslatable =>
  new Untranslatable(at, `is of the kind "${text(kind).slice(0, 60)}", which other formats do not have`)

/** Collects what is left out while a request is read. */
export class Dropped {
  readonly all = new Map<string, ReadonlyArray<string>>()

  add(field: string, ...unlessFor: ReadonlyArray<string>): void {
    this.all.set(field, unlessFor)
  }

  /** Fields with a value that the decoder has not understood: `undefined` in `read`. */
  misread(given: Fields, read: Fields, prefix = ""): void {
    for (const [name, value] of Object.entries(read)) {
      if (value === undefined && given[name] !== undefined && given[name] !== null) this.add(prefix + name)
    }
  }

  /** Fields of the request that no decoder reads. */
  unread(body: Fields, read: ReadonlySet<string>): void {
    for (const [name, value] of Object.entries(body)) {
      if (!read.has(name) && value !== null) this.add(name)
    }
  }
}

/** The fields that have a value. */
export const given = <A extends object>(some: { readonly [K in keyof A]: A[K] | undefined }): Partial<A> =>
  // Only `undefined` is taken out.
  Object.fromEntries(Object.entries(some).filter(([, value]) => value !== undefined)) as Partial<A>

// -----------------------------------------------------------------------------
// Prompt
// -----------------------------------------------------------------------------

/** Joins the parts of consecutive messages of the assistant, and keeps the names of called tools. */
export class Conversation {
  readonly messages: Array<Message> = []
  readonly #names = new Map<string, string>()

  system(content: string, block: Fields = {}): void {
    if (content !== "") this.messages.push({ role: "system", content, ...cached(block) })
  }

  user(content: Array<UserPart>): void {
    if (content.length > 0) this.messages.push({ role: "user", content })
  }

  assistant(content: ReadonlyArray<AssistantPart>): void {
    if (content.length === 0) return
    for (const part of content) if (part.type === "tool-call") this.#names.set(part.toolCallId, part.toolName)
    const last = this.messages.at(-1)
    if (last?.role !== "assistant") this.messages.push({ role: "assistant", content: [...content] })
    else for (const part of content) last.content.push(part)
  }

  result(toolCallId: string, output: Output, block: Fields = {}): void {
    const toolName = this.#names.get(toolCallId) ?? "unknown"
    this.messages.push({
      role: "tool",
      content: [{ type: "tool-result", toolCallId, toolName, output, ...cached(block) }]
    })
  }
}

export const textPart = (said: string, block: Fields = {}) => ({
  type: "text" as const,
  text: said,
  ...cached(block)
})

export const callPart = (id: unknown, name: string, input: unknown, block: Fields = {}) => ({
  type: "tool-call" as const,
  toolCallId: text(id),
  toolName: name,
  input,
  ...cached(block)
})

/** Arguments written by a model are not always JSON. */
export const argumentsOf = (written: unknown): unknown => parse(text(written)) ?? (text(written) || {})

/** Marks for the prompt cache of Anthropic, which other vendors' clients ignore. */
export const cached = (block: Fields): { readonly providerOptions?: Namespaced } => {
  const mark = block["cache_control"]
  if (!isFields(mark)) return {}
  const ttl = text(mark["ttl"])
  return {
    providerOptions: {
      anthropic: { cacheControl: { type: text(mark["type"]), ...(ttl === "" ? {} : { ttl }) } }
    }
  }
}

/** Bytes in base64, as a data URL or without one, or a URL that the target may fetch. */
export const filePart = (data: string, mediaType: string, more: Fields = {}): FilePart => {
  const inline = /^data:([^;,]*)[^,]*?(;base64)?,/.exec(data)
  const filename = text(more["filename"])
  const rest = { ...(filename === "" ? {} : { filename }), ...cached(more) }
  if (inline !== null) {
    const [head, type = "", base64] = inline
    const content = data.slice(head.length)
    const bytes = base64 === undefined ? new TextEncoder().encode(unescaped(content)) : content
    return {
      type: "file",
      mediaType: type === "" ? mediaType : type,
      data: { type: "data", data: bytes },
      ...rest
    }
  }
  if (/^https?:/i.test(data) && URL.canParse(data)) {
    const url = new URL(data)
    return { type: "file", mediaType: typeByName(url) ?? mediaType, data: { type: "url", url }, ...rest }
  }
  return { type: "file", mediaType, data: { type: "data", data }, ...rest }
}

/** A link of a request. Anything else would be taken for bytes in base64. */
export const linkAt = (at: string, link: unknown): string => {
  const given = text(link)
  if (given.startsWith("data:") || (/^https?:/i.test(given) && URL.canParse(given))) return given
  throw new Untranslatable(at, "is neither a URL of http(s) nor a data URL")
}

/** The text of a data URL without base64. Some callers do not escape it. */
const unescaped = (content: string): string => {
  try {
    return decodeURIComponent(content)
  } catch {
    return content
  }
}

const typesByName: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  pdf: "application/pdf"
}

/** Some targets must be told the type of a file that they fetch. */
const typeByName = ({ pathname }: URL): string | undefined =>
  typesByName[/\.(\w+)$/.exec(pathname)?.[1]?.toLowerCase() ?? ""]

/** The result of a tool, with its files. */
export const outputOf = (parts: ReadonlyArray<UserPart>, isError = false): Output => {
  const said = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
  if (!parts.some((part) => part.type === "file"))
    return { type: isError ? "error-text" : "text", value: said }
  return {
    type: "content",
    value: parts.map((part) =>
      part.type === "text"
        ? { type: "text", text: part.text }
        : { type: "file", mediaType: part.mediaType, data: part.data }
    )
  }
}

// -----------------------------------------------------------------------------
// Tools and settings
// -----------------------------------------------------------------------------

export const functionTool = (name: string, own: Fields, schema: unknown): FunctionTool => ({
  type: "function",
  name,
  // A function without parameters has no schema.
  inputSchema: isFields(schema) ? schema : { type: "object", properties: {} },
  ...given<Pick<FunctionTool, "description" | "strict">>({
    description: text(own["description"]) || undefined,
    strict: own["strict"] === true ? true : undefined
  }),
  ...cached(own)
})

/**
 * What becomes of tools that a vendor defines or runs itself. Beside functions they are left out. A request that has no
 * other tool, or demands one of them, would get another answer without them.
 */
export const withoutVendorTools = (
  functions: ReadonlyArray<FunctionTool>,
  vendors: ReadonlyArray<string>,
  dropped: Dropped
): void => {
  const [first] = vendors
  if (first === undefined) return
  if (functions.length === 0) throw new Untranslatable("tools", `has only ${first}, which its vendor defines`)
  for (const name of vendors) dropped.add(`tools.${name}`)
}

export const chosen = (name: string, functions: ReadonlyArray<FunctionTool>): CallOptions["toolChoice"] => {
  if (functions.some((tool) => tool.name === name)) return { type: "tool", toolName: name }
  throw new Untranslatable("tool_choice", "names a tool that is no function of the request")
}

const efforts: ReadonlyMap<string, Reasoning> = new Map([
  ["none", "none"],
  ["minimal", "minimal"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["xhigh", "xhigh"],
  ["max", "max"]
])

/** The formats of an answer; a text is none that must be asked for. */
export const isKnownFormat = (type: unknown): true | undefined =>
  type === "text" || type === "json_object" || type === "json_schema" || undefined

export const effortOf = (effort: unknown): Reasoning | undefined => efforts.get(text(effort))

/** The shape of `json_schema` and `json_object` in both formats of OpenAI; `own` has the schema. */
export const formatOf = (type: string, own: Fields): CallOptions["responseFormat"] => {
  if (type === "json_object") return { type: "json" }
  if (type !== "json_schema") return undefined
  return {
    type: "json",
    ...given<{ name: string; description: string; schema: object }>({
      name: text(own["name"]) || undefined,
      description: text(own["description"]) || undefined,
      schema: isFields(own["schema"]) ? own["schema"] : undefined
    })
  }
}

/** Refuses an output limit that no vendor takes: without it the answer would have no limit. */
export const checkLimit = (body: Fields, ...names: ReadonlyArray<string>): void => {
  for (const name of names) {
    const limit = body[name]
    if (limit === undefined || limit === null || count(limit) !== undefined) continue
    throw new Untranslatable(name, "is not a whole number of tokens above 0")
  }
}

/** OpenAI refuses a request whose `user` has more characters. Claude Code names its users with more. */
const longestUser = 64

const isLong = (user: string): boolean => user.length > longestUser

/** Namespaces of the targets that are told this user. */
export const userTakers = (user: string): ReadonlyArray<string> =>
  isLong(user) ? ["anthropic"] : ["openai", "openaiCompatible", "anthropic"]

/** Provider options that mean the same everywhere where they exist. */
export const shared = (of: {
  readonly user?: unknown
  readonly parallel?: unknown
  readonly cacheKey?: unknown
  readonly verbosity?: unknown
  /** OpenAI shows a summary of its thinking. Its client would ask for one with every effort. */
  readonly showsThinking: boolean
}): Namespaced => {
  const user = text(of.user) || undefined
  const short = user === undefined || isLong(user) ? undefined : user
  const parallel = typeof of.parallel === "boolean" ? of.parallel : undefined
  const all = {
    openai: given({
      user: short,
      parallelToolCalls: parallel,
      promptCacheKey: text(of.cacheKey) || undefined,
      textVerbosity: text(of.verbosity) || undefined,
      reasoningSummary: of.showsThinking ? "auto" : null
    }),
    openaiCompatible: given({ user: short, parallel_tool_calls: parallel }),
    anthropic: given({
      metadata: user === undefined ? undefined : { userId: user },
      disableParallelToolUse: parallel === false ? true : undefined
    })
  }
  return Object.fromEntries(Object.entries(all).filter(([, options]) => Object.keys(options).length > 0))
}

/** Names the fields of {@link shared} for targets that have no such option. */
export const sharedDrops = (body: Fields, dropped: Dropped): void => {
  const isSaid = (name: string) => body[name] !== undefined && body[name] !== null
  if (isSaid("user")) dropped.add("user", ...userTakers(text(body["user"])))
  if (body["parallel_tool_calls"] === false) {
    dropped.add("parallel_tool_calls", "openai", "openaiCompatible", "anthropic")
  }
  if (isSaid("prompt_cache_key")) dropped.add("prompt_cache_key", "openai")
}

/** Messages have blocks, and results of tools blocks of their own. */
const deepest = 6

/** True where some block of a value is marked for a prompt cache. */
export const marksCache = (value: unknown, depth = 0): boolean => {
  if (depth > deepest) return false
  if (Array.isArray(value)) return value.some((each) => marksCache(each, depth + 1))
  if (!isFields(value)) return false
  return (
    isFields(value["cache_control"]) ||
    marksCache(value["content"], depth + 1) ||
    marksCache(value["function"], depth + 1)
  )
}

export const textsOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : list(content)
        .map((part) => text(fields(part)["text"]))
        .join("\n")
