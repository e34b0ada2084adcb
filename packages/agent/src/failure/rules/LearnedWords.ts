/**
 * A linear model that predicts a reason from the words of an error. The model runs last, on sentences that match no rule.
 *
 * The weights in `LearnedTable.ts` are learned from the labelled errors in `test/fixtures/corpus`. The model uses
 * only the set of words, not their order, grammar or numbers. Its evidence is therefore the weakest of all rules.
 * Pure.
 */

/** For each label: the score without any word, and the words with their weights in one string: `quota 41 free -7`. */
export type Table = Readonly<Record<string, { readonly bias: number; readonly words: string }>>

export interface Reading {
  readonly label: string
  /** The words with the highest weights for the label: at most three. */
  readonly words: ReadonlyArray<string>
  /** Sum of all weights in favour of the label, scaled by the number of words. */
  readonly support: number
  /** Lead over the next label: the difference of the log odds. */
  readonly margin: number
}

/** Id of this model's rule in the evidence. */
export const ruleId = "words/learned"

/** Weights are integers. This integer is a weight of 1. */
export const unit = 32

/** Length of a text that is read, at most, in characters. */
const maxText = 2_000

/** Longer words, and words with a digit, are ids, amounts or models and are skipped. An HTTP status is kept. */
const maxWord = 40
const isStatus = /^[45]\d\d$/
const digit = /\d/
/** URLs and request ids, which are removed because they do not describe a failure. */
const passed = /[a-z][a-z0-9+.-]{1,10}:\/\/\S+|\brequest[ _-]?id\b[ :=]{0,3}\S*/g
const word = /[\p{L}\p{N}_']+/gu
const han = /\p{Script=Han}/u
const common = new Set(
  "the a an of to is and or for in on at this that it with by you your we our be are was as from please".split(
    " "
  )
)

/** The distinct words of a lower-cased text. Chinese has no blanks, so pairs of characters are used instead. */
export const wordsOf = (text: string): ReadonlySet<string> => {
  const found = new Set<string>()
  for (const [each] of text.slice(0, maxText).replace(passed, " ").matchAll(word)) {
    if (han.test(each)) for (let i = 0; i + 1 < each.length; i++) found.add(each.slice(i, i + 2))
    else if (each.length < 2 || each.length > maxWord || common.has(each)) continue
    else if (isStatus.test(each) || !digit.test(each)) found.add(each)
  }
  return found
}

/** Returns a function that reads a lower-cased text. `undefined` if no word is known. */
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
    // Scales the sum, so that a long text does not count more than a short one.
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
