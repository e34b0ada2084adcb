/**
 * `outlast doctor`: checks that the configuration is complete, and says what to do otherwise. Covers Node, the keys of
 * the providers, and the tools and extensions in the given modules and manifests. With `nats`, also the streams of the
 * given subjects.
 *
 * | finding | level |
 * |---|---|
 * | Node is too old, or a file could not be examined | error |
 * | a tool or extension is skipped | none; error with `strict` |
 * | no provider has a key, or one looks wrong | warning |
 * | a subject without a stream, a stream without acknowledgements, a server without an answer | error |
 * | a stream that can lose events in an outage | warning |
 *
 * Nothing is sent to a provider. Values of variables are never shown. Output of modules and checks goes to standard
 * error.
 */
import { Console, Effect, Logger } from "effect"
import { Registry } from "@outlast/providers"
import * as EventStreams from "./EventStreams.ts"
import * as SideEffects from "./SideEffects.ts"
import * as Keys from "./Keys.ts"
import * as Loading from "./Loading.ts"
import * as NodeVersion from "./NodeVersion.ts"
import * as Offer from "./Offer.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"
import * as Report from "./Report.ts"

export interface Options {
  /** Modules and JSON manifests. */
  readonly files: ReadonlyArray<string>
  /** Treats a skipped tool or extension as an error. */
  readonly strict: boolean
  readonly json: boolean
  /** Addresses of a NATS server, separated by commas. */
  readonly nats?: string | undefined
  /** Subjects whose streams are examined. */
  readonly subjects?: ReadonlyArray<string> | undefined
  readonly node: NodeVersion.Versions
}

/** Runs the checks. `true` when there is no error. */
export const run = (options: Options) =>
  Effect.gen(function* () {
    const report = yield* examine(options).pipe(Effect.provideService(Logger.LogToStderr, true))
    yield* Console.log(options.json ? JSON.stringify(report) : Report.lines(report).join("\n"))
    return Report.isSound(report)
  })

const examine = ({ files, strict, node, nats, subjects = [] }: Options) =>
  Effect.gen(function* () {
    const version = NodeVersion.of(node)
    const values = new Map(
      yield* Effect.forEach(Registry.keys, (name) =>
        Effect.map(Offer.valueOf(name), (value) => [name, value] as const)
      )
    )
    const secrets = Offer.secretsOf(values.values())
    const tools: Array<Report.Report["tools"][number]> = []
    const problems: Array<Problem> = [...NodeVersion.problems(version), ...Keys.problems(values)]
    for (const file of files) {
      const { value, uncaught } = yield* SideEffects.watch(
        file,
        Effect.gen(function* () {
          const { subjects, mistakes } = yield* Loading.load(file, secrets)
          return { mistakes, offers: yield* Offer.examine(subjects, secrets) }
        })
      )
      const late = uncaught.map((error) => Loading.failedLater(error, secrets))
      problems.push(...[...value.mistakes, ...late].map((mistake) => Problems.error(file, mistake)))
      for (const offer of value.offers) {
        tools.push({ file, ...offer })
        if (strict && offer.reason !== null) {
          problems.push(Problems.error(file, `${offer.name} is skipped: ${offer.reason}.`))
        }
      }
    }
    if (nats !== undefined) problems.push(...(yield* EventStreams.problems(nats, subjects)))
    const report: Report.Report = { node: version, providers: Keys.examine(values), tools, problems }
    return report
  })
