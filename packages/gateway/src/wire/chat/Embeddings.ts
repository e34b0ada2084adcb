/** OpenAI's Embeddings, which the endpoints of Chat Completions have, too. Vectors of two models cannot be compared. */
import { fields, list, number } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Whole, Wire } from "../Wire.ts"
import { chat } from "./Chat.ts"

/** The call machine knows answers of models: a list of vectors is content, whatever is in it. */
const whole = (body: Fields): Array<Whole> | undefined => {
  const vectors = list(body["data"])
  if (vectors.length === 0 || !vectors.every((vector) => "embedding" in fields(vector))) return undefined
  const total = number(fields(body["usage"])["prompt_tokens"])
  return [
    { type: "text", text: "-" },
    {
      type: "finish",
      reason: "stop",
      usage: {
        inputTokens: { total, uncached: total, cacheRead: undefined, cacheWrite: undefined },
        outputTokens: { total: 0, text: 0, reasoning: 0 }
      }
    }
  ]
}

export const embeddings: Wire = {
  ...chat,
  name: "embeddings",
  isBound: true,
  path: "/embeddings",
  title: "Embeddings",
  asked: (body) => ({ ...chat.asked(body), streams: false, limit: undefined }),
  whole,
  translator: undefined
}
