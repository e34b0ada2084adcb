/** OpenAI's Responses. */
import { count, fields, list, text } from "../../json/Json.ts"
import type { Fields } from "../../json/Json.ts"
import type { Edits } from "../../json/Splice.ts"
import { typeOf } from "../chat/Chat.ts"
import { errorBody } from "../chat/ChatEncoder.ts"
import type { Asked, Wire } from "../Wire.ts"
import { cut, ResponsesEncoder } from "./ResponsesEncoder.ts"
import { ResponsesReader, whole } from "./ResponsesReader.ts"
import { refuses, translate } from "./ResponsesRequest.ts"
import { body, ResponsesWriter } from "./ResponsesWriter.ts"

const asked = (body: Fields): Asked => {
  const last = fields(list(body["input"]).at(-1))
  const tokens = count(body["max_output_tokens"])
  return {
    model: text(body["model"]),
    streams: body["stream"] === true,
    last: text(last["type"]).endsWith("_output")
      ? "tool"
      : last["role"] === "assistant"
        ? "assistant"
        : "user",
    limit: tokens === undefined ? undefined : { field: "max_output_tokens", tokens },
    continues: true
  }
}

/**
 * Takes thinking out of the conversation that was cut in an earlier answer of this gateway, or made by another vendor: none
 * would know its id.
 */
const withoutCuts = ({ input }: Fields): Edits => {
  const isCut = (item: unknown) =>
    fields(item)["type"] === "reasoning" && fields(item)["encrypted_content"] === cut
  const items = list(input)
  return items.some(isCut)
    ? new Map([["input", JSON.stringify(items.filter((item) => !isCut(item)))]])
    : new Map()
}

export const responses: Wire = {
  name: "responses",
  speaks: "responses",
  isBound: false,
  path: "/responses",
  title: "Responses",
  keepAlive: ": keep-alive\n\n",
  asked,
  unserved: ({ background }) =>
    background === true
      ? "A response in the background is fetched later, from the key that makes it, and the gateway fetches none. Ask without background."
      : undefined,
  withoutCuts,
  turns: "input",
  reader: (reading) => new ResponsesReader(reading),
  whole,
  encoder: () => new ResponsesEncoder(),
  translator: {
    refuses,
    translate,
    hasObjects: false,
    writer: (writing) => new ResponsesWriter(writing),
    body
  },
  typeOf,
  errorBody,
  headers: {}
}
