/**
 * What a model says when nothing fails, and the pieces in which it says it.
 *
 * Pure data: an answer knows no wire format. The unit of everything that counts is the **delta**, one
 * content event of a stream: a word of text or reasoning (or some characters, see `chunk`), or a few characters
 * of the arguments of a tool call. One delta stands for one output token.
 */
import { Schema } from "effect"

/** Why an answer ended, in the words of effect/ai. */
export const FinishReason = Schema.Literals(["stop", "length", "tool-calls", "content-filter"])
export type FinishReason = typeof FinishReason.Type

const ToolCall = Schema.Struct({
  /** Made up when absent: unique in the conversation, the same when the request is repeated. */
  id: Schema.optionalKey(Schema.NonEmptyString),
  name: Schema.NonEmptyString,
  params: Schema.Record(Schema.String, Schema.Json)
})
type ToolCall = typeof ToolCall.Type

/** Tokens. What is absent is estimated. */
export const Usage = Schema.Struct({
  /** The whole input, with what came from and went to the cache. */
  input: Schema.optionalKey(Schema.Natural),
  output: Schema.optionalKey(Schema.Natural),
  cacheRead: Schema.optionalKey(Schema.Natural),
  cacheWrite: Schema.optionalKey(Schema.Natural)
})

export const Answer = Schema.Struct({
  /** Said before the text. A wire format without reasoning keeps the time and the count, and sends nothing. */
  reasoning: Schema.optionalKey(Schema.NonEmptyString),
  text: Schema.optionalKey(Schema.String),
  toolCalls: Schema.optionalKey(Schema.Array(ToolCall)),
  /** Characters per delta of text and reasoning, so that an answer can be cut inside of a word. Default: a word. */
  chunk: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0))),
  /** May lie. By default `tool-calls` when there are tool calls, else `stop`. */
  finish: Schema.optionalKey(FinishReason),
  usage: Schema.optionalKey(Usage),
  /** Headers of the response, over those that the wire format has by itself: limits that are used up, for example. */
  headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
})
export type Answer = typeof Answer.Type

/** One content event. `call` is the index of the tool call. */
export type Delta =
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "params"; readonly call: number; readonly text: string }

/** Consecutive deltas that belong together. `complete` is false for a block that was cut. */
export type Block = Delta & { readonly complete: boolean }

/** The answer in deltas: reasoning, then text, then the arguments of each tool call. */
export const deltas = (answer: Answer): ReadonlyArray<Delta> => [
  ...said(answer.reasoning, answer).map((text): Delta => ({ type: "reasoning", text })),
  ...said(answer.text, answer).map((text): Delta => ({ type: "text", text })),
  ...(answer.toolCalls ?? []).flatMap(({ params }, call) =>
    pieces(JSON.stringify(params)).map((text): Delta => ({ type: "params", call, text }))
  )
]

/** Deltas joined to blocks, for an answer that is not streamed. `all` is what the whole answer would be. */
export const blocks = (sent: ReadonlyArray<Delta>, all: ReadonlyArray<Delta>): ReadonlyArray<Block> => {
  const joined: Array<Block> = []
  for (const [i, delta] of sent.entries()) {
    const next = all[i + 1]
    const complete = next === undefined || !sameBlock(delta, next)
    const open = joined.at(-1)
    if (open === undefined || open.complete) joined.push({ ...delta, complete })
    else joined[joined.length - 1] = { ...open, text: open.text + delta.text, complete }
  }
  return joined
}

export const sameBlock = (a: Delta, b: Delta): boolean =>
  a.type === "params" ? b.type === "params" && a.call === b.call : a.type === b.type

const said = (text = "", { chunk }: Answer): ReadonlyArray<string> =>
  chunk === undefined ? words(text) : chunks(text, chunk)

/** So many characters each; none is broken. */
const chunks = (text: string, length: number): ReadonlyArray<string> => {
  const characters = Array.from(text)
  return Array.from({ length: Math.ceil(characters.length / length) }, (_, i) =>
    characters.slice(i * length, (i + 1) * length).join("")
  )
}

/** Words with the white space before them; joined they are the text again. */
const words = (text: string): ReadonlyArray<string> => text.match(/\s*\S+|\s+/gu) ?? []

/** Twelve characters at most, so that JSON breaks inside of names and values. */
const pieces = (json: string): ReadonlyArray<string> => json.match(/.{1,12}/gsu) ?? []
