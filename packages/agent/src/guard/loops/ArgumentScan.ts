/**
 * What a call asks: its arguments, word by word, without what says nothing.
 */
import * as Comment from "./Comment.ts"
import type { Field } from "./Field.ts"
import * as Fields from "./Field.ts"
import { mixed, step, turned } from "./Hash.ts"
import * as Meaning from "./Meaning.ts"
import type { Values } from "./Scan.ts"
import { first, maxWords, Scan } from "./Scan.ts"
import * as Volatile from "./Volatile.ts"
import * as Word from "./Word.ts"
import * as WordTable from "./WordTable.ts"

const equals = 61

/** What has more fields is no call of a tool on a page. */
const maxNames = 100

/** SQL that has a place for a value: one of the fields beside it. */
const bound = /[:@$]\w|\?|%s|%\(/

/** Whether a part of a page is named by more than a handle. */
const describes = (record: Values, names: ReadonlyArray<string>): boolean =>
  names.some((name) => !Fields.of(name).isHandle && typeof record[name] === "string")

/** Of a shell, and of more than one word. */
const isCommand = (value: unknown, name: string): boolean =>
  (name === "command" || name === "cmd") && typeof value === "string" && value.includes(" ")

/** What is left out, and what the model says about a call. */
const saysNothing = (value: unknown, name: string): boolean =>
  value === undefined || value === null || Fields.of(name).isRemark

export interface OfArguments {
  /** Of all that is not volatile. */
  readonly hash: number
  /** What stands between blanks and brackets in their texts, text by text. At most {@link maxWords} in all. */
  readonly leaves: ReadonlyArray<ReadonlyArray<number>>
  /** Their different words, at most {@link maxWords}: those that are prose, and the others. */
  readonly subjects: ReadonlyArray<number>
  readonly prose: ReadonlyArray<number>
  /** Those of them that ask in words of one's own: the same can be asked in others. None: it asks in no such words. */
  readonly question: ReadonlyArray<number>
  readonly questionHash: number
  /** Those that say where in a list or when: a page, a cursor, a point in time. */
  readonly places: ReadonlyArray<number>
  /** It is to wait before it looks: `wait_seconds: 20`. */
  readonly waits: boolean
}

const nothing: ReadonlyArray<number> = []

/** To be used for one value after the other: making one costs more than most arguments. */
class ArgumentScan extends Scan {
  /** The words of the arguments that were read last. */
  readonly words = WordTable.scratch(1_024)
  last: OfArguments | undefined
  readonly leaves: Array<ReadonlyArray<number>> = []
  leavesKept = 0
  readonly units = new Int32Array(maxWords)
  unitsRead = 0
  unitsKept = 0
  readonly subjects = new Int32Array(maxWords)
  subjectsKept = 0
  readonly prose = new Int32Array(maxWords)
  proseKept = 0
  readonly question = new Int32Array(maxWords)
  questionKept = 0
  questionHash = 0
  waits = false
  /** The field that is read has no other beside it: it is what the call is about. */
  isAlone = false
  readonly places = new Int32Array(maxWords)
  placesKept = 0

  read(value: unknown): OfArguments {
    this.begin()
    this.leavesKept =
      this.unitsRead =
      this.unitsKept =
      this.subjectsKept =
      this.proseKept =
      this.questionKept =
        0
    this.questionHash = this.placesKept = 0
    this.waits = false
    WordTable.empty(this.words)
    this.last = undefined
    this.value(value, Fields.none, 0)
    const args = {
      hash: mixed(this.hash),
      leaves: this.leavesRead(),
      subjects: first(this.subjects, this.subjectsKept),
      prose: first(this.prose, this.proseKept),
      question: first(this.question, this.questionKept),
      questionHash: this.questionHash,
      places: first(this.places, this.placesKept),
      waits: this.waits
    }
    this.last = args
    return args
  }

  leavesRead(): OfArguments["leaves"] {
    const leaves = new Array<ReadonlyArray<number>>(this.leavesKept)
    for (let i = 0; i < leaves.length; i++) leaves[i] = this.leaves[i] ?? nothing
    return leaves
  }

  flag(word: number): void {
    if (this.unitsRead++ < maxWords) this.leaves[this.leavesKept++] = [word]
  }

  /** What the model says about a call, what a page calls a part that has a name, and the run of some SQL make it no other. */
  skips(key: Field, record: Values, names: ReadonlyArray<string>): boolean {
    this.isAlone = false
    if (names.length > maxNames) return false
    this.isAlone =
      key.mayBeRandom && names.every((name) => Fields.of(name) === key || saysNothing(record[name], name))
    return (
      names.length > 1 &&
      (key.isRemark ||
        (key.isCaption && names.some((name) => isCommand(record[name], name))) ||
        (key.isHandle && describes(record, names)) ||
        (key.isRun && typeof record["sql"] === "string" && !bound.test(record["sql"])))
    )
  }

  /** What was found of a field is not said of others. */
  fieldBegins(key: Field, _name: string, value: unknown): void {
    if (!key.mayBeSkipped) this.isAlone = false
    if (key.isWait && typeof value === "number" && value > 0) this.waits = true
  }

  fieldEnds(): void {}

  text(given: string, key: Field): void {
    // What the model says before a program makes it no other program.
    const text = key.isProgram && Comment.mayBegin(given.charCodeAt(0)) ? Comment.without(given) : given
    const named = key.volatile === "anywhere" || key.volatile === "field"
    const end = text.length
    let { hash } = this
    let from = 0
    /** What was read since the last blank, and all of it. */
    let unit = 0
    /** It says where in a list or when. */
    let isPlace = false
    this.unitsKept = 0
    /** The word before, and where it ended. */
    let before = 0
    let beforeEnd = -1
    while (from < end) {
      const first = text.charCodeAt(from) | 0
      if (Word.isBetween(first)) {
        if (Word.separates(first)) {
          this.asks(unit, key, isPlace)
          unit = 0
          isPlace = false
        } else unit = step(turned(unit), first)
        if (Word.counts(first)) hash = step(hash, first)
        from++
        continue
      }
      const { at, digits, exact, lowered } = Word.read(text, from)
      const isVolatile =
        (key.mayBeRandom && !this.isAlone && Volatile.isRandom(text.slice(from, at))) ||
        (named && (digits > 0 || at - from >= Word.longName)) ||
        (digits > 0 &&
          !key.isCursor &&
          (Word.isMoment(text, from, at) ||
            (beforeEnd >= 0 &&
              from - beforeEnd <= Word.longestJoint &&
              Word.isNamedBy(text, before, beforeEnd, from, false))))
      const start = from
      // "?page=2"
      const isPlaced =
        digits > 0 &&
        from - beforeEnd === 1 &&
        text.charCodeAt(beforeEnd) === equals &&
        Meaning.isCursor(before)
      before = lowered
      beforeEnd = from = at
      if (isVolatile) {
        hash = step(hash, 0x3f)
        continue
      }
      hash = step(turned(hash), exact)
      if (this.subjectsKept + this.proseKept < maxWords && WordTable.put(this.words, lowered)) {
        if (key.isProse) this.prose[this.proseKept++] = lowered
        else this.subjects[this.subjectsKept++] = lowered
      }
      unit = step(turned(unit), lowered)
      if (digits >= 10 && Word.hasMoment(text, start, at)) isPlace = true
      if (isPlaced) isPlace = true
    }
    this.asks(unit, key, isPlace)
    if (this.unitsKept > 0) this.leaves[this.leavesKept++] = first(this.units, this.unitsKept)
    this.hash = step(hash, 0x22)
  }

  /** A path, an option, a name. */
  asks(word: number, key: Field, isPlace: boolean): void {
    if (word === 0 || this.unitsRead++ >= maxWords) return
    if (key.isQuestion) {
      this.questionHash = (turned(this.questionHash) + mixed(word)) | 0
      this.question[this.questionKept++] = word
    }
    if (isPlace || key.isCursor) this.places[this.placesKept++] = word
    if (!key.isProse) this.units[this.unitsKept++] = word
  }
}

export type Lent = ArgumentScan

/** The one that is not in use: what reads a value may run code of it, which reads another. */
let idle: ArgumentScan | undefined

/** Of a call's arguments. Throws what a getter of theirs throws. */
export const read = (value: unknown): OfArguments => {
  const scan = idle ?? new ArgumentScan()
  idle = undefined
  const args = scan.read(value)
  idle = scan
  return args
}

/** What has read these arguments last, with their words, lent until it is given {@link back}: nobody reads with it. */
export const lend = (args: OfArguments): Lent | undefined => {
  const scan = idle
  if (scan?.last !== args) return undefined
  idle = undefined
  return scan
}

export const back = (lent: Lent): void => {
  idle = lent
}

/** The words of some arguments, in a set that is emptied for them. */
export const wordsIn = (set: WordTable.Scratch, { subjects, prose }: OfArguments): WordTable.Scratch => {
  WordTable.empty(set)
  for (const word of subjects) WordTable.put(set, word)
  for (const word of prose) WordTable.put(set, word)
  return set
}
