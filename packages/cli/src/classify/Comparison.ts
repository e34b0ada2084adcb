/**
 * Compares simpler rules with the classifier on the same labelled cases. Pure.
 *
 * Each rule is judged in its own vocabulary. Labels and the classifier's verdicts are converted to it, so that a rule
 * with two classes is compared with two classes.
 */
import type { Labelled } from "./cases/ErrorCase.ts"
import { reasonsOf } from "./cases/Label.ts"
import type { Accuracy } from "./Score.ts"
import { count, none } from "./Score.ts"
import { failover, recovery } from "./simpler/codebuddy.ts"
import { decision037 } from "./simpler/decision037.ts"
import { claw0, nexo, s11, statusOnly } from "./simpler/others.ts"
import type { SimplerRule } from "./simpler/SimplerRule.ts"
import { seenOf } from "./simpler/SimplerRule.ts"
import type { FailoverReason } from "@outlast/agent"

const rules: ReadonlyArray<SimplerRule> = [statusOnly, failover, recovery, decision037, s11, nexo, claw0]

interface Row {
  readonly name: string
  readonly vocabulary: string
  readonly rule: Accuracy
  /** Accuracy of the classifier in the rule's vocabulary. */
  readonly ours: Accuracy
}

export type Comparison = ReadonlyArray<Row>

export const empty: Comparison = rules.map(({ name, vocabulary }) => ({
  name,
  vocabulary,
  rule: none,
  ours: none
}))

/** Adds one case. `ours` is the classifier's verdict. */
export const add = (
  rows: Comparison,
  { case: given, expected, alt }: Labelled,
  ours: FailoverReason.FailoverReason
): Comparison =>
  rows.map((row, index) => {
    const simpler = rules[index]
    if (simpler === undefined) return row
    // A label that leaves a side open accepts the classes of both sides.
    const strict = new Set(reasonsOf(expected).map(simpler.classOf))
    const lenient = new Set([...strict, ...alt.flatMap(reasonsOf).map(simpler.classOf)])
    const judged = (accuracy: Accuracy, said: string) => count(accuracy, strict.has(said), lenient.has(said))
    return {
      ...row,
      rule: judged(row.rule, simpler.sort(seenOf(given))),
      ours: judged(row.ours, simpler.classOf(ours))
    }
  })
