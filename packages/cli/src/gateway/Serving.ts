/**
 * `outlast gateway`: serves until the program is ended. The shutdown takes nothing new, and lets running answers end.
 */
import { Console, Duration, Effect, Option } from "effect"
import { Gateway, RoutesConfig, Server } from "@outlast/gateway"
import { Host } from "@outlast/node"
import * as CallerKeys from "../command/CallerKeys.ts"
import { UsageError } from "../command/UsageError.ts"
import * as ConfigCheck from "../config/ConfigCheck.ts"
import { StartFailed } from "../command/StartFailed.ts"
import * as GatewayRoutes from "../doctor/GatewayRoutes.ts"
import * as Operations from "./Operations.ts"

export interface Options extends Omit<Operations.Options, "ops"> {
  /** Default: the port after `port`; any free one where that is 0. */
  readonly ops: Option.Option<number>
  readonly port: number
  readonly host: string
  readonly origins: ReadonlyArray<string>
  /** Print a line for each answer. */
  readonly log: boolean
  /** A file with routes. */
  readonly config: Option.Option<string>
}

export const run = ({ config, host, log, ops, origins, port, ...operations }: Options) =>
  Effect.scoped(
    Effect.gen(function* () {
      const keys = yield* CallerKeys.load
      const wrong = origins.find((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin)
      if (wrong !== undefined) {
        return yield* new UsageError({
          message: `--origin ${wrong} must be a scheme and a host, for example https://app.example.com.`
        })
      }
      const loaded = Option.isNone(config) ? undefined : yield* load(config.value)
      const variables = yield* Gateway.keysInEnvironment
      if (loaded === undefined && variables.length === 0) {
        return yield* new StartFailed({
          exitCode: 1,
          message:
            "No key of a vendor is set. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY."
        })
      }
      const gateway = yield* Gateway.make(loaded === undefined ? {} : { routes: loaded.routes })
      if (loaded !== undefined) yield* Effect.forkScoped(followed(gateway, loaded))
      const run = Effect.runForkWith(yield* Effect.context<never>())
      const { drained, interrupted, refuse, url } = yield* Server.listen(gateway, {
        port,
        host,
        keys,
        names: operations.names,
        origins,
        drain,
        ...(log ? { onAnswered: (entry) => run(Console.log(lineOf(entry))) } : undefined)
      }).pipe(
        Effect.mapError(
          ({ message }) => new StartFailed({ exitCode: 1, message: CallerKeys.hinted(message) })
        )
      )
      yield* Host.onShutdown("intake", { name: "requests", run: refuse })
      yield* Host.onShutdown("runs", { name: "answers", run: drained })
      yield* Host.onAbort("answers", interrupted)
      const served =
        loaded === undefined
          ? `keys           ${variables.join(", ")}`
          : `routes         ${Object.keys(loaded.routes).join(", ")}`
      const opened = yield* Operations.open(gateway, {
        ...operations,
        ops: Option.getOrElse(ops, () => (port === 0 || port === 65_535 ? 0 : port + 1))
      })
      yield* Console.log(greeting(url, [served, ...opened], keys.length > 0))
      return yield* Effect.never
    })
  ).pipe(Effect.provide(Operations.telemetry))

interface Loaded extends RoutesConfig.Loaded {
  readonly file: string
}

const load = (file: string) =>
  Effect.gen(function* () {
    const { content: input } = yield* ConfigCheck.read(file)
    const routes = yield* ConfigCheck.decoded(file, RoutesConfig.decode(input))
    return { file, input, routes } satisfies Loaded
  })

/** Time for running answers in a shutdown: less than its phase has, which must also write how they end. */
const drain = Duration.subtract(Host.defaults.limits.runs, Duration.seconds(2))

/** How often the file is looked at. */
const lookEvery = Duration.seconds(2)

/** Takes the routes of the file whenever it changes. A mistake in it keeps those that are served. */
const followed = (gateway: Gateway.Gateway, first: Loaded) =>
  Effect.gen(function* () {
    const { file } = first
    let loaded = first
    let complaint = ""
    const look = Effect.gen(function* () {
      const { content: input } = yield* ConfigCheck.read(file)
      // A mistake that was taken back is a change, too.
      if (complaint === "" && JSON.stringify(input) === JSON.stringify(loaded.input)) return
      const routes = yield* ConfigCheck.decoded(file, RoutesConfig.reload(input, loaded))
      const unanswered = yield* GatewayRoutes.unanswered(file, input)
      if (unanswered !== undefined) return yield* new StartFailed({ exitCode: 1, message: unanswered })
      yield* gateway.replace(routes)
      loaded = { file, input, routes }
      complaint = ""
      yield* Console.log(`routes         ${Object.keys(routes).join(", ")} (the file has changed)`)
    }).pipe(
      Effect.catch(({ message }) => {
        // Once for each mistake.
        const isKnown = message === complaint
        complaint = message
        return isKnown
          ? Effect.void
          : Console.error(`outlast gateway: ${message}\nThe routes from before are still served.`)
      })
    )
    return yield* Effect.forever(Effect.andThen(Effect.sleep(lookEvery), look))
  })

/** A line of the access log. */
const lineOf = ({ attempts, duration, hasLeft, method, path, status, target }: Server.Entry): string =>
  [
    method,
    path === "" ? "-" : path,
    status,
    target ?? "-",
    `${attempts} ${attempts === 1 ? "attempt" : "attempts"}`,
    `${duration} ms`,
    ...(hasLeft ? ["the caller left"] : [])
  ].join("  ")

/** The base URL, and one line for each client. */
const greeting = (url: string, served: ReadonlyArray<string>, asksForKey: boolean): string =>
  [
    `gateway        ${url}`,
    ...served,
    `callers        ${asksForKey ? `need a key of ${CallerKeys.name}` : "on this machine; any API key will do"}`,
    "",
    `OpenAI SDK     OPENAI_BASE_URL=${url}/v1`,
    `Anthropic SDK  ANTHROPIC_BASE_URL=${url}`,
    `Claude Code    ANTHROPIC_BASE_URL=${url} claude`,
    `Codex          codex -c model_provider=outlast -c 'model_providers.outlast={name="Outlast",base_url="${url}/v1",wire_api="responses"}'`,
    `LangChain      ChatOpenAI(base_url="${url}/v1"), ChatAnthropic(base_url="${url}")`
  ].join("\n")
