/**
 * What a message consists of, in rough tokens: words, numbers, signs, scripts, files. Pure.
 *
 * It is what `Calibration` needs to know of a message, whatever counts it. A message is looked at once.
 */
import type { Prompt } from "effect/ai"
import { fileTokens, written } from "./TokenCounter.ts"

export const kinds = [
  // Letters and spaces: of texts, and of what tools are given and give back.
  "words",
  "data",
  // Digits.
  "numbers",
  // Other signs of ASCII.
  "signs",
  // Letters of about half a token, and signs of syllables and words.
  "narrow",
  "wide",
  "files",
  // Messages, calls and results, beside their content.
  "frames",
  "tools",
  // What a provider adds to each request.
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

/** Of each request: half of it may be there, before it is known. */
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

/** Tokens of a message, and of a call or a result in it, beside its content. */
const frame = 4

/**
 * And the id of a call or a result, which some providers count and others do not: about two characters of it are a
 * token, and half of what stands here may be there, before it is known. Without it, what the ids take would be
 * taken for a higher price of the texts in the first results.
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

// Characters of a token.
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
