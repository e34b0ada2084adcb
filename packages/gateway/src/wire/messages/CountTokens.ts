/** Anthropic's count of the tokens of a request. */
import { number } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Whole, Wire } from "../Wire.ts"
import { messages } from "./Messages.ts"

/** The call machine knows answers of models: the count is content. It costs nothing. */
const whole = (body: Fields): Array<Whole> | undefined => {
  if (number(body["input_tokens"]) === undefined) return undefined
  const none = { total: 0, uncached: 0, cacheRead: 0, cacheWrite: 0 }
  return [
    { type: "text", text: "-" },
    {
      type: "finish",
      reason: "stop",
      usage: { inputTokens: none, outputTokens: { total: 0, text: 0, reasoning: 0 } }
    }
  ]
}

export const countTokens: Wire = {
  ...messages,
  name: "count_tokens",
  isBound: true,
  path: "/messages/count_tokens",
  title: "the count of tokens of Anthropic",
  asked: (body) => ({ ...messages.asked(body), streams: false, limit: undefined }),
  whole,
  translator: undefined
}
