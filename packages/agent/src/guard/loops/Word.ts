/**
 * What a word is by its looks, and by what stands around it: a number, the place in a file, a moment, an error's name.
 * Pure.
 */
import * as Meaning from "./Meaning.ts"
import * as Volatile from "./Volatile.ts"

// What a character is.
export const other = 0
const letter = 1
export const digit = 2
const kinds = new Uint8Array(0x1_0000)
kinds.fill(letter, 128)
for (let c = 48; c < 58; c++) kinds[c] = digit
for (let c = 65; c < 91; c++) kinds[c] = kinds[c + 32] = letter
kinds[95] = letter
export const kindOf = (c: number): number => kinds[c] ?? other

const colon = 58
const hash = 35
const slash = 47
const percent = 37
const parenthesis = 40
const lineWord = Meaning.of("line")
/** `3/12`, `3 of 12`, `25 %`. */
export const isCounted = (text: string, from: number, at: number): boolean =>
  text.charCodeAt(at) === slash ||
  text.charCodeAt(at) === percent ||
  text.startsWith(" %", at) ||
  text.charCodeAt(from - 1) === slash ||
  text.startsWith(" of ", at)

/** Where the number of a word begins: `12`, `512MB`, `part-17`; -1 if it is none. */
export const numberFrom = (text: string, from: number, at: number): number => {
  let i = from
  while (i < at) {
    const c = text.charCodeAt(i)
    if (c !== 46 && kindOf(c) !== digit) break
    i++
  }
  if (i > from && at - i <= 3) {
    while (i < at && kindOf(text.charCodeAt(i)) === letter) i++
    return i === at ? from : -1
  }
  i = at
  while (i > from && kindOf(text.charCodeAt(i - 1)) === digit) i--
  return i > from && i < at && text.charCodeAt(i - 1) === 45 ? i : -1
}

/** Whether a word with a digit says nothing, by what it looks like. */
export const saysNothing = (
  text: string,
  from: number,
  at: number,
  digits: number,
  isResult: boolean
): boolean => {
  const length = at - from
  if (!isResult) return length >= 10 && Volatile.isMoment(text.slice(from, at))
  const before = from === 0 ? 0 : text.charCodeAt(from - 1)
  if (before === hash) return true
  if (digits === length) {
    // In a path a number is an id: after a word and a slash.
    if (before === slash && from > 1 && kindOf(text.charCodeAt(from - 2)) === letter) return true
    return length >= 10 ? Volatile.inResult(text.slice(from, at)) : isAmount(text, at)
  }
  // "main.ts:12:30" is a place and no time of day.
  if (length < 2 || before === colon) return false
  if (digits === length - 1 && hasDot(text, from, at) && beginsLogLine(text, from, at)) return true
  return Volatile.inResult(text.slice(from, at)) || (length < 9 && isAmount(text, at))
}

/** Looked for in the word alone: the rest of the text may be long. */
const hasDot = (text: string, from: number, at: number): boolean => {
  for (let i = from; i < at; i++) if (text.charCodeAt(i) === 46) return true
  return false
}

/** Whether a character stands between the words of arguments: blanks, quotation marks, brackets, and , ; = | < > */
export const separates = (c: number): boolean => c <= 32 || (c < 128 && separators[c] === 1)

const separators = new Uint8Array(128)
for (const c of "\"'`()[]{},;=|<>") separators[c.charCodeAt(0)] = 1

/** Of a word that ends here: "TypeError", "IOException". */
export const isError = (text: string, end: number): boolean =>
  end >= 6 &&
  ((text.charCodeAt(end - 1) === 114 && text.startsWith("Erro", end - 5)) ||
    (text.charCodeAt(end - 1) === 110 && text.startsWith("Exceptio", end - 9)))

/** Of a word that ends here: "running", "compiling". */
export const isUnderWay = (text: string, end: number): boolean =>
  end >= 6 &&
  text.charCodeAt(end - 1) === 103 &&
  text.startsWith("ing", end - 3) &&
  !text.startsWith("String", end - 6)

/** What holds a word together between two characters of one: `-`, `.`, and in times `:` and `,`. */
export const isJoint = (c: number): boolean => (c < 47 && c > 43) || c === colon

export const joins = (text: string, at: number, joint: number): boolean => {
  if (at + 1 >= text.length) return false
  const next = kindOf(text.charCodeAt(at + 1))
  if (next === other) return false
  if (joint === 45 || joint === 46) return true
  if (next !== digit || kindOf(text.charCodeAt(at - 1)) !== digit) return false
  // Python's "10:00:00,123".
  return joint === colon || (at >= 3 && text.charCodeAt(at - 3) === colon)
}

/** Whether a number with a fraction begins a line with more in it: the time of a log, "[  12.345] usb" or "#7 1.343 npm". */
const beginsLogLine = (text: string, from: number, at: number): boolean => {
  const next = text.charCodeAt(at)
  if (next !== 32 && next !== 93) return false
  for (let i = from - 1; i >= 0 && from - i < 10; i--) {
    const c = text.charCodeAt(i)
    // A new line; then what may stand before: white space, # and [, the number of a process.
    if (c === 10) return true
    if (c !== 32 && c !== hash && c !== 91 && kindOf(c) !== digit) return false
  }
  return false
}

/** Whether a word with a digit is the number of a line: `a.ts:12:5`, `a.ts(12,5)`, `line 12`. */
export const isPlace = (text: string, from: number, before: number): boolean => {
  if (kindOf(text.charCodeAt(from)) !== digit) return false
  if (before === lineWord) return true
  const joint = text.charCodeAt(from - 1)
  if ((joint !== colon && joint !== parenthesis) || from < 4) return false
  // The end of a file's name.
  let i = from - 2
  while (i > 0 && from - i < 8 && kindOf(text.charCodeAt(i)) === letter) i--
  return i < from - 2 && text.charCodeAt(i) === 46 && kindOf(text.charCodeAt(i - 1)) !== other
}

/** A number before a unit of time. */
const isAmount = (text: string, at: number): boolean => {
  if (text.charCodeAt(at) !== 32 || kindOf(text.charCodeAt(at + 1)) !== letter) return false
  let end = at + 1
  while (end < text.length && end - at < 10 && kindOf(text.charCodeAt(end)) === letter) end++
  return Volatile.isUnit(text.slice(at + 1, end).toLowerCase())
}

/** Whether the word before names what comes: `ts=171`, `"attempt": 3`, `attempt 3`, `pid 4411`. */
export const isNamedBy = (
  text: string,
  name: number,
  end: number,
  at: number,
  isResult: boolean
): boolean => {
  if (at - end > 4) return false
  let assigned = false
  for (let i = end; i < at; i++) {
    const c = text.charCodeAt(i)
    // One of : = #
    if (c === colon || c === 61 || c === hash) assigned = true
    else if (c > 32 && c !== 34 && c !== 39 && c !== 92) return false
  }
  const where = Meaning.naming(name)
  if (!isResult) return where === Meaning.anywhere
  return where === 0 ? assigned && endsAsId(text, end) : assigned || where !== Meaning.result
}

/** `created_at`, `order_id`. */
const endsAsId = (text: string, end: number): boolean =>
  end > 3 &&
  text.charCodeAt(end - 3) === 95 &&
  (text.startsWith("id", end - 2) || text.startsWith("at", end - 2))
