/**
 * What compaction remembers in the conversation itself: options under `outlast`, so that it travels with the
 * conversation wherever the program keeps it. `Failover` takes them off before sending; other models ignore them.
 *
 * - `pinned`: must never be cut. Yours to set: {@link pin}.
 * - `cut`: this result or these arguments have been cut, and are not cut again.
 * - `capped`: this result has lost its middle; what it was, for whoever cuts it again.
 * - `summary`: this message stands for so many others.
 */
import { Predicate } from "effect"
import type { Prompt } from "effect/ai"
import { namespace } from "../conversation/Answered.ts"

/** A message that compaction made. */
export interface Summary {
  /** How many messages it stands for. */
  readonly messages: number
}

type Options = Readonly<Record<string, unknown>>

const read = (options: Options, field: string): unknown => {
  const ours = options[namespace]
  // Read for each part of each message: an option of ours is a record.
  return Predicate.isObject(ours) ? (ours as Options)[field] : undefined
}

/** The options with one of ours more. What else stands under our name, such as who made a part, stays. */
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

/** Whether the message, or a part of it, is pinned. */
export const isPinned = (message: Prompt.Message): boolean => {
  if (read(message.options, "pinned") === true) return true
  if (message.role === "system") return false
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return parts.some(({ options }) => read(options, "pinned") === true)
}

/** The part, not to be cut again. */
export const cut = <P extends Prompt.ToolCallPart | Prompt.ToolResultPart>(part: P): P => ({
  ...part,
  options: marked(part.options, "cut", true)
})

export const isCut = (part: Prompt.Part): boolean => read(part.options, "cut") === true

/** A result as it was before its middle was cut. */
export interface Whole {
  readonly characters: number
  /** By what the store finds it; `undefined` where nobody keeps it. */
  readonly recall: string | undefined
}

/** The result, without its middle. */
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

/** What a result was; `undefined` for one that has its middle. */
export const wholeOf = (part: Prompt.ToolResultPart): Whole | undefined => {
  const found = read(part.options, "capped")
  if (!Predicate.hasProperty(found, "characters") || typeof found.characters !== "number") return undefined
  const recall = Predicate.hasProperty(found, "recall") ? found.recall : undefined
  return { characters: found.characters, recall: typeof recall === "string" ? recall : undefined }
}

/** Options of a message that stands for others. */
export const summary = (messages: number): Prompt.ProviderOptions => marked({}, "summary", { messages })

/** What a message stands for; `undefined` for one that somebody said. */
export const summaryOf = (message: Prompt.Message): Summary | undefined => {
  const found = read(message.options, "summary")
  return Predicate.hasProperty(found, "messages") && typeof found.messages === "number"
    ? { messages: found.messages }
    : undefined
}

/** Settings of the user on a part, as the AI SDK names them. */
const settings = new Set(["cacheControl", "cache_control", "cachePoint", "promptCacheBreakpoint"])

/** Whether its maker has signed the part or stores it: edited, it would be refused, or the edit ignored. */
export const isSigned = ({ options }: Prompt.Part): boolean => {
  for (const name in options) {
    if (name === namespace) continue
    const fields = options[name]
    if (Predicate.isObject(fields) && Object.keys(fields).some((field) => !settings.has(field))) return true
  }
  return false
}
