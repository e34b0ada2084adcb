/** OpenAI's Chat Completions, which most vendors speak. */
import { count, fields, list, number, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Wire } from "../Wire.ts"
import { ChatEncoder, errorBody } from "./ChatEncoder.ts"
import type { ChatAsked } from "./ChatReader.ts"
import { ChatReader, whole } from "./ChatReader.ts"
import { refuses, translate } from "./ChatRequest.ts"
import { body, ChatWriter } from "./ChatWriter.ts"

const asked = (body: Fields): ChatAsked => {
  const last = fields(list(body["messages"]).at(-1))["role"]
  // Some callers send both, one of them as `null`.
  const field = ["max_completion_tokens", "max_tokens"].find((name) => count(body[name]) !== undefined)
  const tokens = field === undefined ? undefined : count(body[field])
  const choices = Math.max(1, number(body["n"]) ?? 1)
  return {
    model: text(body["model"]),
    streams: body["stream"] === true,
    last: last === "tool" || last === "function" ? "tool" : last === "assistant" ? "assistant" : "user",
    limit: field === undefined || tokens === undefined ? undefined : { field, tokens },
    continues: choices === 1,
    choices
  }
}

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  429: "rate_limit_error"
}

export const typeOf = (status: number): string =>
  types[status] ?? (status < 500 ? "invalid_request_error" : "server_error")

export const chat: Wire = {
  name: "chat",
  speaks: "chat",
  isBound: false,
  path: "/chat/completions",
  title: "Chat Completions",
  keepAlive: ": keep-alive\n\n",
  asked,
  // Nobody sends thinking back.
  withoutCuts: () => new Map(),
  asksUsage: ({ stream, stream_options }) => {
    const given = fields(stream_options)
    if (stream !== true || given["include_usage"] === true) return undefined
    return new Map([["stream_options", JSON.stringify({ ...given, include_usage: true })]])
  },
  turns: "messages",
  reader: (reading) => new ChatReader(reading),
  whole,
  encoder: () => new ChatEncoder(),
  translator: { refuses, translate, hasObjects: false, writer: (writing) => new ChatWriter(writing), body },
  typeOf,
  errorBody,
  headers: {}
}
