/** The keys that `outlast gateway` asks of callers. */
import { Config, Effect, Option, Redacted } from "effect"

export const name = "OUTLAST_GATEWAY_KEY"

/** One key, or several with commas between them. */
export const load = Effect.map(Config.option(Config.Redacted(name)), (found) =>
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

/** A message of the server, which does not know where the keys come from. */
export const hinted = (message: string): string =>
  message.replace("set a key for callers", `set ${name}`).replace("A key for callers", `A key in ${name}`)
