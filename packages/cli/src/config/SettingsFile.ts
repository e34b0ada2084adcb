/**
 * Reads a file of settings in JSON, YAML or TOML, by its extension. A syntax error names the line.
 *
 * The parsers of `effect/encoding` name a line in most of their errors. Where they do not, the line is found: the
 * longest beginning of whole lines that can be read ends right before the mistake.
 */
import { Result } from "effect"
import { Toml, Yaml } from "effect/encoding"
import * as Json from "../compact/Json.ts"

/** The text cannot be read. */
export interface NotReadable {
  readonly format: Format
  /** From 1. */
  readonly line: number
  /** From 1; `undefined` when only the line is known. */
  readonly column: number | undefined
}

export type Format = "JSON" | "YAML" | "TOML"

const formats: ReadonlyArray<readonly [ending: RegExp, format: Format]> = [
  [/\.json$/i, "JSON"],
  [/\.ya?ml$/i, "YAML"],
  [/\.toml$/i, "TOML"]
]

/** The format of a file by its name; `undefined` for another extension. */
export const formatOf = (file: string): Format | undefined =>
  formats.find(([ending]) => ending.test(file))?.[1]

/** Parses a text. An empty text has no settings. */
export const parse = (text: string, format: Format): Result.Result<unknown, NotReadable> => {
  const plain = text.replace(/^\ufeff/, "")
  if (plain.trim() === "") return Result.succeed({})
  if (format === "JSON") {
    return Result.mapError(Json.parse(plain), ({ line, column }) => ({ format, line, column }))
  }
  const read = format === "YAML" ? yaml : toml
  return Result.mapError(read(plain), (said) => ({ format, ...placeIn(said, plain, read) }))
}

type Read = (text: string) => Result.Result<unknown, string>

const yaml: Read = (text) => {
  try {
    // A document of comments alone is `null`.
    return Result.succeed(Yaml.parse(text) ?? {})
  } catch (error) {
    return Result.fail(error instanceof Error ? error.message : "")
  }
}

const toml: Read = (text) => Result.mapError(Toml.parse(text), ({ message }) => message)

const placeIn = (said: string, text: string, read: Read): Pick<NotReadable, "line" | "column"> => {
  const named = /\bat line (\d+)(?:, column (\d+))?/.exec(said)
  if (named !== null) {
    return { line: Number(named[1]), column: named[2] === undefined ? undefined : Number(named[2]) }
  }
  const lines = text.split("\n")
  for (let end = lines.length - 1; end > 0; end--) {
    if (Result.isSuccess(read(lines.slice(0, end).join("\n")))) return { line: end + 1, column: undefined }
  }
  return { line: 1, column: undefined }
}
