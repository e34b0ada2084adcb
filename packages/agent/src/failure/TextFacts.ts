/**
 * What is read off a sentence: its words, and a status that it states.
 */
import { cut } from "./BodyFacts.ts"
import { wordsOf } from "./Phrase.ts"

export interface Prepared {
  readonly text: string
  readonly words: () => ReadonlySet<string>
}

const noWords: ReadonlySet<string> = new Set()

/** The error's own texts and those of its body as one, lower-cased, in one line. */
export const prepare = (own: ReadonlyArray<string>, body: ReadonlyArray<string>): Prepared => {
  const outer = own.join(" \n ")
  const parts = [outer]
  for (const part of body) if (!parts.some((known) => known.includes(part))) parts.push(plainOf(part))
  const text = plainSpaces(cut(parts.join(" ")).toLowerCase().replaceAll("’", "'").replaceAll("‘", "'"))
  let words: ReadonlySet<string> | undefined
  return {
    text,
    words: () => (words ??= text === "" ? noWords : wordsOf(text))
  }
}

/** In one line, with single blanks; most messages are that already. */
const plainSpaces = (text: string): string =>
  /[^\S ]| {2}/.test(text) ? text.replace(/\s+/g, " ").trim() : text.trim()

/** A page in words. */
const plainOf = (text: string): string => (/^\s*</.test(text) ? text.replace(/<[^<>]{0,2000}>/g, " ") : text)

// A number is a status only where the text says so: at the very beginning, behind "HTTP", "status", "error code"
// or the name of an error.
const leading = /^[^a-z0-9]{0,4}(?:(?:api )?error[ :]{1,2})?\(?([45]\d\d)(?:[ :,)-]|$)/
const stated =
  /(?:\bhttp(?:\/[\d.]+)?|\bstatus(?:[ _]?code)?|\bhttp[ _]code|\berror code|\bcode|\bapi error|\w(?:error|exception|unavailable|exhausted)|\b(?:error|stream_response):)[ :=("']{1,4}(?:http )?([45]\d\d)(?![\w.])/

/** The status that a lower-cased text states. */
export const status = (text: string): number | undefined => {
  const found = leading.exec(text) ?? stated.exec(text.slice(0, 1_000))
  return found?.[1] === undefined ? undefined : Number(found[1])
}
