/**
 * Adapts the parts of a conversation to a target. Content that only its own model understands is dropped; content
 * that the target cannot read is described in words.
 *
 * - Thinking stays unchanged for the model that made it, and is left out for others. Unfinished thinking, and
 *   thinking at the end of a message, is always left out.
 * - Texts and tool calls lose the signatures and item ids of another model.
 * - A tool that another provider ran becomes a text.
 * - Empty texts are left out, and messages that become empty.
 *
 * The options of a part without provenance decide: options in the target's namespaces make it the target's own. A
 * provider's call without options is identified by the format of its id.
 */
import { Predicate } from "effect"
import { Prompt } from "effect/ai"
import { namespace } from "./Answered.ts"
import type { TargetRef } from "./TargetRef.ts"
import type { Dialect } from "./Dialect.ts"
import * as Provenance from "./Provenance.ts"
import type { ToolNames } from "./ToolNames.ts"
import { mapped } from "./Unchanged.ts"
import type { Wording } from "./Wording.ts"

/** The target of a conversation, with its rules. */
export interface Destination {
  readonly ref: TargetRef
  readonly dialect: Dialect
  readonly wording: Wording
  /** Renamed tools; `undefined` when all names are accepted. */
  readonly names: ToolNames | undefined
  /** True for images and files that the target has rejected before. */
  readonly refuses?: ((file: Prompt.FilePart) => boolean) | undefined
  /** True when the target has rejected thinking of the conversation: all that models have signed is left out. */
  readonly omitsThinking?: boolean | undefined
}

/**
 * Returns the messages with adapted parts; the same array when nothing changes. `isWhole` is false for a piece of a
 * longer conversation.
 */
export const fit = (
  messages: ReadonlyArray<Prompt.Message>,
  to: Destination,
  isWhole = true
): ReadonlyArray<Prompt.Message> => {
  const own = providerParts(messages, to)
  const fitted = mapped(messages, (message) => fitMessage(message, to, own))
  // Only empty messages: leave them to the provider.
  return !isWhole || fitted.some(({ role }) => role !== "system") ? fitted : messages
}

/** True when no target drops this message: something is left of it, as a message of the user. */
export const stays = ({ role, content }: Prompt.Message): boolean =>
  role === "user" && content.some((part) => part.type !== "text" || says(part))

/**
 * The calls that the target has run itself, and their results. A result may come in a later message after results of
 * the program, but not after a user message.
 */
const providerParts = (
  messages: ReadonlyArray<Prompt.Message>,
  to: Destination
): ReadonlySet<AssistantPart> => {
  // Fast path for a first turn.
  if (!messages.some(({ role }) => role === "assistant")) return noParts
  const own = new Set<AssistantPart>()
  const open = new Map<string, AssistantPart>()
  for (const message of messages) {
    if (message.role === "user" || message.role === "system") open.clear()
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type === "tool-call" && part.providerExecuted) {
        if (!isUnderstood(part, to)) open.delete(part.id)
        else {
          own.add(part)
          open.set(part.id, part)
        }
      } else if (part.type === "tool-result") {
        const call = open.get(part.id)
        if (call === undefined) continue
        open.delete(part.id)
        // Otherwise the call would have no result.
        if (isUnderstood(part, to)) own.add(part)
        else own.delete(call)
      }
    }
  }
  return own
}

const noParts: ReadonlySet<AssistantPart> = new Set()

const fitMessage = (
  message: Prompt.Message,
  to: Destination,
  own: ReadonlySet<AssistantPart>
): ReadonlyArray<Prompt.Message> => {
  switch (message.role) {
    case "system":
      return [message]
    case "user": {
      const content = mapped(message.content, (part): ReadonlyArray<Prompt.UserMessagePart> => {
        if (part.type === "text") return says(part) ? [part] : []
        return [isReadable(part, to) ? part : inWords(part, to.wording)]
      })
      return withContent(message, content)
    }
    case "assistant":
      return withContent(message, assistantParts(message.content, to, own))
    case "tool":
      return withContent(
        message,
        mapped(message.content, (part) => [part.type === "tool-result" ? toolResult(part, to) : part])
      )
  }
}

const withContent = <M extends Exclude<Prompt.Message, Prompt.SystemMessage>>(
  message: M,
  content: M["content"]
): ReadonlyArray<M> => {
  if (content.length === 0) return []
  return [content === message.content ? message : { ...message, content }]
}

type AssistantPart = Prompt.AssistantMessagePart

const assistantParts = (
  parts: ReadonlyArray<AssistantPart>,
  to: Destination,
  own: ReadonlySet<AssistantPart>
): ReadonlyArray<AssistantPart> => {
  const firstCall = parts.find(isLocalCall)
  const fitted = mapped(parts, (part): ReadonlyArray<AssistantPart> => {
    switch (part.type) {
      case "reasoning":
        return !isPartial(part.options) && isUnderstood(part, to) ? [part] : []
      case "text": {
        const own = withoutForeign(part, to)
        // Some models sign a text in a last, empty piece.
        return says(own) || (own.text === "" && signersOf(own, to.dialect).length > 0) ? [own] : []
      }
      case "file":
        return [
          to.dialect.assistantFiles && isInline(part) && isReadable(part, to)
            ? withoutForeign(part, to)
            : inWords(part, to.wording)
        ]
      case "tool-call":
        if (part.providerExecuted) return [own.has(part) ? part : useInWords(part, resultOf(part, parts), to)]
        return [part === firstCall ? vouched(withoutForeign(part, to), to.dialect) : withoutForeign(part, to)]
      case "tool-result":
        // The result is part of the text of its call.
        return own.has(part) ? [part] : []
      case "tool-approval-request":
        return [part]
    }
  })
  const last = fitted.findLastIndex(
    (part) => part.type !== "reasoning" && part.type !== "tool-approval-request"
  )
  const kept =
    last === fitted.length - 1 ? fitted : fitted.filter((part, i) => i < last || part.type !== "reasoning")
  const lacksThinking =
    to.dialect.thinking === "required" &&
    kept.some(isLocalCall) &&
    !kept.some(({ type }) => type === "reasoning")
  return lacksThinking ? [Prompt.makePart("reasoning", { text: to.wording.thinking }), ...kept] : kept
}

/** A call that the program answers. */
export const isLocalCall = (part: Prompt.Part): part is Prompt.ToolCallPart =>
  part.type === "tool-call" && !part.providerExecuted

const says = (part: Prompt.TextPart): boolean => part.text.trim() !== ""

const isPartial = (options: Prompt.ProviderOptions): boolean => {
  const ours = options[namespace]
  return Predicate.isObject(ours) && "partial" in ours
}

// -----------------------------------------------------------------------------
// Provenance
// -----------------------------------------------------------------------------

/** True when the target understands the options that the model of this part has set. */
const isUnderstood = (part: AssistantPart, { ref, dialect, omitsThinking }: Destination): boolean => {
  if (part.type === "reasoning" && dialect.thinking === "none") return false
  if (omitsThinking === true && isSigned(part, dialect)) return false
  const maker = Provenance.read(part.options)
  if (maker !== undefined) {
    return (
      maker.continued !== true &&
      maker.provider === ref.provider &&
      maker.model === ref.model &&
      (dialect.bound === "model" || (maker.endpoint === ref.endpoint && maker.key === ref.key))
    )
  }
  const signers = signersOf(part, dialect)
  if (signers.length > 0) return signers.some((name) => dialect.namespaces.includes(name))
  if (part.type === "reasoning") return dialect.thinking !== "own"
  if (part.type !== "tool-call" || !part.providerExecuted) return true
  return dialect.providerCalls?.test(part.id) ?? false
}

/** True for thinking, and for a part that a model has signed, encrypted or stored. */
const isSigned = (part: AssistantPart, dialect: Dialect): boolean =>
  part.type === "reasoning" || signersOf(part, dialect).length > 0

/**
 * What models have signed, encrypted or stored in the conversation and the target understands: the thinking and the
 * signature of each such part, in words that tell it apart from others.
 */
export const signatures = (messages: ReadonlyArray<Prompt.Message>, to: Destination): ReadonlyArray<string> =>
  messages.flatMap((message) =>
    message.role === "assistant"
      ? message.content
          .filter((part) => isSigned(part, to.dialect) && isUnderstood(part, to))
          .map((part) => signatureOf(part, to.dialect))
      : []
  )

const signatureOf = (part: AssistantPart, dialect: Dialect): string => {
  const signed = signersOf(part, dialect).map((name) =>
    Object.entries(part.options[name] ?? {}).filter(([field, value]) => !isOpen(name, field, value, dialect))
  )
  return JSON.stringify([part.type === "reasoning" ? part.text : part.type, signed])
}

/**
 * Options on assistant parts that the user sets, by their names in the AI SDK. All other options belong to the model.
 */
const settings = new Set(["cacheControl", "cache_control", "cachePoint", "promptCacheBreakpoint"])

/** True when an option may be sent to any target: a user setting, or the replacement of a lost signature. */
const isOpen = (name: string, field: string, value: unknown, { unsignedCall }: Dialect): boolean =>
  settings.has(field) ||
  (name === unsignedCall?.namespace && field === unsignedCall.field && value === unsignedCall.value)

/** Namespaces in which a model has left options. */
const signersOf = ({ options }: AssistantPart, dialect: Dialect): ReadonlyArray<string> =>
  Object.keys(options).filter((name) => {
    const fields = name === namespace ? undefined : options[name]
    return (
      Predicate.isObject(fields) &&
      Object.entries(fields).some(([field, value]) => !isOpen(name, field, value, dialect))
    )
  })

const withoutForeign = <P extends AssistantPart>(part: P, to: Destination): P => {
  if (isUnderstood(part, to)) return part
  const signers = signersOf(part, to.dialect)
  if (signers.length === 0) return part
  const options: Record<string, Prompt.ProviderOptions[string]> = { ...part.options }
  for (const name of signers) {
    const kept = Object.entries(options[name] ?? {}).filter(([field, value]) =>
      isOpen(name, field, value, to.dialect)
    )
    // The values come from JSON, so the cast is safe.
    if (kept.length > 0) options[name] = Object.fromEntries(kept) as Prompt.ProviderOptions[string]
    else delete options[name]
  }
  return { ...part, options }
}

/** Adds the replacement of a signature to a call, when the target requires one. */
const vouched = (part: Prompt.ToolCallPart, { unsignedCall }: Dialect): Prompt.ToolCallPart => {
  if (unsignedCall === undefined) return part
  const { namespace: name, field, value } = unsignedCall
  const own = part.options[name]
  const fields: object = Predicate.isObject(own) ? own : {}
  return field in fields
    ? part
    : { ...part, options: { ...part.options, [name]: { ...fields, [field]: value } } }
}

// -----------------------------------------------------------------------------
// In words
// -----------------------------------------------------------------------------

const isReadable = (file: Prompt.FilePart, { dialect, refuses }: Destination): boolean =>
  isOf(file, dialect.files) && (isInline(file) || isOf(file, dialect.linkedFiles)) && refuses?.(file) !== true

const isOf = ({ mediaType }: Prompt.FilePart, types: ReadonlyArray<string> | undefined): boolean =>
  types === undefined || types.some((type) => mediaType.startsWith(type))

/** True for bytes, base64 or a data URL; base64 contains no colon. */
const isInline = ({ data }: Prompt.FilePart): boolean =>
  data instanceof Uint8Array || !/^(?!data:)[a-z][a-z0-9+.-]*:/i.test(String(data))

const text = (said: string): Prompt.TextPart => Prompt.makePart("text", { text: said })

const inWords = ({ mediaType, fileName }: Prompt.FilePart, { file }: Wording): Prompt.TextPart =>
  text(file({ mediaType, fileName }))

const toolResult = (part: Prompt.ToolResultPart, to: Destination): Prompt.ToolResultPart => {
  if (part.modelOutput === undefined) return part
  const modelOutput = mapped(part.modelOutput, (output) => [
    output.type === "text" || isReadable(output, to) ? output : inWords(output, to.wording)
  ])
  return modelOutput === part.modelOutput ? part : { ...part, modelOutput }
}

/** Result of a tool that a provider ran. */
const resultOf = (
  { id }: Prompt.ToolCallPart,
  parts: ReadonlyArray<AssistantPart>
): Prompt.ToolResultPart | undefined =>
  parts.find((part): part is Prompt.ToolResultPart => part.type === "tool-result" && part.id === id)

const useInWords = (
  { name, params }: Prompt.ToolCallPart,
  result: Prompt.ToolResultPart | undefined,
  { wording }: Destination
): Prompt.TextPart =>
  text(
    wording.providerTool({
      name,
      params: written(params),
      result: result === undefined ? undefined : written(result.result)
    })
  )

/** Shortens the JSON: results of a search are long and partly encrypted, so the rest is not worth its tokens. */
const written = (value: unknown): string => {
  const json = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing")
  return json.length > maxWritten ? `${json.slice(0, maxWritten)}…` : json
}

const maxWritten = 2_000
