/** The standard streams of one life of a supervised process, as lines and with bounds. */
import { Deferred, Effect, Queue, Semaphore, Stream } from "effect"
import type { Cause, Scope } from "effect"
import { InvalidOption } from "@outlast/resilience"
import type { ChildProcessSpawner } from "effect/process"
import * as LineSplitter from "./LineSplitter.ts"
import { ProcessUnavailable } from "./ProcessUnavailable.ts"

export interface ProcessIo {
  readonly pid: number
  /**
   * The lines of standard output. For one reader. The process waits while the reader is behind. Ends when the process
   * ends.
   */
  readonly lines: Stream.Stream<string>
  /** Writes a line to standard input. Waits while the process does not read. */
  readonly send: (line: string) => Effect.Effect<void, ProcessUnavailable>
}

export interface Bounds {
  /** Longest line of standard output, in characters. */
  readonly line: number
  /** Lines that are buffered in each direction. Buffered output has at most `line` characters. */
  readonly lines: number
}

export interface Hooks {
  /** Gets standard error. */
  readonly tail: LineSplitter.Tail
  /** Completed with the reason when the output breaks its bounds. */
  readonly fault: Deferred.Deferred<string>
  /** Run at the end of standard output, before the readers of `lines` see it. */
  readonly closed: Effect.Effect<void>
}

/** Reads and writes until the scope closes. */
export const make = (
  name: string,
  handle: ChildProcessSpawner.ChildProcessHandle,
  bounds: Bounds,
  { closed, fault, tail }: Hooks
): Effect.Effect<ProcessIo, never, Scope.Scope> =>
  Effect.gen(function* () {
    const received = yield* Queue.bounded<string, Cause.Done>(bounds.lines)
    const sent = yield* Queue.bounded<string, Cause.Done>(bounds.lines)
    // The characters that `received` may still take.
    const room = yield* Semaphore.make(bounds.line)
    const receive = (line: string) =>
      Effect.andThen(Semaphore.take(room, line.length), Queue.offer(received, line))
    const splitter = LineSplitter.make(bounds.line)

    yield* handle.stdout.pipe(
      Stream.runForEach((chunk) => {
        const lines = splitter.push(chunk)
        return lines === undefined
          ? Effect.andThen(
              Deferred.succeed(fault, `a line longer than ${bounds.line} characters`),
              Effect.never
            )
          : Effect.forEach(lines, receive, { discard: true })
      }),
      Effect.ignore,
      Effect.andThen(closed),
      Effect.andThen(Queue.end(received)),
      Effect.forkScoped
    )
    yield* handle.stderr.pipe(
      Stream.runForEach((chunk) => Effect.sync(() => tail.push(chunk))),
      Effect.ignore,
      Effect.forkScoped
    )
    const encoder = new TextEncoder()
    yield* Stream.fromQueue(sent).pipe(
      Stream.map((line) => encoder.encode(`${line}\n`)),
      Stream.run(handle.stdin),
      // A closed pipe: the process is about to end.
      Effect.ignore,
      Effect.andThen(Queue.shutdown(sent)),
      Effect.forkScoped
    )
    yield* Effect.addFinalizer(() => Effect.andThen(Queue.shutdown(sent), Queue.end(received)))

    return {
      pid: handle.pid,
      lines: Stream.tap(Stream.fromQueue(received), (line) => Semaphore.release(room, line.length)),
      send: (line) => {
        if (typeof line !== "string" || /[\n\r]/.test(line)) {
          throw new InvalidOption("Supervised", "line", undefined, "a text without line breaks")
        }
        return Effect.flatMap(Queue.offer(sent, line), (isOpen) =>
          isOpen ? Effect.void : Effect.fail(new ProcessUnavailable({ reason: "gone", name }))
        )
      }
    }
  })
