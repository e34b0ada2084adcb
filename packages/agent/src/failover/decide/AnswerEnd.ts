/**
 * Finds failures in answers that ended with a normal `finish` part: refused content and empty answers. Pure.
 *
 * - `content-filter` is `ContentPolicy`: Anthropic's `refusal`, OpenAI's `content_filter`, Gemini's block reasons.
 *   The policy treats it like a refused request.
 * - No content and no output tokens, or only thinking, is `Format` (response). An answer may be empty after tool
 *   results and when it continues another answer.
 * - No call after a finish that announces calls is `Format` (response): the calls are lost, or in a form that is unknown
 *   here. Text without calls passes the second time.
 *
 * Any other empty answer that used output tokens passes: the model had nothing to say.
 */
import { Context } from "effect"
import type { Response } from "effect/ai"
import { ContentPolicy, Format } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import { local, noCall } from "../../failure/reasons/ProviderFailure.ts"

/**
 * Decides how a call ends when the provider refused its last answer. `fail` fails the call. `deliver` returns the
 * refused answer with the finish reason `content-filter` and without its tool calls. The policy still decides first,
 * and the events still report that the call gave up. `toAiSdk` sets `deliver`. Default `fail`.
 */
export const RefusedAnswers: Context.Reference<"fail" | "deliver"> = Context.Reference<"fail" | "deliver">(
  "@outlast/agent/failover/decide/AnswerEnd/RefusedAnswers",
  { defaultValue: () => "fail" }
)

/** Id of the rule for an answer that the provider refused. */
const refused = "answer/refused"

export const isRefused = ({ evidence }: ProviderFailure): boolean => evidence.rule === refused

/** Collects the parts of one answer, streamed or whole, and judges its end. */
export class AnswerEnd {
  readonly #mayBeEmpty: boolean
  readonly #mayLackCalls: boolean
  #hasCalls = false
  #hasContent = false
  #hasThinking = false

  /**
   * - `mayBeEmpty`: true when the conversation ends with tool results, or when the answer continues another one.
   * - `mayLackCalls`: true when text is enough although the finish announces calls.
   */
  constructor(mayBeEmpty: boolean, mayLackCalls: boolean) {
    this.#mayBeEmpty = mayBeEmpty
    this.#mayLackCalls = mayLackCalls
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
      case "tool-call":
        this.#hasCalls = true
        this.#hasContent = true
        break
      default:
        this.#hasContent = true
    }
  }

  /**
   * Returns the failure in a finished answer, if there is one. Other modules judge answers that were cut or end with
   * an error.
   */
  problem({ reason, usage }: Response.FinishPartEncoded): ProviderFailure | undefined {
    if (reason === "content-filter") return local(refused, new ContentPolicy(), undefined)
    const hasAnnounced = this.#mayLackCalls ? this.#hasContent : this.#hasCalls
    if (reason === "tool-calls" && !hasAnnounced) return local(noCall, announced, undefined)
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
const announced = new Format({ side: "response", problem: "is missing in the answer that announces it" })
