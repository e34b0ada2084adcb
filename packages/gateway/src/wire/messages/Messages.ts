/** Anthropic's Messages. */
import { count, fields, list, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Edits } from "../../json/Splice.ts"
import type { Asked, Wire } from "../Wire.ts"
import { cut, errorBody, MessagesEncoder } from "./MessagesEncoder.ts"
import { MessagesReader, whole } from "./MessagesReader.ts"
import { refuses, translate } from "./MessagesRequest.ts"
import { body, MessagesWriter } from "./MessagesWriter.ts"

const asked = (body: Fields): Asked => {
  const last = fields(list(body["messages"]).at(-1))
  const hasResult = list(last["content"]).some((block) => fields(block)["type"] === "tool_result")
  const tokens = count(body["max_tokens"])
  return {
    model: text(body["model"]),
    streams: body["stream"] === true,
    last: hasResult ? "tool" : last["role"] === "assistant" ? "assistant" : "user",
    limit: tokens === undefined ? undefined : { field: "max_tokens", tokens },
    continues: true
  }
}

/** Takes thinking out of the conversation that was cut in an earlier answer of this gateway. */
const withoutCuts = ({ messages }: Fields): Edits => {
  const isCut = (block: unknown) => fields(block)["signature"] === cut
  const turns = list(messages)
  if (!turns.some((turn) => list(fields(turn)["content"]).some(isCut))) return new Map()
  const kept = turns.flatMap((turn) => {
    const { content } = fields(turn)
    if (!Array.isArray(content)) return [turn]
    const rest = content.filter((block) => !isCut(block))
    return rest.length === 0 ? [] : [{ ...fields(turn), content: rest }]
  })
  return new Map([["messages", JSON.stringify(kept)]])
}

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
  529: "overloaded_error"
}

export const messages: Wire = {
  name: "messages",
  speaks: "messages",
  isBound: false,
  path: "/messages",
  title: "Anthropic Messages",
  keepAlive: 'event: ping\ndata: {"type":"ping"}\n\n',
  asked,
  withoutCuts,
  turns: "messages",
  reader: (reading) => new MessagesReader(reading),
  whole,
  encoder: () => new MessagesEncoder(),
  translator: {
    refuses,
    translate,
    hasObjects: true,
    writer: (writing) => new MessagesWriter(writing),
    body
  },
  typeOf: (status) => types[status] ?? (status < 500 ? "invalid_request_error" : "api_error"),
  errorBody,
  headers: { "anthropic-version": "2023-06-01" }
}
