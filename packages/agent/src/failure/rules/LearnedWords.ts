/**
 * A linear model that reads a reason off the words of an error. It is asked last, about sentences that no rule knows.
 *
 * The weights in `LearnedTable.ts` are learned from the labelled errors in `test/fixtures/corpus`. Neither order,
 * grammar nor numbers are read, only which words there are. Pure; evidence of this kind is the weakest there is.
 */

/** By label: the score without any word, and the words with their weights, in one text: `quota 41 free -7`. */
export type Table = Readonly<Record<string, { readonly bias: number; readonly words: string }>>

export interface Reading {
  readonly label: string
  /** The words that speak most for the label: at most three. */
  readonly words: ReadonlyArray<string>
  /** How much all words together that speak for the label add to its score. */
  readonly support: number
  /** How far the label is ahead of the next one: the difference of their logarithmic odds. */
  readonly margin: number
}

/** The rule that reads by this model, as the evidence names it. */
export const ruleId = "words/learned"

/** Weights are whole numbers; so many of them are 1. */
export const unit = 32

/** Texts are read up to here, in characters. */
const maxText = 2_000

/** Words that are longer, or have a digit in them, are ids, amounts or models. An HTTP status is none of these. */
const maxWord = 40
const isStatus = /^[45]\d\d$/
const digit = /\d/
/** Addresses, and the ids that providers give to requests, name nothing that went wrong. */
const passed = /[a-z][a-z0-9+.-]{1,10}:\/\/\S+|\brequest[ _-]?id\b[ :=]{0,3}\S*/g
const word = /[\p{L}\p{N}_']+/gu
const han = /\p{Script=Han}/u
const common = new Set(
  "the a an of to is and or for in on at this that it with by you your we our be are was as from please".split(
    " "
  )
)

/** The different words of a lower-cased text; of Chinese, which has no blanks, the pairs of characters. */
export const wordsOf = (text: string): ReadonlySet<string> => {
  const found = new Set<string>()
  for (const [each] of text.slice(0, maxText).replace(passed, " ").matchAll(word)) {
    if (han.test(each)) for (let i = 0; i + 1 < each.length; i++) found.add(each.slice(i, i + 2))
    else if (each.length < 2 || each.length > maxWord || common.has(each)) continue
    else if (isStatus.test(each) || !digit.test(each)) found.add(each)
  }
  return found
}

/** A function that reads a lower-cased text: undefined where no word is known. */
export const reader = (table: Table): ((text: string) => Reading | undefined) => {
  const labels = Object.keys(table)
  const weights = new Map<string, Array<number>>()
  labels.forEach((label, row) => {
    const parts = table[label]?.words.split(" ") ?? []
    for (let i = 0; i + 1 < parts.length; i += 2) {
      const key = parts[i] ?? ""
      const known = weights.get(key) ?? labels.map(() => 0)
      known[row] = Number(parts[i + 1])
      weights.set(key, known)
    }
  })
  return (text) => {
    const known = [...wordsOf(text)].flatMap((key) => {
      const row = weights.get(key)
      return row === undefined ? [] : [{ key, row }]
    })
    if (known.length === 0) return undefined
    // A long text says no more than a short one that has the same words in it.
    const share = 1 / Math.sqrt(known.length)
    const ranked = labels
      .map((label, at) => {
        const sum = known.reduce((sum, { row }) => sum + (row[at] ?? 0), 0)
        return { label, at, score: (table[label]?.bias ?? 0) + sum * share }
      })
      .sort((a, b) => b.score - a.score)
    const [best, next] = ranked
    if (best === undefined || next === undefined) return undefined
    const words = known
      .map(({ key, row }) => ({ key, weight: row[best.at] ?? 0 }))
      .filter(({ weight }) => weight > 0)
      .sort((a, b) => b.weight - a.weight)
    return {
      label: best.label,
      words: words.slice(0, 3).map(({ key }) => key),
      support: (words.reduce((sum, { weight }) => sum + weight, 0) * share) / unit,
      margin: (best.score - next.score) / unit
    }
  }
}
