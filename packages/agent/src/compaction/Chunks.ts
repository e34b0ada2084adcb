/**
 * Cuts a list of entries into overlapping chunks that each have room. Pure.
 *
 * Each chunk but the first begins with the end of the one before, so that what is said across a seam is seen whole by
 * one of them.
 */
import type { Entry } from "./Transcribed.ts"
import { sized } from "./Transcribed.ts"
import type { Meter } from "./TokenCounter.ts"

export interface Options {
  /** Tokens of a chunk at most. Each entry has at most half of it. */
  readonly budget: number
  /** Tokens that are repeated at most. */
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
      // Never so much that the entry would not fit behind it.
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

/** The last entries within so many tokens; if the last is larger, its end. */
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

/** Texts in groups that are within the budget each, in their order. */
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
