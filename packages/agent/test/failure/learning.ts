/**
 * Learns the weights of `LearnedTable.ts`: logistic regression over the words of labelled errors. The first fit
 * uses all words and regularisation towards few of them. The second one uses only the words with the largest
 * weights. The result is deterministic.
 */
import * as ErrorFacts from "#agent/failure/facts/ErrorFacts"
import { unit, wordsOf } from "#agent/failure/rules/LearnedWords"
import type { Table } from "#agent/failure/rules/LearnedWords"
import { errorOf } from "./corpus.ts"
import type { Case } from "./corpus.ts"

/** Number of weights in the table, at most. */
const maxWeights = 3_000
/** Errors that a word must occur in, at least. A word of a single error is probably a name. */
const minErrors = 2
const rounds = 40
const rate = 0.3
/** Strength of the first fit's regularisation, in each step and in each round. */
const pull = { step: 1e-4, round: 0.02 }
/**
 * Weight of an error. Errors from real reports count more than errors from memory. The few unknown ones count most.
 */
const weightOf = ({ expected, source }: Case): number =>
  expected === "unknown" ? 4 : source === undefined ? 1 : 2

/** The texts of an error and its causes. */
export const textOf = (one: Case): string =>
  ErrorFacts.fromUnknown(errorOf(one))
    .map(({ text }) => text)
    .join(" ")

export const learn = (cases: ReadonlyArray<Case>): Table => {
  const bags = cases.map((one) => [...wordsOf(textOf(one))])
  const errors = new Map<string, number>()
  for (const word of bags.flat()) errors.set(word, (errors.get(word) ?? 0) + 1)
  const words = [...errors.keys()].filter((word) => (errors.get(word) ?? 0) >= minErrors).sort()
  const numbers = new Map(words.map((word, n) => [word, n]))
  const labels = [...new Set(cases.map(({ expected }) => expected))].sort()
  const inputs = bags.map((bag) => bag.map((word) => numbers.get(word)).filter((n) => n !== undefined))
  const targets = cases.map(({ expected }) => labels.indexOf(expected))
  const size = labels.length * words.length

  /** Stochastic gradient descent with AdaGrad. A weight that is not `allowed` stays 0. */
  const fit = (allowed: Uint8Array | undefined) => {
    const weights = new Float64Array(size)
    const squares = new Float64Array(size).fill(1e-8)
    const biases = new Float64Array(labels.length)
    const biasSquares = new Float64Array(labels.length).fill(1e-8)
    const order = inputs.map((_, n) => n)
    let seed = 1
    for (let round = 0; round < rounds; round++) {
      for (let i = order.length - 1; i > 0; i--) {
        seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
        const j = seed % (i + 1)
        ;[order[i], order[j]] = [order[j]!, order[i]!]
      }
      for (const n of order) {
        const input = inputs[n]!
        if (input.length === 0) continue
        const share = 1 / Math.sqrt(input.length)
        const scores = labels.map((_, k) => {
          let sum = 0
          for (const word of input) sum += weights[k * words.length + word]!
          return biases[k]! + sum * share
        })
        const most = Math.max(...scores)
        const odds = scores.map((score) => Math.exp(score - most))
        const all = odds.reduce((sum, odd) => sum + odd, 0)
        for (let k = 0; k < labels.length; k++) {
          const error = (odds[k]! / all - (k === targets[n] ? 1 : 0)) * weightOf(cases[n]!)
          biasSquares[k]! += error * error
          biases[k]! -= (rate * error) / Math.sqrt(biasSquares[k]!)
          for (const word of input) {
            const at = k * words.length + word
            if (allowed?.[at] === 0) continue
            const slope = error * share + pull.step * weights[at]!
            squares[at]! += slope * slope
            weights[at]! -= (rate * slope) / Math.sqrt(squares[at]!)
          }
        }
      }
      if (allowed !== undefined) continue
      for (let at = 0; at < size; at++) {
        weights[at] = Math.sign(weights[at]!) * Math.max(0, Math.abs(weights[at]!) - pull.round)
      }
    }
    return { weights, biases }
  }

  const { weights: first } = fit(undefined)
  const worth = (at: number): number =>
    Math.abs(first[at]!) * Math.sqrt(errors.get(words[at % words.length]!) ?? 0)
  const ranked = Array.from({ length: size }, (_, at) => at).sort((a, b) => worth(b) - worth(a) || a - b)
  const allowed = new Uint8Array(size)
  for (const at of ranked.slice(0, maxWeights)) allowed[at] = 1
  const { weights, biases } = fit(allowed)
  return Object.fromEntries(
    labels.map((label, k) => {
      const pairs = words.flatMap((word, n) => {
        const weight = Math.round(weights[k * words.length + n]! * unit)
        return weight === 0 ? [] : [`${word} ${weight}`]
      })
      return [label, { bias: Math.round(biases[k]! * unit), words: pairs.join(" ") }]
    })
  )
}

/** Source of the module with a table, as the formatter prints it. */
export const sourceOf = (table: Table): string => `/**
 * Generated: \`UPDATE_WORDS=1 npx vitest run packages/agent/test/failure/LearnedTable.test.ts\`. Do not edit.
 */
import type { Table } from "./LearnedWords.ts"

export const learnedTable: Table = {
${Object.entries(table)
  .map(
    ([label, { bias, words }]) =>
      `  ${label}: {\n    bias: ${bias},\n    words:\n      ${JSON.stringify(words)}\n  }`
  )
  .join(",\n")}
}
`
