/**
 * Phrases that rules search for in a text.
 *
 * A phrase is a piece of a sentence. Case does not matter. Only whole words match, so that "rate" is not found in
 * "generate" nor "key" in "keyword". Three signs are special:
 *
 * - `…` matches up to {@link gap} characters of the same sentence;
 * - `(a|b)` matches one of several alternatives, the last of which may be empty; groups do not nest;
 * - `*` at the end of a word matches any ending of it.
 *
 * A phrase becomes a regular expression without nested or unbounded repetition, so its time is linear. It is run
 * only on texts that contain one of its rarer words. A match is reported with `…` in place of the text in the gaps.
 */

/** Longest text that `…` matches, in characters. */
const gap = 120

export interface Phrase {
  /** The phrase can match only if the text has one of these words; absent if no such words exist. */
  readonly anchors: ReadonlyArray<string> | undefined
  /** The match in a lower-cased text, with `…` for each gap. */
  readonly find: (text: string) => string | undefined
}

/**
 * A phrase, compiled on first use. Compiling the hundreds of built-in phrases would take longer than the rest of
 * the import.
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

/** True when a phrase matches every text. */
export const isEmpty = (source: string): boolean => {
  // A piece matches only some texts if each of its alternatives has a letter. Only other phrases have to be tried.
  const isSaid = (element: Element): boolean => element.every((way) => /[a-pr-wy0-9\u4e00-\u9fff]/.test(way))
  if (piecesOf(source).some((elements) => elements.some(isSaid))) return false
  const { form } = compile(source)
  return form.test("") || form.test(anyText)
}

/** Words of no language, with the signs that may stand between words. */
const anyText = "qzx qzx: (qzx), qzx. 'qzx' \"qzx\" qzx-qzx/qzx"

/** Returns a test that is true for a text with at least one of the phrases. */
export const oneOf = (sources: ReadonlyArray<string>): ((text: string) => boolean) => {
  const phrases = sources.map(compile)
  // A substring search is much cheaper than a regular expression.
  return (text) =>
    phrases.some(
      (phrase) =>
        (phrase.anchors === undefined || phrase.anchors.some((word) => text.includes(word))) &&
        phrase.form.test(text)
    )
}

/** True when a lower-cased text has the word by itself, not as a piece of a longer word. */
export const hasWord = (text: string, word: string): boolean => {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!isWord(text.charAt(at - 1)) && !isWord(text.charAt(at + word.length))) return true
  }
  return false
}

/** The words of a lower-cased text. Each Chinese character is a word. */
export const wordsOf = (text: string): ReadonlySet<string> =>
  new Set(text.match(/[a-z0-9_]+|[\u4e00-\u9fff]/g))

const prime = 16_777_619
// V8 keeps larger numbers as heap objects, which is five times as slow.
const bits = 0x3fff_ffff

/** FNV-1a hash of a word, which allows looking up each word of a text without creating a string for it. */
export const keyOf = (word: string): number => {
  let key = 0
  for (let i = 0; i < word.length; i++) key = Math.imul(key ^ word.charCodeAt(i), prime)
  return key & bits
}

/** The {@link keyOf} of each word of a lower-cased text: the words of {@link wordsOf} in their order. */
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

/** The alternatives of a group. Plain text is an element with one alternative. */
type Element = ReadonlyArray<string>

/** Compiles a phrase. The expression and the anchors are each made on first use. */
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
  return new RegExp(forms.join(`(?:[^.!?]|[.!?](?! )){0,${gap}}?`))
}

const bestAnchors = (source: string): ReadonlyArray<string> | undefined => {
  const lists = piecesOf(source).flatMap(anchorsOf)
  const best = lists.toSorted((a, b) => worth(b) - worth(a))[0]
  return best === undefined ? undefined : [...new Set(best)]
}

/** Expression that ends a piece at the edge of a word. `\b` is cheaper, but correct only beside a letter or digit. */
const edge = (element: Element = [], at: number, otherwise: string): string =>
  element.every((way) => isWord(way.at(at))) ? "\\b" : isWord(element[0]?.at(at)) ? otherwise : ""

const elementsOf = (piece: string): ReadonlyArray<Element> =>
  piece
    .split(/(\([^()]*\))/)
    .filter((part) => part !== "")
    .map((part) => (part.startsWith("(") && part.endsWith(")") ? part.slice(1, -1).split("|") : [part]))

const escape = (text: string): string =>
  text.replace(/[\\^$.+?()[\]{}|]/g, "\\$&").replace(/\*/g, "\\w{0,24}")

/**
 * A list of words for each element; the text must have one of them. Elements with an alternative without a word are
 * left out.
 */
const anchorsOf = (elements: ReadonlyArray<Element>): ReadonlyArray<ReadonlyArray<string>> =>
  elements.flatMap((element, i) => {
    const before = isFree(elements, i - 1, -1)
    const after = isFree(elements, i + 1, 1)
    const words = element.map((way) => rarest(way, before, after))
    return words.every((word) => word !== undefined) ? [words] : []
  })

/**
 * True when no alternative of the neighbour touches this element with a letter. An empty alternative is
 * transparent: the element behind it decides.
 */
const isFree = (elements: ReadonlyArray<Element>, i: number, step: 1 | -1): boolean =>
  (elements[i] ?? []).every((way) => {
    const touching = way.at(step === 1 ? 0 : -1)
    return touching === undefined ? isFree(elements, i + step, step) : !isWord(touching) && touching !== "*"
  })

/** The rarest whole word. A word at an edge counts only if the neighbour cannot extend it. */
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

/** Words that occur in most errors, and words that occur in many. */
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
  // One Chinese character distinguishes about as much as four Latin letters.
  return isWord(word) ? Math.min(word.length, 8) : 4
}

/** Value of a list of anchors: that of its most common word, minus a little for each word. */
const worth = (words: ReadonlyArray<string>): number => Math.min(...words.map(rarity)) - words.length / 8

const isWord = (char: string | undefined): boolean => char !== undefined && /[a-z0-9_]/.test(char)
