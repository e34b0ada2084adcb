/**
 * The conversation of a request, in the terms that a target of any format takes. Pure. No file is fetched: a URL goes on as a
 * URL.
 */
import type { ServedRequest } from "@outlast/providers/internal"
import { fields, isFields, list, parse, text } from "../json/Json.ts"
import type { Fields } from "../json/Json.ts"

/** A request in the terms of the AI SDK. */
export type CallOptions = Parameters<typeof ServedRequest.make>[0]
type Message = CallOptions["prompt"][number]
type Of<Role> = Extract<Message, { readonly role: Role }>
export type UserPart = Of<"user">["content"][number]
export type AssistantPart = Of<"assistant">["content"][number]
type ToolPart = Extract<Of<"tool">["content"][number], { readonly type: "tool-result" }>
type Output = ToolPart["output"]
type FilePart = Extract<UserPart, { readonly type: "file" }>
export type Namespaced = NonNullable<CallOptions["providerOptions"]>

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
  // Content cannot say by itself that it is an error.
  const all = isError ? [textPart("The tool failed."), ...parts] : parts
  return {
    type: "content",
    value: all.map((part) =>
      part.type === "text"
        ? { type: "text", text: part.text }
        : { type: "file", mediaType: part.mediaType, data: part.data }
    )
  }
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
