/**
 * The encodings of `gpt-tokenizer`, made safe for any text.
 *
 * The time of `gpt-tokenizer` grows with the square of a run of one kind of characters: 100,000 times 中 took it 87
 * seconds. Three limits keep a text from blocking the event loop:
 *
 * - A run is cut every {@link maxRun} characters, which adds at most one token per cut.
 * - After {@link maxRuns} such pieces, each further piece counts as the average.
 * - A text longer than {@link maxText} is counted by evenly spread samples.
 *
 * Prose, code and JSON up to that length are counted exactly. Names of special tokens (`<|endoftext|>`) are counted as
 * plain text.
 */
import { Data, Effect } from "effect"

export type Name = "o200k_base" | "cl100k_base"

export const names: ReadonlyArray<Name> = ["o200k_base", "cl100k_base"]

/** Tokens of a text. */
export type Count = (text: string) => number

/** Characters. */
export const maxRun = 64
const maxRuns = 256
export const maxText = 262_144

/** Number of samples of a longer text, and characters of each. */
const samples = 64
const sample = maxText / samples

/** `gpt-tokenizer` cannot be imported. It is an optional peer, because it takes 30 MB. */
export class TokenizerMissing extends Data.TaggedError("TokenizerMissing")<{ readonly cause: unknown }> {
  override readonly message =
    "Tokenizers needs the package gpt-tokenizer, which cannot be imported: run `npm install gpt-tokenizer`, " +
    "or provide `Tokenizers.layer({ encodings: [] })` to estimate texts."
}

interface Tokenizer {
  readonly countTokens: (text: string, options: typeof asText) => number
}

const imported = (name: Name): Promise<Tokenizer> =>
  name === "o200k_base"
    ? import("gpt-tokenizer/encoding/o200k_base")
    : import("gpt-tokenizer/encoding/cl100k_base")

/** Loads the ranks of an encoding (1 to 2 MB): a quarter of a second, once. */
export const load = (
  name: Name,
  from: (name: Name) => Promise<Tokenizer> = imported
): Effect.Effect<Count, TokenizerMissing> =>
  Effect.map(
    Effect.tryPromise({ try: () => from(name), catch: (cause) => new TokenizerMissing({ cause }) }),
    ({ countTokens }) => {
      const count: Count = (text) => countTokens(text, asText)
      return (text) => counted(text, count)
    }
  )

const asText = { disallowedSpecial: new Set<string>() }

const counted = (text: string, count: Count): number => {
  if (text.length <= maxText) return inPieces(text, count)
  const stride = text.length / samples
  let tokens = 0
  for (let i = 0; i < samples; i++) {
    const from = Math.floor(i * stride)
    tokens += inPieces(text.slice(from, from + sample), count)
  }
  return Math.ceil((tokens * text.length) / maxText)
}

/**
 * Characters that a tokenizer joins into one piece of unlimited length: letters with their marks, signs, white space,
 * and the line ends and slashes that `o200k_base` joins to a sign. Some marks are signs to `cl100k_base` (the variation
 * selector of an emoji). Digits are left out: tokenizers take at most three.
 */
const run = new RegExp(
  [String.raw`[\p{L}\p{M}]`, String.raw`[^\s\p{L}\p{N}]`, String.raw`\s`, String.raw`[\r\n/]`]
    .map((kind) => `${kind}{${maxRun}}`)
    .join("|"),
  "gu"
)

const inPieces = (text: string, count: Count): number => {
  if (text.length <= maxRun) return count(text)
  let tokens = 0
  let from = 0
  let runs = 0
  let inRuns = 0
  for (const { index, 0: piece } of text.matchAll(run)) {
    if (index > from) tokens += count(text.slice(from, index))
    if (runs++ < maxRuns) inRuns += count(piece)
    from = index + piece.length
  }
  tokens += inRuns * Math.max(1, runs / maxRuns)
  return Math.ceil(tokens + count(text.slice(from)))
}
