/**
 * Failures that an answer with an intact finish tells of: the provider refused the content, or there is nothing in the
 * answer. Pure.
 *
 * - `content-filter` is `ContentPolicy`: Anthropic's `refusal`, OpenAI's `content_filter`, Gemini's block reasons. The
 *   policy decides about it as about a request that was refused.
 * - No content and no output tokens, or thinking alone, is `Format` (response). An answer may be empty behind the
 *   results of tools, and where it continues another.
 *
 * An empty answer that took output tokens passes: the model had nothing to say.
 */
import { Context } from "effect"
import type { Response } from "effect/ai"
import { ContentPolicy, Format } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local } from "../../failure/reasons/ProviderFailure.ts"

/**
 * What a call ends with whose last attempt was refused by the provider: the failure, or the refused answer with the
 * finish reason `content-filter` and without its tool calls. The policy decides first, and the events say that the call
 * gave up. `toAiSdk` sets it.
 */
export const RefusedAnswers: Context.Reference<"fail" | "deliver"> = Context.Reference<"fail" | "deliver">(
  "@outlast/agent/failover/decide/AnswerEnd/RefusedAnswers",
  { defaultValue: () => "fail" }
)

/** The rule of an answer that the provider refused. */
const refused = "answer/refused"

export const isRefused = ({ evidence }: ProviderFailure): boolean => evidence.rule === refused

/** What one answer, streamed or whole, has been. */
export class AnswerEnd {
  readonly #mayBeEmpty: boolean
  #hasContent = false
  #hasThinking = false

  /** `mayBeEmpty`: the conversation ends with results of tools, or the answer continues another. */
  constructor(mayBeEmpty: boolean) {
    this.#mayBeEmpty = mayBeEmpty
  }

  saw(part: Response.PartEncoded | Response.StreamPartEncoded): void {
    switch (part.type) {
      case "text":
        this.#hasContent ||= part.text !== ""
        break
      case "text-delta":
        this.#hasContent ||= part.delta !== ""
        break
      case "reasoning":
      case "reasoning-start":
        this.#hasThinking = true
        break
      case "text-start":
      case "text-end":
      case "reasoning-delta":
      case "reasoning-end":
      case "response-metadata":
      case "source":
      case "finish":
      case "error":
        break
      default:
        this.#hasContent = true
    }
  }

  /** The failure, if the answer is one. An answer that was cut, or that ends with an error, is judged elsewhere. */
  problem({ reason, usage }: Response.FinishPartEncoded): ProviderFailure | undefined {
    if (reason === "content-filter") return local(refused, new ContentPolicy(), undefined)
    if (this.#hasContent || this.#mayBeEmpty || isJudgedElsewhere.has(reason)) return undefined
    const { total = 0, reasoning = 0 } = usage.outputTokens
    const isThinking = this.#hasThinking || reasoning > 0
    if (isThinking)
      return local("answer/thinking-only", badResponse, undefined, "The answer has only thinking.")
    return total === 0 ? local("answer/empty", badResponse, undefined, "The answer is empty.") : undefined
  }
}

const isJudgedElsewhere: ReadonlySet<Response.FinishReason> = new Set(["length", "error", "pause"])

const badResponse = new Format({ side: "response" })
