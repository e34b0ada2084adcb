/** The listeners of operators, as the flags and the environment of a command ask for them. */
import { Config, Context, Effect, Layer, Option, Redacted } from "effect"
import type { Scope } from "effect"
import type { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { StartFailed } from "../command/StartFailed.ts"
import { UsageError } from "../command/UsageError.ts"

export const tokenName = "OUTLAST_OPS_TOKEN"

const isLoopback = (host: string): boolean => /^(127(\.\d{1,3}){3}|::1|localhost)$/.test(host)

const isToken = (text: string): boolean => /^[!-~]{16,}$/.test(text)

/** The token of operators. Fails where it is missing and `host`, the value of `flag`, needs it. */
export const token = (
  flag: string,
  host: string
): Effect.Effect<Redacted.Redacted | undefined, Config.ConfigError | UsageError> =>
  Effect.gen(function* () {
    const token = yield* Config.option(Config.Redacted(tokenName))
    if (Option.isNone(token) && !isLoopback(host)) {
      return yield* new UsageError({
        message: `${flag} ${host} is not a loopback address: set ${tokenName}, which protects prompts and the page.`
      })
    }
    if (Option.isSome(token) && !isToken(Redacted.value(token.value))) {
      return yield* new UsageError({
        message: `${tokenName} must have at least 16 characters of ASCII, without spaces and line breaks: openssl rand -hex 32.`
      })
    }
    return Option.getOrUndefined(token)
  })

/** Opens the listeners. A failure names the flag instead of the option: `flags` by option, such as `page.port`. */
export const open = <E = never>(
  options: Ops.Options<E>,
  flags: Readonly<Record<string, string>>
): Effect.Effect<Ops.Service, E | StartFailed, Host.Host | Scope.Scope> =>
  Layer.build(Ops.layer(options)).pipe(
    Effect.map((context) => Context.get(context, Ops.Ops)),
    Effect.mapError((error) =>
      error instanceof Ops.ListenFailed
        ? new StartFailed({
            exitCode: 1,
            message: error.message.replace(/`(\w+\.(?:port|host))`/, (all, name) => flags[name] ?? all)
          })
        : error
    )
  )

/** An address in a URL. */
export const urlHost = (host: string): string =>
  host === "0.0.0.0" || host === "::" ? "localhost" : host.includes(":") ? `[${host}]` : host
