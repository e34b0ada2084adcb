/**
 * What is said in words: one text of all sentences, and a status that it states.
 */
import { cut } from "./BodyFacts.ts"

/** The error's own texts and those of its body as one, lower-cased, in one line. */
export const join = (own: ReadonlyArray<string>, body: ReadonlyArray<string>): string => {
  const outer = own.join(" \n ")
  const parts = [outer]
  for (const part of body) if (!parts.some((known) => known.includes(part))) parts.push(plainOf(part))
  return plainSpaces(cut(parts.join(" ")).toLowerCase().replaceAll("’", "'").replaceAll("‘", "'"))
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

const number = /[45]\d\d/

/** The status that a lower-cased text states. */
export const status = (text: string): number | undefined => {
  // Most texts have no such number: then there is nothing to look for.
  if (!number.test(text)) return undefined
  const found = leading.exec(text) ?? stated.exec(text.slice(0, 1_000))
  return found?.[1] === undefined ? undefined : Number(found[1])
}
