/**
 * Marks of compaction inside the conversation: options under `outlast`. They are stored with the conversation
 * wherever the program keeps it. `Failover` removes them before sending; other models ignore them.
 *
 * - `pinned`: must never be cut. Set it with {@link pin}.
 * - `cut`: this result or these arguments were cut, and are not cut again.
 * - `capped`: this result lost its middle; records the original for a second cut.
 * - `summary`: this message replaces a number of others.
 */
import { Predicate } from "effect"
import type { Prompt } from "effect/ai"
import { namespace } from "../conversation/Answered.ts"

/** A message that compaction made. */
export interface Summary {
  /** Number of messages that it replaces. */
  readonly messages: number
}

type Options = Readonly<Record<string, unknown>>

const read = (options: Options, field: string): unknown => {
  const ours = options[namespace]
  // No schema here, because this runs for each part of each message. Options under our name are records.
  return Predicate.isObject(ours) ? (ours as Options)[field] : undefined
}

/** Adds a mark. Other options under our name, e.g. the provider of a part, stay. */
const marked = (
  options: Prompt.ProviderOptions,
  field: string,
  value: boolean | { readonly [field: string]: number | string }
): Prompt.ProviderOptions => {
  const ours = options[namespace]
  const before: object = Predicate.isObject(ours) ? ours : {}
  return { ...options, [namespace]: { ...before, [field]: value } }
}

/**
 * A message that compaction never cuts, with its tool calls and results.
 *
 * **Example** (A fact that must stay)
 *
 * ```ts
 * Prompt.fromMessages([...history.content, Marks.pin(Prompt.userMessage({ content: [fact] }))])
 * ```
 */
export const pin = <M extends Prompt.Message>(message: M): M => ({
  ...message,
  options: marked(message.options, "pinned", true)
})

/** True when the message or one of its parts is pinned. */
export const isPinned = (message: Prompt.Message): boolean => {
  if (read(message.options, "pinned") === true) return true
  if (message.role === "system") return false
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts.some(({ options }) => read(options, "pinned") === true)
}

/** Marks the part as cut. */
export const cut = <P extends Prompt.ToolCallPart | Prompt.ToolResultPart>(part: P): P => ({
  ...part,
  options: marked(part.options, "cut", true)
})

export const isCut = (part: Prompt.Part): boolean => read(part.options, "cut") === true

/** A result as it was before its middle was cut. */
export interface Whole {
  readonly characters: number
  /** Id in the store; `undefined` when no store keeps the text. */
  readonly recall: string | undefined
}

/** Marks the result as capped. */
export const capped = (
  part: Prompt.ToolResultPart,
  { characters, recall }: Whole
): Prompt.ToolResultPart => ({
  ...part,
  options: marked(part.options, "capped", {
    characters,
    ...(recall === undefined ? undefined : { recall })
  })
})

/** The original size and id of a capped result; `undefined` for other results. */
export const wholeOf = (part: Prompt.ToolResultPart): Whole | undefined => {
  const found = read(part.options, "capped")
  if (!Predicate.hasProperty(found, "characters") || typeof found.characters !== "number") return undefined
  const recall = Predicate.hasProperty(found, "recall") ? found.recall : undefined
  return { characters: found.characters, recall: typeof recall === "string" ? recall : undefined }
}

/** Options of a message that replaces others. */
export const summary = (messages: number): Prompt.ProviderOptions => marked({}, "summary", { messages })

/** Returns the mark of a summary; `undefined` for an ordinary message. */
export const summaryOf = (message: Prompt.Message): Summary | undefined => {
  const found = read(message.options, "summary")
  return Predicate.hasProperty(found, "messages") && typeof found.messages === "number"
    ? { messages: found.messages }
    : undefined
}

/** Options on a part that the user sets, by their names in the AI SDK. */
const settings = new Set(["cacheControl", "cache_control", "cachePoint", "promptCacheBreakpoint"])

/** True when the provider has signed or stored the part. An edited part would be rejected, or the edit ignored. */
export const isSigned = ({ options }: Prompt.Part): boolean => {
  for (const name in options) {
    if (name === namespace) continue
    const fields = options[name]
    if (Predicate.isObject(fields) && Object.keys(fields).some((field) => !settings.has(field))) return true
  }
  return false
}
