/**
 * Parses and writes JSON without losing anything: numbers that a double cannot represent keep their source text. Pure.
 *
 * Invalid JSON is reported by line and column. The text is never quoted, because it may contain secrets.
 */
import { Result } from "effect"

export type JsonObject = Readonly<Record<string, unknown>>

/** Position at which a text stops being valid JSON. */
export interface NotJson {
  /** Line, starting at 1. */
  readonly line: number
  /** Column in UTF-16 code units, starting at 1. */
  readonly column: number
  /**
   * `wrong`: something else is expected there. `ended`: the text ends before the value. `deep`: values are nested too
   * deeply.
   */
  readonly problem: "wrong" | "ended" | "deep"
}

/** A reviver with the source of a primitive. Part of Node since 21, but not yet of TypeScript's library. */
type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown
const exact = JSON as unknown as {
  readonly parse: (text: string, reviver: Reviver) => unknown
  readonly rawJSON: (source: string) => unknown
}

/** Every number with at most this many digits is a double. */
const digits = 15

/** True when reading the source as a double changes the number. */
const isInexact = (value: number, source: string): boolean =>
  !Number.isFinite(value) || (source.length > digits && String(value) !== source)

export const parse = (text: string): Result.Result<unknown, NotJson> => {
  try {
    return Result.succeed(
      exact.parse(text, (_, value, { source }) =>
        typeof value === "number" && source !== undefined && isInexact(value, source)
          ? exact.rawJSON(source)
          : value
      )
    )
  } catch (error) {
    return Result.fail(
      error instanceof SyntaxError ? placeOf(text, errorIn(text)) : { line: 1, column: 1, problem: "deep" }
    )
  }
}

/** Writes a value with the indentation and line ends of the text it was read from. */
export const written = (value: unknown, like: string): string => {
  const indent = /^\s*[[{]\r?\n([ \t]+)/.exec(like)?.[1]
  const text = `${JSON.stringify(value, undefined, indent)}${like.endsWith("\n") ? "\n" : ""}`
  // Strings contain no line breaks, which are escaped there.
  return /^[^\n]*\r\n/.test(like) ? text.replaceAll("\n", "\r\n") : text
}

const placeOf = (text: string, offset: number): NotJson => {
  const before = text.slice(0, offset)
  return {
    line: before.split("\n").length,
    column: offset - before.lastIndexOf("\n"),
    problem: offset >= text.trimEnd().length ? "ended" : "wrong"
  }
}

/** Tokens that may come next. */
type Expected = "value" | "value or ]" | "key" | "key or }" | "colon" | "comma or end" | "end"

const literal = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/y
const escape = /\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/y
const space = /[ \t\n\r]*/y

/** Returns the offset at which a text stops being JSON. The length of the text when it ends too early. */
const errorIn = (text: string): number => {
  const open: Array<"{" | "["> = []
  let expected: Expected = "value"
  let at = 0
  const matches = (pattern: RegExp): boolean => {
    pattern.lastIndex = at
    const found = pattern.test(text)
    if (found) at = pattern.lastIndex
    return found
  }
  /** Reads a string up to its end. `false` when it becomes invalid at `at`. */
  const string = (): boolean => {
    for (at++; at < text.length;) {
      const code = text.charCodeAt(at)
      if (code === 0x22) {
        at++
        return true
      }
      if (code < 0x20) return false
      if (code !== 0x5c) at++
      else if (!matches(escape)) return false
    }
    return false
  }
  const after = (): Expected => (open.length === 0 ? "end" : "comma or end")
  for (;;) {
    matches(space)
    const sign = text[at]
    if (sign === undefined) return text.length
    if (sign === (open.at(-1) === "{" ? "}" : "]") && /end$|[}\]]$/.test(expected) && open.length > 0) {
      open.pop()
      at++
      expected = after()
    } else if (expected === "comma or end") {
      if (sign !== ",") return at
      at++
      expected = open.at(-1) === "{" ? "key" : "value"
    } else if (expected === "colon") {
      if (sign !== ":") return at
      at++
      expected = "value"
    } else if (expected === "key" || expected === "key or }") {
      if (sign !== '"' || !string()) return at
      expected = "colon"
    } else if (expected === "end") {
      return at
    } else if (sign === "{" || sign === "[") {
      open.push(sign)
      at++
      expected = sign === "{" ? "key or }" : "value or ]"
    } else {
      if (!(sign === '"' ? string() : matches(literal))) return at
      expected = after()
    }
  }
}
