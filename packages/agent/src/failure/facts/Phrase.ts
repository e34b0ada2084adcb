/**
 * Phrases: what a rule looks for in a text.
 *
 * A phrase is a piece of a sentence; the case of its letters does not matter. It matches whole words only, so that
 * "rate" is not found in "generate" nor "key" in "keyword". Three signs are special:
 *
 * - `…` stands for up to {@link gap} characters of anything;
 * - `(a|b)` stands for one of several, the last of which may be empty; groups do not nest;
 * - `*` at the end of a word stands for any ending of it.
 *
 * A phrase becomes a regular expression without nested or unbounded repetition, so it cannot be slow, and it is
 * tried only where one of its rarer words stands. What was found is told without what stood in the gaps.
 */

/** The most that `…` stands for, in characters. */
const gap = 120

export interface Phrase {
  /** Words without one of which it is not there; absent where there is no such list. */
  readonly anchors: ReadonlyArray<string> | undefined
  /** What it found in a lower-cased text, `…` for each gap. */
  readonly find: (text: string) => string | undefined
}

/**
 * A phrase, compiled when it is first used: compiling the hundreds of phrases that ship takes longer than everything else
 * at import.
 */
export const phrase = (source: string): Phrase => {
  const compiled = compile(source)
  return {
    get anchors() {
      return compiled.anchors
    },
    find: (text) => compiled.form.exec(text)?.slice(1).join("…")
  }
}

/** Whether a phrase says nothing: every text has it. */
export const isEmpty = (source: string): boolean => {
  // A piece with a letter in each of its ways must stand in the text. Only phrases without one have to be tried.
  const isSaid = (element: Element): boolean => element.every((way) => /[a-pr-wy0-9\u4e00-\u9fff]/.test(way))
  if (piecesOf(source).some((elements) => elements.some(isSaid))) return false
  const { form } = compile(source)
  return form.test("") || form.test(anyText)
}

/** Words of no language, with the signs that stand between words. */
const anyText = "qzx qzx: (qzx), qzx. 'qzx' \"qzx\" qzx-qzx/qzx"

/** Whether a text has one of several phrases. */
export const oneOf = (sources: ReadonlyArray<string>): ((text: string) => boolean) => {
  const phrases = sources.map(compile)
  // To look for a piece of text is much cheaper than to run a regular expression.
  return (text) =>
    phrases.some(
      (phrase) =>
        (phrase.anchors === undefined || phrase.anchors.some((word) => text.includes(word))) &&
        phrase.form.test(text)
    )
}

/** Whether a lower-cased text has a word, which is not a piece of a longer one. */
export const hasWord = (text: string, word: string): boolean => {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!isWord(text.charAt(at - 1)) && !isWord(text.charAt(at + word.length))) return true
  }
  return false
}

/** The words of a lower-cased text; each Chinese character is a word. */
export const wordsOf = (text: string): ReadonlySet<string> =>
  new Set(text.match(/[a-z0-9_]+|[\u4e00-\u9fff]/g))

const prime = 16_777_619
// Larger numbers would be objects to the engine, and five times as slow.
const bits = 0x3fff_ffff

/** A number for a word, made as FNV-1a does it, so that a text can be looked up word by word without a string for each. */
export const keyOf = (word: string): number => {
  let key = 0
  for (let i = 0; i < word.length; i++) key = Math.imul(key ^ word.charCodeAt(i), prime)
  return key & bits
}

/** The {@link keyOf} of each word of a lower-cased text: those of {@link wordsOf}, in their order. */
export const keysOf = (text: string): ReadonlyArray<number> => {
  const keys: Array<number> = []
  let key = 0
  const { length } = text
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i)
    if ((code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code === 95) {
      key = Math.imul(key ^ code, prime)
      continue
    }
    if (key !== 0) keys.push(key & bits)
    key = 0
    if (code >= 0x4e00 && code <= 0x9fff) keys.push(Math.imul(code, prime) & bits)
  }
  if (key !== 0) keys.push(key & bits)
  return keys
}

interface Compiled {
  readonly form: RegExp
  readonly anchors: ReadonlyArray<string> | undefined
}

/** One of several ways to go on; a plain piece has one. */
type Element = ReadonlyArray<string>

/** Both halves are made when they are first asked for. */
const compile = (source: string): Compiled => {
  if (/\([^()]*\(/.test(source)) throw new RangeError(`Phrase: groups do not nest: ${source}`)
  let form: RegExp | undefined
  let anchors: { readonly words: Compiled["anchors"] } | undefined
  return {
    get form() {
      return (form ??= formOf(source))
    },
    get anchors() {
      return (anchors ??= { words: bestAnchors(source) }).words
    }
  }
}

const piecesOf = (source: string): ReadonlyArray<ReadonlyArray<Element>> =>
  source
    .toLowerCase()
    .split("…")
    .map((piece) => piece.trim())
    .filter((piece) => piece !== "")
    .map(elementsOf)

const formOf = (source: string): RegExp => {
  const forms = piecesOf(source).map((elements) => {
    const body = elements
      .map((element) =>
        element.length === 1 ? escape(element[0] ?? "") : `(?:${element.map(escape).join("|")})`
      )
      .join("")
    return `${edge(elements[0], 0, "(?<!\\w)")}(${body})${edge(elements.at(-1), -1, "(?!\\w)")}`
  })
  return new RegExp(forms.join(`.{0,${gap}}?`))
}

const bestAnchors = (source: string): ReadonlyArray<string> | undefined => {
  const lists = piecesOf(source).flatMap(anchorsOf)
  const best = lists.toSorted((a, b) => worth(b) - worth(a))[0]
  return best === undefined ? undefined : [...new Set(best)]
}

/** No word goes on beyond a piece. `\b` says the same for less where it can only stand beside a letter. */
const edge = (element: Element = [], at: number, otherwise: string): string =>
  element.every((way) => isWord(way.at(at))) ? "\\b" : isWord(element[0]?.at(at)) ? otherwise : ""

const elementsOf = (piece: string): ReadonlyArray<Element> =>
  piece
    .split(/(\([^()]*\))/)
    .filter((part) => part !== "")
    .map((part) => (part.startsWith("(") && part.endsWith(")") ? part.slice(1, -1).split("|") : [part]))

const escape = (text: string): string =>
  text.replace(/[\\^$.+?()[\]{}|]/g, "\\$&").replace(/\*/g, "\\w{0,24}")

/** For each element the words of which one must stand in the text, where all its ways have one. */
const anchorsOf = (elements: ReadonlyArray<Element>): ReadonlyArray<ReadonlyArray<string>> =>
  elements.flatMap((element, i) => {
    const before = isFree(elements, i - 1, -1)
    const after = isFree(elements, i + 1, 1)
    const words = element.map((way) => rarest(way, before, after))
    return words.every((word) => word !== undefined) ? [words] : []
  })

/** Whether no way of a neighbour goes on with a letter where it touches; behind an empty way comes the next one. */
const isFree = (elements: ReadonlyArray<Element>, i: number, step: 1 | -1): boolean =>
  (elements[i] ?? []).every((way) => {
    const touching = way.at(step === 1 ? 0 : -1)
    return touching === undefined ? isFree(elements, i + step, step) : !isWord(touching) && touching !== "*"
  })

/** The rarest whole word; a word at an edge counts only where the neighbour leaves it alone. */
const rarest = (way: string, before: boolean, after: boolean): string | undefined => {
  let best: string | undefined
  for (const match of way.matchAll(/[a-z0-9_]+|[\u4e00-\u9fff]/g)) {
    const end = match.index + match[0].length
    const whole = (match.index > 0 || before) && (end < way.length || after)
    if ((isWord(match[0]) && !whole) || way.at(end) === "*") continue
    if (best === undefined || rarity(match[0]) > rarity(best)) best = match[0]
  }
  return best
}

/** Words that stand in most errors, and those that stand in many. */
const common = new Set(
  "is the not of to for in a an and or be was are been has no your this that with on at by it error request api model token tokens key must http https please you code type message".split(
    " "
  )
)
const frequent = new Set(
  "failed exceeded limit invalid response found does have access can could use try again only when server provided".split(
    " "
  )
)

const rarity = (word: string): number => {
  if (common.has(word)) return 0
  if (frequent.has(word)) return 2
  // A Chinese character says as much as half a word of ours.
  return isWord(word) ? Math.min(word.length, 8) : 4
}

/** A list is as good as its worst word; long lists are worse. */
const worth = (words: ReadonlyArray<string>): number => Math.min(...words.map(rarity)) - words.length / 8

const isWord = (char: string | undefined): boolean => char !== undefined && /[a-z0-9_]/.test(char)
