/**
 * The messages of the AI SDK as a prompt of effect/ai, and back.
 *
 * A message that compaction leaves alone comes back as the same object, and a part of an edited message too. So
 * signatures, provider options, images, files and approvals survive. Each message is converted once, and again after the
 * program has changed it in place.
 */
import type { LanguageModelV4Message } from "@ai-sdk/provider"
import { Copies, OriginalPart, ServedPrompt } from "@outlast/providers/internal"
import type { ModelMessage, ToolResultPart } from "ai"
import { Predicate } from "effect"
import { Prompt } from "effect/ai"

/** Any part of a message. The types of both sides differ in details that do not matter here. */
interface Part {
  readonly type: string
}

interface Converted {
  readonly made: Prompt.Message
  readonly copy: ModelMessage
}

/** The converted messages, by their original, and the originals of what was converted. */
const converted = new WeakMap<object, Converted>()
const originals = new WeakMap<object, object>()

export const toPrompt = (messages: ReadonlyArray<ModelMessage>): Prompt.Prompt =>
  Prompt.fromMessages(messages.map(messageOf))

const messageOf = (message: ModelMessage): Prompt.Message => {
  const known = converted.get(message)
  if (known !== undefined && Copies.isSame(known.copy, message)) return known.made
  const written = specMessage(message)
  const [made] = ServedPrompt.decode([written]).content
  if (made === undefined) throw new Error("A message was not converted.")
  originals.set(written, message)
  originals.set(made, message)
  converted.set(message, { made, copy: Copies.copied(message) })
  return made
}

export const fromPrompt = (prompt: Prompt.Prompt): Array<ModelMessage> => prompt.content.map(original)

const original = (message: Prompt.Message): ModelMessage => {
  const same = originals.get(message)
  // Only `messageOf` sets it, to a message.
  if (same !== undefined) return same as ModelMessage
  const written = OriginalPart.ofMessage(message)
  const before = written === undefined ? undefined : (originals.get(written) as ModelMessage | undefined)
  const made = {
    role: message.role,
    content: contentOf(message, before),
    ...optionsOf(message)
  }
  // The parts are those of a message of this role.
  const edited = made as ModelMessage
  converted.set(edited, { made: message, copy: Copies.copied(edited) })
  originals.set(message, edited)
  return edited
}

const contentOf = (message: Prompt.Message, before: ModelMessage | undefined): unknown => {
  if (message.role === "system") return message.content
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return [...parts.map((part) => withOwn(partOf(part), before)), ...approvalsOf(before)]
}

/** An edited result with the provider options of the original: see `specPart`. */
const withOwn = (part: Part, before: ModelMessage | undefined): Part => {
  if (!isResult(part) || before?.role !== "tool") return part
  const own = before.content.filter(isResult).find(({ toolCallId }) => toolCallId === part.toolCallId)
  if (own?.providerOptions === undefined || own === part) return part
  const providerOptions = { ...own.providerOptions, ...part.providerOptions }
  return Object.assign({ ...part }, { providerOptions })
}

const isResult = (part: Part): part is ToolResultPart => part.type === "tool-result"

/** Requests for approval have no counterpart in a call of the model. */
const approvalsOf = (message: ModelMessage | undefined): ReadonlyArray<Part> =>
  message?.role === "assistant" && Array.isArray(message.content)
    ? message.content.filter(({ type }) => type === "tool-approval-request")
    : []

const partOf = (part: Prompt.Part): Part => {
  const written = OriginalPart.ofPart(part)
  const same = written === undefined ? undefined : originals.get(written)
  // Originals of parts are parts, and all edited ones have a type.
  return (same ?? editedPart(part)) as Part
}

const editedPart = (part: Prompt.Part): object => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text, ...optionsOf(part) }
    case "file":
      return {
        type: "file",
        mediaType: part.mediaType,
        data: part.data,
        filename: part.fileName,
        ...optionsOf(part)
      }
    case "tool-call":
      return {
        type: part.type,
        toolCallId: part.id,
        toolName: part.name,
        input: part.params,
        providerExecuted: part.providerExecuted,
        ...optionsOf(part)
      }
    case "tool-result":
      return {
        type: part.type,
        toolCallId: part.id,
        toolName: part.name,
        output: outputOf(part),
        ...optionsOf(part)
      }
    case "tool-approval-response":
      return { type: part.type, approvalId: part.approvalId, approved: part.approved, ...optionsOf(part) }
    case "tool-approval-request":
      return { type: part.type, approvalId: part.approvalId, toolCallId: part.toolCallId }
  }
}

const outputOf = ({ isFailure, result, modelOutput }: Prompt.ToolResultPart): unknown => {
  if (modelOutput !== undefined) return { type: "content", value: modelOutput.map(partOf) }
  const type = typeof result === "string" ? "text" : "json"
  return { type: isFailure ? `error-${type}` : type, value: result }
}

/** Marks of compaction travel in the provider options of the program's own messages. */
const optionsOf = ({ options }: { readonly options: Prompt.ProviderOptions }) =>
  Object.keys(options).length === 0 ? undefined : { providerOptions: options }

// -----------------------------------------------------------------------------
// To the form of a model call
// -----------------------------------------------------------------------------

const specMessage = ({ role, content, providerOptions }: ModelMessage): LanguageModelV4Message => {
  const parts: string | ReadonlyArray<Part> = content
  const made =
    role === "system"
      ? content
      : typeof parts === "string"
        ? [{ type: "text", text: parts }]
        : parts.filter(({ type }) => type !== "tool-approval-request").map((part) => specPart(part, role))
  // The parts have the form of their role; only texts, images and files are written in several ways.
  return {
    role,
    content: made,
    ...(providerOptions === undefined ? undefined : { providerOptions })
  } as LanguageModelV4Message
}

/**
 * The AI SDK copies the metadata of a call to its result. Compaction takes metadata for a signature, which no result has:
 * they are left out, and added again to an edited result.
 */
const specPart = (part: Part, role: ModelMessage["role"]): object => {
  const made = specFile(part) ?? (isResult(part) ? specResult(part, role) : { ...part })
  originals.set(made, part)
  return made
}

/** Kinds of files in messages and in results, with the field that has the data. */
const files: Readonly<Record<string, "data" | "image" | "url">> = {
  file: "data",
  image: "image",
  media: "data",
  "file-data": "data",
  "image-data": "data",
  "file-url": "url",
  "image-url": "url"
}

const specFile = (part: Part): object | undefined => {
  const field = Object.hasOwn(files, part.type) ? files[part.type] : undefined
  if (field === undefined) return undefined
  const {
    mediaType = part.type.startsWith("image") ? "image/*" : "application/octet-stream",
    filename,
    providerOptions
  } = part as { readonly mediaType?: string; readonly filename?: string; readonly providerOptions?: unknown }
  return {
    type: "file",
    mediaType,
    data: specData(Reflect.get(part, field)),
    ...(filename === undefined ? undefined : { filename }),
    ...(providerOptions === undefined ? undefined : { providerOptions })
  }
}

const specData = (data: unknown): object => {
  if (data instanceof URL) return { type: "url", url: data }
  if (data instanceof ArrayBuffer) return { type: "data", data: new Uint8Array(data) }
  if (typeof data !== "string")
    return data instanceof Uint8Array || !Predicate.isObject(data) ? { type: "data", data } : data
  return /^(?:https?|data):/.test(data) && URL.canParse(data)
    ? { type: "url", url: new URL(data) }
    : { type: "data", data }
}

const specResult = (part: ToolResultPart, role: ModelMessage["role"]): object => {
  const { output, providerOptions, ...rest } = part
  const { outlast } = providerOptions ?? {}
  const own = role === "tool" ? outlast && { outlast } : providerOptions
  return {
    ...rest,
    output:
      output.type === "content"
        ? { ...output, value: output.value.map((item) => specFile(item) ?? item) }
        : output,
    ...(own === undefined ? undefined : { providerOptions: own })
  }
}
