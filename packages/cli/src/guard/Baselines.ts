/**
 * Stuck rules of other agents, to compare the detector with: written from their published behaviour, for tool calls
 * only. Pure.
 *
 * - **OpenHands** stops before the next call after four equal calls with equal results, three equal calls that failed,
 *   or six calls that alternate between two, each with its own result.
 * - **gemini-cli** stops the fifth equal call in a row, whatever the results. Its check of texts and its question to a
 *   model are left out.
 * - **opencode** asks a person about the third equal call in a row, whatever the results. The person is assumed to
 *   refuse.
 *
 * Equal means the same JSON. Failures are those of the loop detector, so that all rules see the same ones.
 */
import { LoopDetector } from "@outlast/agent/guard"

/** A stuck rule. */
export interface Baseline {
  readonly name: string
  /** Index of the first call that would not have run. */
  readonly stopAt: (calls: ReadonlyArray<LoopDetector.Observation>) => number | undefined
}

interface Done {
  readonly call: string
  readonly outcome: string
  readonly failed: boolean
}

/** A rule over the calls before, newest last, and the next call. */
type Rule = (past: ReadonlyArray<Done>, next: Done) => boolean

const detector = LoopDetector.make()

const done = (call: LoopDetector.Observation): Done => {
  const evidence = LoopDetector.evidence(detector, call)
  return {
    call: JSON.stringify([call.tool, call.arguments]),
    outcome: JSON.stringify(call.result),
    failed: call.failed || (typeof evidence !== "number" && evidence.failed)
  }
}

const baseline = (name: string, rule: Rule): Baseline => ({
  name,
  stopAt: (calls) => {
    const all = calls.map(done)
    const at = all.findIndex((next, index) => rule(all.slice(0, index), next))
    return at < 0 ? undefined : at
  }
})

/** True when the last `count` entries are equal in a field. */
const equal = (
  past: ReadonlyArray<Done>,
  count: number,
  ...fields: ReadonlyArray<"call" | "outcome">
): boolean => {
  const last = past.slice(-count)
  return (
    last.length === count && fields.every((field) => last.every((one) => one[field] === last[0]?.[field]))
  )
}

const openHands: Rule = (past) => {
  if (equal(past, 4, "call", "outcome")) return true
  if (equal(past, 3, "call") && past.slice(-3).every(({ failed }) => failed)) return true
  const six = past.slice(-6)
  return (
    six.length === 6 &&
    [0, 1].every((from) =>
      equal(
        six.filter((_, index) => index % 2 === from),
        3,
        "call",
        "outcome"
      )
    )
  )
}

const inARow =
  (count: number): Rule =>
  (past, next) =>
    equal([...past, next], count, "call")

export const baselines: ReadonlyArray<Baseline> = [
  baseline("OpenHands", openHands),
  baseline("gemini-cli", inARow(5)),
  baseline("opencode", inARow(3))
]
