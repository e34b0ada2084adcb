/**
 * Tells an error message from a text about errors, by the first line of a result.
 *
 * `cat: a.txt: Permission denied` and `error: no such branch` are messages; `import { ParseError } from "./errors"` is
 * none. Pure.
 */

/**
 * - `message`: the line begins with the words of an error, however long the result is
 * - `short`: a message, where the result has no content beside it
 * - `none`: code, a comment, a line of a listing
 */
export type Phrase = "message" | "short" | "none"

/** A message says what it is at its beginning. */
const longest = 200

/** A comment, a heading, or a line that a tool has numbered. */
const quoted = /^\s*(?:#|\/\/|\/\*|--|"""|'''|\d+\s*[|→\t])/

/** Nothing stands before it but who says it: `git: `, `cat: a.txt: `, `[`. */
const beginning = /^[^\w#/"'-]*(?:[\w./\\-]+: +){0,3}$/

/** `TypeError`, `IOException`: a name, in a message mostly before a colon. */
const named = /\w(?:Error|Exception)$/

/** `error:`, `error[E0308]:`, `Error (404):` */
const colon = /^(?: ?[[(]\w+[\])])?:/

/** A document may begin with these. */
const noun = /^(?:errors?|exceptions?|failures?)$/i

/** The word for an error is from `from` to `to`. */
export const of = (text: string, from: number, to: number): Phrase => {
  if (from > longest || quoted.test(text)) return "none"
  const word = text.slice(from, to)
  const isFirst = beginning.test(text.slice(0, from))
  if (isFirst && colon.test(text.slice(to, to + 16))) return "message"
  if (named.test(word)) return "none"
  return isFirst && !noun.test(word) && /^ \S/.test(text.slice(to, to + 2)) ? "message" : "short"
}
