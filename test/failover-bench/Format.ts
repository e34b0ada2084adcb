/**
 * The wire formats in which the provider of the crash test speaks: that of the request's path.
 */
import type { Hit } from "../hostile/RawServer.ts"
import { chat, claude } from "../hostile/RawServer.ts"

export interface Format {
  /** Events before the first word, in an answer of this model. */
  readonly head: (model: string) => ReadonlyArray<object>
  readonly word: (text: string, model: string) => object
  /** The events after the last word of `said`, up to the usage. */
  readonly finish: (said: string, model: string, words: number) => ReadonlyArray<object>
  /** The event that ends the stream. */
  readonly done: object | string | undefined
  readonly whole: (text: string, model: string, words: number) => object
  readonly error: (status: number, error: { readonly message?: unknown; readonly code?: unknown }) => object
  /** What the assistant has said last in the request. */
  readonly shown: (body: Hit["body"]) => unknown
}

interface Turn {
  readonly role: string
  readonly content: unknown
}

const lastOf = (turns: unknown): unknown =>
  Array.isArray(turns) ? turns.findLast(({ role }: Turn) => role === "assistant")?.content : undefined

const prompt = 9

const completions: Format = {
  head: () => [],
  word: (text, model) => ({ ...chat.text(text), model }),
  finish: (_, model, words) => [
    { ...chat.finish("stop"), model },
    { ...chat.usage(prompt, words), model }
  ],
  done: chat.done,
  whole: (content, model, words) => ({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1,
    model,
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
    usage: { prompt_tokens: prompt, completion_tokens: words, total_tokens: prompt + words }
  }),
  error: (_, error) => ({ error }),
  shown: ({ messages }) => lastOf(messages)
}

const types: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  429: "rate_limit_error",
  500: "api_error",
  503: "overloaded_error"
}

/** How Anthropic says what OpenAI says by these codes. */
const sentences: Readonly<Record<string, string>> = {
  context_length_exceeded: "prompt is too long: 9000 tokens > 8192 maximum",
  content_filter: "Output blocked by content filtering policy"
}

const messages: Format = {
  head: (model) => [{ ...claude.start, message: { ...claude.start.message, model } }, claude.block(0)],
  word: (text) => claude.text(0, text),
  finish: (_said, _model, words) => [
    claude.stop(0),
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: words }
    }
  ],
  done: claude.end,
  whole: (text, model, words) => ({
    ...claude.start.message,
    model,
    content: [{ type: "text", text }],
    stop_reason: "end_turn",
    usage: { input_tokens: prompt, output_tokens: words }
  }),
  error: (status, { code, message }) => ({
    type: "error",
    error: { type: types[status], message: sentences[String(code)] ?? message }
  }),
  shown: ({ messages }) => lastOf(messages)
}

const item = (text: string, status: string) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  status,
  content: text === "" ? [] : [{ type: "output_text", text, annotations: [] }]
})

const response = (model: string, status: string, output: ReadonlyArray<object>, more: object = {}) => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  model,
  status,
  error: null,
  incomplete_details: null,
  output,
  ...more
})

const usage = (words: number) => ({
  usage: {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: words,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + words
  }
})

const place = { item_id: "msg_1", output_index: 0, content_index: 0 }
const part = (text: string) => ({ type: "output_text", text, annotations: [] })

/** No sequence number: no client of the test reads it. */
const responses: Format = {
  head: (model) => [
    { type: "response.created", response: response(model, "in_progress", []) },
    { type: "response.output_item.added", output_index: 0, item: item("", "in_progress") },
    { type: "response.content_part.added", ...place, part: part("") }
  ],
  word: (delta) => ({ type: "response.output_text.delta", ...place, delta, logprobs: [] }),
  finish: (said, model, words) => [
    { type: "response.output_text.done", ...place, text: said, logprobs: [] },
    { type: "response.content_part.done", ...place, part: part(said) },
    { type: "response.output_item.done", output_index: 0, item: item(said, "completed") },
    {
      type: "response.completed",
      response: response(model, "completed", [item(said, "completed")], usage(words))
    }
  ],
  done: undefined,
  whole: (text, model, words) => response(model, "completed", [item(text, "completed")], usage(words)),
  error: (_, error) => ({ error }),
  shown: ({ input }) => lastOf(input)
}

export const formatOf = ({ url }: Pick<Hit, "url">): Format => {
  if (url.endsWith("/messages")) return messages
  return url.endsWith("/responses") ? responses : completions
}
