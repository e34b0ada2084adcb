/**
 * Converts an effect/ai prompt to the prompt of an AI SDK model.
 *
 * The prompt is not adapted to a provider here, with four exceptions that suit every provider:
 *
 * - Empty texts and empty messages are dropped.
 * - Consecutive tool messages become one.
 * - Arguments of a tool call that are not an object are wrapped in one.
 * - Answers to approvals that the provider did not ask for are dropped.
 *
 * Options of the `outlast` namespace are internal and not sent.
 */
import { UnsupportedFunctionalityError } from "@ai-sdk/provider"
import * as Base64 from "effect/encoding/Base64"
import { WellFormed } from "@outlast/agent/conversation"
import { Prompt } from "effect/ai"
import { Predicate } from "effect"
import type { Schema } from "effect"
import * as OriginalPart from "./OriginalPart.ts"
import type * as Spec from "./Spec.ts"

export interface Options {
  readonly version: Spec.SpecModel["specificationVersion"]
  /**
   * Where the files of a tool result go: into the result, or, if the wire format has no place for them
   * there, into a user message after the results.
   */
  readonly toolFiles: "result" | "user-message"
  /** See `Dialect`. */
  readonly afterResults?: string | undefined
  /** The client may change its messages, so each call gets its own. Default `false`. */
  readonly isForeign?: boolean | undefined
}

export const encode = (prompt: Prompt.Prompt, options: Options): Array<Spec.Message> => {
  const asked = approvalsOfProvider(prompt)
  const messages: Array<Spec.Message> = []
  let results: Array<Prompt.ToolMessage> = []
  const flush = () => {
    const [first, ...more] = results
    if (first === undefined) return
    // Other messages decide which approvals are sent, and what is merged.
    const isAlone = more.length === 0 && asked.size === 0
    const known = isAlone ? encodedBefore(first, options) : undefined
    messages.push(...(known ?? kept(first, toolMessages(results, asked, options), options, isAlone)))
    results = []
  }
  for (const message of prompt.content) {
    if (message.role === "tool") {
      results.push(message)
      continue
    }
    flush()
    const known = encodedBefore(message, options) ?? kept(message, encodeMessage(message, options), options)
    for (const encoded of known) messages.push(encoded)
  }
  flush()
  const { afterResults: text } = options
  if (text === undefined) return messages
  const answer: Spec.Message = { role: "assistant", content: [{ type: "text", text }] }
  return messages.flatMap((message, i) =>
    message.role === "user" && messages[i - 1]?.role === "tool" ? [answer, message] : [message]
  )
}

interface Encoded {
  readonly version: Options["version"]
  readonly toolFiles: Options["toolFiles"]
  readonly messages: ReadonlyArray<Spec.Message>
}

/** Encoded messages, for later calls with the same conversation. */
const conversations = new WeakMap<Prompt.Message, Encoded>()

/** The encoded form of a message from an earlier call in the same format. */
const encodedBefore = (
  message: Prompt.Message,
  { isForeign = false, toolFiles, version }: Options
): Encoded["messages"] | undefined => {
  const before = isForeign ? undefined : conversations.get(message)
  return before?.version === version && before.toolFiles === toolFiles ? before.messages : undefined
}

/** The message as it is sent. It is kept for later calls if no other message is merged with it (`isAlone`). */
const kept = (
  message: Prompt.Message,
  encoded: ReadonlyArray<Spec.Message>,
  { isForeign = false, toolFiles, version }: Options,
  isAlone = true
): ReadonlyArray<Spec.Message> => {
  // The chain has made the prompt well-formed, except parts as the AI SDK wrote them.
  const messages = OriginalPart.ofMessage(message) === undefined ? encoded : WellFormed.of(encoded)
  if (isAlone && !isForeign) conversations.set(message, { version, toolFiles, messages })
  return messages
}

/** Every text of a prompt. A failure must not quote any of them. */
export const texts = (prompt: Prompt.Prompt): Array<string> =>
  prompt.content.flatMap((message) => {
    if (message.role === "system") return [message.content]
    return message.content.flatMap((part: Prompt.Part): Array<string> => {
      switch (part.type) {
        case "text":
        case "reasoning":
          return [part.text]
        case "tool-call":
          return [written(part.params)]
        case "tool-result":
          return [typeof part.result === "string" ? part.result : written(part.result)]
        default:
          return []
      }
    })
  })

/** The value as JSON. A value without JSON (a bigint, a cycle) is empty: it cannot be sent, so it cannot be echoed. */
const written = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? ""
  } catch {
    return ""
  }
}

const encodeMessage = (
  message: Exclude<Prompt.Message, Prompt.ToolMessage>,
  options: Options
): ReadonlyArray<Spec.Message> => {
  const providerOptions = ownOptions(message, OriginalPart.ofMessage(message))
  switch (message.role) {
    case "system":
      return message.content === "" ? [] : [{ role: "system", content: message.content, ...providerOptions }]
    case "user": {
      const parts = message.content.map((part) => userPart(part, options))
      const content = parts.filter(says)
      // A message with only empty texts is the caller's decision. The provider may judge it.
      return [{ role: "user", content: content.length > 0 ? content : parts, ...providerOptions }]
    }
    case "assistant": {
      const parts = message.content.flatMap((part) => assistantPart(part, options)).filter(says)
      // Anthropic answers with mere white space, and refuses it when it is sent back.
      const speaks = parts.some(
        (part) => part.type === "reasoning" || (part.type === "text" && part.text.trim() !== "")
      )
      const content = speaks
        ? parts
        : parts.filter((part) => part.type !== "text" || part.providerOptions !== undefined)
      return content.length === 0 ? [] : [{ role: "assistant", content, ...providerOptions }]
    }
  }
}

const userPart = (part: Prompt.UserMessagePart, options: Options): Spec.TextPart | Spec.FilePart => {
  const given = asGiven(part, options)
  if (given?.type === "text" || given?.type === "file") return given
  return part.type === "text" ? text(part) : file(part, options)
}

/** The part as the AI SDK wrote it, if it is unchanged and the target takes that form. */
const asGiven = (part: Prompt.Part, options: Options): Spec.AssistantPart | Spec.ToolPart | undefined => {
  const original = OriginalPart.ofPart(part)
  // Version 3 of the specification has other shapes for files and contents.
  if (original === undefined || options.version === "v3") return undefined
  // Gemini refuses arguments that are no object.
  if (original.type === "tool-call" && !Predicate.isObject(original.input)) return undefined
  const isMoved = options.toolFiles === "user-message" && original.type === "tool-result"
  if (isMoved && original.output.type === "content") return undefined
  // Some providers refuse a result without any part. An empty text is one.
  const output = original.type === "tool-result" ? original.output : undefined
  if (output?.type === "content" && output.value.length === 0) return undefined
  const { providerOptions: _, ...rest } = original
  return {
    ...rest,
    ...ownOptions(original.type === "custom" ? { options: original.providerOptions ?? {} } : part, original)
  }
}

/** The options that are sent. A field that the AI SDK has left empty stays there. */
const ownOptions = (
  { options }: { readonly options: Readonly<Record<string, unknown>> },
  original: { readonly providerOptions?: unknown } | undefined
) => {
  const own = namespaces(options)
  const isEmpty =
    original !== undefined && "providerOptions" in original && original.providerOptions === undefined
  return own ?? (isEmpty ? { providerOptions: undefined } : undefined)
}

const says = (part: Spec.AssistantPart): boolean =>
  (part.type !== "text" && part.type !== "reasoning") ||
  part.text !== "" ||
  part.providerOptions !== undefined

const assistantPart = (
  part: Prompt.AssistantMessagePart,
  options: Options
): ReadonlyArray<Spec.AssistantPart> => {
  const given = asGiven(part, options)
  if (given !== undefined && given.type !== "tool-approval-response") return [given]
  switch (part.type) {
    case "text":
      return [text(part)]
    case "reasoning":
      return [{ type: "reasoning", text: part.text, ...namespaces(part.options) }]
    case "file":
      return [file(part, options)]
    case "tool-call":
      return [
        {
          type: "tool-call",
          toolCallId: part.id,
          toolName: part.name,
          // As Anthropic's client does it; Gemini refuses anything but an object.
          input: Predicate.isObject(part.params) ? part.params : { rawInvalidInput: part.params },
          ...(part.providerExecuted ? { providerExecuted: true } : undefined),
          ...namespaces(part.options)
        }
      ]
    case "tool-result":
      return [toolResult(part, providerOutput(part))]
    case "tool-approval-request":
      return []
  }
}

const text = (part: Prompt.TextPart): Spec.TextPart => ({
  type: "text",
  text: part.text,
  ...namespaces(part.options)
})

const file = (part: Prompt.FilePart, { version }: Options): Spec.FilePart => {
  const data = fileData(part.data)
  return {
    type: "file",
    mediaType: part.mediaType,
    ...(part.fileName === undefined ? undefined : { filename: part.fileName }),
    data: version === "v3" ? data : data instanceof URL ? { type: "url", url: data } : { type: "data", data },
    ...namespaces(part.options)
  }
}

/** Bytes, base64 or a URL that is to be fetched; base64 has no colon, so a scheme decides. */
const fileData = (data: Prompt.FilePart["data"]): Uint8Array | string | URL => {
  if (OriginalPart.isReference(data))
    throw new UnsupportedFunctionalityError({ functionality: "file references" })
  if (typeof data === "string" ? !/^[a-z][a-z0-9+.-]*:/i.test(data) : !(data instanceof URL)) return data
  const href = String(data)
  const inline = /^data:[^,]*?(;base64)?,(.*)$/s.exec(href)
  if (inline === null) return new URL(href)
  const content = decodeURIComponent(inline[2] ?? "")
  return inline[1] === undefined ? new TextEncoder().encode(content) : content
}

const toolMessages = (
  messages: ReadonlyArray<Prompt.ToolMessage>,
  asked: ReadonlySet<string>,
  options: Options
): ReadonlyArray<Spec.Message> => {
  const files: Array<Spec.TextPart | Spec.FilePart> = []
  const content = messages.flatMap((message) =>
    message.content.flatMap((part): ReadonlyArray<Spec.ToolPart> => {
      if (part.type === "tool-approval-response" && !asked.has(part.approvalId)) return []
      const given = asGiven(part, options)
      if (given?.type === "tool-result" || given?.type === "tool-approval-response") return [given]
      if (part.type === "tool-approval-response") return [approval(part)]
      if (options.toolFiles === "user-message") {
        const own = (part.modelOutput ?? []).filter((output) => output.type === "file")
        if (own.length > 0) files.push({ type: "text", text: `Files of tool result ${part.id}:` })
        files.push(...own.map((output) => file(output, options)))
      }
      return [toolResult(part, localOutput(part, options))]
    })
  )
  const merged = ownOptions(
    { options: Object.assign({}, ...messages.map((message) => message.options)) },
    messages.length === 1 && messages[0] !== undefined ? OriginalPart.ofMessage(messages[0]) : undefined
  )
  return [
    ...(content.length === 0 ? [] : [{ role: "tool" as const, content, ...merged }]),
    ...(files.length === 0 ? [] : [{ role: "user" as const, content: files }])
  ]
}

const toolResult = (part: Prompt.ToolResultPart, output: Spec.ToolOutput): Spec.ToolResultPart => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: part.name,
  output,
  ...namespaces(part.options)
})

const approval = (part: Prompt.ToolApprovalResponsePart): Spec.ApprovalResponsePart => ({
  type: "tool-approval-response",
  approvalId: part.approvalId,
  approved: part.approved,
  ...(part.reason === undefined ? undefined : { reason: part.reason }),
  ...namespaces(part.options)
})

const localOutput = (part: Prompt.ToolResultPart, options: Options): Spec.ToolOutput => {
  if (part.modelOutput === undefined) {
    return typeof part.result === "string"
      ? { type: part.isFailure ? "error-text" : "text", value: part.result }
      : providerOutput(part)
  }
  // Content cannot say that it is an error, and a result without files needs no content.
  const inline = !part.isFailure && options.toolFiles === "result"
  return inline && part.modelOutput.some((output) => output.type === "file")
    ? { type: "content", value: part.modelOutput.map((output) => outputPart(output, options)) }
    : { type: part.isFailure ? "error-text" : "text", value: Prompt.toolModelOutputToText(part.modelOutput) }
}

/** A result of a provider's own tool returns to the provider as its original JSON. */
const providerOutput = (part: Prompt.ToolResultPart): Spec.ToolOutput => ({
  type: part.isFailure ? "error-json" : "json",
  // Results in prompts are encoded, so they are JSON.
  value: (part.result ?? null) as Schema.Json
})

const outputPart = (part: Prompt.ToolModelOutputPart, options: Options): Spec.ToolOutputPart => {
  if (part.type === "text") return { type: "text", text: part.text }
  const encoded = file(part, options)
  if (options.version === "v4") {
    const { mediaType, data, filename } = encoded
    return { type: "file", mediaType, data, ...(filename === undefined ? undefined : { filename }) }
  }
  const data = fileData(part.data)
  const image = part.mediaType.startsWith("image/")
  if (data instanceof URL) return { type: image ? "image-url" : "file-url", url: data.href }
  const base64 = typeof data === "string" ? data : Base64.encode(data)
  return { type: image ? "image-data" : "file-data", mediaType: part.mediaType, data: base64 }
}

/**
 * Ids of approvals that the provider asked for, for tools that it runs itself. A prompt of the AI SDK has only the
 * answers: an answer is the provider's if the conversation has its call.
 */
const approvalsOfProvider = (prompt: Prompt.Prompt): ReadonlySet<string> => {
  const calls = new Set<string>()
  const asked = new Set<string>()
  for (const message of prompt.content) {
    if (message.role === "tool") {
      if (calls.size === 0) continue
      for (const part of message.content) {
        if (part.type === "tool-approval-response" && OriginalPart.ofPart(part) !== undefined)
          asked.add(part.approvalId)
      }
    }
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type === "tool-call" && part.providerExecuted) calls.add(part.id)
      if (part.type === "tool-approval-request" && calls.has(part.toolCallId)) asked.add(part.approvalId)
    }
  }
  return asked
}

const namespaces = (
  options: Readonly<Record<string, unknown>>
): { readonly providerOptions: Spec.Namespaced } | undefined => {
  const sent = Object.entries(options).filter(
    (entry): entry is [string, Schema.JsonObject] => entry[0] !== "outlast" && Predicate.isObject(entry[1])
  )
  return sent.length === 0 ? undefined : { providerOptions: Object.fromEntries(sent) }
}
