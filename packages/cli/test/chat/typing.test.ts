/** The prompt of the chat while something else is written: a terminal of 20 columns, drawn from what it gets. */
import { PassThrough, Writable } from "node:stream"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Terminal from "#cli/chat/Terminal"

const columns = 20

/** Draws the codes that the editor of Node and the chat write. */
const drawn = (written: string): string => {
  const rows: Array<Array<string>> = [[]]
  let [row, column] = [0, 0]
  // oxlint-disable-next-line no-control-regex -- codes of a terminal
  for (const [code, number = "", letter] of written.matchAll(/\u001b\[(\d*)([A-Za-z])|[^]/g)) {
    if (letter === "A") row -= Number(number || 1)
    else if (letter === "G") column = Number(number || 1) - 1
    else if (letter === "J") {
      rows.splice(row + 1)
      rows[row]?.splice(column)
    } else if (letter === "m") continue
    else if (code === "\r") column = 0
    else if (code === "\n") [row, column] = [row + 1, 0]
    else {
      if (column === columns) [row, column] = [row + 1, 0]
      const line = (rows[row] ??= [])
      line[column++] = code
    }
    rows[row] ??= []
  }
  return rows.map((row) => row.join("")).join("\n")
}

/** A terminal of the chat, whose keys can be pressed, and what it shows. */
const opened = Effect.gen(function* () {
  let written = ""
  const stdin = Object.assign(new PassThrough(), { isTTY: true })
  const stdout = Object.assign(
    new Writable({
      write: (chunk, _, done) => {
        written += String(chunk)
        done()
      }
    }),
    { isTTY: true, columns }
  )
  const terminal = yield* Effect.provideService(Terminal.make, Terminal.Streams, {
    stdin,
    stdout,
    stderr: stdout
  })
  const press = (keys: string) => {
    for (const key of keys) stdin.emit("data", key)
  }
  return { terminal, press, shown: () => drawn(written) }
})

const complete: Terminal.Completer = (line) => [
  ["/trip ", "/try"].filter((word) => word.startsWith(line)),
  line
]

describe("a line that is being typed", () => {
  it.effect("stays below what is written meanwhile, with all that was typed", () =>
    Effect.gen(function* () {
      const { terminal, press, shown } = yield* opened
      const line = yield* Effect.forkChild(terminal.read(complete), { startImmediately: true })
      press("Hello")
      yield* terminal.aside("  an event")
      assert.strictEqual(shown(), "  an event\nYou > Hello")
      terminal.log("a warning")
      press(", is this line long?")
      yield* terminal.aside("  an event")
      assert.strictEqual(shown(), "  an event\na warning\n  an event\nYou > Hello, is this\n line long?")
      press("\r")
      assert.strictEqual(yield* Fiber.join(line), "Hello, is this line long?")
      yield* terminal.aside("  an event")
      assert.match(shown(), /You > Hello, is this\n line long\?\n {2}an event\n$/)
    }).pipe(Effect.scoped)
  )

  it.effect("goes on with what was typed during the answer", () =>
    Effect.gen(function* () {
      const { terminal, press, shown } = yield* opened
      press("Hel")
      yield* terminal.lines([""])
      const line = yield* Effect.forkChild(terminal.read(complete), { startImmediately: true })
      press("lo\r")
      assert.strictEqual(yield* Fiber.join(line), "Hello")
      assert.match(shown(), /\nYou > Hello\n$/)
    }).pipe(Effect.scoped)
  )

  it.effect("is completed by Tab", () =>
    Effect.gen(function* () {
      const { terminal, press } = yield* opened
      const line = yield* Effect.forkChild(terminal.read(complete), { startImmediately: true })
      press("/tri\tanthropic\r")
      assert.strictEqual(yield* Fiber.join(line), "/trip anthropic")
    }).pipe(Effect.scoped)
  )

  it.effect("ends with Ctrl-D, also during an answer", () =>
    Effect.gen(function* () {
      const { terminal, press } = yield* opened
      press("\u0004")
      assert.isUndefined(yield* terminal.read(complete))
    }).pipe(Effect.scoped)
  )
})
