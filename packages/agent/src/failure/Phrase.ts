/**
 * Phrases: what a rule looks for in a text.
 *
 * A phrase is a piece of a sentence in lower case. It matches whole words only, so that "rate" is not found in
 * "generate" nor "key" in "keyword". Three signs are special:
 *
 * - `…` stands for up to {@link gap} characters of anything;
 * - `(a|b)` stands for one of several, the last of which may be empty; groups do not nest;
 * - `*` at the end of a word stands for any ending of it.
 *
 * A phrase becomes a regular expression without nested or unbounded repetition, so it cannot be slow, and it is
 * tried only where one of its rarer words stands. What was found is told without what stood in the gaps.
 */

/** The most that `…` stands for, in characters. */
export const gap = 120

/** A text, and the words in it. */
export interface Prepared {
  readonly text: string
  readonly words: ReadonlySet<string>
}

/** Finds the first phrase that the text has; answers with its words, `…` for each gap. */
export interface Finder {
  (prepared: Prepared): string | undefined
  /** Words without one of which nothing is found; absent where there is no such list. */
  readonly anchors: ReadonlyArray<string> | undefined
}

/** The anchor of phrases in Chinese: it stands among the words of every text that has such a character. */
export const han = "\u4e2d"
const isHan = /[\u4e00-\u9fff]/

/** The words of a lower-cased text. */
export const wordsOf = (text: string): ReadonlySet<string> => {
  const words = new Set<string>(text.match(/[a-z0-9_]+/g))
  if (isHan.test(text)) words.add(han)
  return words
}

interface Phrase {
  readonly form: RegExp
  readonly anchors: ReadonlyArray<string> | undefined
}

/** Compiles a list of phrases. */
export const finder = (sources: ReadonlyArray<string>): Finder => {
  const phrases = sources.map(compile)
  const find = ({ text, words }: Prepared): string | undefined => {
    for (const { form, anchors } of phrases) {
      if (anchors !== undefined && !hasOne(words, anchors)) continue
      const match = form.exec(text)
      if (match !== null) return match.slice(1).join("…")
    }
    return undefined
  }
  const anchors = phrases.flatMap((phrase) => phrase.anchors ?? [])
  const all = phrases.every((phrase) => phrase.anchors !== undefined)
  return Object.assign(find, { anchors: all ? [...new Set(anchors)] : undefined })
}

// A loop and not `some`: it runs about a hundred times for an error.
const hasOne = (words: ReadonlySet<string>, anchors: ReadonlyArray<string>): boolean => {
  for (const anchor of anchors) if (words.has(anchor)) return true
  return false
}

/** One of several ways to go on; a plain piece has one. */
type Element = ReadonlyArray<string>

const compile = (source: string): Phrase => {
  if (/\([^()]*\(/.test(source)) throw new RangeError(`Phrase: groups do not nest: ${source}`)
  const pieces = source
    .split("…")
    .map((piece) => piece.trim())
    .filter((piece) => piece !== "")
  const forms = pieces.map((piece) => {
    const elements = elementsOf(piece)
    const body = elements
      .map((element) =>
        element.length === 1 ? escape(element[0] ?? "") : `(?:${element.map(escape).join("|")})`
      )
      .join("")
    const begins = isWord((elements[0]?.[0] ?? "").at(0)) ? "(?<![a-z0-9_])" : ""
    const ends = isWord((elements.at(-1)?.[0] ?? "").at(-1)) ? "(?![a-z0-9_])" : ""
    return `${begins}(${body})${ends}`
  })
  const lists = pieces.flatMap((piece) => anchorsOf(elementsOf(piece)))
  const best = lists.toSorted((a, b) => worth(b) - worth(a))[0]
  return {
    form: new RegExp(forms.join(`.{0,${gap}}?`)),
    anchors: best ?? (isHan.test(source) ? [han] : undefined)
  }
}

const elementsOf = (piece: string): ReadonlyArray<Element> =>
  piece
    .split(/(\([^()]*\))/)
    .filter((part) => part !== "")
    .map((part) => (part.startsWith("(") && part.endsWith(")") ? part.slice(1, -1).split("|") : [part]))

const escape = (text: string): string => text.replace(/[\\^$.+?()[\]{}|]/g, "\\$&").replace(/\*/g, "")

/** For each element the words of which one must stand in the text, where all its ways have one. */
const anchorsOf = (elements: ReadonlyArray<Element>): ReadonlyArray<ReadonlyArray<string>> =>
  elements.flatMap((element, i) => {
    const free = isFree(elements[i - 1], -1) && isFree(elements[i + 1], 0)
    const words = element.map((way) => longest(way, free))
    return words.every((word) => word !== undefined) ? [words] : []
  })

/** Whether no way of a neighbour goes on with a letter where it touches. */
const isFree = (neighbour: Element | undefined, at: number): boolean =>
  neighbour === undefined || neighbour.every((way) => !isWord(way.at(at)) && way.at(at) !== "*")

/** The longest whole word; words at the edges count only where the neighbours leave them alone. */
const longest = (way: string, free: boolean): string | undefined => {
  let best: string | undefined
  for (const match of way.matchAll(/[a-z0-9_]+/g)) {
    const end = match.index + match[0].length
    const atEdge = match.index === 0 || end === way.length
    if ((atEdge && !free) || way.at(end) === "*") continue
    if (best === undefined || rarity(match[0]) > rarity(best)) best = match[0]
  }
  return best
}

/** Words that stand in most errors. */
const common = new Set(
  "is the not of to for in a an and or be was are been has no your this that with on at by it error request api model token tokens key must".split(
    " "
  )
)

const rarity = (word: string): number => (common.has(word) ? 0 : Math.min(word.length, 8))

/** A list is as good as its worst word; long lists are worse. */
const worth = (words: ReadonlyArray<string>): number => Math.min(...words.map(rarity)) - words.length / 8

const isWord = (char: string | undefined): boolean => char !== undefined && /[a-z0-9_]/.test(char)
