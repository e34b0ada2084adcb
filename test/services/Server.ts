/** A server program of the test's own, that dies with its scope. */
import { Data, Effect } from "effect"
import type { Scope } from "effect"
import type { ChildProcess, SpawnOptions } from "node:child_process"
import { execFileSync, spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs"
import { createConnection, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** Why suites that need a program are skipped; CI requires it. */
export const missing = (program: string): string | undefined => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" })
    return undefined
  } catch {
    const why = `${program} is not installed`
    if (process.env["OUTLAST_REQUIRE_SERVICES"] === "1") {
      throw new Error(`${why}, and OUTLAST_REQUIRE_SERVICES=1`)
    }
    console.log(`Skipped: ${why}.`)
    return why
  }
}

export class ServerFailed extends Data.TaggedError("ServerFailed")<{ readonly message: string }> {}

export const freePort: Effect.Effect<number> = Effect.callback((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    server.close(() => resume(Effect.succeed(port)))
  })
})

/** A folder that is gone with its scope. */
export const folder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-delivery-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true, maxRetries: 3 }))
)

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createConnection({ port, host: "127.0.0.1" })
    socket.once("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.once("error", () => resolve(false))
  })

/** A pause by the machine's clock, whatever clock the test has: a look again at once would take the server's CPU. */
export const pause = (): Promise<void> =>
  new Promise((resolve) => AbortSignal.timeout(20).addEventListener("abort", () => resolve()))

export interface Program {
  readonly port: number
  /** Ends when the port is open. */
  readonly start: Effect.Effect<void, ServerFailed>
  /** Ends when the process is gone. */
  readonly kill: Effect.Effect<void>
  readonly signal: (name: NodeJS.Signals) => Effect.Effect<void>
}

/** True when all threads of a process are stopped, or where the system does not tell. */
const isStopped = (pid: number | undefined): boolean => {
  const tasks = `/proc/${pid}/task`
  if (!existsSync(tasks)) return true
  return readdirSync(tasks).every((task) => {
    try {
      return /\) [TtZX] /.test(readFileSync(`${tasks}/${task}/stat`, "utf8"))
    } catch {
      // The thread has ended.
      return true
    }
  })
}

/** A program that is not running yet. */
export const program = (
  port: number,
  command: string,
  args: ReadonlyArray<string>,
  options: SpawnOptions = {}
): Effect.Effect<Program, never, Scope.Scope> =>
  Effect.gen(function* () {
    let child: ChildProcess | undefined
    const start = Effect.tryPromise({
      try: async () => {
        const server = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options })
        child = server
        let output = ""
        const read = (chunk: Buffer) => (output = (output + chunk.toString()).slice(-2_000))
        server.stdout?.on("data", read)
        server.stderr?.on("data", read)
        while (!(await isOpen(port))) {
          if (server.exitCode !== null || server.signalCode !== null) throw new Error(output)
          await pause()
        }
      },
      catch: (error) => new ServerFailed({ message: String(error) })
    })
    const kill = Effect.callback<void>((resume) => {
      const server = child
      if (server === undefined || server.exitCode !== null || server.signalCode !== null) {
        resume(Effect.void)
        return
      }
      server.once("exit", () => resume(Effect.void))
      server.kill("SIGKILL")
    })
    yield* Effect.addFinalizer(() => kill)
    const signal = (name: NodeJS.Signals) =>
      Effect.promise(async () => {
        child?.kill(name)
        // The threads of a busy process stop one by one, after the signal was sent.
        if (name !== "SIGSTOP") return
        while (!isStopped(child?.pid)) await pause()
      })
    return { port, start, kill, signal }
  })
