/**
 * Scores the verdicts on labelled traces. Pure.
 *
 * **Precision**: the share of stops that are right. **Recall**: the share of loops with a right stop. **Told**: the
 * share of loops that the model is informed about. A stop before the label's `stopFrom` is false, and its loop is
 * missed.
 */
import { normalize } from "node:path"
import { Predicate, Result } from "effect"
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
  /** Median number of calls from `stopFrom` to the stop. `null` when no loop is stopped. */
  readonly late: number | null
  readonly misses: ReadonlyArray<Miss>
}

export const of = (judged: ReadonlyArray<readonly [Label, Judged]>): Score => {
  const late: Array<number> = []
  const misses: Array<Miss> = []
  let [loops, premature, falselyStopped, told, falselyTold] = [0, 0, 0, 0, 0]
  for (const [label, got] of judged) {
    const { file } = label
    if (label.label === "ok") {
      if (got.told) falselyTold++
      if (got.verdict === "stop") {
        falselyStopped++
        misses.push({ file, expected: "ok", got })
      }
      continue
    }
    loops++
    if (got.told) told++
    if (got.verdict === "stop" && got.at >= label.stopFrom) late.push(got.at - label.stopFrom)
    else {
      if (got.verdict === "stop") premature++
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
    late: medianOf(late.sort((a, b) => a - b)),
    misses
  }
}

const medianOf = (sorted: ReadonlyArray<number>): number | null => {
  const upper = sorted[sorted.length >> 1]
  const lower = sorted[(sorted.length - 1) >> 1]
  return upper === undefined || lower === undefined ? null : (upper + lower) / 2
}
