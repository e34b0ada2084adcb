/**
 * Reads or loads a file of the user as {@link Findings}.
 *
 * A module is loaded by Node, and its top-level code runs. Loading has a time limit, but code that never yields the
 * thread cannot be stopped.
 */
import { pathToFileURL } from "node:url"
import { Effect, FileSystem, Path, Predicate } from "effect"
import { Redaction } from "@outlast/agent/failure"
import { unreadable } from "../command/Unreadable.ts"
import type { Findings } from "./Findings.ts"
import * as FindingsOf from "./Findings.ts"
import { inWords, limit } from "./Limit.ts"

/**
 * Loads a file, relative to the current directory. Failures become mistakes of the findings, without any of `secrets`.
 */
export const load = (
  file: string,
  secrets: ReadonlyArray<string>
): Effect.Effect<Findings, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    if (path.extname(file) === ".json") {
      return yield* fs.readFileString(file).pipe(
        Effect.map(FindingsOf.ofManifest),
        Effect.catch((error) => Effect.succeed(failed(`${unreadable("It", error).message}.`)))
      )
    }
    if (!/\.[cm]?[jt]s$/.test(file)) {
      if (!(yield* Effect.orElseSucceed(fs.exists(file), () => true)))
        return failed("The file does not exist.")
      return failed("It is neither a module (.ts, .js, .mjs) nor a manifest (.json). Name one of those.")
    }
    return yield* loadModule(pathToFileURL(path.resolve(file)).href, secrets)
  })

/** Loads the module at a `file:` URL. */
export const loadModule = (url: string, secrets: ReadonlyArray<string>): Effect.Effect<Findings> =>
  Effect.tryPromise({
    try: (): Promise<Readonly<Record<string, unknown>>> => import(/* @vite-ignore */ url),
    catch: (error) => failed(whyNot(error, url, secrets))
  }).pipe(
    Effect.map(FindingsOf.ofModule),
    Effect.timeoutOrElse({
      duration: limit,
      orElse: () =>
        Effect.succeed(
          failed(
            `It was not loaded within ${inWords}. Something at its top level waits: put that into an Effect.`
          )
        )
    }),
    Effect.catch(Effect.succeed)
  )

const failed = (mistake: string): Findings => ({ subjects: [], mistakes: [mistake] })

/** Explains why a module was not loaded, and what to do. */
const whyNot = (error: unknown, url: string, values: ReadonlyArray<string>): string => {
  const { code, url: missing }: Fields = Predicate.isObject(error) ? error : {}
  if (missing === url) {
    return code === "ERR_UNSUPPORTED_DIR_IMPORT"
      ? "It is a directory. Name the files in it."
      : "The file does not exist."
  }
  return `It cannot be loaded: ${saidBy(error, values)}. ${toDo[String(code)] ?? otherwise(error)}`
}

/** Reports an uncaught failure of something that the module started. */
export const failedLater = (error: unknown, secrets: ReadonlyArray<string>): string =>
  `Something that the module started failed without being caught: ${saidBy(error, secrets)}. Fix that, or put its tools into a separate module.`

const saidBy = (error: unknown, values: ReadonlyArray<string>): string => {
  const message = error instanceof Error ? error.message : "it threw a value that is not an Error"
  return Redaction.scrub(message, maxSaid, { values }).replace(/\.$/, "")
}

interface Fields {
  readonly code?: unknown
  readonly url?: unknown
}

/** Maximum length of a quoted error message, in characters. */
const maxSaid = 300

const compile = "name the compiled module instead."

const toDo: Readonly<Record<string, string>> = {
  ERR_MODULE_NOT_FOUND: "Correct the import, or install the package.",
  ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX: `Node only removes types. Use erasable syntax, or ${compile}`,
  ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING: `Build it, and ${compile}`,
  ERR_UNKNOWN_FILE_EXTENSION: `Build it, and ${compile}`
}

const otherwise = (error: unknown): string =>
  error instanceof SyntaxError
    ? "Correct it, and check it again."
    : "Its top-level code failed: fix that, or put its tools into a separate module."
