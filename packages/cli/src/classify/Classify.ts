/**
 * `outlast classify`: errors in, as JSON lines; verdicts with their evidence out, one JSON line each.
 *
 * With `score` or `compare` the lines have labels, and what comes out is how often they were met. Bad lines are
 * reported on standard error with their number and counted at the end; the others are done all the same.
 */
import { Console, Effect, Predicate, Result, Stdio, Stream } from "effect"
import type { Option, PlatformError } from "effect"
import type { UsageError } from "../UsageError.ts"
import * as Case from "./Case.ts"
import * as Comparison from "./Comparison.ts"
import * as Decision from "./Decision.ts"
import * as Lines from "./Lines.ts"
import * as Report from "./Report.ts"
import * as Score from "./Score.ts"
import * as Verdict from "./Verdict.ts"

export interface Options {
  /** Where the lines are; standard input when absent or `-`. */
  readonly file: Option.Option<string>
  /** Print accuracy, waits, decisions, confusion and misses. */
  readonly score: boolean
  /** Print simpler rules beside ours. */
  readonly compare: boolean
  /** Print the score as one JSON object. Verdicts are JSON in any case. */
  readonly json: boolean
}

/** `true` when every line could be read. */
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
          const given = bad.check(number, Case.parse(text))
          if (given !== undefined) out += `${JSON.stringify(Verdict.make(given))}\n`
        }
        return Effect.as(bad.report, [out] as const)
      }),
      Stream.filter((out) => out !== ""),
      Stream.run(stdio.stdout()),
      // A reader that has seen enough ends the work. Errors of the input are usage errors: this is the output's.
      Effect.catchIf(isClosedPipe, () => Effect.void)
    )
    return yield* bad.end
  })

const isClosedPipe = (error: UsageError | PlatformError.PlatformError): boolean =>
  error._tag === "PlatformError" &&
  Predicate.hasProperty(error.reason.cause, "code") &&
  error.reason.cause.code === "EPIPE"

/** The score of a file, and the misses. */
interface Scored {
  readonly score: Score.Score
  readonly comparison: Comparison.Comparison
  readonly misses: ReadonlyArray<Score.Miss>
}

/** Reads labelled lines and scores the classifier on them. */
const scoreOf = (file: Option.Option<string>, bad: BadLines) =>
  Effect.gen(function* () {
    let score = Score.empty
    let comparison = Comparison.empty
    const misses: Array<Score.Miss> = []
    yield* Stream.runForEachArray(Lines.read(file), (lines) => {
      for (const { number, text } of lines) {
        const given = bad.check(number, Case.labelled(text))
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
    if (none) yield* Console.error('There is no labelled case to score: each line needs an "expected".')
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

/** Counts the lines that could not be read, and says what is wrong with them. */
export class BadLines {
  #bad = 0
  #all = 0
  #pending: Array<string> = []
  readonly #where: string

  /** `where` begins each sentence, where there are several files. */
  constructor(where = "") {
    this.#where = where
  }

  /** What was read, or `undefined` after taking note of the problem. */
  check<A>(number: number, read: Result.Result<A, Case.Problem>): A | undefined {
    this.#all++
    if (Result.isSuccess(read)) return read.success
    this.#bad++
    this.#pending.push(`${this.#where}Line ${number} ${read.failure}`)
    return undefined
  }

  /** Prints what was noted since the last time. */
  readonly report: Effect.Effect<void> = Effect.suspend(() => {
    if (this.#pending.length === 0) return Effect.void
    const text = this.#pending.join("\n")
    this.#pending = []
    return Console.error(text)
  })

  /** Prints the count, if there is one to print; `true` when there is none. */
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
