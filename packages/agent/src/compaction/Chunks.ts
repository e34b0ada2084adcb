/**
 * Splits a list of entries into overlapping chunks within a token budget. Pure.
 *
 * Each chunk after the first starts with the end of the previous one. Statements that span a boundary are complete in
 * one of the two chunks.
 */
import type { Entry } from "./Transcribed.ts"
import { sized } from "./Transcribed.ts"
import type { Meter } from "./TokenCounter.ts"

export interface Options {
  /** Maximum tokens of a chunk. No entry may have more than half of it. */
  readonly budget: number
  /** Maximum tokens that a chunk repeats from the one before. */
  readonly overlap: number
  readonly meter: Meter
}

export const of = (
  entries: ReadonlyArray<Entry>,
  { budget, overlap, meter }: Options
): ReadonlyArray<ReadonlyArray<Entry>> => {
  const chunks: Array<ReadonlyArray<Entry>> = []
  let chunk: Array<Entry> = []
  let tokens = 0
  for (const entry of entries) {
    if (tokens + entry.tokens > budget && chunk.length > 0) {
      chunks.push(chunk)
      // The overlap leaves room for the entry itself.
      chunk = endOf(chunk, Math.min(overlap, budget - entry.tokens), meter)
      tokens = total(chunk)
    }
    chunk.push(entry)
    tokens += entry.tokens
  }
  if (chunk.length > 0) chunks.push(chunk)
  return chunks
}

const total = (entries: ReadonlyArray<Entry>): number => entries.reduce((sum, { tokens }) => sum + tokens, 0)

/** The last entries within `tokens`. If the last entry alone is larger, the end of its text. */
const endOf = (chunk: ReadonlyArray<Entry>, tokens: number, meter: Meter): Array<Entry> => {
  const end: Array<Entry> = []
  let left = tokens
  for (let i = chunk.length - 1; i >= 0; i--) {
    const entry = chunk[i]
    if (entry === undefined || entry.tokens > left) break
    end.unshift(entry)
    left -= entry.tokens
  }
  const last = chunk.at(-1)
  if (end.length > 0 || last === undefined) return end
  const room = Math.floor((last.body.length * tokens) / last.tokens)
  if (room <= 0) return []
  const part = sized(last.role, last.body.slice(-room), room, tokens, meter)
  return part.tokens > tokens ? [] : [part]
}

/** Groups texts in order, each group within the budget. */
export const groups = (
  texts: ReadonlyArray<string>,
  budget: number,
  tokensOf: (text: string) => number
): ReadonlyArray<ReadonlyArray<string>> => {
  const all: Array<Array<string>> = []
  let left = 0
  for (const text of texts) {
    const tokens = tokensOf(text)
    const group = all.at(-1)
    if (group === undefined || tokens > left) {
      all.push([text])
      left = budget - tokens
    } else {
      group.push(text)
      left -= tokens
    }
  }
  return all
}
