/**
 * OpenAI Responses: `POST /openai/v1/responses`.
 *
 * Responses are stored unless `store` is `false`. They can be referred to by the ids of the response and of its items,
 * by keys of the same organisation. Not supported: conversations, background responses, token counting, prompts and
 * files by id, tools that run at the provider.
 */
import { Result } from "effect"
import { tokensOf } from "../../plan/Conversation.ts"
import { api, badJson, refuse, refuseModel } from "../openai/api.ts"
import * as Answer from "./answer.ts"
import { bodyOf, conversationOf } from "./body.ts"
import { itemRules } from "./itemRules.ts"
import { requestRules } from "./requestRules.ts"
import { firstBroken } from "../Rule.ts"
import { parse } from "../shape.ts"
import type { Wire } from "../Wire.ts"

/** All rules, in the order in which they are checked. */
export const rules = [...requestRules, ...itemRules]

export const responses: Wire = {
  ...api,
  paths: ["/responses"],
  serves: ({ path }) => path === "/responses",

  read: ({ body: text }, options) => {
    const json = parse(text)
    if (json === undefined) return badJson()
    const decoded = bodyOf(json, options.kept)
    if (Result.isFailure(decoded)) return refuse("shape", 400, decoded.failure)
    const body = decoded.success
    const unknown = refuseModel(body.model, options)
    if (unknown !== undefined) return unknown
    const messages = conversationOf(body)
    const tokens = tokensOf(messages, body.raw["tools"])
    const { organisation } = options
    const input = { body, tokens, window: options.window(body.model), organisation }
    const broken = firstBroken(rules, input, options.strict)
    if (broken !== undefined) return refuse(broken.rule, broken.problem.status ?? 400, broken.problem)
    return {
      refused: false,
      model: body.model,
      streaming: body.stream ?? false,
      messages,
      maxOutputTokens: body.max_output_tokens ?? undefined,
      inputTokens: tokens,
      answer: (speech, context) => Answer.answer(body, speech, context),
      stream: (speech, context) => Answer.stream(body, speech, context),
      keeps: (speech, context) => Answer.keeps(body, speech, context)
    }
  },

  keepAlive: Answer.event({ type: "keepalive" })
}
