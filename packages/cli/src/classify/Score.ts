/**
 * How often the classifier is right on labelled cases. Pure: a tally, case by case, and what it comes to.
 *
 * **Strict** counts the label only, **lenient** also what a careful reader could have said instead.
 */
import type { Labelled } from "./Case.ts"
import type { Label } from "./Label.ts"
import { labels } from "./Label.ts"
import type { Verdict } from "./Verdict.ts"

export interface Accuracy {
  readonly cases: number
  readonly strict: number
  readonly lenient: number
}

/** A case with another verdict than its label, or another wait. */
export interface Miss {
  readonly id: string | null
  readonly provider: string
  readonly expected: Label
  readonly alt: ReadonlyArray<Label>
  readonly retryAfterMs: number | null
  readonly got: Verdict
  /** The label is another one. */
  readonly reasonMissed: boolean
  /** The wait is another one. */
  readonly waitMissed: boolean
}

export interface Score {
  /** Right answers. */
  readonly overall: Accuracy
  /** Most cases first. */
  readonly providers: ReadonlyArray<Accuracy & { readonly provider: string }>
  /** Of the cases that name a wait, those where it was read; of the others, those where one was made up. */
  readonly waits: { readonly right: number; readonly wrong: number; readonly madeUp: number }
  /** Label, then verdict; what never happened is left out. */
  readonly confusion: { readonly [Expected in Label]?: { readonly [Got in Label]?: number } }
}

export const none: Accuracy = { cases: 0, strict: 0, lenient: 0 }

export const empty: Score = {
  overall: none,
  providers: [],
  waits: { right: 0, wrong: 0, madeUp: 0 },
  confusion: {}
}

/** One answer more. */
export const count = (accuracy: Accuracy, strict: boolean, lenient: boolean): Accuracy => ({
  cases: accuracy.cases + 1,
  strict: accuracy.strict + (strict ? 1 : 0),
  lenient: accuracy.lenient + (lenient ? 1 : 0)
})

/** The score with one more case. */
export const add = (score: Score, given: Labelled, got: Verdict): Score => {
  const { expected } = given
  const provider = given.case.provider ?? "(none)"
  const known = score.providers.find((row) => row.provider === provider)
  const row = { provider, ...count(known ?? none, isStrict(given, got), isLenient(given, got)) }
  const wait = waitOf(given.retryAfterMs, got.retryAfterMs)
  const matrixRow = score.confusion[expected]
  return {
    overall: count(score.overall, isStrict(given, got), isLenient(given, got)),
    providers: [...score.providers.filter((other) => other !== known), row].sort(byCases),
    waits: wait === undefined ? score.waits : { ...score.waits, [wait]: score.waits[wait] + 1 },
    confusion: {
      ...score.confusion,
      [expected]: { ...matrixRow, [got.reason]: (matrixRow?.[got.reason] ?? 0) + 1 }
    }
  }
}

/** What is wrong with an answer, if anything is. */
export const missOf = (given: Labelled, got: Verdict): Miss | undefined => {
  const wait = waitOf(given.retryAfterMs, got.retryAfterMs)
  const waitMissed = wait === "wrong" || wait === "madeUp"
  const reasonMissed = !isStrict(given, got)
  if (!reasonMissed && !waitMissed) return undefined
  const { expected, alt, retryAfterMs = null } = given
  const provider = given.case.provider ?? "(none)"
  return { id: got.id, provider, expected, alt, retryAfterMs, got, reasonMissed, waitMissed }
}

const isStrict = ({ expected }: Labelled, got: Verdict): boolean => got.reason === expected

const isLenient = (given: Labelled, got: Verdict): boolean =>
  isStrict(given, got) || given.alt.includes(got.reason)

/** Rounding may differ by a millisecond. */
const waitOf = (expected: number | undefined, got: number | null): keyof Score["waits"] | undefined => {
  if (expected === undefined) return got === null ? undefined : "madeUp"
  return got !== null && Math.abs(got - expected) <= 1 ? "right" : "wrong"
}

const byCases = (
  a: Accuracy & { readonly provider: string },
  b: Accuracy & { readonly provider: string }
): number => b.cases - a.cases || (a.provider < b.provider ? -1 : 1)

/** The labels that the score has seen, as label or as verdict, in their usual order. */
export const seenLabels = ({ confusion }: Score): ReadonlyArray<Label> =>
  labels.filter(
    (label) => confusion[label] !== undefined || labels.some((row) => confusion[row]?.[label] !== undefined)
  )
