/**
 * What a word is by its looks, and by what stands around it: a number, the place in a file, a moment, an error's name.
 * Pure.
 */
import * as Hash from "./Hash.ts"
import * as Meaning from "./Meaning.ts"
import * as Volatile from "./Volatile.ts"

// What a character is.
const other = 0
const letter = 1
const digit = 2
const kinds = new Uint8Array(0x1_0000)
kinds.fill(letter, 128)
for (let c = 48; c < 58; c++) kinds[c] = digit
for (let c = 65; c < 91; c++) kinds[c] = kinds[c + 32] = letter
kinds[95] = letter
// Blanks, quotation marks, dashes and dots of other alphabets.
for (const c of "\u00a0«·»¡¿、。「」『』【】，：；！？（）") kinds[c.charCodeAt(0)] = other
kinds.fill(other, 0x2000, 0x2070)
/** Whether a character is between two words. */
export const isBetween = (c: number): boolean => kinds[c] === other

const kindOf = (c: number): number => kinds[c] ?? other

/** 0 before and behind a text: to ask it for what is there is slow, once and ever after. */
const codeAt = (text: string, at: number): number =>
  at >= 0 && at < text.length ? text.charCodeAt(at) | 0 : 0

/** Whether a character between two words counts: no white space, no quotation mark. */
export const counts = (c: number): boolean => c > 32 && c !== 34 && c !== 39 && c !== 96

/** A field whose name says that its value says nothing may hold a word without digits: shorter ones are names. */
export const longName = 16

const underscore = 95
const hyphen = 45

/** The word that was read last: one object, for it is asked for all the time. */
const last = { at: 0, digits: 0, exact: 0, lowered: 0 }
type Read = Readonly<typeof last>

/**
 * The word that begins there. `at`: where it ends. `exact`, `lowered`: its hashes, as it is and in lower case. To be
 * used before the next one is read.
 */
export const read = (text: string, from: number): Read => {
  const end = text.length
  let exact = Hash.begin()
  let lowered = Meaning.begin()
  let digits = 0
  let at = from
  let code = text.charCodeAt(from) | 0
  let kind = kinds[code]
  do {
    if (kind === digit) digits++
    exact = Hash.step(exact, code)
    lowered = Meaning.next(lowered, code)
    if (++at >= end) break
    code = text.charCodeAt(at) | 0
    kind = kinds[code]
  } while (kind !== other || (isJoint(code) && joins(text, at, code)))
  last.at = at
  last.digits = digits
  last.exact = exact
  last.lowered = lowered
  return last
}

/** Whether a value ends with the word that ends there: `errors: none`, but not `error: no such file`. */
export const endsValue = (text: string, at: number): boolean =>
  codeAt(text, at) !== 32 || kindOf(codeAt(text, at + 1)) === other

const colon = 58
const bracket = 91
const hash = 35
const slash = 47
const percent = 37
const parenthesis = 40
const lineWord = Meaning.of("line")
/** `3/12`, `3 of 12`, `3 out of 12`, `25 %`. */
export const isCounted = (text: string, from: number, at: number): boolean => {
  const next = codeAt(text, at)
  return (
    // In a path a number is none of so many.
    (next === slash && kindOf(codeAt(text, at + 1)) === digit) ||
    next === percent ||
    (codeAt(text, from - 1) === slash && kindOf(codeAt(text, from - 2)) === digit) ||
    (next === 32 && (codeAt(text, at + 1) === percent || isOf(text, at)))
  )
}

/** " of ", " out of ", and the same in the languages that pages are numbered in most. */
const isOf = (text: string, at: number): boolean =>
  ofBegins[codeAt(text, at + 1)] === 1 && ofs.some((word) => text.startsWith(word, at + 1))

const ofs = ["of ", "out of ", "von ", "de ", "sur ", "di ", "van ", "av ", "z ", "из "]
const ofBegins = new Uint8Array(0x1_0000)
for (const word of ofs) ofBegins[word.charCodeAt(0)] = 1

/** Where the number of a word begins that has other characters, too: `512MB`, `part-17`; -1 if it is none. */
export const numberFrom = (text: string, from: number, at: number): number => {
  let i = from
  while (i < at) {
    const c = text.charCodeAt(i)
    if (c !== 46 && kindOf(c) !== digit) break
    i++
  }
  // "17.png" is the name of a file.
  if (i > from && at - i <= 3 && (i === at || text.charCodeAt(i - 1) !== 46)) {
    while (i < at && kindOf(text.charCodeAt(i)) === letter) i++
    return i === at ? from : -1
  }
  i = at
  while (i > from && kindOf(text.charCodeAt(i - 1)) === digit) i--
  return i > from && i < at && text.charCodeAt(i - 1) === 45 ? i : -1
}

/** Whether a word is made up: digits here and there among small letters, `9ecaa1`; but not `B882`, and not `A3F7K1`. */
export const isMadeUp = (text: string, from: number, at: number): boolean => {
  let runs = 0
  for (let i = from; i < at; i++) {
    const c = text.charCodeAt(i)
    if (c >= 65 && c < 91) return false
    if (kindOf(c) === digit && (i === from || kindOf(text.charCodeAt(i - 1)) !== digit)) runs++
  }
  return runs > 1
}

/** Whether a word ends as the name of a file does: `prev_003.png`. */
export const isFile = (text: string, from: number, at: number): boolean => {
  let i = at
  while (i > from && kindOf(text.charCodeAt(i - 1)) === letter) i--
  return i > from + 1 && at - i > 1 && at - i < 5 && text.charCodeAt(i - 1) === 46
}

/** A number that begins and ends there; what stands behind it does not count. */
export const numberOf = (text: string, from: number, at: number): number => {
  if (at - from > 9) return Number.parseFloat(text.slice(from, at))
  let value = 0
  for (let i = from; i < at; i++) {
    const c = text.charCodeAt(i)
    if (kindOf(c) !== digit) return Number.parseFloat(text.slice(from, at))
    value = value * 10 + c - 48
  }
  return value
}

/** Whether a word with a digit is a point in time. */
export const isMoment = (text: string, from: number, at: number): boolean =>
  at - from >= 10 && kindOf(text.charCodeAt(from)) === digit && Volatile.isMoment(text.slice(from, at))

/** Whether a point in time is a part of a word: `shot-20260102-030405`. */
export const hasMoment = (text: string, from: number, at: number): boolean =>
  Volatile.hasMoment(text.slice(from, at))

/** Whether a word of a result with a digit says nothing, by what it looks like. */
export const saysNothing = (text: string, from: number, at: number, digits: number): boolean => {
  const length = at - from
  const before = codeAt(text, from - 1)
  if (before === hash) return true
  if (before === bracket && codeAt(text, at) === bracket + 2 && isExecution(text, from, at)) return true
  if (digits === length) {
    // nginx's "4411#0" is a process.
    if (codeAt(text, at) === hash) return true
    // In a path a number is an id: after a word and a slash.
    if (before === slash && from > 1 && kindOf(codeAt(text, from - 2)) === letter) return true
    return length >= 10 ? Volatile.inResult(text.slice(from, at)) : isAmount(text, at)
  }
  // "main.ts:12:30" is a place and no time of day.
  if (length < 2 || before === colon) return false
  const isDecimal = digits === length - 1 && hasDot(text, from, at)
  if (isDecimal && beginsLogLine(text, from, at)) return true
  // Most are amounts: only long ones may be moments.
  if (isDecimal && length < 10) return isAmount(text, at)
  const mayBe = Volatile.mayBe(codeAt(text, from), codeAt(text, from + 1), length)
  return (mayBe && Volatile.inResult(text.slice(from, at))) || (length < 9 && isAmount(text, at))
}

/** What a notebook says before an answer: `[12]`, `In [12]`, `Out[12]`. */
const isExecution = (text: string, from: number, at: number): boolean =>
  at + 2 < text.length && (from === 1 || text.startsWith("Out", from - 4) || text.startsWith("In ", from - 4))

/** Looked for in the word alone: the rest of the text may be long. */
const hasDot = (text: string, from: number, at: number): boolean => {
  for (let i = from; i < at; i++) if (text.charCodeAt(i) === 46) return true
  return false
}

/** Whether a character stands between the words of arguments: blanks, quotation marks, brackets, and , ; = | < > */
export const separates = (c: number): boolean => c <= 32 || c >= 128 || separators[c] === 1

const separators = new Uint8Array(128)
for (const c of "\"'`()[]{},;=|<>") separators[c.charCodeAt(0)] = 1

/** Words recur: what was found out about the last ones is kept, by their hashes. */
const words = new Int32Array(1_024)
const meanings = new Uint16Array(1_024)

/** What a word without digits means. */
export const meaningOf = (text: string, from: number, at: number, word: number): number => {
  const place = (word ^ (word >>> 16)) & 1_023
  if (words[place] === word) return meanings[place] ?? 0
  const meaning = meaningNew(text, from, at)
  words[place] = word
  meanings[place] = meaning
  return meaning
}

const meaningNew = (text: string, from: number, at: number): number => {
  const meaning = meaningBetween(text, from, at)
  if (meaning !== 0) return meaning
  const part = lastPart(text, from, at)
  // "auto_declined"
  if (isError(text, from, at) || (part > from && (meaningBetween(text, part, at) & Meaning.trouble) !== 0))
    return Meaning.trouble
  // "pending_validation"
  const joint = part > from ? endOfPart(text, from, at) : at
  if (joint < at && Meaning.isPending(wordBetween(text, from, joint))) return Meaning.waits
  return isUnderWay(text, from, at) ? Meaning.waitsIfShort : 0
}

const meaningBetween = (text: string, from: number, at: number): number =>
  Meaning.ofHash(wordBetween(text, from, at))

const wordBetween = (text: string, from: number, at: number): number => {
  let word = Meaning.begin()
  for (let i = from; i < at; i++) word = Meaning.next(word, text.charCodeAt(i))
  return word
}

/** Where the last part of a word begins, behind a `_` or `-`; where the word does, if it is of one. */
const lastPart = (text: string, from: number, at: number): number => {
  let i = at
  while (i > from && text.charCodeAt(i - 1) !== underscore && text.charCodeAt(i - 1) !== hyphen) i--
  return i
}

/** Where the first part of a word ends. */
const endOfPart = (text: string, from: number, at: number): number => {
  let i = from
  while (i < at && text.charCodeAt(i) !== underscore && text.charCodeAt(i) !== hyphen) i++
  return i
}

/** "TypeError", "IOException". */
const isError = (text: string, from: number, end: number): boolean =>
  end - from >= 6 && (text.startsWith("Error", end - 5) || text.startsWith("Exception", end - 9))

/** "running", "compiling". */
const isUnderWay = (text: string, from: number, end: number): boolean =>
  end - from >= 5 && text.startsWith("ing", end - 3) && !text.startsWith("String", end - 6)

/** What holds a word together between two characters of one: `-`, `.`, and in times `:` and `,`. */
const isJoint = (c: number): boolean => (c < 47 && c > 43) || c === colon

const joins = (text: string, at: number, joint: number): boolean => {
  if (at + 1 >= text.length) return false
  const next = kindOf(codeAt(text, at + 1))
  if (next === other) return false
  if (joint === 45 || joint === 46) return true
  if (next !== digit || kindOf(codeAt(text, at - 1)) !== digit) return false
  // Python's "10:00:00,123".
  return joint === colon || (at >= 3 && codeAt(text, at - 3) === colon)
}

/** Whether a number with a fraction begins a line with more in it: the time of a log, "[  12.345] usb" or "#7 1.343 npm". */
const beginsLogLine = (text: string, from: number, at: number): boolean => {
  const next = codeAt(text, at)
  if (next !== 32 && next !== 93) return false
  for (let i = from - 1; i >= 0 && from - i < 10; i--) {
    const c = text.charCodeAt(i)
    // A new line; then what may stand before: white space, # and [, the number of a process.
    if (c === 10) return true
    if (c !== 32 && c !== hash && c !== 91 && kindOf(c) !== digit) return false
  }
  return false
}

/** Whether a word may be the number of a line, by the character and the word before. */
export const mayBePlace = (prior: number, before: number): boolean =>
  prior === colon || prior === parenthesis || before === lineWord

/** Whether a word with a digit is the number of a line: `a.ts:12:5`, `a.ts(12,5)`, `line 12`. */
export const isPlace = (text: string, from: number, before: number): boolean => {
  if (kindOf(codeAt(text, from)) !== digit) return false
  if (before === lineWord) return true
  const joint = codeAt(text, from - 1)
  if ((joint !== colon && joint !== parenthesis) || from < 4) return false
  // The end of a file's name.
  let i = from - 2
  while (i > 0 && from - i < 8 && kindOf(codeAt(text, i)) === letter) i--
  return i < from - 2 && codeAt(text, i) === 46 && kindOf(codeAt(text, i - 1)) !== other
}

/** A number before a unit of time. */
const isAmount = (text: string, at: number): boolean => {
  // Most words begin like no unit.
  if (codeAt(text, at) !== 32 || unitBegins[codeAt(text, at + 1)] !== 1) return false
  let unit = Meaning.begin()
  for (let i = at + 1; i - at < 10; i++) {
    const c = codeAt(text, i)
    if (kindOf(c) !== letter) break
    unit = Meaning.next(unit, c)
  }
  return (Meaning.ofHash(unit) & Meaning.unit) !== 0
}

const unitBegins = new Uint8Array(256)
for (const unit of Meaning.units) {
  unitBegins[unit.charCodeAt(0)] = unitBegins[unit.toUpperCase().charCodeAt(0)] = 1
}

/** Characters between a name and what it names, at most: `": "`. */
export const longestJoint = 4

/**
 * Whether the word before names what comes: `ts=171`, `"attempt": 3`, `attempt 3`, `pid 4411`. `end`: where it ends, no
 * more than {@link longestJoint} before.
 */
export const isNamedBy = (
  text: string,
  name: number,
  end: number,
  at: number,
  isResult: boolean
): boolean => {
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
