/**
 * The answer of a model when nothing fails, and its division into deltas.
 *
 * Pure data, independent of wire formats. The **delta** is the unit of all counts. One delta is one content event of a
 * stream: a word of text or reasoning (or some characters, see `chunk`), or a few characters of a tool call's
 * arguments. One delta stands for one output token.
 */
import { Schema } from "effect"

/** The reason for the end of an answer, in the words of effect/ai. */
export const FinishReason = Schema.Literals(["stop", "length", "tool-calls", "content-filter"])
export type FinishReason = typeof FinishReason.Type

const ToolCall = Schema.Struct({
  /** Generated when absent: unique in the conversation, and the same when the request is repeated. */
  id: Schema.optionalKey(Schema.NonEmptyString),
  name: Schema.NonEmptyString,
  params: Schema.Record(Schema.String, Schema.Json)
})
type ToolCall = typeof ToolCall.Type

/** Token counts. Absent ones are estimated. */
export const Usage = Schema.Struct({
  /** The whole input, including cache reads and writes. */
  input: Schema.optionalKey(Schema.Natural),
  output: Schema.optionalKey(Schema.Natural),
  cacheRead: Schema.optionalKey(Schema.Natural),
  cacheWrite: Schema.optionalKey(Schema.Natural)
})

export const Answer = Schema.Struct({
  /** Sent before the text. A wire format without reasoning sends nothing, but keeps the time and the count. */
  reasoning: Schema.optionalKey(Schema.NonEmptyString),
  text: Schema.optionalKey(Schema.String),
  toolCalls: Schema.optionalKey(Schema.Array(ToolCall)),
  /** Characters per delta of text and reasoning, so that an answer can be cut inside a word. Default: one word. */
  chunk: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0))),
  /** Finish reason, true or not. Default: `tool-calls` when there are tool calls, else `stop`. */
  finish: Schema.optionalKey(FinishReason),
  usage: Schema.optionalKey(Usage),
  /** Headers of the response, which override those of the wire format (e.g. rate limits that are used up). */
  headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
})
export type Answer = typeof Answer.Type

/** One content event. `call` is the index of the tool call. */
export type Delta =
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "params"; readonly call: number; readonly text: string }

/** Consecutive deltas of one kind. `complete` is false for a block that was cut. */
export type Block = Delta & { readonly complete: boolean }

/** Divides an answer into deltas: reasoning, then text, then the arguments of each tool call. */
export const deltas = (answer: Answer): ReadonlyArray<Delta> => [
  ...said(answer.reasoning, answer).map((text): Delta => ({ type: "reasoning", text })),
  ...said(answer.text, answer).map((text): Delta => ({ type: "text", text })),
  ...(answer.toolCalls ?? []).flatMap(({ params }, call) =>
    pieces(JSON.stringify(params)).map((text): Delta => ({ type: "params", call, text }))
  )
]

/** Joins deltas to blocks, for an answer without streaming. `all` has the deltas of the complete answer. */
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

/** Divides text into pieces of this many characters, without splitting a character. */
const chunks = (text: string, length: number): ReadonlyArray<string> => {
  const characters = Array.from(text)
  return Array.from({ length: Math.ceil(characters.length / length) }, (_, i) =>
    characters.slice(i * length, (i + 1) * length).join("")
  )
}

/** Divides text into words, each with the white space before it. */
const words = (text: string): ReadonlyArray<string> => text.match(/\s*\S+|\s+/gu) ?? []

/** Divides JSON into pieces of at most twelve characters, so that it breaks inside names and values. */
const pieces = (json: string): ReadonlyArray<string> => json.match(/.{1,12}/gsu) ?? []
