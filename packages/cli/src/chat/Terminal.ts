/**
 * Where the chat is read and written: a terminal, or a pipe.
 *
 * In a terminal everything is written to it: answers, and dimmed lines about the recovery between them. In a pipe,
 * standard output has the answers and the results of commands, and standard error has the lines about the recovery.
 * Control characters of a model or a provider are removed, because a terminal would obey them.
 */
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import { Context, Effect, MutableRef } from "effect"
import type { Scope } from "effect"

/** The streams of the chat. `readline` needs those of Node. */
export interface Streams {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Writable & { readonly isTTY?: boolean }
  readonly stderr: Writable
}

/** Default: the streams of the process. */
export const Streams = Context.Reference<Streams>("outlast/chat/Streams", { defaultValue: () => process })

/** Returns what the last word of a line may become, and that word. */
export type Completer = (line: string) => readonly [words: ReadonlyArray<string>, word: string]

export interface Terminal {
  readonly isTerminal: boolean
  /** The next line of input; `undefined` at its end. Tab in a terminal completes its last word. */
  readonly read: (complete: Completer) => Effect.Effect<string | undefined>
  /** Writes a piece of an answer. */
  readonly text: (piece: string) => Effect.Effect<void>
  /** Writes the lines of a result. */
  readonly lines: (lines: ReadonlyArray<string>) => Effect.Effect<void>
  /** Writes a line about the recovery, or a mistake. */
  readonly aside: (line: string) => Effect.Effect<void>
  /** Like {@link aside}, for a logger, which cannot wait. */
  readonly log: (line: string) => void
  /** Like {@link aside}, but waits for the end of a line of the answer, or for {@link settle}. */
  readonly later: (line: string) => Effect.Effect<void>
  /** Writes the lines that wait. */
  readonly settle: Effect.Effect<void>
  /** Ends when the user presses Ctrl-C. In a pipe Ctrl-C ends the program, so that this never ends. */
  readonly interrupted: Effect.Effect<void>
}

const prompt = "You > "

/** Removes control characters except line breaks and tabs. */
export const printable = (text: string): string => text.replaceAll(unprintable, "")

// oxlint-disable-next-line no-control-regex -- these are the characters to remove
const unprintable = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

const dimmed = (text: string): string => `\u001b[2m${text}\u001b[0m`

export const make: Effect.Effect<Terminal, never, Scope.Scope> = Effect.gen(function* () {
  const { stdin, stdout, stderr } = yield* Streams
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true
  const noColor = process.env["NO_COLOR"]
  const paint = isTerminal && (noColor === undefined || noColor === "") ? dimmed : (text: string) => text
  let completer: Completer = (line) => [[], line]
  const waiting = MutableRef.make<(() => void) | undefined>(undefined)
  /** True while the prompt is shown. */
  let isTyping = false
  /** False after Ctrl-D, also during an answer. */
  let isOpen = isTerminal
  const reader = yield* Effect.acquireRelease(
    Effect.sync(() =>
      isTerminal
        ? createInterface({
            input: stdin,
            output: stdout,
            prompt,
            historySize: 100,
            completer: (line: string) => {
              const [words, word] = isTyping ? completer(line) : [[], line]
              return [[...words], word]
            }
          })
        : createInterface({ input: stdin, crlfDelay: Infinity })
    ),
    (reader) => Effect.sync(() => reader.close())
  )
  reader.on("SIGINT", () => {
    const interrupt = MutableRef.get(waiting)
    if (interrupt !== undefined) return interrupt()
    // Clears the line that is being typed.
    reader.write(null, { ctrl: true, name: "e" })
    reader.write(null, { ctrl: true, name: "u" })
    stdout.write("\nCtrl-D or /quit ends the chat.\n")
    reader.prompt()
  })
  // Begins to listen at once: a line that arrives before would be lost.
  const lines = reader[Symbol.asyncIterator]()
  reader.on("line", () => (isTyping = false))
  reader.on("close", () => {
    isTyping = false
    isOpen = false
  })
  /** Draws the prompt, with what was typed before. */
  const draw = () => {
    // The editor first goes up as many rows as its line has above the cursor.
    stdout.write("\n".repeat(reader.getCursorPos().rows))
    reader.prompt(true)
  }
  /** Writes lines. Where one is being typed, they go above it. */
  const put = (stream: Writable, text: string, done?: () => void) => {
    if (!isTyping) return void stream.write(text, done)
    stdout.write(`${"\u001b[A".repeat(reader.getCursorPos().rows)}\r\u001b[J`)
    stream.write(text, done)
    draw()
  }
  /** Writes and waits until the text is handed over, so that no unbounded buffer grows. */
  const write = (stream: Writable, text: string): Effect.Effect<void> =>
    Effect.callback((resume) => {
      // Errors of the stream are handled in `program.ts`.
      put(stream, text, () => resume(Effect.void))
    })
  /** True when the last text in the terminal did not end its line. */
  let midLine = false
  /** Lines of {@link Terminal.later}. An answer has few of them. */
  let held: ReadonlyArray<string> = []
  const recovery = isTerminal ? stdout : stderr
  const dim = (all: ReadonlyArray<string>): string => {
    const before = isTerminal && midLine ? "\n" : ""
    if (isTerminal) midLine = false
    return `${before}${all.map((line) => `${paint(printable(line))}\n`).join("")}`
  }
  const asides = (all: ReadonlyArray<string>) => Effect.suspend(() => write(recovery, dim(all)))
  const result = (all: ReadonlyArray<string>) =>
    Effect.suspend(() => {
      const before = midLine ? "\n" : ""
      midLine = false
      return write(stdout, `${before}${all.map((line) => `${printable(line)}\n`).join("")}`)
    })
  /** Ends the line of the answer first. */
  const settle = Effect.suspend(() => {
    const all = held
    held = []
    if (all.length === 0) return Effect.void
    return Effect.andThen(midLine ? result([]) : Effect.void, asides(all))
  })

  return {
    isTerminal,
    read: (complete) =>
      Effect.promise(async () => {
        if (isOpen) {
          completer = complete
          isTyping = true
          draw()
        }
        const next = await lines.next()
        // A line that was typed ahead has no event of its own.
        isTyping = false
        return next.done === true ? undefined : next.value
      }),
    text: (piece) =>
      Effect.suspend(() => {
        const text = printable(piece)
        if (text === "") return Effect.void
        midLine = !text.endsWith("\n")
        return write(stdout, text)
      }),
    lines: (all) => Effect.andThen(settle, result(all)),
    aside: (line) => asides([line]),
    log: (line) => void put(recovery, dim([line])),
    later: (line) =>
      Effect.suspend(() => {
        if (!midLine) return asides([line])
        held = [...held, line]
        return Effect.void
      }),
    settle,
    interrupted: Effect.callback((resume) => {
      MutableRef.set(waiting, () => {
        MutableRef.set(waiting, undefined)
        resume(Effect.void)
      })
      return Effect.sync(() => MutableRef.set(waiting, undefined))
    })
  }
})
