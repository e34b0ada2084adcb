/**
 * The outcome of a run: how it ended, and its usage and cost.
 */
import { Option } from "effect"
import type { Response } from "effect/ai"
import type { BlockedCall } from "../guard/BlockedCalls.ts"
import { answeredBy } from "../conversation/Answered.ts"
import type { Compactions } from "./Compacting.ts"
import type { Transcript } from "../conversation/Transcript.ts"

/** One target's part of a run. */
export interface ModelShare {
  /** The id of the target; `"unknown"` for a model that did not come through Outlast. */
  readonly target: string
  readonly turns: number
  /** The share of the run's turns, from 0 to 1. */
  readonly share: number
  readonly usage: Usage
  /** US dollars; absent if the price is unknown. */
  readonly costUsd: number | undefined
}

/** Tokens. A count that the provider did not report is 0. */
export interface Usage {
  readonly inputTokens: number
  readonly cachedInputTokens: number
  readonly outputTokens: number
}

export interface Outcome {
  /**
   * - `completed`: the model ended by itself
   * - `cut`: the last answer is incomplete (`finishReason` says why)
   * - `refused`: the provider rejected the content, over a model that is not Outlast's; over Outlast's models the
   *   run fails instead
   * - `turn_limit`, `cost_limit`: a limit ended the run
   */
  readonly status: "completed" | "cut" | "refused" | "turn_limit" | "cost_limit"
  /** The text of the last answer. */
  readonly text: string
  /** Finish reason of the last answer; `length` is a cut answer. */
  readonly finishReason: Response.FinishReason
  readonly turns: number
  readonly toolCalls: number
  /** Tool calls that a guard blocked: their number, and the last 100 of them, oldest first. */
  readonly blockedCalls: number
  readonly blocked: ReadonlyArray<BlockedCall>
  /** Each target's part, in the order in which the targets first answered. */
  readonly models: ReadonlyArray<ModelShare>
  /** Usage of all turns, without summaries. */
  readonly usage: Usage
  /** Number of compactions, and the usage of their summaries. */
  readonly compactions: Compactions
  /** US dollars of all turns and summaries with a known price; absent if no price is known. */
  readonly costUsd: number | undefined
  readonly transcript: Transcript
}

interface Row {
  readonly turns: number
  readonly usage: Usage
  readonly costUsd: number | undefined
}

/** Usage of a run so far, by target. Immutable. */
export type Tally = ReadonlyMap<string, Row>

export const emptyTally: Tally = new Map()

const noUsage: Usage = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 }

/** Adds one answer to the tally. */
export const count = (tally: Tally, parts: ReadonlyArray<Response.AnyPart>): Tally => {
  const by = answeredBy(parts)
  const target = Option.match(by, { onNone: () => "unknown", onSome: ({ target }) => target })
  const costUsd = Option.getOrUndefined(by)?.costUsd
  const finish = parts.findLast((part) => part.type === "finish")
  const row = tally.get(target)
  return new Map(tally).set(target, {
    turns: (row?.turns ?? 0) + 1,
    usage: plus(row?.usage ?? noUsage, {
      inputTokens: finish?.usage.inputTokens.total ?? 0,
      cachedInputTokens: finish?.usage.inputTokens.cacheRead ?? 0,
      outputTokens: finish?.usage.outputTokens.total ?? 0
    }),
    costUsd: sum(row?.costUsd, costUsd)
  })
}

/** The usage fields of an outcome. */
export const totals = (
  tally: Tally,
  compactions: Compactions
): Pick<Outcome, "models" | "usage" | "compactions" | "costUsd" | "turns"> => {
  const rows = [...tally.values()]
  const turns = rows.reduce((all, row) => all + row.turns, 0)
  return {
    turns,
    models: [...tally].map(([target, row]) => ({ target, ...row, share: row.turns / turns })),
    usage: rows.reduce((all, row) => plus(all, row.usage), noUsage),
    compactions,
    costUsd: rows.reduce((all, row) => sum(all, row.costUsd), compactions.summaries.costUsd)
  }
}

const plus = (a: Usage, b: Usage): Usage => ({
  inputTokens: a.inputTokens + b.inputTokens,
  cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
  outputTokens: a.outputTokens + b.outputTokens
})

const sum = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : a + (b ?? 0)
