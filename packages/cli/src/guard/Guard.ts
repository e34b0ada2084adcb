/**
 * `outlast guard`: checks whether the guard would have stopped recorded runs, and prints a verdict for each trace.
 *
 * With `score` the traces of a directory have labels, and the output is the accuracy. Bad lines are reported on
 * standard error with their file and number and counted at the end; the other lines are still processed. When a file
 * cannot be read, the other files are still judged, but no score is printed.
 */
import type { LoopDetector } from "@outlast/agent/guard"
import { Console, Effect, FileSystem, Option, Path, Result, Stream } from "effect"
import { BadLines } from "../classify/Classify.ts"
import * as Lines from "../classify/Lines.ts"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import * as Judge from "./Judge.ts"
import * as Trace from "./Trace.ts"
import * as TraceScore from "./TraceScore.ts"

export interface Options {
  /** Traces. `-` is standard input. */
  readonly files: ReadonlyArray<string>
  /** A directory with labelled traces. */
  readonly score: Option.Option<string>
  /** Verdicts as JSON lines, or a score as one JSON object. */
  readonly json: boolean
}

/** Runs the command. `true` when every line could be read. */
export const run = (options: Options) =>
  Effect.suspend(() => {
    const { score, files } = options
    if (Option.isSome(score) && files.length > 0) {
      return new UsageError({ message: "--score takes a directory and no other files." })
    }
    if (Option.isSome(score)) return scored(score.value, options.json)
    return files.length === 0
      ? new UsageError({
          message:
            "Which traces? Name files, - for standard input, or a directory of labelled ones with --score."
        })
      : judged(files, options.json)
  })

const judged = (files: ReadonlyArray<string>, json: boolean) =>
  Effect.gen(function* () {
    let allRead = true
    const unread: Array<string> = []
    for (const file of files) {
      const given = yield* Effect.result(judge(file, file))
      if (Result.isFailure(given)) {
        unread.push(given.failure.message)
        continue
      }
      const { progress, read } = given.success
      allRead &&= read
      // No line could be read. The report of that replaces a verdict.
      if (!read && progress.calls === 0) continue
      const { judged } = progress
      if (json) {
        const { verdict, at, reason } = judged
        yield* Console.log(JSON.stringify({ file, verdict, at, reason }))
      } else yield* Console.log(`${file}: ${inWords(judged, progress.calls)}`)
    }
    if (unread.length > 0) return yield* new UsageError({ message: unread.join("\n") })
    return allRead
  })

const inWords = (judged: Judge.Judged, calls: number): string =>
  judged.verdict === "ok"
    ? `ok, ${calls} ${calls === 1 ? "call" : "calls"}`
    : `stop at call ${judged.at} of ${calls} (${judged.reason}): ${judged.message}`

/** Judges a trace while reading it. Memory use is that of a line. */
const judge = (file: string, shown: string) => {
  let progress = Judge.start
  const next = (call: LoopDetector.Observation) => {
    progress = Judge.next(progress, call)
  }
  return Effect.map(reading(file, shown, next), (end) => ({ progress, ...end }))
}

/** Reads a trace call by call. */
const reading = (file: string, shown: string, each: (call: LoopDetector.Observation) => void) =>
  Effect.gen(function* () {
    const bad = new BadLines(`${shown}: `)
    let index = 0
    yield* Stream.runForEachArray(Lines.read(Option.some(file)), (lines) => {
      for (const { number, text } of lines) {
        const call = bad.check(number, Trace.parse(text, index++))
        if (call !== undefined) each(call)
      }
      return bad.report
    })
    return { lines: index, read: yield* bad.end }
  })

/** The file of labels. The name does not match `DIR/*.jsonl`, so that such a pattern selects only traces. */
const labelFile = "labels.json"

const scored = (directory: string, json: boolean) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = path.join(directory, labelFile)
    const text = yield* fs
      .readFileString(file)
      .pipe(Effect.mapError((error) => unreadable(`The file ${file}`, error)))
    const labels = TraceScore.labels(text)
    if (Result.isFailure(labels)) {
      return yield* new UsageError({ message: `The file ${file} ${labels.failure}.` })
    }
    if (labels.success.length === 0) {
      return yield* new UsageError({ message: `The file ${file} has no labels: there is nothing to score.` })
    }
    const traces: Array<TraceScore.Labelled> = []
    let allRead = true
    for (const label of labels.success) {
      const calls: Array<LoopDetector.Observation> = []
      const { lines, read } = yield* reading(path.join(directory, label.file), label.file, (call) => {
        calls.push(call)
      })
      if (label.label === "stop" && label.stopFrom >= lines) {
        const count = `${lines} ${lines === 1 ? "call" : "calls"}, from 0`
        return yield* new UsageError({
          message: `The file ${file} has a wrong "stopFrom" of ${label.file}: ${label.stopFrom}, of ${count}.`
        })
      }
      allRead &&= read
      traces.push([label, calls])
    }
    const score = TraceScore.ofTraces(traces)
    const costs = TraceScore.costs(traces)
    yield* Console.log(json ? JSON.stringify({ ...score, costs }) : report(score, costs).join("\n"))
    return allRead
  })

const report = (score: TraceScore.Score, costs: ReadonlyArray<TraceScore.Cost>): ReadonlyArray<string> => {
  const { traces, loops, stopped, premature, falselyStopped, told, falselyTold, late, misses } = score
  return [
    `${traces} traces: ${loops} loops, of which ${stopped} stopped and ${premature} stopped too early; ${traces - loops} honest, of which ${falselyStopped} stopped.`,
    `The model is informed about ${told} loops, and in ${falselyTold} honest traces.`,
    `Precision ${score.precision.toFixed(3)}, recall ${score.recall.toFixed(3)}.`,
    ...table(costs, score.savable),
    late === null ? "No loop was stopped in time." : `Stopped ${late} calls late in the median.`,
    ...misses.map(({ file, expected, got }) =>
      got.verdict === "stop"
        ? `  ${file}: ${expected}, got stop at call ${got.at} (${got.reason}): ${got.message}`
        : `  ${file}: ${expected}, got ok`
    )
  ]
}

/** The modes of the detector, and rules of other agents for comparison. */
const table = (costs: ReadonlyArray<TraceScore.Cost>, savable: number): ReadonlyArray<string> => [
  row("", "precision", "recall", "honest stopped", "calls lost", `calls saved of ${savable}`),
  ...costs.map(({ rules, precision, recall, falselyStopped, lost, saved }) =>
    row(rules, precision.toFixed(3), recall.toFixed(3), `${falselyStopped}`, `${lost}`, `${saved}`)
  )
]

const row = (rules: string, ...cells: ReadonlyArray<string>): string =>
  `  ${rules.padEnd(12)}${cells.map((cell, at) => cell.padStart(at < 2 ? 11 : 16 + at)).join("")}`
