/** Asks a program that runs for the first line of its status page. */
import { Config, Effect, Option, Redacted, Schema } from "effect"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

/** Milliseconds. */
const limit = 5_000

/** Bytes of a state that is read. */
const maxBytes = 16 * 1024 * 1024

const tokenName = "OUTLAST_OPS_TOKEN"

const State = Schema.fromJsonString(
  Schema.Struct({
    name: Schema.String,
    headline: Schema.Struct({ level: Schema.Literals(["good", "warn", "bad"]), text: Schema.String })
  })
)

class Unanswered extends Schema.TaggedError<Unanswered>("@outlast/cli/doctor/Unanswered")("Unanswered", {
  message: Schema.String
}) {}

/** The address of the state of a page. */
const stateOf = (url: URL): URL => new URL("api/state", url.href.endsWith("/") ? url : `${url.href}/`)

/** `undefined` where the text is no address of a page. An address with a password is none: it would be printed. */
export const parse = (text: string): URL | undefined => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.username + url.password + url.search === ""
    ? url
    : undefined
}

export const examine = (url: URL): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const token = yield* Config.option(Config.Redacted(tokenName))
    const text = yield* Effect.tryPromise({
      try: (signal) => textOf(stateOf(url), Option.getOrUndefined(token), signal),
      catch: (error) =>
        error instanceof Unanswered
          ? error
          : new Unanswered({ message: `${url.href} does not answer. Start the program, or correct --url.` })
    })
    const { headline, name } = yield* Effect.mapError(
      Schema.decodeUnknownEffect(State)(text),
      () => new Unanswered({ message: `${url.href} is no status page of Outlast, or of an older version.` })
    )
    const said = `${name}: ${headline.text}`
    return Checks.of("program", problemsOf(headline.level, said), said)
  }).pipe(
    Effect.catch(({ message }) => Effect.succeed(Checks.of("program", [Problems.error(null, message)], "")))
  )

const problemsOf = (level: "good" | "warn" | "bad", said: string): ReadonlyArray<Problem> =>
  level === "good" ? [] : [level === "bad" ? Problems.error(null, said) : Problems.warning(said)]

const textOf = async (
  url: URL,
  token: Redacted.Redacted | undefined,
  signal: AbortSignal
): Promise<string> => {
  const headers = token === undefined ? {} : { authorization: `Bearer ${Redacted.value(token)}` }
  const response = await fetch(url, {
    headers,
    // A token goes to the address that was named, and to no other.
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(limit)])
  })
  if (response.status === 401) {
    throw new Unanswered({ message: `${url.origin} needs the token of operators: set ${tokenName}.` })
  }
  if (!response.ok || response.body === null) {
    throw new Unanswered({ message: `${url.href} answered HTTP ${response.status}.` })
  }
  const decoder = new TextDecoder()
  let text = ""
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > maxBytes) throw new Unanswered({ message: `${url.href} answered more than 16 MiB.` })
  }
  return text
}
