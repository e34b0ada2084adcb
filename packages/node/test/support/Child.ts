/** A real child process, which is killed with its scope. */
import { Data, Effect } from "effect"
import type { Scope } from "effect"
import { spawn } from "node:child_process"
import * as Programs from "../../../../test/programs.ts"

class ChildEnded extends Data.TaggedError("ChildEnded")<{ readonly message: string }> {}

export interface Child {
  /** Waits for a line that begins with `start`, and returns the rest of it. */
  readonly line: (start: string) => Effect.Effect<string>
  /** Writes a line to its standard input. */
  readonly send: (line: string) => Effect.Effect<void>
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** Stops reading its output: writing fails from now on. */
  readonly close: Effect.Effect<void>
  /** Completes when the process has ended. */
  readonly ended: Effect.Effect<void>
  /** Waits for the end. `output` is everything that it wrote. */
  readonly end: Effect.Effect<End>
}

interface End {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly output: string
}

export interface Options {
  /** A command that runs Node, for example `["unshare", "--pid", "--fork"]`. */
  readonly within?: ReadonlyArray<string> | undefined
  /** Options of Node. */
  readonly flags?: ReadonlyArray<string> | undefined
}

/** Starts a program with Node, from its bundle. */
export const start = (
  program: URL,
  args: ReadonlyArray<string>,
  { flags = [], within = [] }: Options = {}
): Effect.Effect<Child, never, Scope.Scope> =>
  Effect.gen(function* () {
    const [command = process.execPath, ...rest] = [
      ...within,
      process.execPath,
      ...flags,
      Programs.bundled(program),
      ...args
    ]
    const child = spawn(command, rest, { stdio: ["pipe", "pipe", "pipe"] })
    let output = ""
    let errors = ""
    let all = ""
    let isGone = false
    const listeners = new Set<() => void>()
    const changed = () => listeners.forEach((listener) => listener())
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString()
      all += chunk.toString()
      changed()
    })
    child.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString()
      all += chunk.toString()
    })
    // Writing to a killed process fails.
    child.stdin.on("error", () => {})
    child.on("close", () => {
      isGone = true
      changed()
    })

    const when = <A>(look: () => Effect.Effect<A> | undefined): Effect.Effect<A> =>
      Effect.callback<A>((resume) => {
        const listener = () => {
          const found = look()
          if (found === undefined) return
          listeners.delete(listener)
          resume(found)
        }
        listeners.add(listener)
        listener()
        return Effect.sync(() => listeners.delete(listener))
      })

    const line = (start: string) =>
      when(() => {
        const lines = output.split("\n").slice(0, -1)
        const index = lines.findIndex((line) => line.startsWith(start))
        if (index >= 0) {
          output = [...lines.slice(index + 1), output.split("\n").at(-1) ?? ""].join("\n")
          return Effect.succeed((lines[index] ?? "").slice(start.length).trim())
        }
        return isGone
          ? Effect.die(new ChildEnded({ message: `ended before "${start}": ${output}${errors}` }))
          : undefined
      })
    const ended = when(() => (isGone ? Effect.void : undefined))
    const signal = (signal: NodeJS.Signals) => Effect.sync(() => void child.kill(signal))
    yield* Effect.addFinalizer(() => Effect.andThen(signal("SIGKILL"), ended))
    return {
      line,
      send: (line) => Effect.sync(() => void child.stdin.write(`${line}\n`)),
      signal,
      close: Effect.sync(() => {
        child.stdout.destroy()
        child.stderr.destroy()
      }),
      ended,
      end: Effect.map(ended, () => ({ code: child.exitCode, signal: child.signalCode, output: all }))
    }
  })

/** For child programs: reads the lines that `send` wrote. */
export const commands = (onLine: (line: string) => void): void => {
  let rest = ""
  process.stdin.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) onLine(line)
  })
}
