/**
 * Reduces arguments and results to hashes, in one pass and without their volatile values.
 *
 * White space and the order of an object's fields are ignored. Pure.
 */
import { Schema } from "effect"
import * as Hash from "./Hash.ts"
import { pauses } from "./ToolNature.ts"
import * as Volatile from "./Volatile.ts"

/** Hashes of the arguments of a call. */
export interface Arguments {
  /** Hash without times. Ids count, because they identify things. */
  readonly hash: number
  /** Hashes of the words. */
  readonly words: ReadonlySet<number>
  /** Milliseconds that the call lets pass: `sleep 60; …`, `{ "wait": 20 }`. 1 when it does not say; 0 without a pause. */
  readonly pause: number
}

/** What is kept of a result. */
export const Outcome = Schema.Struct({
  /** Hash without volatile values and numbers of created things. */
  outcome: Schema.Number,
  /** Hash of the volatile values. */
  noise: Schema.Number,
  /** Hash of the numbers of created things, which differ for equal arguments; 0 without one. */
  keys: Schema.Number,
  /** Hash of the words without digits. */
  shape: Schema.Number,
  /**
   * The smallest word hashes, at most {@link maxWords}, ascending. Excludes words with digits and words of the
   * arguments.
   */
  words: Schema.Array(Schema.Number),
  /** True for a result that answers one question: the same one for other arguments is no coincidence. */
  rich: Schema.Boolean,
  /** The last point in time in the result, in milliseconds; 0 without one. */
  at: Schema.Number
})

/** Number of words of a result that are compared. */
const maxWords = 6

/** Hash of arguments, as in {@link Arguments}. */
export const hashOf = (args: unknown): number => new Scan(undefined, undefined).value(args, 0)

/** Computes the hashes of arguments. Each number in the arguments of a tool that `pauses` is a pause. */
export const ofArguments = (args: unknown, pauses = false): Arguments => {
  const words = new Set<number>()
  const scan = new Scan(undefined, words)
  scan.pauses = pauses
  const hash = scan.value(args, 0)
  const isPause = pauses || pausing.some((word) => words.has(word))
  return { hash, words, pause: isPause ? Math.max(1, scan.pause) : 0 }
}

const pausing = [...pauses].map(Hash.ofText)

/**
 * Computes the hashes of a result. `asked` are the words of the arguments, which a result may repeat. The number of a
 * created thing counts only in the result of a tool that `reads`.
 */
export const ofResult = (
  result: unknown,
  asked: ReadonlySet<number>,
  reads: boolean
): typeof Outcome.Type => {
  const scan = new Scan(asked, undefined, !reads)
  return {
    outcome: scan.value(result, 0),
    noise: Hash.short(Hash.mixed(scan.noise)),
    keys: Hash.short(scan.keys),
    shape: Hash.short(Hash.mixed(scan.shape)),
    words: scan.words,
    rich: scan.words.length + scan.parts >= maxWords,
    at: Volatile.millis(scan.moment) || 0
  }
}

/** Estimated share of words that two results have in common, from 0 to 1 (MinHash of the smallest hashes). */
export const similarity = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): number => {
  const all = [...new Set([...a, ...b])].sort((x, y) => x - y).slice(0, maxWords)
  return all.length === 0 ? 1 : all.filter((word) => a.includes(word) && b.includes(word)).length / all.length
}

/** Maximum nesting depth, and maximum number of lists and objects that are read. */
const maxDepth = 64
const maxValues = 100_000
/** Maximum number of argument words that are kept. */
const maxAsked = 256

class Scan {
  /** Words of the arguments, when a result is read. */
  readonly #asked: ReadonlySet<number> | undefined
  /** Collects the words, when arguments are read. */
  readonly #collected: Set<number> | undefined
  readonly words: Array<number> = []
  shape = 0
  noise = Hash.seed
  keys = 0
  /** The last point in time, as its text. */
  moment = ""
  /** Number of tokens with a digit, and of lists and objects. */
  parts = 0
  /** True when numbers of created things do not count. */
  readonly #acts: boolean
  /** True when the next number is a pause, in seconds; the pauses so far, in milliseconds. */
  pauses = false
  pause = 0

  constructor(asked: ReadonlySet<number> | undefined, collected: Set<number> | undefined, acts = false) {
    this.#asked = asked
    this.#collected = collected
    this.#acts = acts
  }

  value(value: unknown, depth: number): number {
    if (typeof value === "object" && value !== null) return this.#object(value, depth)
    if (typeof value === "string") return this.#text(value)
    return typeof value === "number" ? this.#number(value) : Hash.ofText(String(value))
  }

  #object(value: object, depth: number): number {
    if (depth > maxDepth || ++this.parts > maxValues) return Hash.seed
    if (Array.isArray(value)) {
      let hash = 1
      for (const part of value) hash = Hash.both(hash, this.value(part, depth + 1))
      return hash
    }
    let hash = 2
    for (const name in value) {
      if (!Object.hasOwn(value, name)) continue
      // Every object can be read as a record.
      const part = (value as Readonly<Record<string, unknown>>)[name]
      if (this.#collected !== undefined) this.#asks(Hash.ofText(name))
      if (typeof part === "number" && this.#asked !== undefined && Volatile.isDuration(name)) {
        this.noise = Hash.step(this.noise, part)
        continue
      }
      if (typeof part !== "object" && this.#acts && Volatile.keyField.test(name)) {
        this.#key(Hash.ofText(String(part)))
        continue
      }
      // A sum, so that the order of fields does not matter.
      hash = (hash + Hash.both(Hash.ofText(name), this.value(part, depth + 1))) | 0
    }
    return Hash.mixed(hash)
  }

  /** Collects a word of the arguments. */
  #asks(word: number): void {
    if (this.#collected !== undefined && this.#collected.size < maxAsked) this.#collected.add(word)
    this.pauses ||= pausing.includes(word)
  }

  #number(value: number): number {
    if (this.pauses && value > 0) this.pause += value > maxSeconds ? value : value * 1_000
    const text = String(value)
    const hash = Hash.ofText(text)
    this.parts++
    return text.length >= 10 && Volatile.isMoment(text) ? this.#volatile(hash, text) : hash
  }

  #key(hash: number): number {
    this.keys = Hash.both(this.keys, hash)
    return Hash.seed
  }

  #volatile(hash: number, token: string): number {
    if (token > this.moment && Volatile.isMoment(token)) this.moment = token
    this.noise = Hash.step(this.noise, hash)
    return Hash.seed
  }

  #text(text: string): number {
    const { length } = text
    let hash = Hash.seed
    for (let i = 0; i < length;) {
      const start = i
      let c = text.charCodeAt(i)
      if (!isWord(c)) {
        if (c > 32) hash = Hash.step(hash, c)
        i++
        continue
      }
      let word = Hash.seed
      let hasDigit = false
      let end = i
      while (i < length && (isWord(c) || isConnector(c))) {
        word = Hash.step(word, c)
        if (isWord(c)) end = i + 1
        if (c <= nine && c >= zero) hasDigit = true
        c = text.charCodeAt(++i)
      }
      word = Hash.mixed(word)
      if (hasDigit) {
        const token = text.slice(start, end)
        const isVolatile =
          this.#asked === undefined ? Volatile.isMoment(token) : Volatile.isVolatile(text, start, end)
        this.parts++
        if (this.#acts && Volatile.key.test(token)) word = this.#key(word)
        else if (isVolatile) word = this.#volatile(word, token)
      }
      if (this.#asked !== undefined) {
        if (!hasDigit) this.#word(word, this.#asked)
      } else if (hasDigit && this.pauses) this.#number(Number.parseFloat(text.slice(start, end)))
      else this.#asks(word)
      hash = Hash.step(hash, word)
    }
    return Hash.mixed(hash)
  }

  #word(word: number, asked: ReadonlySet<number>): void {
    this.shape = (this.shape + word) | 0
    const { words } = this
    const short = Hash.short(word)
    const isFull = words.length === maxWords
    if (isFull && short >= (words[maxWords - 1] ?? 0)) return
    let at = words.length
    while (at > 0 && (words[at - 1] ?? 0) > short) at--
    if ((at > 0 && words[at - 1] === short) || asked.has(word)) return
    words.splice(at, 0, short)
    if (isFull) words.pop()
  }
}

/** A longer pause is in milliseconds. */
const maxSeconds = 3_600

const zero = 48
const nine = 57

/** True for a letter or a digit. Every non-ASCII character counts as a letter. */
const isWord = (c: number): boolean =>
  (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || (c >= zero && c <= nine) || c > 127

/** True for `+`, `-`, `.`, `:` and `_`, which join the parts of a token. */
const isConnector = (c: number): boolean => c === 45 || c === 46 || c === 58 || c === 95 || c === 43
