/**
 * `outlast classify`: reads errors as JSON lines, and prints a verdict with evidence for each, as one JSON line.
 *
 * With `score` or `compare` the lines have labels, and the output is the accuracy. Bad lines are reported on standard
 * error with their number and counted at the end; the other lines are still processed.
 */
import { Console, Effect, Predicate, Result, Stdio, Stream } from "effect"
import type { Option, PlatformError } from "effect"
import type { UsageError } from "../command/UsageError.ts"
import * as ErrorCase from "./cases/ErrorCase.ts"
import * as Comparison from "./Comparison.ts"
import * as Decision from "./cases/Decision.ts"
import * as Lines from "./Lines.ts"
import * as Report from "./Report.ts"
import * as Score from "./Score.ts"
import * as Verdict from "./Verdict.ts"

export interface Options {
  /** File to read. Standard input when absent or `-`. */
  readonly file: Option.Option<string>
  /** Print accuracy, waits, decisions, confusion and misses. */
  readonly score: boolean
  /** Compare simpler rules with the classifier. */
  readonly compare: boolean
  /** Print the score as one JSON object. Verdicts are JSON in any case. */
  readonly json: boolean
}

/** Runs the command. `true` when every line could be read. */
export const run = (options: Options) =>
  options.score || options.compare ? scored(options) : classified(options)

const classified = ({ file }: Options) =>
  Effect.gen(function* () {
    const stdio = yield* Stdio.Stdio
    const bad = new BadLines()
    yield* Lines.read(file).pipe(
      Stream.mapArrayEffect((lines) => {
        let out = ""
        for (const { number, text } of lines) {
          const given = bad.check(number, ErrorCase.parse(text))
          if (given !== undefined) out += `${JSON.stringify(Verdict.make(given))}\n`
        }
        return Effect.as(bad.report, [out] as const)
      }),
      Stream.filter((out) => out !== ""),
      Stream.run(stdio.stdout()),
      // A reader that closes the pipe ends the work. Input errors are usage errors, so this one comes from the output.
      Effect.catchIf(isClosedPipe, () => Effect.void)
    )
    return yield* bad.end
  })

const isClosedPipe = (error: UsageError | PlatformError.PlatformError): boolean =>
  error._tag === "PlatformError" &&
  Predicate.hasProperty(error.reason.cause, "code") &&
  error.reason.cause.code === "EPIPE"

/** The score of a file, and its misses. */
interface Scored {
  readonly score: Score.Score
  readonly comparison: Comparison.Comparison
  readonly misses: ReadonlyArray<Score.Miss>
}

/** Reads labelled lines and scores the classifier. */
const scoreOf = (file: Option.Option<string>, bad: BadLines) =>
  Effect.gen(function* () {
    let score = Score.empty
    let comparison = Comparison.empty
    const misses: Array<Score.Miss> = []
    yield* Stream.runForEachArray(Lines.read(file), (lines) => {
      for (const { number, text } of lines) {
        const given = bad.check(number, ErrorCase.labelled(text))
        if (given === undefined) continue
        const failure = Verdict.failureOf(given.case)
        const verdict = Verdict.fromFailure(given.case.id, failure)
        const decision = Decision.of(failure)
        score = Score.add(score, given, verdict, decision)
        comparison = Comparison.add(comparison, given, failure.reason)
        const miss = Score.missOf(given, verdict, decision)
        if (miss !== undefined) misses.push(miss)
      }
      return bad.report
    })
    return { score, comparison, misses } satisfies Scored
  })

const scored = (options: Options) =>
  Effect.gen(function* () {
    const bad = new BadLines()
    const { score, comparison, misses } = yield* scoreOf(options.file, bad)
    const none = score.overall.cases === 0
    if (none) yield* Console.error('No labelled case to score: each line needs an "expected".')
    else if (options.json) {
      const found = {
        ...(options.score ? { ...score, misses } : {}),
        ...(options.compare ? { comparison } : {})
      }
      yield* Console.log(JSON.stringify(found))
    } else {
      const lines = [
        ...(options.score ? Report.score(score, misses) : Report.accuracy(score)),
        ...(options.compare ? ["", ...Report.comparison(comparison)] : [])
      ]
      yield* Console.log(lines.join("\n"))
    }
    const allRead = yield* bad.end
    return allRead && !none
  })

/** Counts the lines that could not be read, and describes their problems. */
export class BadLines {
  #bad = 0
  #all = 0
  #pending: Array<string> = []
  readonly #where: string

  /** `where` starts each message when there are several files. */
  constructor(where = "") {
    this.#where = where
  }

  /** Returns the value, or `undefined` after recording the problem. */
  check<A>(number: number, read: Result.Result<A, ErrorCase.Problem>): A | undefined {
    this.#all++
    if (Result.isSuccess(read)) return read.success
    this.#bad++
    this.#pending.push(`${this.#where}Line ${number} ${read.failure}`)
    return undefined
  }

  /** Prints the problems recorded since the last call. */
  readonly report: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#pending.length === 0) return Effect.void
    const text = this.#pending.join("\n")
    this.#pending = []
    return Console.error(text)
  })

  /** Prints the count of bad lines, if there are any. `true` when there are none. */
  readonly end: Effect.Effect<boolean> = Effect.suspend(() =>
    this.#bad === 0
      ? Effect.succeed(true)
      : Effect.as(
          Console.error(
            `${this.#where}${this.#bad} of ${this.#all} ${this.#all === 1 ? "line" : "lines"} could not be read.`
          ),
          false
        )
  )
}
