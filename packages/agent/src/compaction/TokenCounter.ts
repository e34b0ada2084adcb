/**
 * How many tokens a conversation has.
 *
 * Everything that a request sends is counted: system messages, texts, thinking, calls with their arguments, results,
 * images and files by rule, and the schemas of tools. A message is counted once and remembered by its identity, so
 * that a new turn costs by its own size, not by that of the history.
 *
 * {@link TokenCounter} is a `Context.Reference`: without a layer it is {@link estimate}, which needs to know nothing of
 * the model. A counter with a tokenizer is {@link make} with another `text`.
 *
 * **What it does not do.** It asks no provider, and learns nothing from the usage that providers report: whoever counts,
 * `Compaction` corrects it by what it was told (`learn`).
 *
 * **Example** (A tokenizer)
 *
 * ```ts
 * const counter = TokenCounter.make({ text: (text) => encode(text).length, json: (text) => encode(text).length })
 * program.pipe(Effect.provideService(TokenCounter.TokenCounter, counter))
 * ```
 */
import { Context } from "effect"
import type { Effect } from "effect"
import { Tool } from "effect/ai"
import type { Prompt } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as ImageSize from "./ImageSize.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Counts for one model. The same while one conversation is made to fit. */
export interface Meter {
  /** Tokens of one message, from what is known at once. At least 1. */
  readonly message: (message: Prompt.Message) => number
  /** Tokens of what is said about tools. */
  readonly tools: (tools: ReadonlyArray<Tool.Any>) => number
  /** All of it, as exactly as can be found out: asked when the window is getting full. Default: the sum. */
  readonly exact?:
    | ((messages: ReadonlyArray<Prompt.Message>, tools: ReadonlyArray<Tool.Any>) => Effect.Effect<number>)
    | undefined
}

export interface Service {
  /** `undefined`: a model of which nothing is known. */
  readonly for: (model: string | undefined) => Meter
}

/** Rules in tokens. */
export interface Rules {
  /** Of prose. Default: about four characters each, and one for each sign of a script without spaces. */
  readonly text?: ((text: string) => number) | undefined
  /** Of arguments, results and schemas. Default: about three characters each. */
  readonly json?: ((text: string) => number) | undefined
  /** Of an image, a document, another file. Default: {@link fileTokens}. */
  readonly file?: ((file: Prompt.FilePart) => number) | undefined
  /** What each message and each part costs beside its content. Default 4. */
  readonly overhead?: number | undefined
}

// -----------------------------------------------------------------------------
// Estimate
// -----------------------------------------------------------------------------

const proseCharacters = 4
const jsonCharacters = 3

// oxlint-disable-next-line no-control-regex -- Everything that is not ASCII.
const beyondAscii = /[^\u0000-\u007f]/

/** Characters beyond ASCII are a token each where they stand for syllables or words, and half a one otherwise. */
const estimated =
  (characters: number) =>
  (text: string): number => {
    if (!beyondAscii.test(text)) return Math.ceil(text.length / characters)
    let narrow = 0
    let wide = 0
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code < 0x80) narrow++
      else wide += code < 0x1100 ? 0.5 : 1
    }
    return Math.ceil(narrow / characters + wide)
  }

/** What an image and a page of a PDF take, in tokens. */
export interface FileRules {
  /** Of an image; `undefined`: its size is not known. */
  readonly image: (size: ImageSize.ImageSize | undefined) => number
  readonly page: number
}

/**
 * An image: one for each 750 pixels, at most 1,600, as at Anthropic; 1,600 where its size is not known. A page: 2,000,
 * between what Anthropic names for its text (1,500 to 3,000).
 */
export const fileRules: FileRules = {
  image: (size) =>
    size === undefined ? 1_600 : Math.min(1_600, Math.ceil((size.width * size.height) / 750)),
  page: 2_000
}

/**
 * Images and pages by the rules (default {@link fileRules}); a PDF has a page for each 50 kB, at least one. Text: by its
 * length. Others: 1 for each 100 bytes, at least 1,000. A file behind a URL: as an image.
 */
export const fileTokens = ({ mediaType, data }: Prompt.FilePart, rules: FileRules = fileRules): number => {
  const bytes =
    data instanceof URL ? undefined : data instanceof Uint8Array ? data.length : data.length * 0.75
  if (bytes === undefined || mediaType.startsWith("image/")) return rules.image(ImageSize.of(data))
  if (mediaType === "application/pdf") return rules.page * Math.max(1, Math.ceil(bytes / 50_000))
  return mediaType.startsWith("text/")
    ? Math.ceil(bytes / proseCharacters)
    : Math.max(1_000, Math.ceil(bytes / 100))
}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

const { is } = Check

const checks: Check.Checks<Rules> = {
  text: is.fn("(text) => tokens"),
  json: is.fn("(text) => tokens"),
  file: is.fn("(file) => tokens"),
  overhead: is.number({ min: 0 })
}

/**
 * A counter by these rules, the same for every model. Throws an `InvalidOption` (a `RangeError`) for a rule that is
 * unknown or not allowed.
 */
export const make = (rules: Rules = {}): Service => {
  Check.fields("TokenCounter", rules, checks)
  const {
    text = estimated(proseCharacters),
    json = estimated(jsonCharacters),
    file = (file) => fileTokens(file),
    overhead = 4
  } = rules
  const known = new WeakMap<Prompt.Message, number>()
  const schemas = new WeakMap<Tool.Any, number>()

  const part = (part: Prompt.Part): number => {
    switch (part.type) {
      case "text":
      case "reasoning":
        return text(part.text)
      case "file":
        return file(part)
      case "tool-call":
        return json(part.name) + json(written(part.params)) + overhead
      case "tool-result":
        return part.modelOutput === undefined
          ? json(written(part.result)) + overhead
          : part.modelOutput.reduce(
              (sum, output) => sum + (output.type === "text" ? text(output.text) : file(output)),
              overhead
            )
      case "tool-approval-request":
      case "tool-approval-response":
        return 0
    }
  }
  const message = (message: Prompt.Message): number => {
    const before = known.get(message)
    if (before !== undefined) return before
    const content: ReadonlyArray<Prompt.Part> = message.role === "system" ? [] : message.content
    const own = message.role === "system" ? text(message.content) : 0
    const tokens = Math.max(1, Math.ceil(content.reduce((sum, one) => sum + part(one), own + overhead)))
    known.set(message, tokens)
    return tokens
  }
  const tool = (tool: Tool.Any): number => {
    const before = schemas.get(tool)
    if (before !== undefined) return before
    // What a provider runs is described there, in a few words here.
    const schema = Tool.isProviderDefined(tool) ? tool.name : written(Tool.getJsonSchema(tool))
    const tokens = json(tool.name) + text(Tool.getDescription(tool) ?? "") + json(schema) + overhead
    schemas.set(tool, tokens)
    return tokens
  }
  const tools: Meter["tools"] = (all) => all.reduce((sum, one) => sum + tool(one), 0)
  const meter: Meter = { message, tools }
  return { for: () => meter }
}

/** JSON, or the text itself. Nothing for what JSON does not know (a bigint, a cycle): it cannot be sent either. */
export const written = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? ""
  } catch {
    return ""
  }
}

/** By the number of characters: for any model, within about a quarter for English, code and JSON. */
export const estimate: Service = make()

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** Who counts; by default {@link estimate}. */
export const TokenCounter: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/agent/compaction/TokenCounter",
  { defaultValue: () => estimate }
)
