/**
 * What a call brought: its result, word by word, read against what the run has met and what the call asked.
 *
 * White space and quotation marks do not count; what {@link Volatile} calls volatile counts as "something". What the
 * arguments said is no word of the result's own.
 */
import * as ArgumentScan from "./ArgumentScan.ts"
import type { OfArguments } from "./ArgumentScan.ts"
import * as ErrorPhrase from "./ErrorPhrase.ts"
import type { Field } from "./Field.ts"
import { none } from "./Field.ts"
import * as Hash from "./Hash.ts"
import { mixed, step, turned } from "./Hash.ts"
import * as Meaning from "./Meaning.ts"
import type { Values } from "./Scan.ts"
import { isOwn, maxWords, Scan } from "./Scan.ts"
import * as Word from "./Word.ts"
import type { WordSet } from "./WordSet.ts"
import * as WordSets from "./WordSet.ts"
import * as WordTable from "./WordTable.ts"

const maxNumbers = 4
const maxMade = 32
/** Characters of an id: shorter ones are numbers, and so are more digits. */
const shortestId = 4
const shortestNumber = 7
const newLine = 10
const percent = 37
const comma = 44
const colon = 58
const equals = 61
/** No file has more lines. */
const maxPlace = 1e9
/** Words of one value that are told apart, and words of a line that an error is told by. */
const toldApart = 4_096

/**
 * Most results are short: for so many characters a small table will do, which stays in the processor's first cache. It
 * has two places for each word and line that there can be: what finds none is missed.
 */
const few = { characters: 256, places: 512 }

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

/** So many words say what an error comes from. */
const shortestCause = 3

const hundred = Meaning.of("100")

/** Who was asked what. */
export interface Asked {
  readonly toolId: number
  readonly args: OfArguments
}

/** What kind of a call it was. */
export interface How {
  /** It brings the next thing: ids are data. */
  readonly advances?: boolean
  /** It only looks. */
  readonly looks?: boolean
  /** The host says that it failed. */
  readonly failed?: boolean
}

const nohow: How = {}

const noNumbers: ReadonlyArray<number> = []

/** Between two results. */
const nothing = WordSets.none()

/** What is read of a result; lent, until it is given {@link back}. */
export interface OfResult {
  /** Of all that is not volatile. */
  readonly hash: number
  /** Of its different words that the arguments do not have, whatever their order and their numbers. */
  readonly letters: number
  /** Words; those that the arguments do not have. */
  readonly all: number
  readonly words: number
  /** Of these: what the run has not met before. */
  readonly freshWords: number
  /** Words with a digit; those of them that are a number or have one, `B882`, and are not made up, `9ecaa1`. */
  readonly freshNumbers: number
  readonly freshAmounts: number
  /** Names of things that the run has not met before; and all that is volatile and new. */
  readonly freshIds: number
  readonly freshVolatile: number
  /** New words that somebody made up: ids, numbers. The first {@link madeKept} items, at most {@link maxMade}. */
  readonly made: Int32Array
  readonly madeKept: number
  readonly freshLines: number
  /** Lines, or texts of fields. */
  readonly lines: number
  /** What is to be remembered of it, the first {@link freshKept} items: new words, new lines and numbers, at most {@link maxWords} of either. */
  readonly fresh: Int32Array
  readonly freshKept: number
  /** Its first and its last numbers, but for those that say nothing, and how many there are. */
  readonly numbers: ReadonlyArray<number>
  /** Those of them that are one of many, `3/12`, `3 of 12`, `25 %`, as bits. */
  readonly counted: number
  readonly numbersInAll: number
  /** The sum of the numbers of lines that it names, `a.ts:12:5`, and how many they are. */
  readonly place: number
  readonly places: number
  /** It tells of an error, and of which: the lines that do, without what was ever asked of the tool. */
  readonly troubled: boolean
  readonly trouble: number
  /** Its first line does. */
  readonly beginsTroubled: boolean
  /** What the word for an error in its first line makes of it; `undefined`: there is none. */
  readonly phrase: ErrorPhrase.Phrase | undefined
  /** A field of it is for errors, and has one. */
  readonly hasError: boolean
  /** A field of it says that it was not done: `"success": false`. */
  readonly undone: boolean
  /** It tells how many things were taken out of the way: the same call takes others. */
  readonly taken: boolean
  /** It tells that something else has yet to happen: pending, queued, refused for now; and how often it does. */
  readonly waiting: boolean
  readonly pending: number
  /** It tells that there is nothing: no matches, an empty list. */
  readonly negative: boolean
  /** It is a list of nothing, or has one and nothing else: a tool that looked for something, in any language. */
  readonly emptyList: boolean
  /** It has one, and something else, too. */
  readonly hasEmptyList: boolean
}

/** A result of more words has something to tell. */
const maxNegative = 40
/** A look that brings no more words than this beside an empty list has found nothing: `{ "ok": true, "messages": [] }`. */
const maxState = 3
/** A result of so few words may be all about its state. */
const shortResult = 12

/** To be used for one value after the other: making one costs more than most results. */
class ResultScan extends Scan implements OfResult {
  /** What the run has met before. */
  known = nothing
  /** Who was asked, and in words of one's own. */
  tool = 0
  isAsked = false
  how = nohow
  /** The words of the arguments, and room for them. */
  readonly room = WordTable.scratch(1_024)
  asked = this.room
  /** The words of the result that is read, and those of its line. */
  readonly metOfFew = WordTable.scratch(few.places)
  readonly metOfMany = WordTable.scratch(toldApart)
  met = this.metOfMany
  readonly lineWords = new Int32Array(toldApart)
  /** The first and the last numbers, and whether each is one of many: `3/12`, `3 of 12`, `25 %`. */
  readonly firstNumbers = new Float64Array(maxNumbers)
  readonly lastNumbers = new Float64Array(maxNumbers)
  readonly lastCounted = new Uint8Array(maxNumbers)
  all = 0
  words = 0
  readonly fresh = new Int32Array(2 * maxWords)
  freshKept = 0
  freshWords = 0
  freshDetails = 0
  numbers = noNumbers
  numbersInAll = 0
  numbersRead = 0
  counted = 0
  readonly made = new Int32Array(maxMade)
  madeKept = 0
  freshNumbers = 0
  freshAmounts = 0
  freshIds = 0
  freshVolatile = 0
  letters = 0
  place = 0
  places = 0
  /** It is inside of so many fields that say what is left of a rate. */
  rates = 0
  lines = 0
  freshLines = 0
  lineLength = 0
  /** Words of the line before its last colon: behind it is what an error comes from. */
  causeAt = 0
  /** It tells of an error if what comes next does not deny it: `failed: 0`. */
  mayFail = false
  /** This line tells of an error. */
  isTroubled = false
  troubled = false
  trouble = 0
  beginsTroubled = false
  phrase: ErrorPhrase.Phrase | undefined
  hasError = false
  /** A line of it has ended. */
  begun = false
  undone = false
  taken = false
  waiting = false
  pending = 0
  waitingIfShort = false
  negative = false
  emptyList = false

  read(value: unknown, { toolId, args }: Asked, known: WordSet, how: How): void {
    this.begin()
    this.known = known
    this.tool = toolId
    this.isAsked = args.question.length > 0
    this.how = how
    this.all = this.words = this.freshKept = this.freshWords = this.freshDetails = 0
    this.numbersInAll = this.numbersRead = this.counted = 0
    this.freshNumbers =
      this.freshAmounts =
      this.madeKept =
      this.freshIds =
      this.freshVolatile =
      this.letters =
        0
    this.place =
      this.places =
      this.lines =
      this.freshLines =
      this.lineLength =
      this.causeAt =
      this.trouble =
        0
    this.rates = this.pending = 0
    this.mayFail =
      this.isTroubled =
      this.troubled =
      this.beginsTroubled =
      this.hasError =
      this.undone =
      this.taken =
      this.begun =
        false
    this.waiting = this.waitingIfShort = this.negative = false
    this.phrase = undefined
    this.met = typeof value === "string" && value.length < few.characters ? this.metOfFew : this.metOfMany
    WordTable.empty(this.met)
    // Mostly its arguments were read last.
    const lent = ArgumentScan.lend(args)
    this.asked = lent === undefined ? ArgumentScan.wordsIn(this.room, args) : lent.words
    this.value(value, none, 0)
    if (lent !== undefined) ArgumentScan.back(lent)
    this.known = nothing
    this.end()
  }

  /** What can be told only when all is read. */
  end(): void {
    const { all, substance, hasEmptyList } = this
    this.hash = mixed(this.hash)
    this.numbers = this.numbersKept()
    this.emptyList = hasEmptyList && substance === 0
    this.waiting ||= this.waitingIfShort && all <= shortResult
    const findsNothing =
      this.hasNoThings && this.how.looks === true && this.words <= maxState && this.numbersInAll === 0
    this.negative =
      (all === 0 && substance === 0) ||
      this.emptyList ||
      findsNothing ||
      (this.negative && all <= maxNegative)
  }

  flag(word: number): void {
    this.word(word)
  }

  skips(): boolean {
    return false
  }

  fieldBegins(key: Field, name: string, value: unknown, record: Values): void {
    if (key.isRate) this.rates++
    if (key.isTaken && typeof value === "number" && value > 1) this.taken = true
    // A field named error that holds something tells of one.
    if (key.isTrouble && isSomething(value) && this.listed === 0) {
      this.hasError = true
      this.fails()
    }
    const isExit =
      key.isExit || (name === "code" && (isOwn.call(record, "stderr") || isOwn.call(record, "stdout")))
    if ((key.isSuccess && value === false) || (isExit && typeof value === "number" && value !== 0))
      this.undone = true
  }

  fieldEnds(key: Field): void {
    if (key.isRate) this.rates--
    // A flag has no line; the next field's is not its.
    if (key.isTrouble) this.isTroubled = false
  }

  /** With all that it counts in variables: it is most of the cost. */
  text(text: string, key: Field, isNil: boolean): void {
    const { words, asked } = this
    const advances = this.how.advances === true
    // What the field's name says of its words.
    const named =
      (key.volatile !== undefined && !(advances && key.volatile === "result")) ||
      (key.isScore && this.lists > 0 && (this.isAsked || this.how.looks === true)) ||
      this.rates > 0
    const end = text.length
    let { hash } = this
    let from = 0
    let line = 0
    /** The word before, where it ended, and what it means. */
    let before = 0
    let beforeEnd = -1
    let placeEnd = -1
    let previous = 0
    /** The character before. */
    let prior = 0
    while (from < end) {
      const first = text.charCodeAt(from) | 0
      if (Word.isBetween(first)) {
        prior = first
        if (first === newLine) {
          this.lineEnd(key, line)
          line = 0
        } else if (Word.counts(first)) {
          hash = step(hash, first)
          if (first === colon) this.causeAt = this.lineLength
          // What has come to 100 % waits for nothing.
          if (first === percent && !(from === beforeEnd && before === hundred)) this.waitingIfShort = true
        }
        from++
        continue
      }
      const start = from
      const { at, digits, exact, lowered } = Word.read(text, from)
      const ended = beforeEnd
      this.all++
      from = at
      if (digits > 0) {
        // Of "a.ts(12,5)" the column.
        const isColumn = start - 1 === placeEnd && prior === comma
        if (isColumn || (Word.mayBePlace(prior, before) && Word.isPlace(text, start, before))) {
          if (!isColumn) {
            this.places++
            this.place += Math.min(Number.parseInt(text.slice(start, at), 10), maxPlace)
          }
          before = lowered
          placeEnd = beforeEnd = at
          previous = 0
          continue
        }
      }
      const isVolatile =
        (named && (digits > 0 || at - start >= Word.longName)) ||
        (digits > 0 &&
          !(key.isDigest || (Meaning.isDigest(previous) && start - ended <= 3)) &&
          (Word.saysNothing(text, start, at, digits) ||
            (ended >= 0 &&
              start - ended <= Word.longestJoint &&
              !advances &&
              Word.isNamedBy(text, before, ended, start, true))))
      before = lowered
      beforeEnd = at
      if (isVolatile) {
        this.id(exact, lowered, key)
        hash = step(hash, 0x3f)
        previous = 0
        continue
      }
      hash = step(turned(hash), exact)
      const meaning = digits > 0 ? Meaning.ofHash(lowered) : Word.meaningOf(text, start, at, exact)
      const isEcho = WordTable.has(asked, lowered)
      if (this.mayFail) {
        const denies =
          isDenial(meaning) && (digits > 0 || (isAssigned(text, ended, start) && Word.endsValue(text, at)))
        if (!denies) this.fails()
        this.mayFail = false
      }
      // What is echoed says nothing of the result.
      if (meaning !== 0 && !isEcho) {
        this.meant(meaning, previous)
        if (this.mayFail && !this.begun) this.phrase ??= ErrorPhrase.of(text, start, at)
      }
      previous = meaning
      if (digits > 0) {
        this.figure(text, start, at, digits, lowered, isEcho)
        continue
      }
      line = step(turned(line), lowered)
      if (isEcho) continue
      this.word(lowered)
      if (this.lineLength < toldApart) this.lineWords[this.lineLength++] = lowered
    }
    this.lineEnd(key, line)
    this.hash = step(hash, 0x22)
    // What is echoed is nothing of its own.
    if (this.words > words && !isNil) this.substance++
  }

  fails(): void {
    this.troubled = this.isTroubled = true
  }

  meant(meaning: number, previous: number): void {
    const denied = (previous & Meaning.none) !== 0
    if ((meaning & Meaning.trouble) !== 0 && !denied && this.listed === 0) this.mayFail = true
    if ((meaning & Meaning.thing) !== 0 && denied) this.negative = true
    if ((meaning & Meaning.nothing) !== 0 && this.all <= 2) this.negative = true
    if ((meaning & Meaning.waits) !== 0) {
      this.waiting = true
      this.pending++
    }
    if ((meaning & Meaning.waitsIfShort) !== 0) this.waitingIfShort = true
  }

  /** A word that is not of the arguments. */
  word(word: number): void {
    this.words++
    if (!WordTable.put(this.met, word)) return
    this.letters = (this.letters + mixed(word)) | 0
    if (this.freshWords >= maxWords || WordSets.has(this.known, word)) return
    this.freshWords++
    this.fresh[this.freshKept++] = word
  }

  /** A word with a digit: a code, if not a number. What is new of these is a detail. */
  figure(text: string, start: number, at: number, digits: number, word: number, isEcho: boolean): void {
    const length = at - start
    const number = digits === length ? start : Word.numberFrom(text, start, at)
    if (number >= 0) this.number(Word.numberOf(text, number, at), Word.isCounted(text, start, at))
    this.numbersInAll++
    if (isEcho) return
    this.words++
    if (this.isKnown(word)) return
    this.freshNumbers++
    if (number >= 0 || !(Word.isMadeUp(text, start, at) || Word.isFile(text, start, at))) this.freshAmounts++
    const isId = length >= (digits === length ? shortestNumber : shortestId)
    if (isId && this.madeKept < maxMade) this.made[this.madeKept++] = word
    this.detail(word)
  }

  /** What says nothing by itself. But what a thing is called, and when it was, of several tells them apart. */
  id(word: number, lowered: number, key: Field): void {
    if (this.isKnown(word)) return
    if (this.madeKept < maxMade) this.made[this.madeKept++] = lowered
    // What an answer says of itself is no part of a log.
    if ((key.volatile === undefined && !key.isCursor) || this.listed > 0) this.freshVolatile++
    if (key.isId) this.freshIds++
    this.detail(word)
  }

  /** In this result, or in the run. */
  isKnown(word: number): boolean {
    return !WordTable.put(this.met, word) || WordSets.has(this.known, word)
  }

  detail(word: number): void {
    if (this.freshDetails++ < maxWords) this.fresh[this.freshKept++] = word
  }

  number(value: number, counted: boolean): void {
    // So many digits are no amount.
    if (!Number.isFinite(value)) return
    const n = this.numbersRead++
    if (n < maxNumbers) {
      this.firstNumbers[n] = value
      if (counted) this.counted |= 1 << n
    }
    this.lastNumbers[n % maxNumbers] = value
    this.lastCounted[n % maxNumbers] = counted ? 1 : 0
  }

  /** The first and the last numbers, but for those that say nothing, at most {@link maxNumbers} each. */
  numbersKept(): ReadonlyArray<number> {
    const { numbersRead } = this
    if (numbersRead === 0) return noNumbers
    const some = Math.min(numbersRead, maxNumbers)
    const numbers = new Array<number>(2 * some)
    for (let i = 0; i < some; i++) {
      numbers[i] = this.firstNumbers[i] ?? 0
      const at = (numbersRead - some + i) % maxNumbers
      numbers[some + i] = this.lastNumbers[at] ?? 0
      if (this.lastCounted[at] === 1) this.counted |= 1 << (some + i)
    }
    return numbers
  }

  /** A line has ended; equal ones are one. */
  lineEnd(key: Field, line: number): void {
    if (this.mayFail) this.fails()
    this.mayFail = false
    if (this.isTroubled && !this.begun) this.beginsTroubled = true
    if (line !== 0) this.begun = true
    if (this.isTroubled) this.trouble = (this.trouble + mixed(this.error() ^ key.hash)) | 0
    this.isTroubled = false
    // What was asked is no line of its own.
    const isEcho = this.lineLength === 0
    this.lineLength = this.causeAt = 0
    if (line === 0 || isEcho) return
    const hash = mixed(line ^ key.hash)
    if (!WordTable.put(this.met, hash)) return
    this.lines++
    if (WordSets.has(this.known, hash)) return
    this.freshLines++
    this.detail(hash)
  }

  /** The words of a line that were never asked of the tool. */
  error(): number {
    const { known, tool } = this
    let error = 0
    const hasCause = this.how.failed === true && this.lineLength - this.causeAt >= shortestCause
    for (let i = hasCause ? this.causeAt : 0; i < this.lineLength; i++) {
      const word = this.lineWords[i] ?? 0
      if (!WordSets.has(known, Hash.argument(tool, word))) error = step(turned(error), word)
    }
    return error
  }
}

/** The one that is not in use: what reads a value may run code of it, which reads another. */
let idle: ResultScan | undefined

/**
 * What a result brings, read against who was asked what and what the run has met. `advances`: ids are data, as the call
 * brings the next thing. It is lent until it is given {@link back}: who never does so may keep it, and the next one costs
 * more. Throws what a getter of the value throws.
 */
export const read = (value: unknown, asked: Asked, known: WordSet, how: How): Lent => {
  const scan = idle ?? new ResultScan()
  idle = undefined
  scan.read(value, asked, known, how)
  return scan
}

export type Lent = ResultScan

export const back = (lent: Lent): void => {
  idle = lent
}
