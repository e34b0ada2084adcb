/** Verdicts of a loop detector, and their texts for the model. Pure. */

/** Stop reasons of loops. */
export type Kind = "tool_loop" | "cycle" | "no_progress"

/** The rule that found evidence. */
export type Pattern = "identical" | "poll" | "cycle" | "same_failure" | "same_finding" | "text"

/** Evidence, without arguments and results. */
export interface Finding {
  readonly pattern: Pattern
  /** The requested tool; `undefined` for a text. */
  readonly tool: string | undefined
  /** Number of repetitions in the unit of the pattern; may be fractional. */
  readonly count: number
  /** Number of calls in a lap of a cycle. */
  readonly period?: number | undefined
}

export type Verdict =
  | { readonly _tag: "Ok" }
  | {
      readonly _tag: "Nudge" | "Block" | "Stop"
      readonly kind: Kind
      /** Text for the model. English, unless the detector has its own `wording`. */
      readonly message: string
      readonly evidence: Finding
    }

export const ok: Verdict = { _tag: "Ok" }

const kinds: Readonly<Record<Pattern, Kind>> = {
  identical: "tool_loop",
  same_failure: "tool_loop",
  same_finding: "no_progress",
  poll: "no_progress",
  cycle: "cycle",
  text: "no_progress"
}

/** Reaction to evidence. */
export type Step = "Nudge" | "Block" | "Stop"

/** Describes a finding to the model, in any language. The English text is used when it throws. */
export type Wording = (step: Step, evidence: Finding) => string

/** The English texts. */
export const wording: Wording = (step, evidence) => `${whatHappened(evidence)} ${whatNext[step]}`

export const make = (step: Step, evidence: Finding, say: Wording): Verdict => ({
  _tag: step,
  kind: kinds[evidence.pattern],
  message: said(say, step, evidence),
  evidence
})

/** The host's text, or the English one when it throws. */
const said = (say: Wording, step: Step, evidence: Finding): string => {
  try {
    return say(step, evidence)
  } catch {
    return wording(step, evidence)
  }
}

const whatNext: Readonly<Record<Step, string>> = {
  Nudge: "If that is not what you want, do something else.",
  Block: "This call was not run. Use what you have, try another way, or say what is in the way.",
  Stop: "The run is stopped: it was told, and went on."
}

const whatHappened = ({ pattern, tool, count, period }: Finding): string => {
  const times = `${Math.floor(count)} times`
  switch (pattern) {
    case "identical":
      return `${tool} was called with the same arguments ${times} and brought nothing new.`
    case "poll":
      return `${tool} was asked ${times} and what it waits for has not changed.`
    case "cycle":
      return `The same ${period} calls were made ${times} in a row, with the same results.`
    case "same_failure":
      return `${tool} failed in the same way ${times}.`
    case "same_finding":
      return `${tool} brought the same result ${times}, also with other arguments.`
    case "text":
      return `The answer repeats itself: ${count} characters of it had been said at least twice before.`
  }
}
