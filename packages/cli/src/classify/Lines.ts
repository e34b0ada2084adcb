/**
 * Reads the lines of a file, of a named pipe, or of standard input (no file, or `-`), as they arrive. Memory use is
 * that of a line.
 *
 * Lines end with LF or CRLF; the last one may end with the input. Empty lines are skipped, but counted.
 */
import { createReadStream } from "node:fs"
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Effect, Option, PlatformError, Predicate, Stdio, Stream } from "effect"
import { unreadable } from "../command/Unreadable.ts"
import { UsageError } from "../command/UsageError.ts"

export interface Line {
  /** Line number, starting at 1. */
  readonly number: number
  readonly text: string
}

/** Reads a file or standard input. */
export const read = (file: Option.Option<string>): Stream.Stream<Line, UsageError, Stdio.Stdio> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const isNamed = Option.isSome(file) && file.value === "-"
      if (Option.isNone(file) || isNamed) {
        const stdio = yield* Stdio.Stdio
        if (!isNamed && (yield* stdio.stdinIsTerminal)) {
          return yield* new UsageError({
            message: "No input. Name a file, or pipe JSON lines in: outlast classify < errors.jsonl"
          })
        }
        return Stream.mapError(stdio.stdin, (error) => unreadable("The standard input", error))
      }
      return contentOf(file.value)
    })
  ).pipe(Stream.decodeText(), split)

/** Reads from the beginning on. `FileSystem.stream` reads at offsets, which a pipe does not support. */
const contentOf = (file: string): Stream.Stream<Uint8Array, UsageError> =>
  NodeStream.fromReadable({
    evaluate: () => createReadStream(file),
    onError: (cause) => {
      const description = Predicate.isError(cause) ? cause.message : undefined
      return unreadable(
        `The file ${file}`,
        PlatformError.systemError({
          _tag: "Unknown",
          module: "FileSystem",
          method: "stream",
          description,
          cause
        })
      )
    }
  })

interface State {
  /** Pieces of the unfinished line. */
  readonly pieces: Array<string>
  readonly number: number
}

const split = <E, R>(text: Stream.Stream<string, E, R>): Stream.Stream<Line, E, R> =>
  Stream.mapAccumArray(
    text,
    (): State => ({ pieces: [], number: 1 }),
    (state, chunks) => {
      const lines: Array<Line> = []
      let { pieces, number } = state
      for (const chunk of chunks) {
        let from = 0
        for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", from)) {
          pieces.push(chunk.slice(from, end))
          add(lines, pieces, number++)
          pieces = []
          from = end + 1
        }
        if (from < chunk.length) pieces.push(chunk.slice(from))
      }
      return [{ pieces, number }, lines]
    },
    {
      onHalt: ({ pieces, number }) => {
        const lines: Array<Line> = []
        add(lines, pieces, number)
        return lines
      }
    }
  )

const add = (lines: Array<Line>, pieces: ReadonlyArray<string>, number: number): void => {
  const text = pieces.join("").trim()
  if (text !== "") lines.push({ number, text })
}
