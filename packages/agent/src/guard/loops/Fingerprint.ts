/**
 * Reduces arguments and results to hashes, in one pass and without their volatile values.
 *
 * White space and the order of an object's fields are ignored. Pure.
 */
import * as Hash from "./Hash.ts"
import * as Volatile from "./Volatile.ts"

/** Hashes of the arguments of a call. */
export interface Arguments {
  /** Hash without times. Ids count, because they identify things. */
  readonly hash: number
  /** Hash of names and numbers without sentences. Calls with the same frame differ only in wording. */
  readonly frame: number
  /** Hashes of the words. */
  readonly words: ReadonlySet<number>
}

/** Hashes of a result. */
export interface Outcome {
  /** Hash without volatile values. */
  readonly hash: number
  /** Hash of the volatile values. */
  readonly noise: number
  /** Hash of the words without digits. */
  readonly shape: number
  /**
   * The smallest word hashes, at most {@link maxWords}, ascending. Excludes words with digits and words of the
   * arguments.
   */
  readonly words: ReadonlyArray<number>
}

/** Number of words of a result that are compared. */
export const maxWords = 6

/** Hash of arguments, as in {@link Arguments}. */
export const hashOf = (args: unknown): number => new Scan(undefined, undefined).value(args, 0)

/** Computes the hashes of arguments. */
export const ofArguments = (args: unknown): Arguments => {
  const words = new Set<number>()
  const scan = new Scan(undefined, words)
  const hash = scan.value(args, 0)
  return { hash, frame: Hash.short(Hash.mixed(scan.frame)), words }
}

/** Computes the hashes of a result. `asked` are the words of the arguments, which a result may repeat. */
export const ofResult = (result: unknown, asked: ReadonlySet<number>): Outcome => {
  const scan = new Scan(asked, undefined)
  const hash = scan.value(result, 0)
  return {
    hash,
    noise: Hash.short(Hash.mixed(scan.noise)),
    shape: Hash.short(Hash.mixed(scan.shape)),
    words: scan.words
  }
}

/** Hash of one word of letters, as in {@link Arguments.words}. */
export const ofWord = (word: string): number => Hash.ofText(word)

/** Estimated share of words that two results have in common, from 0 to 1 (MinHash of the smallest hashes). */
export const similarity = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): number => {
  let [i, j, common, all] = [0, 0, 0, 0]
  while (all < maxWords && (i < a.length || j < b.length)) {
    const x = a[i] ?? Infinity
    const y = b[j] ?? Infinity
    if (x === y) common++
    if (x <= y) i++
    if (y <= x) j++
    all++
  }
  return all === 0 ? 1 : common / all
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
  frame = 0
  shape = 0
  noise = Hash.seed
  #values = 0

  constructor(asked: ReadonlySet<number> | undefined, collected: Set<number> | undefined) {
    this.#asked = asked
    this.#collected = collected
  }

  value(value: unknown, depth: number): number {
    if (typeof value === "object" && value !== null) return this.#object(value, depth)
    const isText = typeof value === "string"
    const hash = isText
      ? this.#text(value)
      : typeof value === "number"
        ? this.#number(value)
        : Hash.ofText(String(value))
    if (this.#collected !== undefined && !(isText && isSentence(value))) this.frame = (this.frame + hash) | 0
    return hash
  }

  #object(value: object, depth: number): number {
    if (depth > maxDepth || ++this.#values > maxValues) return Hash.seed
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
      if (this.#collected !== undefined) this.#collected.add(Hash.ofText(name))
      if (typeof part === "number" && this.#asked !== undefined && Volatile.isDuration(name)) {
        this.noise = Hash.step(this.noise, part)
        continue
      }
      // A sum, so that the order of fields does not matter.
      hash = (hash + Hash.both(Hash.ofText(name), this.value(part, depth + 1))) | 0
    }
    return Hash.mixed(hash)
  }

  #number(value: number): number {
    const text = String(value)
    const hash = Hash.ofText(text)
    return text.length >= 10 && Volatile.isMoment(text) ? this.#volatile(hash) : hash
  }

  #volatile(hash: number): number {
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
        const isVolatile =
          this.#asked === undefined
            ? end - start > 3 && Volatile.isMoment(text.slice(start, end))
            : Volatile.isVolatile(text, start, end)
        if (isVolatile) word = this.#volatile(word)
      }
      if (this.#asked !== undefined) {
        if (!hasDigit) this.#word(word, this.#asked)
      } else if (this.#collected !== undefined && this.#collected.size < maxAsked) this.#collected.add(word)
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

const zero = 48
const nine = 57

/** True for a letter or a digit. Every non-ASCII character counts as a letter. */
const isWord = (c: number): boolean =>
  (c >= 97 && c <= 122) || (c >= 65 && c <= 90) || (c >= zero && c <= nine) || c > 127

/** True for `+`, `-`, `.`, `:` and `_`, which join the parts of a token. */
const isConnector = (c: number): boolean => c === 45 || c === 46 || c === 58 || c === 95 || c === 43

/** True for several words without characters that are typical of commands or programs. */
const isSentence = (text: string): boolean => text.includes(" ") && !command.test(text)

const command = /[\\/|<>{}$;&*=]| -/
