/**
 * What a loop detector says about a call, and how it says it to the model.
 */

/** Why a run is stopped: of the guard's reasons those that are about loops. */
export type Kind = "tool_loop" | "file_loop" | "cycle" | "no_progress"

/** What was seen. */
export type Pattern =
  | "identical"
  | "poll"
  | "cycle"
  | "same_failure"
  | "same_finding"
  | "unchanged_check"
  | "edits"
  | "stale"
  | "text"

/** The evidence. It holds no argument and no result. */
export interface Finding {
  readonly pattern: Pattern
  /** The tool that was asked for; `undefined` for a text. */
  readonly tool: string | undefined
  /** How often, in the unit of the pattern; may be a half. */
  readonly count: number
  /** Calls in a round of a cycle. */
  readonly period?: number | undefined
  /** The file whose edits get nowhere. */
  readonly path?: string | undefined
}

export type Verdict =
  | { readonly _tag: "Ok" }
  | {
      readonly _tag: "Nudge" | "Block" | "Stop"
      readonly kind: Kind
      /** For the model. In English, where the detector has no `wording` of its own. */
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
  unchanged_check: "no_progress",
  edits: "file_loop",
  stale: "no_progress",
  text: "no_progress"
}

/**
 * The evidence that is strict: the same call with the same outcome, again and again. A cycle is strict where its laps
 * are of the same calls. All other evidence is soft.
 */
export const strict: ReadonlySet<Pattern> = new Set<Pattern>(["identical", "poll", "text"])

/** What is done about a finding. */
export type Step = "Nudge" | "Block" | "Stop"

/** How a finding is told to the model, in any language. One that fails is not used. */
export type Wording = (step: Step, evidence: Finding) => string

/** In English. */
export const wording: Wording = (step, evidence) => `${whatHappened(evidence)} ${whatNext[step]}`

export const make = (step: Step, evidence: Finding, say: Wording): Verdict => ({
  _tag: step,
  kind: kinds[evidence.pattern],
  message: said(say, step, evidence),
  evidence
})

/** A text of the host's that fails is no reason to say nothing. */
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

const whatHappened = ({ pattern, tool, count, period, path }: Finding): string => {
  const times = `${Math.floor(count)} times`
  switch (pattern) {
    case "identical":
      return `${tool} was called with the same arguments ${times} and brought nothing new.`
    case "poll":
      return `${tool} was asked ${times} and what it waits for has not changed.`
    case "cycle":
      return `The same ${period} calls were made ${times} in a row, with the same results.`
    case "same_failure":
      return `${tool} failed in the same way ${times}, with changing arguments.`
    case "same_finding":
      return `${tool} found the same ${times}, whatever it was asked.`
    case "unchanged_check":
      return `After ${Math.floor(count)} changes ${tool} fails as it did before.`
    case "edits":
      return `${Math.floor(count)} edits of ${path} went back, changed nothing, or left the failure as it was.`
    case "stale":
      return `The last ${Math.floor(count)} calls brought nothing that was not known.`
    case "text":
      return `The answer repeats the same words ${times}.`
  }
}
