/**
 * How often the classifier is right on labelled cases. Pure: a tally, case by case, and what it comes to.
 *
 * **Strict** counts the label only, **lenient** also what a careful reader could have said instead. A **decision** is
 * right if the default policy then does something that helps, whatever the label.
 */
import type { Labelled } from "./Case.ts"
import type { Action, Decision } from "./Decision.ts"
import { isRight } from "./Decision.ts"
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
  /** What the policy does about it, if that does not help. */
  readonly wrongly: Decision | undefined
  readonly right: ReadonlyArray<Action>
}

/** Right decisions: beside another key and another target, and alone. */
interface Decisions {
  readonly beside: number
  readonly alone: number
}

export interface Score {
  /** Right answers. */
  readonly overall: Accuracy
  /** Most cases first. */
  readonly providers: ReadonlyArray<Accuracy & { readonly provider: string }>
  /** Of the cases that name a wait, those where it was read; of the others, those where one was made up. */
  readonly waits: { readonly right: number; readonly wrong: number; readonly madeUp: number }
  readonly decisions: Decisions
  /** Label, then verdict; what never happened is left out. */
  readonly confusion: { readonly [Expected in Label]?: { readonly [Got in Label]?: number } }
}

export const none: Accuracy = { cases: 0, strict: 0, lenient: 0 }

export const empty: Score = {
  overall: none,
  providers: [],
  waits: { right: 0, wrong: 0, madeUp: 0 },
  decisions: { beside: 0, alone: 0 },
  confusion: {}
}

/** One answer more. */
export const count = (accuracy: Accuracy, strict: boolean, lenient: boolean): Accuracy => ({
  cases: accuracy.cases + 1,
  strict: accuracy.strict + (strict ? 1 : 0),
  lenient: accuracy.lenient + (lenient ? 1 : 0)
})

/** The score with one more case. */
export const add = (score: Score, given: Labelled, got: Verdict, decision: Decision): Score => {
  const { expected } = given
  const provider = given.case.provider ?? "(none)"
  const known = score.providers.find((row) => row.provider === provider)
  const row = { provider, ...count(known ?? none, isStrict(given, got), isLenient(given, got)) }
  const wait = waitOf(given.retryAfterMs, got.retryAfterMs)
  const matrixRow = score.confusion[expected]
  const { beside, alone } = isRight(given.right, decision)
  return {
    overall: count(score.overall, isStrict(given, got), isLenient(given, got)),
    providers: [...score.providers.filter((other) => other !== known), row].sort(byCases),
    waits: wait === undefined ? score.waits : { ...score.waits, [wait]: score.waits[wait] + 1 },
    decisions: {
      beside: score.decisions.beside + (beside ? 1 : 0),
      alone: score.decisions.alone + (alone ? 1 : 0)
    },
    confusion: {
      ...score.confusion,
      [expected]: { ...matrixRow, [got.reason]: (matrixRow?.[got.reason] ?? 0) + 1 }
    }
  }
}

/** What is wrong with an answer, if anything is. */
export const missOf = (given: Labelled, got: Verdict, decision: Decision): Miss | undefined => {
  const wait = waitOf(given.retryAfterMs, got.retryAfterMs)
  const waitMissed = wait === "wrong" || wait === "madeUp"
  const reasonMissed = !isStrict(given, got)
  const { beside, alone } = isRight(given.right, decision)
  if (!reasonMissed && !waitMissed && beside && alone) return undefined
  const { expected, alt, right, retryAfterMs = null } = given
  const provider = given.case.provider ?? "(none)"
  const wrongly = beside && alone ? undefined : decision
  return { id: got.id, provider, expected, alt, retryAfterMs, got, reasonMissed, waitMissed, wrongly, right }
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
