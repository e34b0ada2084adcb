/**
 * Checks the key variables of the providers in `@outlast/providers`. Pure; nothing is sent.
 *
 * A blank value counts as missing. Messages name the kind of mistake, never a value or a part of it.
 *
 * **Limits.** Keys are not tried at the provider. Keys under other names are not known.
 */
import { Registry } from "@outlast/providers"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

/** The state of a provider's configuration. */
export interface Examined {
  readonly provider: string
  readonly constructors: ReadonlyArray<string>
  readonly keys: ReadonlyArray<{ readonly name: string; readonly set: boolean }>
  /** True when a target could be built with the default keys. */
  readonly ready: boolean
}

/** Values of variables. Variables that are not set are absent. */
export type Values = ReadonlyMap<string, string>

export const examine = (values: Values): ReadonlyArray<Examined> =>
  Registry.providers.map(({ provider, constructors, keys }) => {
    const examined = keys.map((name) => ({ name, set: isSet(values.get(name)) }))
    return {
      provider,
      constructors: constructors.map(({ name }) => name),
      keys: examined,
      ready: keys.length === 0 || examined.some(({ set }) => set)
    }
  })

const isSet = (value: string | undefined): value is string => value !== undefined && value.trim() !== ""

/** Returns all warnings. They are not errors: keys may come from elsewhere, and a value may only look wrong. */
export const problems = (values: Values): ReadonlyArray<Problem> => {
  const set = Registry.keys.filter((name) => isSet(values.get(name)))
  if (set.length === 0) {
    const message = `No provider has a key. Set one of ${Registry.keys.join(", ")}; a server of your own (OpenAiCompatible.model) may need none.`
    return [Problems.warning(message)]
  }
  return set.flatMap((name) =>
    flaws(values.get(name) ?? "").map((flaw) => Problems.warning(`${name} ${flaw}`))
  )
}

/** Describes the problems of a value. Each ends a sentence that starts with the name of the variable. */
export const flaws = (value: string): ReadonlyArray<string> => {
  const trimmed = value.trim()
  const plain = trimmed.replace(quotes, "").trim()
  const found: Array<string> = []
  if (trimmed !== value) found.push("has white space at its ends. Set it without.")
  if (plain !== trimmed) found.push("begins or ends with a quote. Set it without quotes.")
  if (/[\r\n]/.test(plain))
    found.push("has a line break inside, which no header can carry. Set it in one line.")
  if (beyondHeaders.test(plain)) found.push("has a character that no header can carry. Copy the key again.")
  if (plain.length <= longest && placeholder.test(plain))
    found.push("looks like a placeholder. Set the key itself.")
  return found
}

const quotes = /^["'`“”‘’]+|["'`“”‘’]+$/g

/** Characters that the providers' clients also reject in a header. Line breaks have their own message. */
const beyondHeaders = /[^\t\r\n\x20-\x7e\x80-\xff]/

/** Maximum length of a placeholder, in characters. */
const longest = 64

/** Matches an empty value, an unexpanded variable, a word from an example, or a row of x, dots, asterisks or zeros. */
const placeholder = new RegExp(
  `^(?:${[
    "",
    "<.*>|\\[.*\\]|\\{.*\\}|\\$\\w+|\\$\\{.*\\}|%\\w+%",
    "(?:[a-z]+-)*(?:x{3,}|[.…]+|[*•]+|0{3,}|123\\w{0,7})",
    "(?:[a-z]+[-_])*(?:your|my|insert|enter|put|paste|replace|change)[-_ ]?(?:[a-z]+[-_ ]?){0,4}",
    "(?:[a-z]+[-_ ])*(?:placeholder|example|dummy|fake|todo|fixme|tbd|none|null|undefined|test|secret|key|token|here)"
  ].join("|")})$`,
  "i"
)
