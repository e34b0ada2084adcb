/**
 * What is known of a model: sizes, prices and habits that differ from model to model.
 *
 * Every field is optional: an unknown model works, without cost and without a limit of ours.
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
  /** Input read from the prompt cache; the input price when absent. */
  readonly cacheRead?: number | undefined
  /** Input written to the prompt cache; the input price when absent. */
  readonly cacheWrite?: number | undefined
}

/** Habits that differ from model to model. What is absent is not known. */
export interface Capabilities {
  readonly tools?: boolean | undefined
  /** Takes images as input. */
  readonly images?: boolean | undefined
  /** Continues a conversation that ends with a message of the assistant. */
  readonly prefill?: boolean | undefined
  /** Takes system messages behind others. */
  readonly systemMessages?: boolean | undefined
  /** Can be made to call a tool. */
  readonly forcedTools?: boolean | undefined
  /** Takes temperature and its like. */
  readonly sampling?: boolean | undefined
  /** The modes of thinking that it can be set to. */
  readonly thinking?: ReadonlyArray<"enabled" | "adaptive" | "between_tools" | "disabled"> | undefined
  /** Its thinking is valid only behind the very messages, system prompt and tools that it followed. */
  readonly bindsThinking?: boolean | undefined
  /** Its thinking is valid only for the organisation for which it was made. */
  readonly bindsAccount?: boolean | undefined
}

/** How a whole answer is asked for: as a stream that is folded, or with one request. */
export type WholeAnswers = "stream" | "request"

export interface ModelInfo {
  /** Input and output together, in tokens. */
  readonly contextWindow?: number | undefined
  /** The most that one answer may have, in tokens. */
  readonly maxOutputTokens?: number | undefined
  readonly price?: Price | undefined
  /**
   * Thinks before it answers: the first token may take long. Default `false`; with the vendors' constructors, what the
   * catalogue and the options of the target say.
   */
  readonly reasoning?: boolean | undefined
  readonly capabilities?: Capabilities | undefined
  /** What it takes of a conversation. Default: only what every known model takes. */
  readonly dialect?: Dialect | undefined
  /**
   * How a whole answer is asked for. With `"stream"` the limits for the first token and between tokens hold for it, too;
   * with `"request"` only the total limit does. A stream must report its usage. Default `"request"`; `Anthropic.model`,
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

/** The check of {@link Capabilities}. */
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

/** The checks of the fields of {@link ModelInfo}. */
export const checks: Options.Checks<ModelInfo> = {
  contextWindow: Kind.count,
  maxOutputTokens: Kind.count,
  price: Kind.object("prices, { input, output } in US dollars per million tokens", prices),
  reasoning: is.flag,
  capabilities,
  dialect: Kind.object("a dialect, for example Dialect.defaults", dialect),
  wholeAnswers: is.oneOf("stream", "request")
}
