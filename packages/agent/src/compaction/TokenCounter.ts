/**
 * Counts the tokens of a conversation.
 *
 * Every part of a request is counted: system messages, texts, thinking, calls with their arguments, results, images
 * and files by rule, and tool schemas. A message is counted once and cached by identity. A new turn costs only its
 * own size.
 *
 * {@link TokenCounter} is a `Context.Reference`. Without a layer it is {@link estimate}, which needs no knowledge of
 * the model. Pass another `text` to {@link make} to use a tokenizer.
 *
 * **What it does not do.** It asks no provider and does not learn from reported usage: `Compaction.learn` corrects
 * every counter.
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

/** Counts for one model. Stays the same during one compaction. */
export interface Meter {
  /** Tokens of one message, available at once. At least 1. */
  readonly message: (message: Prompt.Message) => number
  /** Tokens of the tool schemas. */
  readonly tools: (tools: ReadonlyArray<Tool.Any>) => number
  /** The most exact count of the whole request. Called when the window is getting full. Default: the sum. */
  readonly exact?:
    | ((messages: ReadonlyArray<Prompt.Message>, tools: ReadonlyArray<Tool.Any>) => Effect.Effect<number>)
    | undefined
}

export interface Service {
  /** Returns the meter of a model. `undefined` is an unknown model. */
  readonly for: (model: string | undefined) => Meter
}

/** Counting rules. Each returns tokens. */
export interface Rules {
  /** Counts prose. Default: about four characters per token, and one token per character of scripts such as Chinese. */
  readonly text?: ((text: string) => number) | undefined
  /** Counts arguments, results and schemas. Default: about three characters per token. */
  readonly json?: ((text: string) => number) | undefined
  /** Counts an image, a document or another file. Default: {@link fileTokens}. */
  readonly file?: ((file: Prompt.FilePart) => number) | undefined
  /** Fixed cost of each message and each part, in tokens. Default 4. */
  readonly overhead?: number | undefined
}

// -----------------------------------------------------------------------------
// Estimate
// -----------------------------------------------------------------------------

const proseCharacters = 4
const jsonCharacters = 3

// oxlint-disable-next-line no-control-regex -- Everything that is not ASCII.
const beyondAscii = /[^\u0000-\u007f]/

/** Non-ASCII characters are one token each when they stand for a syllable or a word, otherwise half a token. */
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

/** Tokens of an image and of a page of a PDF. */
export interface FileRules {
  /** Tokens of an image; the size is `undefined` when it is unknown. */
  readonly image: (size: ImageSize.ImageSize | undefined) => number
  readonly page: number
}

/**
 * Image: one token per 750 pixels, at most 1,600, as at Anthropic; 1,600 when the size is unknown. Page: 2,000,
 * within Anthropic's figure for its text (1,500 to 3,000).
 */
export const fileRules: FileRules = {
  image: (size) =>
    size === undefined ? 1_600 : Math.min(1_600, Math.ceil((size.width * size.height) / 750)),
  page: 2_000
}

/**
 * Counts a file. Images and pages follow the rules (default {@link fileRules}). A PDF has one page per 50 kB, at
 * least one. Text counts by its length. Other files: 1 token per 100 bytes, at least 1,000. A file behind a URL
 * counts as an image.
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
 * Creates a counter with these rules for every model. Throws an `InvalidOption` (a `RangeError`) for an unknown or
 * invalid rule.
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
    // The provider adds the schema of a tool that it runs itself, so only the name is counted.
    const schema = Tool.isProviderDefined(tool) ? tool.name : written(Tool.getJsonSchema(tool))
    const tokens = json(tool.name) + text(Tool.getDescription(tool) ?? "") + json(schema) + overhead
    schemas.set(tool, tokens)
    return tokens
  }
  const tools: Meter["tools"] = (all) => all.reduce((sum, one) => sum + tool(one), 0)
  const meter: Meter = { message, tools }
  return { for: () => meter }
}

/**
 * Returns a string unchanged, anything else as JSON. Empty for values that JSON cannot express (a bigint, a cycle):
 * they cannot be sent either.
 */
export const written = (value: unknown): string => {
  if (typeof value === "string") return value
  try {
    return JSON.stringify(value) ?? ""
  } catch {
    return ""
  }
}

/**
 * Estimates by the number of characters. Within about a quarter of the real count for English, code and JSON, on any
 * model.
 */
export const estimate: Service = make()

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** The current counter. Default: {@link estimate}. */
export const TokenCounter: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/agent/compaction/TokenCounter",
  { defaultValue: () => estimate }
)
