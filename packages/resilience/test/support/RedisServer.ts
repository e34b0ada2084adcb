/** A private Redis server on a free port, which is killed with its scope. */
import { Data, Effect } from "effect"
import type { Scope } from "effect"
import { execFileSync, spawn } from "node:child_process"
import { createServer } from "node:net"

/** The reason to skip the suites that need Redis. CI requires Redis. */
export const missing: string | undefined = (() => {
  try {
    execFileSync("redis-server", ["--version"], { stdio: "ignore" })
    return undefined
  } catch {
    const why = "redis-server is not installed"
    if (process.env["OUTLAST_REQUIRE_SERVICES"] === "1")
      throw new Error(`${why}, and OUTLAST_REQUIRE_SERVICES=1`)
    console.log(`Skipped: ${why}.`)
    return why
  }
})()

class ServerFailed extends Data.TaggedError("ServerFailed")<{ readonly message: string }> {}

export interface RedisServer {
  readonly port: number
  /** Completes when the server accepts connections. */
  readonly start: Effect.Effect<void, ServerFailed>
  /** Completes when the process has exited. */
  readonly kill: Effect.Effect<void>
}

const freePort: Effect.Effect<number> = Effect.callback((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    server.close(() => resume(Effect.succeed(port)))
  })
})

/** A server that is not running yet. */
export const make: Effect.Effect<RedisServer, never, Scope.Scope> = Effect.gen(function* () {
  const port = yield* freePort
  let child: ReturnType<typeof spawn> | undefined
  const start = Effect.callback<void, ServerFailed>((resume) => {
    const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    const server = spawn("redis-server", args, { stdio: ["ignore", "pipe", "ignore"] })
    child = server
    let output = ""
    server.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString()
      if (output.includes("Ready to accept connections")) resume(Effect.void)
    })
    server.once("exit", () => resume(new ServerFailed({ message: output.slice(-500) })))
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
  return { port, start, kill }
})

/** A running server. */
export const running: Effect.Effect<RedisServer, ServerFailed, Scope.Scope> = Effect.tap(
  make,
  ({ start }) => start
)
