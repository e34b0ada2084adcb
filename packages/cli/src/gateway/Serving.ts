/**
 * `outlast gateway`: serves until the program is ended. The shutdown takes nothing new, and lets running answers end.
 */
import { Config, Console, Effect, Option, Redacted } from "effect"
import { Gateway, Server } from "@outlast/gateway"
import { Host } from "@outlast/node"
import { UsageError } from "../command/UsageError.ts"
import { StartFailed } from "../command/StartFailed.ts"

export interface Options {
  readonly port: number
  readonly host: string
  readonly names: ReadonlyArray<string>
  readonly origins: ReadonlyArray<string>
}

const keyName = "OUTLAST_GATEWAY_KEY"

export const run = ({ host, names, origins, port }: Options) =>
  Effect.scoped(
    Effect.gen(function* () {
      const keys = yield* keysOf
      const wrong = origins.find((origin) => !URL.canParse(origin) || new URL(origin).origin !== origin)
      if (wrong !== undefined) {
        return yield* new UsageError({
          message: `--origin ${wrong} must be a scheme and a host, for example https://app.example.com.`
        })
      }
      const variables = yield* Gateway.keysInEnvironment
      if (variables.length === 0) {
        return yield* new StartFailed({
          exitCode: 1,
          message: "No key of a vendor is set. Set OPENAI_API_KEY or ANTHROPIC_API_KEY."
        })
      }
      const gateway = yield* Gateway.make()
      const { drained, url } = yield* Server.listen(gateway, { port, host, keys, names, origins }).pipe(
        Effect.mapError(({ message }) => new StartFailed({ exitCode: 1, message: hinted(message) }))
      )
      yield* Host.onShutdown("runs", { name: "answers", run: drained })
      yield* Console.log(greeting(url, variables, keys.length > 0))
      return yield* Effect.never
    })
  )

/** The keys of callers: one or several, with commas between them. */
const keysOf = Effect.map(Config.option(Config.Redacted(keyName)), (found) =>
  Option.match(found, {
    onNone: () => [],
    onSome: (text) =>
      Redacted.value(text)
        .split(",")
        .map((key) => key.trim())
        .filter((key) => key !== "")
        .map((key) => Redacted.make(key))
  })
)

/** The server does not know where the keys come from. */
const hinted = (message: string): string =>
  message
    .replace("set a key for callers", `set ${keyName}`)
    .replace("A key for callers", `A key in ${keyName}`)

/** The base URL, and one line for each client. */
const greeting = (url: string, variables: ReadonlyArray<string>, asksForKey: boolean): string =>
  [
    `gateway        ${url}`,
    `keys           ${variables.join(", ")}`,
    `callers        ${asksForKey ? `need a key of ${keyName}` : "on this machine; any API key will do"}`,
    "",
    `OpenAI SDK     OPENAI_BASE_URL=${url}/v1`,
    `Anthropic SDK  ANTHROPIC_BASE_URL=${url}`,
    `Claude Code    ANTHROPIC_BASE_URL=${url} claude`,
    `Codex          codex -c model_provider=outlast -c 'model_providers.outlast={name="Outlast",base_url="${url}/v1",wire_api="responses"}'`,
    `LangChain      ChatOpenAI(base_url="${url}/v1"), ChatAnthropic(base_url="${url}")`
  ].join("\n")
