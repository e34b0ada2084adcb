/**
 * What a run has used so far, by target. Pure, and JSON of bounded size.
 */
import { Schema } from "effect"
import type { Compactions, Ending, Verdict } from "./RunAction.ts"
import { Compactions as CompactionsSchema } from "./RunAction.ts"
import type { AnsweredBy, CallNotes, CallResult, Of } from "./RunEvent.ts"
import { nothingSpent, Spent, Usage } from "./RunEvent.ts"

const Row = Schema.Struct({
  target: Schema.String,
  turns: Schema.Finite,
  usage: Usage,
  /** Absent if no price is known. */
  costUsd: Schema.optional(Schema.Finite)
})
type Row = typeof Row.Type

export const RunTally = Schema.Struct({
  /** In the order in which the targets first answered; at most {@link maxRows}. */
  rows: Schema.Array(Row),
  /** Provider and model of the last answer that came through Outlast. */
  last: Schema.optional(Schema.String),
  toolCalls: Schema.Finite,
  blocked: Schema.Finite,
  modelSwitches: Schema.Finite,
  outputRaises: Schema.Finite,
  continuations: Schema.Finite,
  mediaDropped: Schema.Finite,
  compactions: CompactionsSchema,
  subagents: Spent
})
export type RunTally = typeof RunTally.Type

/** Maximum number of rows, one for each target. Further targets share the last row. */
const maxRows = 16
const others = "others"

export const initial: RunTally = {
  rows: [],
  toolCalls: 0,
  blocked: 0,
  modelSwitches: 0,
  outputRaises: 0,
  continuations: 0,
  mediaDropped: 0,
  compactions: { times: 0, summaries: { calls: 0, tokens: 0, costUsd: undefined } },
  subagents: nothingSpent
}

const modelOf = ({ provider, model }: AnsweredBy): string => `${provider}/${model}`

/** True when another model answers than before. */
export const isSwitch = ({ last }: RunTally, by: AnsweredBy | undefined): boolean =>
  by !== undefined && last !== undefined && last !== modelOf(by)

/** Adds one answer. */
export const counted = (tally: RunTally, event: Of<"Answered">): RunTally => {
  const { by, usage, costUsd } = event
  const name = by?.target ?? "unknown"
  const isNew = !tally.rows.some(({ target }) => target === name)
  const target = isNew && tally.rows.length >= maxRows ? others : name
  const row = tally.rows.find((row) => row.target === target)
  const next: Row = {
    target,
    turns: (row?.turns ?? 0) + 1,
    usage: row === undefined ? usage : plus(row.usage, usage),
    costUsd: sum(row?.costUsd, costUsd)
  }
  return noted(
    {
      ...tally,
      rows: row === undefined ? [...tally.rows, next] : tally.rows.map((one) => (one === row ? next : one)),
      last: by === undefined ? tally.last : modelOf(by),
      modelSwitches: tally.modelSwitches + (isSwitch(tally, by) ? 1 : 0)
    },
    event.notes
  )
}

/** Adds what the recovery of a call did. */
export const noted = (tally: RunTally, notes: CallNotes | undefined): RunTally =>
  notes === undefined
    ? tally
    : {
        ...tally,
        outputRaises: tally.outputRaises + (notes.raisedTo === undefined ? 0 : 1),
        continuations: tally.continuations + (notes.continued ?? 0),
        mediaDropped: tally.mediaDropped + (notes.mediaDropped ?? 0)
      }

/** Adds one compaction. */
export const compacted = (tally: RunTally, spent: Compactions["summaries"]): RunTally => {
  const { times, summaries } = tally.compactions
  return {
    ...tally,
    compactions: {
      times: times + 1,
      summaries: {
        calls: summaries.calls + spent.calls,
        tokens: summaries.tokens + spent.tokens,
        costUsd: sum(summaries.costUsd, spent.costUsd)
      }
    }
  }
}

/** Adds the calls of a turn. */
export const finished = (
  tally: RunTally,
  calls: ReadonlyArray<{ readonly verdict: Verdict }>,
  results: ReadonlyArray<CallResult>
): RunTally => {
  let { blocked, subagents } = tally
  for (const [i, { blocked: around, spent }] of results.entries()) {
    const verdict = calls[i]?.verdict
    if (around !== undefined || (verdict?._tag === "Block" && verdict.pattern !== undefined)) blocked++
    if (spent !== undefined) subagents = plusSpent(subagents, spent)
  }
  return { ...tally, toolCalls: tally.toolCalls + results.length, blocked, subagents }
}

export const plusSpent = (a: Spent, b: Spent): Spent => ({
  runs: a.runs + b.runs,
  turns: a.turns + b.turns,
  toolCalls: a.toolCalls + b.toolCalls,
  events: a.events + b.events,
  tokens: a.tokens + b.tokens,
  costUsd: a.costUsd + b.costUsd
})

/** US dollars of all turns and summaries with a known price; `undefined` if no price is known. */
export const costOf = ({ rows, compactions }: RunTally): number | undefined =>
  rows.reduce((all, row) => sum(all, row.costUsd), compactions.summaries.costUsd)

/** The usage fields of an outcome. */
export const totals = (tally: RunTally): Omit<Ending, "status" | "finishReason" | "stop"> => {
  const turns = tally.rows.reduce((all, row) => all + row.turns, 0)
  return {
    turns,
    toolCalls: tally.toolCalls,
    blockedCalls: tally.blocked,
    models: tally.rows.map(({ target, turns: own, usage, costUsd }) => ({
      target,
      turns: own,
      usage,
      costUsd,
      share: own / turns
    })),
    modelSwitches: tally.modelSwitches,
    outputRaises: tally.outputRaises,
    continuations: tally.continuations,
    mediaDropped: tally.mediaDropped,
    usage: tally.rows.reduce((all, row) => plus(all, row.usage), noUsage),
    compactions: tally.compactions,
    subagents: tally.subagents,
    costUsd: costOf(tally)
  }
}

const noUsage: Usage = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 }

const plus = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
  outputTokens: a.outputTokens + b.outputTokens
})

const sum = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : a + (b ?? 0)
