/** Answers in the wire formats, complete or streamed, as the request asks. */
import type { ServerResponse } from "node:http"
import type { Hit } from "./RawServer.ts"
import * as RawServer from "./RawServer.ts"
import { chat, claude } from "./RawServer.ts"
import type { Vendor } from "./Asked.ts"

/** An answer of a model: its text, the finish reason in the vendor's form, and the output tokens. */
export interface Reply {
  readonly text: string
  readonly end: string
  readonly tokens: number
  /** Thinking before the text. */
  readonly thinking?: string
}

/** True if the request asks for a stream. */
export const isStream = ({ body, url }: Hit): boolean => body.stream === true || url.includes("alt=sse")

export type Send = (response: ServerResponse, hit: Hit) => void

const either =
  (whole: unknown, events: ReadonlyArray<object | string>): Send =>
  (response, hit) =>
    isStream(hit) ? RawServer.events(response, events) : RawServer.json(response, 200, whole)

const anthropic = ({ text, end, tokens, thinking }: Reply): Send => {
  const usage = { input_tokens: 5, output_tokens: tokens }
  const thought = { type: "thinking", thinking: thinking ?? "", signature: "c2ln" }
  const content = [
    ...(thinking === undefined ? [] : [thought]),
    ...(text === "" ? [] : [{ type: "text", text }])
  ]
  return either({ ...claude.start.message, content, stop_reason: end, usage }, [
    claude.start,
    ...content.flatMap((block, index) =>
      "text" in block
        ? [claude.block(index), claude.text(index, block.text), claude.stop(index)]
        : [
            claude.block(index, { type: "thinking", thinking: "", signature: "" }),
            {
              type: "content_block_delta",
              index,
              delta: { type: "thinking_delta", thinking: block.thinking }
            },
            {
              type: "content_block_delta",
              index,
              delta: { type: "signature_delta", signature: block.signature }
            },
            claude.stop(index)
          ]
    ),
    {
      type: "message_delta",
      delta: { stop_reason: end, stop_sequence: null },
      usage: { output_tokens: tokens }
    },
    claude.end
  ])
}

const completions = ({ text, end, tokens, thinking }: Reply): Send => {
  const usage = { prompt_tokens: 5, completion_tokens: tokens, total_tokens: 5 + tokens }
  const reasoning = thinking === undefined ? {} : { reasoning_content: thinking }
  return either(
    {
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [
        { index: 0, message: { role: "assistant", content: text, ...reasoning }, finish_reason: end }
      ],
      usage
    },
    [
      chat.delta({ role: "assistant", content: "" }),
      ...(thinking === undefined ? [] : [chat.delta(reasoning)]),
      ...(text === "" ? [] : [chat.text(text)]),
      chat.finish(end),
      chat.usage(5, tokens),
      chat.done
    ]
  )
}

const responses = ({ text, end, tokens }: Reply): Send => {
  const message = {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [] }]
  }
  const isWhole = end === "stop"
  const response = {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "m",
    status: isWhole ? "completed" : "incomplete",
    incomplete_details: isWhole ? null : { reason: end },
    output: text === "" ? [] : [message],
    usage: { input_tokens: 5, output_tokens: tokens, total_tokens: 5 + tokens }
  }
  const piece = { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0 }
  return either(response, [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...(text === ""
      ? []
      : [
          { type: "response.output_item.added", output_index: 0, item: { ...message, content: [] } },
          { ...piece, delta: text },
          { type: "response.output_item.done", output_index: 0, item: message }
        ]),
    { type: isWhole ? "response.completed" : "response.incomplete", response }
  ])
}

const gemini = ({ text, end, tokens, thinking }: Reply): Send => {
  const parts = [
    ...(thinking === undefined ? [] : [{ text: thinking, thought: true }]),
    ...(text === "" ? [] : [{ text }])
  ]
  const candidate = {
    content: { role: "model", ...(parts.length === 0 ? {} : { parts }) },
    finishReason: end,
    index: 0
  }
  const thoughts = thinking === undefined ? {} : { thoughtsTokenCount: tokens }
  const usage = {
    promptTokenCount: 5,
    candidatesTokenCount: thinking === undefined ? tokens : 0,
    ...thoughts
  }
  const body = { candidates: [candidate], usageMetadata: usage }
  return either(body, [body])
}

/** Sends the reply as the request asks for it. */
export const send: { readonly [V in Vendor]: (reply: Reply) => Send } = {
  anthropic,
  chat: completions,
  compatible: completions,
  responses,
  google: gemini
}

/** Any body with status 200, for a stream as its one event. */
export const body = (value: object): Send => either(value, [value])

/** Each vendor's finish reason of a complete answer, and of one that the output limit cut. */
export const ends: { readonly [V in Vendor]: { readonly stop: string; readonly length: string } } = {
  anthropic: { stop: "end_turn", length: "max_tokens" },
  chat: { stop: "stop", length: "length" },
  compatible: { stop: "stop", length: "length" },
  responses: { stop: "stop", length: "max_output_tokens" },
  google: { stop: "STOP", length: "MAX_TOKENS" }
}

/** The output limit that a request sets. */
export const limitOf = ({ body }: Hit): number | undefined =>
  body.max_tokens ??
  body.max_completion_tokens ??
  body.max_output_tokens ??
  body.generationConfig?.maxOutputTokens

export interface Written {
  readonly type: string
  readonly body: string
}

/** What a reply writes, for a server that sends it in parts or in a thread of its own. */
export const written = (send: Send, isStream: boolean): Written => {
  let type = ""
  let body = ""
  const write = (chunk = "") => void (body += chunk)
  const response = {
    writeHead: (_: number, headers: Record<string, string>) => (type = headers["content-type"] ?? ""),
    flushHeaders: () => {},
    write,
    end: write
  }
  const hit = { body: { stream: isStream }, url: isStream ? "alt=sse" : "" }
  // All that replies use of a response and of a request.
  send(response as unknown as ServerResponse, hit as Hit)
  return { type, body }
}
