/**
 * `outlast config check FILE`: reads a file of settings and says every problem with its path, and syntax errors with
 * their line. `outlast config schema`: prints the JSON Schema for editors.
 *
 * Values are never printed, because a file may hold secrets by mistake.
 */
import { Console, Data, Effect, FileSystem, Option, Predicate, Result, Runtime } from "effect"
import { Decision037Config, OutlastConfig } from "@outlast/agent/config"
import { RoutesConfig } from "@outlast/gateway"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"
import type { Kind } from "./Kinds.ts"
import * as SettingsFile from "./SettingsFile.ts"

export interface Options {
  readonly file: string
  /** Default: `gateway` for a file with routes, `outlast` for any other. */
  readonly kind: Option.Option<Kind>
  readonly json: boolean
}

/** The file was read, and its settings are wrong. Exit code 1. */
export class WrongSettings extends Data.TaggedError("WrongSettings")<{
  readonly message: string
  readonly details: { readonly problems: ReadonlyArray<OutlastConfig.Problem> }
}> {
  override readonly [Runtime.errorExitCode] = 1
  override readonly [Runtime.errorReported] = false
}

const formats = { outlast: OutlastConfig, gateway: RoutesConfig, decision037: Decision037Config } as const

/** The JSON Schema of a kind of settings. */
export const schemaOf = (kind: Kind): Readonly<Record<string, unknown>> => formats[kind].jsonSchema()

const kindOf = (content: unknown): Kind => (Predicate.hasProperty(content, "routes") ? "gateway" : "outlast")

/** Reads a file, with its settings still undecoded. */
export const read = (file: string) =>
  Effect.gen(function* () {
    const format = SettingsFile.formatOf(file)
    if (format === undefined) {
      return yield* new UsageError({
        message: `The file ${file} has an unknown format. Expected the extension .json, .yaml, .yml or .toml.`
      })
    }
    const text = yield* (yield* FileSystem.FileSystem)
      .readFileString(file)
      .pipe(Effect.mapError((error) => unreadable(`The file ${file}`, error)))
    const parsed = SettingsFile.parse(text, format)
    if (Result.isFailure(parsed)) {
      const { line, column } = parsed.failure
      const where = `line ${line}${column === undefined ? "" : `, column ${column}`}`
      return yield* new UsageError({
        message: `The file ${file} is not ${format}: see ${where}.`,
        details: { line, column }
      })
    }
    return { format, content: parsed.success }
  })

/** Fails with every problem of the file. */
export const decoded = <A>(file: string, result: Result.Result<A, OutlastConfig.ConfigInvalid>) =>
  Effect.mapError(Effect.fromResult(result), ({ problems }) => {
    const lines = problems.map(({ path, problem }) => `  ${path === "" ? "" : `${path}: `}${problem}`)
    const many = problems.length === 1 ? "a problem" : `${problems.length} problems`
    return new WrongSettings({
      message: [`The file ${file} has ${many}.`, ...lines].join("\n"),
      details: { problems }
    })
  })

/** The settings of a file. */
export const settingsOf = (
  file: string
): Effect.Effect<OutlastConfig.OutlastConfig, UsageError | WrongSettings, FileSystem.FileSystem> =>
  Effect.flatMap(read(file), ({ content }) => decoded(file, OutlastConfig.decode(content)))

/** What a file gives. */
export interface Given {
  readonly format: SettingsFile.Format
  readonly kind: Kind
  /** Parsed, and valid. */
  readonly content: unknown
  /** The paths of the settings. */
  readonly settings: ReadonlyArray<string>
}

/** Reads a file. Fails as {@link check} does. */
export const given = ({
  file,
  kind
}: Pick<Options, "file" | "kind">): Effect.Effect<Given, UsageError | WrongSettings, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { content, format } = yield* read(file)
    const found = Option.getOrElse(kind, () => kindOf(content))
    const result: Result.Result<unknown, OutlastConfig.ConfigInvalid> = formats[found].decode(content)
    yield* decoded(file, result)
    return { format, kind: found, content, settings: leavesOf(content) }
  })

export const check = ({
  file,
  json,
  ...options
}: Options): Effect.Effect<void, UsageError | WrongSettings, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { format, kind, settings } = yield* given({ file, ...options })
    yield* Console.log(
      json
        ? JSON.stringify({ file, format, kind, settings })
        : `${file}: ${format}${kind === "gateway" ? " with routes of a gateway" : ""}, ${settings.length === 0 ? "no settings, so the defaults apply" : `${settings.length} settings, all of them valid`}`
    )
  })

/** The paths of the settings that are given. */
const leavesOf = (value: unknown, path = ""): ReadonlyArray<string> => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return path === "" ? [] : [path]
  return Object.entries(value).flatMap(([name, inner]) =>
    path === "" && name === "$schema" ? [] : leavesOf(inner, path === "" ? name : `${path}.${name}`)
  )
}
