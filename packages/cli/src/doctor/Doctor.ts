/**
 * `outlast doctor`: checks that the configuration is complete, and says what to do otherwise. Covers Node, the clock, the
 * keys of the providers, and what is named: modules and manifests with tools and extensions, a file of settings, stores,
 * the streams of subjects, a lock, ports, a program that runs.
 *
 * | finding | level |
 * |---|---|
 * | Node is too old, or a file could not be examined | error |
 * | a tool or extension is skipped | none; error with `strict` |
 * | no provider has a key, or one looks wrong | warning |
 * | a subject without a stream, a stream without acknowledgements, a server without an answer | error |
 * | a stream that can lose events in an outage | warning |
 * | a route of a gateway of which no target can be used, keys of callers that the gateway refuses | error |
 * | a target of a gateway without a key | warning |
 * | a wrong setting, a store that is missing or damaged, a port in use, a clock before the release | error |
 * | what the first line of a running program's status page says (`--url`) | by its level |
 * | a lock that is held, a store that others may open, clocks that differ | warning |
 *
 * Nothing is sent to a provider. Values of variables are never shown. Output of modules and checks goes to standard
 * error.
 */
import { Clock, Console, Effect, Logger } from "effect"
import { Registry } from "@outlast/providers"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import * as SideEffects from "./SideEffects.ts"
import * as Keys from "./Keys.ts"
import * as Loading from "./Loading.ts"
import * as Lock from "./Lock.ts"
import * as Ports from "./Ports.ts"
import * as SystemClock from "./SystemClock.ts"
import * as NodeVersion from "./NodeVersion.ts"
import * as Offer from "./Offer.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"
import * as Report from "./Report.ts"

// Loaded when they are asked for: settings, databases and the broker take longer to load than all other checks.
const Configuration = Effect.promise(() => import("./Configuration.ts"))
const EventStreams = Effect.promise(() => import("./EventStreams.ts"))
const RunningProgram = Effect.promise(() => import("./RunningProgram.ts"))
const Stores = Effect.promise(() => import("./Stores.ts"))

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
  /** A file of settings. */
  readonly config?: string | undefined
  /** SQLite files and `postgres://` addresses. */
  readonly stores?: ReadonlyArray<string> | undefined
  /** The lock of the program. */
  readonly lock?: string | undefined
  /** Ports that the program will open. */
  readonly ports?: ReadonlyArray<Ports.Port> | undefined
  /** The status page of a program that runs. Its token is `OUTLAST_OPS_TOKEN`. */
  readonly url?: URL | undefined
  readonly node: NodeVersion.Versions
}

/** Runs the checks. `true` when there is no error. */
export const run = (options: Options) =>
  Effect.gen(function* () {
    const report = yield* examine(options).pipe(Effect.provideService(Logger.LogToStderr, true))
    yield* Console.log(options.json ? JSON.stringify(report) : Report.lines(report).join("\n"))
    return Report.isSound(report)
  })

const examine = ({
  files,
  strict,
  node,
  nats,
  subjects = [],
  config,
  stores = [],
  lock,
  ports = [],
  url
}: Options) =>
  Effect.gen(function* () {
    const version = NodeVersion.of(node)
    const values = new Map(
      yield* Effect.forEach(Registry.keys, (name) =>
        Effect.map(Offer.valueOf(name), (value) => [name, value] as const)
      )
    )
    const secrets = Offer.secretsOf(values.values())
    const tools: Array<Report.Report["tools"][number]> = []
    const now = yield* Clock.currentTimeMillis
    const checks: Array<Check> = [
      ...Checks.of("node", NodeVersion.problems(version), `Node ${version.version}.`),
      ...Checks.of("clock", SystemClock.problems(now), new Date(now).toISOString()),
      ...Checks.of("keys", Keys.problems(values), "Every key that is set looks like one.")
    ]
    if (config !== undefined) checks.push(...(yield* (yield* Configuration).examine(config, ports)))
    for (const file of files) {
      const { value, uncaught } = yield* SideEffects.watch(
        file,
        Effect.gen(function* () {
          const { subjects, mistakes } = yield* Loading.load(file, secrets)
          return { mistakes, offers: yield* Offer.examine(subjects, secrets) }
        })
      )
      const late = uncaught.map((error) => Loading.failedLater(error, secrets))
      const problems: Array<Problem> = [...value.mistakes, ...late].map((mistake) =>
        Problems.error(file, mistake)
      )
      for (const offer of value.offers) {
        tools.push({ file, ...offer })
        if (strict && offer.reason !== null) {
          problems.push(Problems.error(file, `${offer.name} is skipped: ${offer.reason}.`))
        }
      }
      checks.push(...Checks.of("tools", problems, "Its tools and extensions could be examined.", file))
    }
    for (const store of stores) checks.push(...(yield* (yield* Stores).examine(store)))
    if (nats !== undefined) {
      const problems = yield* (yield* EventStreams).problems(nats, subjects)
      checks.push(...Checks.of("streams", problems, "The streams keep what is published."))
    }
    if (lock !== undefined) checks.push(...(yield* Lock.examine(lock)))
    for (const port of ports) checks.push(...(yield* Ports.examine(port)))
    if (url !== undefined) checks.push(...(yield* (yield* RunningProgram).examine(url)))
    const report: Report.Report = {
      node: version,
      providers: Keys.examine(values),
      tools,
      checks,
      problems: Checks.problemsOf(checks)
    }
    return report
  })
