/**
 * Facts about a model: sizes, prices and capabilities.
 *
 * Every field is optional. An unknown model works without cost reports and without our limits.
 */

import { Options } from "@outlast/resilience"
import type { Dialect } from "./Dialect.ts"
import { checks as dialect } from "./Dialect.ts"
import * as Kind from "../options/Kind.ts"

const { is } = Options

/** US dollars per million tokens. */
export interface Price {
  readonly input: number
  readonly output: number
  /** Price of input read from the prompt cache. Default: the input price. */
  readonly cacheRead?: number | undefined
  /** Price of input written to the prompt cache. Default: the input price. */
  readonly cacheWrite?: number | undefined
}

/** Capabilities of a model. An absent field is unknown. */
export interface Capabilities {
  readonly tools?: boolean | undefined
  /** Accepts images as input. */
  readonly images?: boolean | undefined
  /** Continues a conversation that ends with an assistant message. */
  readonly prefill?: boolean | undefined
  /** Accepts system messages after other messages. */
  readonly systemMessages?: boolean | undefined
  /** Supports forcing a tool call. */
  readonly forcedTools?: boolean | undefined
  /** Accepts sampling parameters such as temperature. */
  readonly sampling?: boolean | undefined
  /** Thinking modes that can be requested. */
  readonly thinking?: ReadonlyArray<"enabled" | "adaptive" | "between_tools" | "disabled"> | undefined
  /** Thinking is valid only after exactly the same messages, system prompt and tools. */
  readonly bindsThinking?: boolean | undefined
  /** Thinking is valid only for the organisation that requested it. */
  readonly bindsAccount?: boolean | undefined
}

/** How to request a whole answer: as a stream that is folded, or with one plain request. */
export type WholeAnswers = "stream" | "request"

export interface ModelInfo {
  /** Window for input and output together, in tokens. */
  readonly contextWindow?: number | undefined
  /** Maximum tokens of one answer. */
  readonly maxOutputTokens?: number | undefined
  readonly price?: Price | undefined
  /**
   * Thinks before it answers, so the first token may take long. Default `false`; with a vendor's constructor, from
   * the catalogue and the options of the target.
   */
  readonly reasoning?: boolean | undefined
  readonly capabilities?: Capabilities | undefined
  /** Rules for its conversations. Default: only what every known model accepts. */
  readonly dialect?: Dialect | undefined
  /**
   * How to request a whole answer. With `"stream"` the time limits for the first token and between tokens apply; with
   * `"request"` only the total limit does. A stream must report its usage. Default `"request"`; `Anthropic.model`,
   * `OpenAi.model`, `OpenAi.chatModel` and `Google.model` set `"stream"`.
   */
  readonly wholeAnswers?: WholeAnswers | undefined
}

// -----------------------------------------------------------------------------
// Checks
// -----------------------------------------------------------------------------

const price = is.number({ min: 0 })

const prices: Options.Checks<Price> = {
  input: is.required(price),
  output: is.required(price),
  cacheRead: price,
  cacheWrite: price
}

const thinking = is.oneOf("enabled", "adaptive", "between_tools", "disabled")

/** Check of {@link Capabilities}. */
export const capabilities: Options.Check = Kind.object<Capabilities>("an object of capabilities", {
  tools: is.flag,
  images: is.flag,
  prefill: is.flag,
  systemMessages: is.flag,
  forcedTools: is.flag,
  sampling: is.flag,
  thinking: is.list(thinking),
  bindsThinking: is.flag,
  bindsAccount: is.flag
})

/** Checks of the fields of {@link ModelInfo}. */
export const checks: Options.Checks<ModelInfo> = {
  contextWindow: Kind.count,
  maxOutputTokens: Kind.count,
  price: Kind.object("prices, { input, output } in US dollars per million tokens", prices),
  reasoning: is.flag,
  capabilities,
  dialect: Kind.object("a dialect, for example Dialect.defaults", dialect),
  wholeAnswers: is.oneOf("stream", "request")
}
