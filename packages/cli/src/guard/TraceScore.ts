/**
 * How often the guard is right on labelled traces. Pure.
 *
 * **Precision**: of the traces that it stops, those that are loops. **Recall**: of the loops, those that it stops.
 * **Lateness**: calls between the one at which a careful reviewer would have stopped a loop, and its own; less than 0
 * where it was earlier. A loop that is stopped before a reviewer could know is counted as stopped: see `earliest`.
 */
import { normalize } from "node:path"
import { Predicate, Result } from "effect"
import type { Judged } from "./Judge.ts"

/** What a careful reviewer says. */
export type Label =
  | { readonly file: string; readonly label: "ok" }
  | {
      readonly file: string
      readonly label: "stop"
      /** Index of the call at which they would stop it, from 0. */
      readonly at: number
    }

/** Reads labels.json: a list of `{ "file", "label", "at" }`, each file once. */
export const labels = (text: string): Result.Result<ReadonlyArray<Label>, string> => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return Result.fail("is not JSON")
  }
  if (!Array.isArray(json)) return Result.fail("is no list")
  const read: Array<Label> = []
  const files = new Map<string, number>()
  for (const [index, entry] of json.entries()) {
    const label = labelOf(entry)
    if (label === undefined) {
      return Result.fail(
        `has a wrong entry ${index}: expected { "file", "label": "ok" or "stop", "at": the index of a call for "stop" }`
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
  const { file, label, at }: { file?: unknown; label?: unknown; at?: unknown } = entry
  // No file has a name with a zero in it.
  if (typeof file !== "string" || file.includes("\0")) return undefined
  if (label === "ok") return { file, label }
  return label === "stop" && typeof at === "number" && Number.isInteger(at) && at >= 0
    ? { file, label, at }
    : undefined
}

/** A trace that was judged otherwise than its label says. */
export interface Miss {
  readonly file: string
  readonly expected: "ok" | "stop"
  readonly got: Judged
}

export interface Score {
  readonly traces: number
  /** Loops that were stopped; honest work that was stopped; loops that were not. */
  readonly stopped: number
  readonly falselyStopped: number
  readonly missed: number
  /** 1 where nothing was stopped. */
  readonly precision: number
  /** 1 where there is no loop. */
  readonly recall: number
  /** Of the loops that were stopped; `null` where there are none. */
  readonly lateness: {
    readonly median: number | null
    readonly earliest: number | null
    readonly latest: number | null
  }
  readonly misses: ReadonlyArray<Miss>
}

export const of = (judged: ReadonlyArray<readonly [Label, Judged]>): Score => {
  const late: Array<number> = []
  const misses: Array<Miss> = []
  let loops = 0
  for (const [label, got] of judged) {
    if (label.label === "stop") loops++
    if (label.label === "stop" && got.verdict === "stop") late.push(got.at - label.at)
    else if (label.label !== got.verdict) misses.push({ file: label.file, expected: label.label, got })
  }
  late.sort((a, b) => a - b)
  const stopped = late.length
  const missed = loops - stopped
  const falselyStopped = misses.length - missed
  return {
    traces: judged.length,
    stopped,
    falselyStopped,
    missed,
    precision: stopped + falselyStopped === 0 ? 1 : stopped / (stopped + falselyStopped),
    recall: loops === 0 ? 1 : stopped / loops,
    lateness: {
      median: medianOf(late),
      earliest: late[0] ?? null,
      latest: late.at(-1) ?? null
    },
    misses
  }
}

const medianOf = (sorted: ReadonlyArray<number>): number | null => {
  const upper = sorted[sorted.length >> 1]
  const lower = sorted[(sorted.length - 1) >> 1]
  return upper === undefined || lower === undefined ? null : (upper + lower) / 2
}
