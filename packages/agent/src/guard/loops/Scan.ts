/**
 * One pass over a value of JSON, word by word: what it says, without what says nothing.
 *
 * White space, quotation marks and the order of an object's fields do not count; what {@link Volatile} calls volatile
 * counts as "something". Costs time by size, some 10 ns a character, and no memory but for what is new. Pure, but for
 * what it keeps of names that recur.
 */
import type { Field } from "./Field.ts"
import * as Fields from "./Field.ts"
import { mixed, otherPrime, prime, seed, turned } from "./Hash.ts"
import * as Hash from "./Hash.ts"
import * as Meaning from "./Meaning.ts"
import * as Word from "./Word.ts"
import type { WordSet } from "./WordSet.ts"
import * as WordSets from "./WordSet.ts"
import * as WordTable from "./WordTable.ts"

/** What is nested more deeply, or is more than this, is not looked at. */
const maxDepth = 32
const maxValues = 100_000
/** Words of arguments, new words, new lines and numbers that are kept. */
export const maxWords = 512
const maxNumbers = 4
const percent = 37
const comma = 44
const colon = 58
const equals = 61
const underscore = 95
const hyphen = 45
/** No file has more lines. */
const maxPlace = 1e9
/** Words of one value that are told apart. */
const toldApart = 4_096

/** Numbers of errors are counts: what they come to is seen by whether they move. */
const isSomething = (value: unknown): boolean =>
  typeof value === "object"
    ? value !== null && !(Array.isArray(value) && value.length === 0)
    : value === true || (typeof value === "string" && value !== "")

const isDenial = (meaning: number): boolean => (meaning & (Meaning.none | Meaning.nothing)) !== 0

/** Whether a value is given between two words: `failed: 0`, `invalid="false"`. */
const isAssigned = (text: string, from: number, to: number): boolean => {
  for (let i = from; i < to; i++) {
    const c = text.charCodeAt(i)
    if (c === colon || c === equals) return true
  }
  return false
}

/** All bytes are one word. */
const wordOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): number => {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength)
  let word = seed
  for (let i = 0; i < byteLength; i++) word = Math.imul(word ^ (bytes[i] ?? 0), prime)
  return word
}

/** Whether a value ends with the word that ends here: `errors: none`, but not `error: no such file`. */
const isAll = (text: string, at: number): boolean =>
  text.charCodeAt(at) !== 32 || Word.kindOf(text.charCodeAt(at + 1)) === Word.other

/** Whether the last part of a word tells of an error: `auto_declined`. */
const isTrouble = (text: string, from: number, at: number): boolean => {
  let word = Meaning.start
  for (let i = from; i < at; i++) word = Meaning.next(word, text.charCodeAt(i))
  return (Meaning.ofHash(word) & Meaning.trouble) !== 0
}

/** Whether a part of a page is named by more than a handle. */
const describes = (record: object, names: ReadonlyArray<string>): boolean =>
  names.some((name) => !Fields.of(name).isHandle && typeof Reflect.get(record, name) === "string")

/** The words of the arguments that were read last, and those of the result. */
const asked = WordTable.scratch(1_024)
const met = WordTable.scratch(toldApart)

/** What a result is read against. */
export interface Against {
  /** What the run has met before. */
  readonly known: WordSet
  /** Who was asked. */
  readonly tool: number
  /** Ids are data: the call brings the next thing. */
  readonly advances: boolean
}

export interface Numeral {
  readonly value: number
  /** It is one of many: `3/12`, `3 of 12`, `25 %`. */
  readonly counted: boolean
}

const unused: Array<never> = []

export class Scan {
  /** Of all that is not volatile; two halves. */
  a = seed
  b = seed
  values = 0
  /** Words; those that are not of the arguments. */
  all = 0
  own = 0
  /** Of arguments: what stands between blanks and brackets, text by text. At most {@link maxWords} in all. */
  readonly leaves: Array<ReadonlyArray<number>>
  units = 0
  /** Different words; of a result those that nobody has met before. At most {@link maxWords}. */
  readonly words: Array<number> = []
  /** Of arguments: those of them that are no prose. */
  readonly subjects: Array<number>
  /** Of a result: lines, or texts of fields, that nobody has met before. At most {@link maxWords}. */
  readonly lines: Array<number>
  /** Of a result: its first and its last numbers, but for those that say nothing. At most {@link maxNumbers} each. */
  readonly firstNumbers: Array<Numeral>
  readonly lastNumbers: Array<Numeral>
  /** Words with digits in all, and how many of them nobody has met before. */
  numbersInAll = 0
  freshNumbers = 0
  freshIds = 0
  freshVolatile = 0
  /** Of the different words that are not of the arguments, whatever their order. */
  letters = 0
  /** The sum of the numbers of lines, `a.ts:12:5`, and how many there are. */
  place = 0
  places = 0
  troubled = false
  /** Of the lines that tell of errors, without what was ever asked of the tool, whatever their order. */
  trouble = 0
  undone = false
  waiting = false
  waitingIfShort = false
  negative = false
  emptyList = false
  /** Values that are something: neither empty nor 0, and `true`. */
  substance = 0
  /** Of arguments: the words of those that ask in words of one's own, and their hash. */
  readonly question: Array<number>
  questionHash = 0
  readonly #against: Against | undefined
  linesInAll = 0
  #line = 0
  /** It does if what comes next does not deny it: `failed: 0`. */
  #pending = false
  /** This line tells of an error. */
  #isTroubled = false
  /** It is inside of a list of records. */
  #listed = 0

  constructor(against: Against | undefined) {
    this.#against = against
    const isResult = against !== undefined
    // Of what the other kind has, nothing is ever added.
    this.leaves = isResult ? unused : []
    this.question = isResult ? unused : []
    this.subjects = isResult ? unused : []
    this.lines = isResult ? [] : unused
    this.firstNumbers = isResult ? [] : unused
    this.lastNumbers = isResult ? [] : unused
    WordTable.empty(isResult ? met : asked)
  }

  value(value: unknown, key: Field, depth: number): void {
    if (depth > maxDepth || ++this.values > maxValues) return
    if (typeof value === "string" || typeof value === "number" || typeof value === "bigint") {
      const { own } = this
      this.text(String(value), key)
      // What is echoed is nothing of its own.
      if (this.own > own && (typeof value === "string" || Number(value) !== 0)) this.substance++
      return
    }
    if (typeof value === "boolean") {
      if (value) this.substance++
      return this.flag(key, value ? 0x7472 : 0x6661)
    }
    if (typeof value !== "object" || value === null) return this.flag(key, 0x6e75)
    if (ArrayBuffer.isView(value)) {
      if (value.byteLength > 0) this.substance++
      return this.flag(key, wordOf(value))
    }
    if (Array.isArray(value)) {
      if (value.length === 0) this.emptyList = true
      this.mix(0x5b)
      // Of several things some may have failed: that is what is told of them.
      const many = value.length > 1 && typeof value[0] === "object"
      if (many) this.#listed++
      for (const item of value) {
        if (this.values > maxValues) break
        this.value(item, key, depth + 1)
      }
      if (many) this.#listed--
      this.mix(0x5d)
      return
    }
    // As JSON says it: a date, a URL.
    const toJSON: unknown = Reflect.get(value, "toJSON")
    if (typeof toJSON === "function") return this.value(Reflect.apply(toJSON, value, []), key, depth + 1)
    // Of an error JSON says nothing.
    if (value instanceof Error) this.text(String(value), key)
    this.fields(value, depth)
  }

  /** Each field is hashed for itself, and the sum taken: their order does not count. */
  fields(record: object, depth: number): void {
    const { a, b } = this
    let sumA = 0x7b
    let sumB = 0x7b
    const names = Object.keys(record)
    const isAsked = this.#against === undefined
    for (const name of names) {
      if (this.values > maxValues) break
      const value: unknown = Reflect.get(record, name)
      if (value === undefined) continue
      const key = Fields.of(name)
      // What the model says about a call, and what a page calls a part that has a name, make it no other call.
      if (isAsked && names.length > 1 && (key.isRemark || (key.isHandle && describes(record, names))))
        continue
      this.a = this.b = key.hash
      // A field named error that holds something tells of one.
      if (key.isTrouble && isSomething(value) && this.#listed === 0) {
        this.troubled = this.#isTroubled = true
      }
      const isExit = key.isExit || (name === "code" && (names.includes("stderr") || names.includes("stdout")))
      if ((key.isSuccess && value === false) || (isExit && typeof value === "number" && value !== 0))
        this.undone = true
      this.value(value, key, depth + 1)
      // A flag has no line; the next field's is not its.
      if (key.isTrouble) this.#isTroubled = false
      sumA = (sumA + mixed(this.a)) | 0
      sumB = (sumB + mixed(this.b)) | 0
    }
    this.a = Math.imul(a ^ sumA, prime)
    this.b = Math.imul(b ^ sumB, otherPrime)
  }

  mix(code: number): void {
    this.a = Math.imul(this.a ^ code, prime)
    this.b = Math.imul(this.b ^ code, otherPrime)
  }

  /** What is so or not so is a word with the name of its field. */
  flag(key: Field, code: number): void {
    this.mix(code)
    const word = mixed(key.hash ^ code)
    if (this.#against !== undefined) this.met(word)
    else if (this.units++ < maxWords) this.leaves.push([word])
  }

  /** A word of arguments: a path, an option, a name. */
  asks(word: number, key: Field, leaf: Array<number>): void {
    if (word === 0 || this.units++ >= maxWords) return
    if (key.isQuestion) {
      this.questionHash = (turned(this.questionHash) + mixed(word)) | 0
      this.question.push(word)
    }
    if (!key.isProse) leaf.push(word)
  }

  /** A word of a result that is not of the arguments. */
  met(word: number): void {
    const against = this.#against
    this.own++
    if (against === undefined || !WordTable.put(met, word)) return
    this.letters = (this.letters + mixed(word)) | 0
    if (!WordSets.has(against.known, word) && this.words.length < maxWords) this.words.push(word)
  }

  number(value: number, counted: boolean): void {
    // So many digits are no amount.
    if (!Number.isFinite(value)) return
    const number = { value, counted }
    if (this.firstNumbers.length < maxNumbers) this.firstNumbers.push(number)
    this.lastNumbers.push(number)
    if (this.lastNumbers.length > maxNumbers) this.lastNumbers.shift()
  }

  /** What says nothing by itself. But what a thing is called, and when it was, of several tells them apart. */
  id(word: number, key: Field): void {
    if (this.isKnown(word)) return
    this.freshVolatile++
    if (key.isId) this.freshIds++
    if (this.lines.length < maxWords) this.lines.push(word)
  }

  /** A word with a digit. */
  code(word: number): void {
    this.own++
    if (this.isKnown(word)) return
    this.freshNumbers++
    if (this.lines.length < maxWords) this.lines.push(word)
  }

  /** In this result, or in the run. */
  isKnown(word: number): boolean {
    const against = this.#against
    return against === undefined || !WordTable.put(met, word) || WordSets.has(against.known, word)
  }

  /** A line has ended; equal ones are one. `own`: of its words that are not echoed. */
  lineEnd(key: Field, line: number, own: number): void {
    const against = this.#against
    if (against === undefined) return
    if (this.#pending) this.fails()
    this.#pending = false
    if (this.#isTroubled) this.trouble = (this.trouble + mixed(own ^ key.hash)) | 0
    this.#isTroubled = false
    if (line === 0) return
    const hash = mixed(line ^ key.hash)
    if (!WordTable.put(met, hash)) return
    this.linesInAll++
    if (!WordSets.has(against.known, hash) && this.lines.length < maxWords) {
      this.lines.push(hash)
      this.#line++
    }
  }

  /** Lines that nobody has met before. */
  get freshLines(): number {
    return this.#line
  }

  /** One loop over words and what is between them, with all that it counts in variables: it is most of the cost. */
  text(text: string, key: Field): void {
    const against = this.#against
    const isResult = against !== undefined
    const advances = against?.advances === true
    // What the field's name says of its words.
    const named =
      key.volatile !== undefined &&
      (isResult
        ? !(advances && key.volatile === "result")
        : key.volatile === "anywhere" || key.volatile === "field")
    const cursor = !isResult && key.isCursor
    const end = text.length
    let { a, b, all } = this
    let from = 0
    let line = 0
    let own = 0
    /** Of arguments: what was read since the last blank, and all of it. */
    let unit = 0
    const leaf: Array<number> = isResult ? unused : []
    /** The word before, where it ended, and what it means. */
    let before = 0
    let beforeEnd = -1
    let placeEnd = -1
    let previous = 0
    while (from < end) {
      const first = text.charCodeAt(from)
      if (Word.kindOf(first) === Word.other) {
        if (!isResult) {
          if (Word.separates(first)) {
            this.asks(unit, key, leaf)
            unit = 0
          } else unit = Math.imul(turned(unit) ^ first, prime)
        }
        // White space and quotation marks do not count.
        if (first > 32) {
          if (first !== 34 && first !== 39 && first !== 96) {
            a = Math.imul(a ^ first, prime)
            if (first === percent) this.waitingIfShort = true
          }
        } else if (first === 10) {
          if (isResult) this.lineEnd(key, line, own)
          line = own = 0
        }
        from++
        continue
      }
      let word = seed
      let lowered = Meaning.start
      /** Where its last part begins, behind a `_` or `-`. */
      let part = 0
      let digits = 0
      let at = from
      let code = first
      let kind = Word.kindOf(first)
      do {
        if (kind === Word.digit) digits++
        else if (code === underscore || code === hyphen) part = at + 1
        word = Math.imul(word ^ code, prime)
        lowered = Math.imul(lowered ^ (code | 32), otherPrime)
        if (++at >= end) break
        code = text.charCodeAt(at)
        kind = Word.kindOf(code)
      } while (kind !== Word.other || (Word.isJoint(code) && Word.joins(text, at, code)))
      all++
      // Of "a.ts(12,5)" the column.
      const isColumn = from - 1 === placeEnd && text.charCodeAt(placeEnd) === comma
      if (isResult && digits > 0 && (isColumn || Word.isPlace(text, from, before))) {
        if (!isColumn) {
          this.places++
          this.place += Math.min(Number.parseInt(text.slice(from, at), 10), maxPlace)
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
          !(isResult && (key.isDigest || ((previous & Meaning.digest) !== 0 && from - beforeEnd <= 3))) &&
          (Word.saysNothing(text, from, at, digits, isResult) ||
            (beforeEnd >= 0 && !advances && Word.isNamedBy(text, before, beforeEnd, from, isResult))))
      before = lowered
      const ended = beforeEnd
      beforeEnd = at
      if (isVolatile) {
        if (isResult) this.id(word, key)
        from = at
        a = Math.imul(a ^ 0x3f, prime)
        b = Math.imul(b ^ 0x3f, otherPrime)
        previous = 0
        continue
      }
      a = Math.imul(turned(a) ^ word, prime)
      b = Math.imul(turned(b) ^ lowered, otherPrime)
      const start = from
      from = at
      if (!isResult) {
        if (WordTable.put(asked, lowered) && this.words.length < maxWords) {
          this.words.push(lowered)
          if (!key.isProse) this.subjects.push(lowered)
        }
        unit = Math.imul(turned(unit) ^ lowered, prime)
        continue
      }
      let meaning = Meaning.ofHash(lowered)
      if (meaning === 0 && (Word.isError(text, at) || (part > start && isTrouble(text, part, at))))
        meaning = Meaning.trouble
      const isEcho = WordTable.has(asked, lowered)
      const denies = isDenial(meaning) && isAssigned(text, ended, start) && (digits > 0 || isAll(text, at))
      if (this.#pending && !denies) this.fails()
      this.#pending = false
      // What is echoed says nothing of the result.
      if (!isEcho) {
        if (meaning !== 0) this.meant(meaning, previous, all)
        else if (Word.isUnderWay(text, at)) this.waitingIfShort = true
      }
      previous = meaning
      if (digits > 0) {
        // A code, if not a number: what is new of these is a detail.
        const number = Word.numberFrom(text, start, at)
        if (number >= 0)
          this.number(Number.parseFloat(text.slice(number, at)), Word.isCounted(text, start, at))
        this.numbersInAll++
        if (!isEcho) this.code(lowered)
      } else {
        if (!isEcho) this.met(lowered)
        if (
          !isEcho &&
          against !== undefined &&
          !WordSets.has(against.known, Hash.argument(against.tool, lowered))
        )
          own = Math.imul(turned(own) ^ lowered, prime)
        line = Math.imul(turned(line) ^ lowered, prime)
      }
    }
    if (isResult) this.lineEnd(key, line, own)
    else {
      this.asks(unit, key, leaf)
      if (leaf.length > 0) this.leaves.push(leaf)
    }
    this.a = Math.imul(a ^ 0x22, prime)
    this.b = Math.imul(b ^ 0x22, otherPrime)
    this.all = all
  }

  fails(): void {
    this.troubled = this.#isTroubled = true
  }

  meant(meaning: number, previous: number, all: number): void {
    const denied = (previous & Meaning.none) !== 0
    if ((meaning & Meaning.trouble) !== 0 && !denied && this.#listed === 0) this.#pending = true
    if ((meaning & Meaning.thing) !== 0 && denied) this.negative = true
    if ((meaning & Meaning.nothing) !== 0 && all <= 2) this.negative = true
    if ((meaning & Meaning.waits) !== 0) this.waiting = true
    if ((meaning & Meaning.waitsIfShort) !== 0) this.waitingIfShort = true
  }
}
