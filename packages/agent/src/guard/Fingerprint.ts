/**
 * A value of JSON as a few numbers, without what says nothing: equal numbers, equal meaning.
 *
 * One pass, word by word. The order of an object's fields and white space do not count; what {@link Volatile} calls
 * volatile counts as "something". Costs time by size, up to 8 ns a character, and no memory. Pure, but for what it keeps of
 * names that recur.
 *
 * **What it does not do.** It is no cryptographic hash: who wants to deceive it can.
 *
 * **Example**
 *
 * ```ts
 * Fingerprint.ofArguments({ a: 1, request_id: "x1" }) === Fingerprint.ofArguments({ request_id: "y2", a: 1 }) // true
 * ```
 */
import * as Volatile from "./Volatile.ts"
import * as WordTable from "./WordTable.ts"

export interface OfResult {
  /** Of all that is not volatile. */
  readonly hash: number
  /** As {@link hash}, without the numbers of lines: `a.ts:12:5`. Equal to it where there are none. */
  readonly placeless: number
  /** The sum of the numbers of lines, and how many there are. */
  readonly lines: number
  readonly places: number
  /** Without the words of the arguments. What consists mostly of ids counts as it is: there they are the data. */
  readonly gist: number
  /** Words that are neither volatile nor of the arguments. */
  readonly words: number
  /** It tells of an error. */
  readonly troubled: boolean
  /** A field of it says that it was not done: `"success": false`. */
  readonly undone: boolean
  /** It tells that something else has yet to happen: pending, queued, refused for now. */
  readonly waiting: boolean
  /** It tells that there is nothing: no matches, an empty list. */
  readonly negative: boolean
  /** It is a list of nothing, or has one and nothing else: a tool that looked for something, in any language. */
  readonly emptyList: boolean
}

/** The hash of a call's arguments. */
export const ofArguments = (value: unknown): number => {
  const scan = new Scan(undefined, undefined)
  scan.value(value, noKey, 0)
  return joined(scan.a, scan.b)
}

/** Of a call that ran. `advances`: it brings the next thing, and is told from the last one by its id, too. */
export const ofCall = (args: unknown, result: unknown, advances = false): OfCall => {
  // One table for all calls: to make one costs more than all the rest. It is filled and read here only.
  WordTable.clear(argumentWords)
  const asked = new Scan(undefined, argumentWords)
  asked.value(args, noKey, 0)
  return { asked: joined(asked.a, asked.b), result: ofResult(result, argumentWords, advances) }
}

const ofResult = (value: unknown, words: WordTable.WordTable, advances: boolean): OfResult => {
  const scan = new Scan(words, undefined, advances)
  scan.value(value, noKey, 0)
  const mostlyIds = scan.volatile > scan.fresh
  const emptyList = scan.emptyList && scan.substance === 0
  const placeless = joined(scan.a, scan.b)
  const negative = scan.all === 0 || emptyList || (scan.negative && scan.all <= maxNegative)
  return {
    hash: scan.places === 0 ? placeless : pair(placeless, scan.place),
    placeless,
    lines: scan.lines,
    places: scan.places,
    gist: mostlyIds
      ? joined(scan.exact, scan.exact)
      : negative && !scan.troubled
        ? nothingFound
        : gistOf(scan),
    words: scan.fresh,
    troubled: scan.troubled,
    undone: scan.undone,
    waiting: scan.waiting || (scan.waitingIfShort && scan.all <= shortResult),
    negative,
    emptyList
  }
}

/** With the places that it tells of. */
const gistOf = ({ gist, gistB, toldPlace }: Scan): number =>
  toldPlace === 0 ? joined(gist, gistB) : pair(joined(gist, gistB), toldPlace)

export interface OfCall {
  /** The hash of its arguments. */
  readonly asked: number
  readonly result: OfResult
}

/** Of one text, as it is but for white space. */
export const ofText = (text: string): number => {
  let a = seed
  let b = seed
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c <= 32) continue
    a = Math.imul(a ^ c, prime)
    b = Math.imul(b ^ c, otherPrime)
  }
  return joined(a, b)
}

/** Of two numbers, in this order. */
export const pair = (a: number, b: number): number => {
  const low = Math.imul(mixed(a | 0) ^ (b | 0), prime)
  const high = Math.imul(mixed((a / 0x1_0000_0000) | 0) ^ ((b / 0x1_0000_0000) | 0), otherPrime)
  return joined(low, mixed(high ^ low))
}

const seed = 0x811c9dc5 | 0
const prime = 0x01000193
const otherPrime = 0x5bd1e995
/** The gist of all results that say that there is nothing. */
const nothingFound = 0
/** A result of more words has something to tell. */
const maxNegative = 40
/** A result of so few words may be all about its state. */
const shortResult = 12
/** Words of the arguments that are looked for in the result. */
const argumentWords = WordTable.make(128)
/** What is nested more deeply, or is more than this, is not looked at. */
const maxDepth = 32
const maxValues = 100_000

const mixed = (x: number): number => {
  const y = Math.imul(x ^ (x >>> 16), 0x45d9f3b)
  return y ^ (y >>> 15)
}
/** So that the order counts. */
const turned = (x: number): number => (x << 7) | (x >>> 25)

/** 52 bits: a whole number without loss. */
const joined = (a: number, b: number): number => (a >>> 0) + (b & 0xfffff) * 0x1_0000_0000

/** The hash of a word in lower case, as the scan makes it. */
const lower = (word: string): number => {
  let h = seed
  for (let i = 0; i < word.length; i++) h = Math.imul(h ^ (word.charCodeAt(i) | 32), otherPrime)
  return h
}
// What a word may mean; a word may mean several things.
const trouble = 1
/** "0 failed", "no errors", "no results". */
const none = 2
const waits = 4
const waitsIfShort = 8
const thing = 16
const nothing = 32
/** Nobody's own: a result that has it repeats no argument by it. */
const common = 64
/** As a field. */
const success = 128
/** What follows stands for a content, and is another when that is another. */
const digest = 256

const meanings = WordTable.make(2_048)
const means = (meaning: number, words: string): void => {
  for (const word of words.split(" ")) WordTable.add(meanings, lower(word), meaning)
}
means(
  trouble,
  "error errors fail failed fails failing failure failures traceback exception fatal panic panicked denied refused " +
    "invalid unable cannot errno enoent err fehler erreur"
)
means(none, "0 no not zero without any")
means(
  waits,
  "pending queued in_progress in-progress inprogress waiting containercreating provisioning econnrefused econnreset " +
    "etimedout timeout unavailable overloaded throttled 429 502 503 504 eagain locked retry-after"
)
means(waitsIfShort, "scheduled submitted accepted refused busy retry")
means(
  thing,
  "match matches result results hit hits record records row rows item items file files found entries documents " +
    "response responses answer answers reply replies output"
)
// They end like words for what is under way.
means(common, "string missing warning existing following using")
means(nothing, "nothing none empty null undefined nil")
means(
  common,
  "a an and any are as at be by for from in is it no not of on or that the this to was with yet error failed"
)

means(success, "ok success successful succeeded acquired granted accepted")
means(digest, "sha sha1 sha256 sha512 md5 digest hash checksum image img screen screenshot")

// What a character is.
const other = 0
const letter = 1
const digit = 2
const kinds = new Uint8Array(0x1_0000)
kinds.fill(letter, 128)
for (let c = 48; c < 58; c++) kinds[c] = digit
for (let c = 65; c < 91; c++) kinds[c] = kinds[c + 32] = letter
kinds[95] = letter
const kindOf = (c: number): number => kinds[c] ?? other

const colon = 58
const hash = 35
const slash = 47
const percent = 37
const parenthesis = 40
const comma = 44
const lineWord = lower("line")

/** The name of a field, and what it says of its value. */
interface Key {
  readonly hash: number
  readonly volatile: Volatile.Where | undefined
  readonly isCursor: boolean
  readonly isTrouble: boolean
  readonly isSuccess: boolean
  readonly isDigest: boolean
}

const noKey: Key = {
  hash: 0,
  volatile: undefined,
  isCursor: false,
  isTrouble: false,
  isSuccess: false,
  isDigest: false
}

/** Names of fields recur: what was found out about the last ones is kept. */
const keys = new Map<string, Key>()
const maxKeys = 1_000

const keyOf = (name: string): Key => {
  const known = keys.get(name)
  if (known !== undefined) return known
  const meaning = WordTable.get(meanings, lower(name))
  const key: Key = {
    hash: ofText(name) | 0,
    volatile: Volatile.whereNamed(name),
    isCursor: Volatile.isCursorKey(name),
    isTrouble: (meaning & trouble) !== 0,
    isSuccess: (meaning & success) !== 0,
    isDigest: (meaning & digest) !== 0
  }
  if (keys.size >= maxKeys) keys.clear()
  if (name.length <= 100) keys.set(name, key)
  return key
}

/** The same names as words of a text, by their hash. */
const names = WordTable.make(1_024)
const bits: Readonly<Record<Volatile.Where, number>> = { anywhere: 1, field: 2, result: 4, spoken: 8 }
for (const [name, where] of Volatile.names) {
  for (const joint of ["_", "-", ""]) WordTable.add(names, lower(name.replaceAll("_", joint)), bits[where])
}

class Scan {
  /** Of all that is not volatile; two halves. */
  a = seed
  b = seed
  /** Of all. */
  exact = seed
  /** Of what is neither volatile nor of the arguments; two halves. */
  gist = seed
  gistB = seed
  values = 0
  /** Words; those of them in the gist; those that are volatile. */
  all = 0
  fresh = 0
  volatile = 0
  /** Of numbers of lines, with what stands before; their sum; how many. */
  place = 0
  /** Of those that the arguments do not name. */
  toldPlace = 0
  lines = 0
  places = 0
  troubled = false
  undone = false
  waiting = false
  waitingIfShort = false
  negative = false
  emptyList = false
  /** Values that are something: neither empty nor 0, and `true`. */
  substance = 0
  /** The words of the arguments, when this is a result. */
  readonly echoed: WordTable.WordTable | undefined
  /** The words of this, when it is arguments. */
  readonly seen: WordTable.WordTable | undefined

  /** Ids are data. */
  readonly advances: boolean

  constructor(
    echoed: WordTable.WordTable | undefined,
    seen: WordTable.WordTable | undefined,
    advances = false
  ) {
    this.echoed = echoed
    this.seen = seen
    this.advances = advances
  }

  value(value: unknown, key: Key, depth: number): void {
    if (depth > maxDepth || ++this.values > maxValues) return
    if (typeof value === "string") {
      if (value !== "") this.substance++
      return this.text(value, key)
    }
    if (typeof value === "number" || typeof value === "bigint") {
      if (Number(value) !== 0) this.substance++
      return this.text(String(value), key)
    }
    if (typeof value === "boolean") {
      if (value) this.substance++
      return this.mix(value ? 0x7472 : 0x6661)
    }
    if (typeof value !== "object" || value === null) return this.mix(0x6e75)
    if (Array.isArray(value)) {
      if (value.length === 0) this.emptyList = true
      this.mix(0x5b)
      for (const item of value) this.value(item, key, depth + 1)
      this.mix(0x5d)
      return
    }
    this.fields(value, depth)
  }

  /** Each field is hashed for itself, and the sum taken: their order does not count. */
  fields(record: object, depth: number): void {
    const { a, b, exact, gist, gistB } = this
    let sumA = 0x7b
    let sumB = 0x7b
    let sumExact = 0x7b
    let sumGist = 0x7b
    let sumGistB = 0x7b
    for (const name of Object.keys(record)) {
      const value: unknown = Reflect.get(record, name)
      if (value === undefined) continue
      const key = keyOf(name)
      this.a = this.b = this.exact = this.gist = this.gistB = key.hash
      // A field named error that holds something tells of one.
      if (key.isTrouble && value !== null && value !== false && value !== 0 && value !== "")
        this.troubled = true
      if (key.isSuccess && value === false) this.undone = this.troubled = true
      this.value(value, key, depth + 1)
      sumA = (sumA + mixed(this.a)) | 0
      sumB = (sumB + mixed(this.b)) | 0
      sumExact = (sumExact + mixed(this.exact)) | 0
      sumGist = (sumGist + mixed(this.gist)) | 0
      sumGistB = (sumGistB + mixed(this.gistB)) | 0
    }
    this.a = Math.imul(a ^ sumA, prime)
    this.b = Math.imul(b ^ sumB, otherPrime)
    this.exact = Math.imul(exact ^ sumExact, prime)
    this.gist = Math.imul(gist ^ sumGist, prime)
    this.gistB = Math.imul(gistB ^ sumGistB, otherPrime)
  }

  mix(code: number): void {
    this.a = Math.imul(this.a ^ code, prime)
    this.b = Math.imul(this.b ^ code, otherPrime)
    this.exact = Math.imul(this.exact ^ code, prime)
    this.gist = Math.imul(this.gist ^ code, prime)
    this.gistB = Math.imul(this.gistB ^ code, otherPrime)
  }

  /** One loop over words and what is between them, with all that it counts in variables: it is most of the cost. */
  text(text: string, key: Key): void {
    const { echoed, seen } = this
    const isResult = echoed !== undefined
    // What the field's name says of its words.
    const named =
      key.volatile !== undefined &&
      (isResult
        ? !(this.advances && key.volatile === "result")
        : key.volatile === "anywhere" || key.volatile === "field")
    const cursor = !isResult && key.isCursor
    const end = text.length
    let { a, b, exact, gist, gistB, all, fresh } = this
    let from = 0
    /** The word before, where it ended, and what it means. */
    let before = 0
    let beforeEnd = -1
    let placeEnd = -1
    let previous = 0
    while (from < end) {
      const first = text.charCodeAt(from)
      if (kindOf(first) === other) {
        // White space and quotation marks do not count.
        if (first > 32 && first !== 34 && first !== 39 && first !== 96) {
          a = Math.imul(a ^ first, prime)
          exact = Math.imul(exact ^ first, prime)
          if (first === percent) this.waitingIfShort = true
        }
        from++
        continue
      }
      let word = seed
      let lowered = seed
      let digits = 0
      let at = from
      let code = first
      do {
        if (code < 58 && code > 47) digits++
        word = Math.imul(word ^ code, prime)
        lowered = Math.imul(lowered ^ (code | 32), otherPrime)
        if (++at >= end) break
        code = text.charCodeAt(at)
      } while (kindOf(code) !== other || (isJoint(code) && joins(text, at, code)))
      all++
      if (isResult) exact = Math.imul(exact ^ word, prime)
      // Of "a.ts(12,5)" the column.
      const isColumn = from - 1 === placeEnd && text.charCodeAt(placeEnd) === comma
      if (isResult && digits > 0 && (isColumn || isPlace(text, from, before))) {
        if (!isColumn) {
          this.places++
          this.lines += Number.parseInt(text.slice(from, at), 10)
        }
        this.place = (this.place + mixed(a ^ word)) | 0
        if (WordTable.get(echoed, lowered) === 0) {
          fresh++
          this.toldPlace = (this.toldPlace + mixed(gist ^ word)) | 0
        }
        before = lowered
        placeEnd = beforeEnd = from = at
        previous = 0
        continue
      }
      const isVolatile =
        (named && (digits > 0 || at - from >= 6)) ||
        (digits > 0 &&
          !cursor &&
          !(isResult && (key.isDigest || ((previous & digest) !== 0 && from - beforeEnd <= 3))) &&
          (saysNothing(text, from, at, digits, isResult) ||
            (beforeEnd >= 0 && !this.advances && isNamedBy(text, before, beforeEnd, from, isResult))))
      before = lowered
      beforeEnd = at
      from = at
      if (isVolatile) {
        this.volatile++
        a = Math.imul(a ^ 0x3f, prime)
        b = Math.imul(b ^ 0x3f, otherPrime)
        previous = 0
        continue
      }
      a = Math.imul(turned(a) ^ word, prime)
      b = Math.imul(turned(b) ^ lowered, otherPrime)
      if (echoed === undefined) {
        if (seen !== undefined) WordTable.add(seen, lowered, 1)
        continue
      }
      const meaning = WordTable.get(meanings, lowered)
      if (meaning !== 0) this.meant(meaning, previous, all)
      else if (isUnderWay(text, from)) this.waitingIfShort = true
      previous = meaning
      if ((meaning & common) !== 0 || WordTable.get(echoed, lowered) === 0) {
        fresh++
        gist = Math.imul(turned(gist) ^ word, prime)
        gistB = Math.imul(turned(gistB) ^ lowered, otherPrime)
      }
    }
    this.a = Math.imul(a ^ 0x22, prime)
    this.b = Math.imul(b ^ 0x22, otherPrime)
    this.exact = exact
    this.gist = gist
    this.gistB = gistB
    this.all = all
    this.fresh = fresh
  }

  meant(meaning: number, previous: number, all: number): void {
    const denied = (previous & none) !== 0
    if ((meaning & trouble) !== 0 && !denied) this.troubled = true
    if ((meaning & thing) !== 0 && denied) this.negative = true
    if ((meaning & nothing) !== 0 && all <= 2) this.negative = true
    if ((meaning & waits) !== 0) this.waiting = true
    if ((meaning & waitsIfShort) !== 0) this.waitingIfShort = true
  }
}

/** Whether a word with a digit says nothing, by what it looks like. */
const saysNothing = (text: string, from: number, at: number, digits: number, isResult: boolean): boolean => {
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
  if (digits === length - 1 && text.indexOf(".", from) < at && beginsLogLine(text, from, at)) return true
  return Volatile.inResult(text.slice(from, at)) || (length < 9 && isAmount(text, at))
}

/** Of a word that ends here: "running", "compiling". */
const isUnderWay = (text: string, end: number): boolean =>
  end >= 6 && text.charCodeAt(end - 1) === 103 && text.startsWith("ing", end - 3)

/** What holds a word together between two characters of one: `-`, `.`, and in times `:` and `,`. */
const isJoint = (c: number): boolean => (c < 47 && c > 43) || c === colon

const joins = (text: string, at: number, joint: number): boolean => {
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
const isPlace = (text: string, from: number, before: number): boolean => {
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
const isNamedBy = (text: string, name: number, end: number, at: number, isResult: boolean): boolean => {
  if (at - end > 4) return false
  let assigned = false
  for (let i = end; i < at; i++) {
    const c = text.charCodeAt(i)
    // One of : = #
    if (c === colon || c === 61 || c === hash) assigned = true
    else if (c > 32 && c !== 34 && c !== 39 && c !== 92) return false
  }
  const where = WordTable.get(names, name)
  if (!isResult) return where === bits.anywhere
  return where === 0 ? assigned && endsAsId(text, end) : assigned || where !== bits.result
}

/** `created_at`, `order_id`. */
const endsAsId = (text: string, end: number): boolean =>
  end > 3 &&
  text.charCodeAt(end - 3) === 95 &&
  (text.startsWith("id", end - 2) || text.startsWith("at", end - 2))
