/**
 * Cuts tool results and call arguments, and reports every cut. Pure.
 *
 * A cut text is replaced by a sentence that names it, with an id when a store keeps it. No text becomes longer or is
 * cut twice. A call that its provider has signed keeps its arguments, because an edited call would be rejected.
 */
import { Predicate } from "effect"
import { Prompt } from "effect/ai"
import { isLocalCall } from "../conversation/Parts.ts"
import { mapped } from "../conversation/Unchanged.ts"
import type { CompactionWording } from "./CompactionWording.ts"
import * as Marks from "./Marks.ts"
import { written } from "./TokenCounter.ts"

/** A cut result or argument, with its original text. */
export interface Cut {
  readonly what: "result" | "arguments"
  readonly tool: string
  /** The id of the call. */
  readonly call: string
  /** Number of characters removed. */
  readonly characters: number
  /** Id of the original text in the store. */
  readonly recall: string | undefined
  /** The original text for the store; `undefined` when the store already has it. */
  readonly text: string | undefined
}

export interface Options {
  readonly wording: CompactionWording
  /** True when a store keeps the cut texts. */
  readonly stored: boolean
}

/** The text of a result that the model reads. */
export const resultText = ({ modelOutput, result }: Prompt.ToolResultPart): string =>
  modelOutput === undefined ? written(result) : Prompt.toolModelOutputToText(modelOutput)

// -----------------------------------------------------------------------------
// Strip
// -----------------------------------------------------------------------------

/** Cuts results and arguments of more than `large` characters. Cuts are added to `cuts`. */
export const strip = (
  message: Prompt.Message,
  large: number,
  options: Options,
  cuts: Array<Cut>
): Prompt.Message => {
  if (message.role === "tool") {
    const content = mapped(message.content, (part) => [
      part.type === "tool-result" ? withoutResult(part, large, options, cuts) : part
    ])
    return content === message.content ? message : { ...message, content }
  }
  if (message.role === "assistant") {
    const content = mapped(message.content, (part) => [
      isLocalCall(part) ? withoutArguments(part, large, options, cuts) : part
    ])
    return content === message.content ? message : { ...message, content }
  }
  return message
}

const withoutResult = (
  part: Prompt.ToolResultPart,
  large: number,
  options: Options,
  cuts: Array<Cut>
): Prompt.ToolResultPart => {
  if (Marks.isCut(part) || Marks.isSigned(part)) return part
  const text = resultText(part)
  // Images in a result are large, even when its text is short.
  const files = part.modelOutput?.some(({ type }) => type === "file") === true
  if (text.length <= large && !files) return part
  const { whole, kept } = wholeOf(part, text, options)
  const said = options.wording.result({ tool: part.name, ...whole })
  if (said.length >= text.length && !files) return part
  cuts.push({ what: "result", tool: part.name, call: part.id, ...whole, text: kept })
  return Marks.cut({ ...withoutOutput(part), result: said })
}

const withoutArguments = (
  part: Prompt.ToolCallPart,
  large: number,
  options: Options,
  cuts: Array<Cut>
): Prompt.ToolCallPart => {
  const { params } = part
  if (!Predicate.isObject(params) || Marks.isCut(part) || Marks.isSigned(part)) return part
  // Short arguments stay: they name the file or the search term.
  let shorter: Record<string, unknown> | undefined
  for (const [name, value] of Object.entries(params)) {
    const text = written(value)
    if (text.length <= large) continue
    const whole = { characters: text.length, recall: idOf(text, options) }
    const said = options.wording.argument({ tool: part.name, ...whole })
    if (said.length >= text.length) continue
    cuts.push({ what: "arguments", tool: part.name, call: part.id, ...whole, text })
    shorter ??= { ...params }
    shorter[name] = said
  }
  return shorter === undefined ? part : Marks.cut({ ...part, params: shorter })
}

// -----------------------------------------------------------------------------
// Cap
// -----------------------------------------------------------------------------

/** Cuts the middle out of every result of more than `characters` characters. */
export const cap = (
  message: Prompt.Message,
  characters: number,
  options: Options,
  cuts: Array<Cut>
): Prompt.Message => {
  if (message.role !== "tool") return message
  const content = mapped(message.content, (part) => {
    if (part.type !== "tool-result" || Marks.isSigned(part)) return [part]
    const text = resultText(part)
    if (text.length <= characters) return [part]
    const { whole, kept } = wholeOf(part, text, options)
    const { recall } = whole
    const gone = whole.characters - characters
    const middle = options.wording.middle({ tool: part.name, recall, characters: gone })
    const said = shortened(text, Math.max(0, characters - middle.length), middle)
    if (said.length >= text.length) return [part]
    cuts.push({ what: "result", tool: part.name, call: part.id, characters: gone, recall, text: kept })
    return [Marks.capped(withText(part, said), whole)]
  })
  return content === message.content ? message : { ...message, content }
}

/** Replaces the text of a result and keeps its files. */
export const withText = (part: Prompt.ToolResultPart, text: string): Prompt.ToolResultPart => {
  const files = part.modelOutput?.filter(({ type }) => type === "file") ?? []
  return files.length === 0
    ? { ...withoutOutput(part), result: text }
    : { ...part, result: text, modelOutput: [Prompt.makePart("text", { text }), ...files] }
}

const withoutOutput = ({ modelOutput: _output, ...part }: Prompt.ToolResultPart): Prompt.ToolResultPart =>
  part

/** Keeps two thirds at the beginning and one third at the end, where errors stand. Never splits a surrogate pair. */
export const shortened = (text: string, room: number, middle: string): string => {
  const head = Math.ceil((room * 2) / 3)
  const tail = room - head
  const begin = text.slice(0, head).replace(/[\ud800-\udbff]$/, "")
  const end = tail === 0 ? "" : text.slice(-tail).replace(/^[\udc00-\udfff]/, "")
  return `${begin}${middle}${end}`
}

// -----------------------------------------------------------------------------
// Original text
// -----------------------------------------------------------------------------

/** The original size and id of a result, and the text that the store does not have yet. */
const wholeOf = (
  part: Prompt.ToolResultPart,
  text: string,
  options: Options
): { readonly whole: Marks.Whole; readonly kept: string | undefined } => {
  const before = Marks.wholeOf(part)
  const characters = before?.characters ?? text.length
  return before?.recall === undefined || !options.stored
    ? { whole: { characters, recall: idOf(text, options) }, kept: text }
    : { whole: before, kept: undefined }
}

const idOf = (text: string, { stored }: Options): string | undefined => (stored ? recallId(text) : undefined)

/**
 * Hash of the text, equal in every conversation and process. Two differently mixed 32-bit halves (cyrb53, public
 * domain): a store of a million texts contains a collision with a probability of 10⁻⁷.
 */
const recallId = (text: string): string => {
  let high = 0xdeadbeef
  let low = 0x41c6ce57
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    high = Math.imul(high ^ code, 2654435761)
    low = Math.imul(low ^ code, 1597334677)
  }
  const first = mixed(high, low)
  return `r_${written36(first)}${written36(mixed(low, first))}`
}

const mixed = (a: number, b: number): number =>
  Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)

const written36 = (half: number): string => (half >>> 0).toString(36).padStart(7, "0")
