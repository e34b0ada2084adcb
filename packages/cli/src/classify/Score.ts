/**
 * Counts how often the classifier is right on labelled cases. Pure.
 *
 * **Strict** counts only the label. **Lenient** also counts the other labels that a careful reader could choose. A
 * **decision** is right if the default policy's action helps, whatever the label.
 */
import type { Labelled } from "./cases/ErrorCase.ts"
import type { Action, Decision } from "./cases/Decision.ts"
import { isRight } from "./cases/Decision.ts"
import type { Label } from "./cases/Label.ts"
import { labels } from "./cases/Label.ts"
import type { Verdict } from "./Verdict.ts"

export interface Accuracy {
  readonly cases: number
  readonly strict: number
  readonly lenient: number
}

/** A case whose verdict differs from its label or its wait, or whose decision is wrong. */
export interface Miss {
  readonly id: string | null
  readonly provider: string
  readonly expected: Label
  readonly alt: ReadonlyArray<Label>
  readonly retryAfterMs: number | null
  readonly got: Verdict
  /** True when the verdict has another label. */
  readonly reasonMissed: boolean
  /** True when the verdict has another wait. */
  readonly waitMissed: boolean
  /** The policy's decision, if it does not help. */
  readonly wrongly: Decision | undefined
  readonly right: ReadonlyArray<Action>
}

/** Right decisions: with another key and another target, and with a single target. */
interface Decisions {
  readonly beside: number
  readonly alone: number
}

export interface Score {
  /** Accuracy over all cases. */
  readonly overall: Accuracy
  /** Accuracy by provider, most cases first. */
  readonly providers: ReadonlyArray<Accuracy & { readonly provider: string }>
  /** Cases that name a wait: read right or wrong. Cases without one: made up by the classifier. */
  readonly waits: { readonly right: number; readonly wrong: number; readonly madeUp: number }
  readonly decisions: Decisions
  /** Counts by label, then by verdict. Combinations that never occurred are absent. */
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

/** Adds one answer. */
export const count = (accuracy: Accuracy, strict: boolean, lenient: boolean): Accuracy => ({
  cases: accuracy.cases + 1,
  strict: accuracy.strict + (strict ? 1 : 0),
  lenient: accuracy.lenient + (lenient ? 1 : 0)
})

/** Adds one case to the score. */
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

/** Returns the errors of an answer, or `undefined` when it is right. */
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

/** Compares waits. Rounding may differ by a millisecond. */
const waitOf = (expected: number | undefined, got: number | null): keyof Score["waits"] | undefined => {
  if (expected === undefined) return got === null ? undefined : "madeUp"
  return got !== null && Math.abs(got - expected) <= 1 ? "right" : "wrong"
}

const byCases = (
  a: Accuracy & { readonly provider: string },
  b: Accuracy & { readonly provider: string }
): number => b.cases - a.cases || (a.provider < b.provider ? -1 : 1)

/** Returns the labels in the score, expected or returned, in their usual order. */
export const seenLabels = ({ confusion }: Score): ReadonlyArray<Label> =>
  labels.filter(
    (label) => confusion[label] !== undefined || labels.some((row) => confusion[row]?.[label] !== undefined)
  )
