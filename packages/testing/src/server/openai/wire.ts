/**
 * OpenAI Chat Completions: `POST /openai/v1/chat/completions`.
 *
 * Not supported: the old `functions`, several choices, audio, log probabilities.
 */
import { Result } from "effect"
import { tokensOf } from "../../plan/Conversation.ts"
import * as Answer from "./answer.ts"
import { api, badJson, refuse, refuseModel } from "./api.ts"
import { bodyOf, conversationOf } from "./body.ts"
import { rules } from "./rules.ts"
import { firstBroken } from "../Rule.ts"
import { parse } from "../shape.ts"
import type { Wire } from "../Wire.ts"

export const openai: Wire = {
  ...api,
  paths: ["/chat/completions"],
  serves: ({ path }) => path === "/chat/completions",

  read: ({ body: text }, options) => {
    const json = parse(text)
    if (json === undefined) return badJson()
    const decoded = bodyOf(json)
    if (Result.isFailure(decoded)) return refuse("shape", 400, decoded.failure)
    const body = decoded.success
    const unknown = refuseModel(body.model, options)
    if (unknown !== undefined) return unknown
    const messages = conversationOf(body)
    const tokens = tokensOf(messages, body.raw["tools"])
    const broken = firstBroken(rules, { body, tokens, window: options.window(body.model) }, options.strict)
    if (broken !== undefined) return refuse(broken.rule, 400, broken.problem)
    return {
      refused: false,
      model: body.model,
      streaming: body.stream ?? false,
      messages,
      maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
      inputTokens: tokens,
      answer: (speech, context) => Answer.answer(body, speech, context),
      stream: (speech, context) => Answer.stream(body, speech, context)
    }
  },

  // The API sends no keep-alives. Gateways send comments.
  keepAlive: ": keep-alive\n\n"
}
