/**
 * Writes a file completely or not at all: the old file stays until the new one is complete. Transcripts are private, so
 * only the owner may read the file.
 */
import { Data, Effect, FileSystem, Option, Path, Predicate, Runtime } from "effect"
import type { PlatformError } from "effect"
import { UsageError } from "../command/UsageError.ts"

/** The path was valid, but writing failed (e.g. the disk is full). Exit code 1. */
export class NotWritten extends Data.TaggedError("NotWritten")<{ readonly message: string }> {
  override readonly [Runtime.errorExitCode] = 1
  override readonly [Runtime.errorReported] = false
}

const ownerOnly = 0o600

/** Messages for an invalid path, by error. */
const reasons: Readonly<Record<string, string>> = {
  EISDIR: "it is a directory",
  ENOENT: "the directory does not exist",
  ENOTDIR: "a part of the path is not a directory",
  EACCES: "permission is denied",
  EPERM: "permission is denied",
  EROFS: "the file system is read-only"
}

export const write = (
  file: string,
  text: string
): Effect.Effect<void, UsageError | NotWritten, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const target = yield* placeOf(file)
    yield* Effect.scoped(
      Effect.gen(function* () {
        // In the same directory, because a rename needs the same disk. The scope removes it, complete or not.
        const directory = yield* fs.makeTempDirectoryScoped({
          directory: path.dirname(target),
          prefix: ".outlast-"
        })
        const made = path.join(directory, "transcript")
        yield* fs.writeFileString(made, text, { mode: ownerOnly })
        yield* fs.rename(made, target)
      })
    )
  }).pipe(Effect.mapError((error) => (error._tag === "PlatformError" ? unwritable(file, error) : error)))

/**
 * Returns the file to replace. A link is kept, and its target replaced. A device or a pipe is rejected, because a
 * rename would replace it by a file.
 */
const placeOf = (
  file: string
): Effect.Effect<string, UsageError | PlatformError.PlatformError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const found = yield* Effect.option(fs.stat(file))
    if (Option.isNone(found)) {
      const isLink = yield* Effect.isSuccess(fs.readLink(file))
      return isLink ? yield* wrong(file, "it is a link that leads nowhere") : file
    }
    const { type } = found.value
    if (type !== "File" && type !== "Directory") return yield* wrong(file, "it is not a regular file")
    return yield* fs.realPath(file)
  })

const unwritable = (file: string, error: PlatformError.PlatformError): UsageError | NotWritten => {
  const { cause } = error.reason
  const code = Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""
  const reason = reasons[code]
  return reason === undefined
    ? new NotWritten({ message: messageOf(file, error.message) })
    : wrong(file, reason)
}

const wrong = (file: string, why: string): UsageError => new UsageError({ message: messageOf(file, why) })

const messageOf = (file: string, why: string): string => `The file ${file} cannot be written: ${why}`
