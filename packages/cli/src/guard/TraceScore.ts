/**
 * Scores the verdicts on labelled traces. Pure.
 *
 * **Precision**: the share of stops that are right. **Recall**: the share of loops with a right stop. **Told**: the
 * share of loops that the model is informed about. A stop before the label's `stopFrom` is false, and its loop is
 * missed. **Saved**: the calls of loops after a right stop. **Lost**: the calls that a false stop prevents, until the
 * end of an honest trace or the `stopFrom` of a loop.
 */
import { normalize } from "node:path"
import type { LoopDetector } from "@outlast/agent/guard"
import { Predicate, Result } from "effect"
import { baselines } from "./Baselines.ts"
import * as Judge from "./Judge.ts"
import type { Judged } from "./Judge.ts"

/** The judgement of a careful reviewer. */
export type Label =
  | { readonly file: string; readonly label: "ok" }
  | {
      readonly file: string
      readonly label: "stop"
      /** Index (from 0) of the first call that a reviewer would refuse, knowing only the calls before it. */
      readonly stopFrom: number
    }

/** Reads labels.json: a list of `{ "file", "label", "stopFrom" }`, each file once. */
export const labels = (text: string): Result.Result<ReadonlyArray<Label>, string> => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return Result.fail("is not JSON")
  }
  if (!Array.isArray(json)) return Result.fail("is not a list")
  const read: Array<Label> = []
  const files = new Map<string, number>()
  for (const [index, entry] of json.entries()) {
    const label = labelOf(entry)
    if (label === undefined) {
      return Result.fail(
        `has a wrong entry ${index}: expected { "file", "label": "ok" or "stop", "stopFrom": the index of a call for "stop" }`
      )
    }
    const file = normalize(`/${label.file}`)
    const before = files.get(file)
    if (before !== undefined) {
      return Result.fail(`has two entries for ${label.file}, ${before} and ${index}: a trace has one label`)
    }
    files.set(file, index)
    read.push(label)
  }
  return Result.succeed(read)
}

const labelOf = (entry: unknown): Label | undefined => {
  if (!Predicate.isObject(entry)) return undefined
  const { file, label, stopFrom }: { file?: unknown; label?: unknown; stopFrom?: unknown } = entry
  // A file name has no null character.
  if (typeof file !== "string" || file.includes("\0")) return undefined
  if (label === "ok") return { file, label }
  return label === "stop" && typeof stopFrom === "number" && Number.isInteger(stopFrom) && stopFrom >= 0
    ? { file, label, stopFrom }
    : undefined
}

/** A trace whose verdict differs from its label. */
interface Miss {
  readonly file: string
  readonly expected: "ok" | "stop"
  readonly got: Judged
}

export interface Score {
  readonly traces: number
  readonly loops: number
  /** Loops that are stopped in time, and loops that are stopped too early. */
  readonly stopped: number
  readonly premature: number
  /** Honest traces that are stopped. */
  readonly falselyStopped: number
  /** Loops and honest traces with a message to the model. */
  readonly told: number
  readonly falselyTold: number
  /** 1 when no trace is stopped. */
  readonly precision: number
  /** 1 when there is no loop. */
  readonly recall: number
  /** Calls of loops after a right stop, of all that could be saved; calls that false stops prevent. */
  readonly saved: number
  readonly savable: number
  readonly lost: number
  /** Median number of calls from `stopFrom` to the stop. `null` when no loop is stopped. */
  readonly late: number | null
  readonly misses: ReadonlyArray<Miss>
}

/** What a set of rules costs. */
export interface Cost {
  /** A mode of the detector, or the agent whose rules these are. */
  readonly rules: string
  readonly precision: number
  readonly recall: number
  readonly falselyStopped: number
  readonly saved: number
  readonly lost: number
}

/** A labelled trace. */
export type Labelled = readonly [Label, ReadonlyArray<LoopDetector.Observation>]

/** The verdicts of the detector on traces. */
export const ofTraces = (traces: ReadonlyArray<Labelled>, mode: LoopDetector.Mode = "strict"): Score =>
  of(traces.map(([label, calls]) => [label, Judge.all(calls, mode), calls.length]))

/** The costs of the modes, and of other agents' rules. */
export const costs = (traces: ReadonlyArray<Labelled>): ReadonlyArray<Cost> => [
  ...Judge.modes.map((mode) => costOf(mode, ofTraces(traces, mode))),
  ...baselines.map(({ name, stopAt }) =>
    costOf(name, of(traces.map(([label, calls]) => [label, stoppedAt(stopAt(calls)), calls.length])))
  )
]

const stoppedAt = (at: number | undefined): Judged =>
  at === undefined
    ? Judge.start.judged
    : { verdict: "stop", at, reason: "tool_loop", message: "The run is stuck.", told: true }

const costOf = (rules: string, { precision, recall, falselyStopped, saved, lost }: Score): Cost => ({
  rules,
  precision,
  recall,
  falselyStopped,
  saved,
  lost
})

/** Scores verdicts. The last number of an entry is that of the calls of the trace. */
const of = (judged: ReadonlyArray<readonly [Label, Judged, number]>): Score => {
  const late: Array<number> = []
  const misses: Array<Miss> = []
  let [loops, premature, falselyStopped, told, falselyTold] = [0, 0, 0, 0, 0]
  let [saved, savable, lost] = [0, 0, 0]
  for (const [label, got, calls] of judged) {
    const { file } = label
    if (label.label === "ok") {
      if (got.told) falselyTold++
      if (got.verdict === "stop") {
        falselyStopped++
        lost += calls - got.at
        misses.push({ file, expected: "ok", got })
      }
      continue
    }
    loops++
    savable += calls - label.stopFrom
    if (got.told) told++
    if (got.verdict === "stop" && got.at >= label.stopFrom) {
      late.push(got.at - label.stopFrom)
      saved += calls - got.at
    } else {
      if (got.verdict === "stop") {
        premature++
        lost += label.stopFrom - got.at
      }
      misses.push({ file, expected: "stop", got })
    }
  }
  const stopped = late.length
  const all = stopped + premature + falselyStopped
  return {
    traces: judged.length,
    loops,
    stopped,
    premature,
    falselyStopped,
    told,
    falselyTold,
    precision: all === 0 ? 1 : stopped / all,
    recall: loops === 0 ? 1 : stopped / loops,
    saved,
    savable,
    lost,
    late: medianOf(late.sort((a, b) => a - b)),
    misses
  }
}

const medianOf = (sorted: ReadonlyArray<number>): number | null => {
  const upper = sorted[sorted.length >> 1]
  const lower = sorted[(sorted.length - 1) >> 1]
  return upper === undefined || lower === undefined ? null : (upper + lower) / 2
}
