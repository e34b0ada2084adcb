/**
 * Breaks a message down into rough tokens by kind: words, numbers, punctuation, scripts, files. Pure.
 *
 * `Calibration` learns from these numbers, whichever counter is used. Each message is read once and cached.
 */
import type { Prompt } from "effect/ai"
import { fileTokens, written } from "./TokenCounter.ts"

export const kinds = [
  // Letters and spaces: of texts (`words`), and of tool arguments and results (`data`).
  "words",
  "data",
  // Digits.
  "numbers",
  // Other ASCII characters.
  "signs",
  // Letters of about half a token (e.g. Cyrillic), and characters that stand for a syllable or a word (e.g. Chinese).
  "narrow",
  "wide",
  "files",
  // Fixed cost of messages, calls and results.
  "frames",
  "tools",
  // Tokens that a provider adds to each request.
  "hidden"
] as const
export type Kind = (typeof kinds)[number]

/** Rough tokens by kind. */
export type Content = Readonly<Record<Kind, number>>
export type Mutable = Record<Kind, number>

export const nothing: Content = {
  words: 0,
  data: 0,
  numbers: 0,
  signs: 0,
  narrow: 0,
  wide: 0,
  files: 0,
  frames: 0,
  tools: 0,
  hidden: 0
}

/** Assumed hidden tokens of each request. The initial uncertainty allows for about half of them. */
export const hidden = 1_000

const known = new WeakMap<Prompt.Message, Content>()

export const of = (message: Prompt.Message): Content => {
  const before = known.get(message)
  if (before !== undefined) return before
  const content = contentOf(message)
  known.set(message, content)
  return content
}

export const add = (content: Content, sum: Mutable): void => {
  for (const kind of kinds) sum[kind] += content[kind]
}

const contentOf = (message: Prompt.Message): Content => {
  const sum: Mutable = { ...nothing, frames: frame }
  if (message.role === "system") read(message.content, sum, "words")
  else for (const part of message.content) readPart(part, sum)
  return sum
}

/** Fixed cost of a message, a call or a result, in tokens. */
const frame = 4

/**
 * Adds the id of a call or a result, which only some providers count. About two characters of an id are a token; one
 * per character, weighed with the initial uncertainty, allows for that. Without this term, the first reports would
 * blame the ids on the texts of the results.
 */
const frameOf = ({ id }: { readonly id: string }): number => frame + id.length

const readPart = (part: Prompt.Part, sum: Mutable): void => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return read(part.text, sum, "words")
    case "file":
      sum.files += fileTokens(part)
      return
    case "tool-call":
      sum.frames += frameOf(part)
      return read(part.name + written(part.params), sum, "data")
    case "tool-result":
      sum.frames += frameOf(part)
      if (part.modelOutput === undefined) return read(written(part.result), sum, "data")
      for (const output of part.modelOutput) {
        if (output.type === "text") read(output.text, sum, "data")
        else sum.files += fileTokens(output)
      }
      return
    case "tool-approval-request":
    case "tool-approval-response":
      return
  }
}

// Characters per token.
const perWord = 4.5
const perNumber = 2
const perSign = 2
const perNarrow = 2

const read = (text: string, sum: Mutable, letters: "words" | "data"): void => {
  let words = 0
  let numbers = 0
  let signs = 0
  let narrow = 0
  let wide = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (isLetter(code) || code === 0x20) words++
    else if (code >= 0x30 && code <= 0x39) numbers++
    else if (code < 0x80) signs++
    else if (code < 0x1100) narrow++
    else wide++
  }
  sum[letters] += words / perWord
  sum.numbers += numbers / perNumber
  sum.signs += signs / perSign
  sum.narrow += narrow / perNarrow
  sum.wide += wide
}

const isLetter = (code: number): boolean => (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a)
