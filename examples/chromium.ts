/**
 * A circuit breaker around the CDP session of a real headless Chromium.
 *
 *     npm run chromium -w examples
 *
 * Each command has a time limit inside the circuit of its session. When the browser dies, three commands fail, and
 * then the circuit refuses further ones at once: a dead browser does not freeze an agent. A new browser is tested by one
 * command, which closes the circuit. `CHROMIUM` names the program if it is not on the PATH.
 */
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { Console, Data, Effect, Schema } from "effect"
import type { Scope } from "effect"
import { Backoff, CircuitBreaker } from "@outlast/resilience"

class CdpError extends Data.TaggedError("CdpError")<{ readonly message: string }> {}

const names = ["chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"]
const program =
  process.env["CHROMIUM"] ??
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((path) => existsSync(path))

if (program === undefined) {
  console.log("This example needs chromium on the PATH.")
  process.exit(0)
}

interface Browser {
  /** Sends one command and gives its result. */
  readonly send: (method: string, params?: object) => Effect.Effect<unknown, CdpError>
  readonly kill: Effect.Effect<void>
}

/** Starts a browser and opens a CDP session with it. Both end with the scope. */
const open: Effect.Effect<Browser, CdpError, Scope.Scope> = Effect.gen(function* () {
  const profile = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-chromium-"))),
    (folder) =>
      Effect.sync(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }))
  )
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(program, [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        `--user-data-dir=${profile}`,
        "--remote-debugging-port=0",
        "about:blank"
      ])
    ),
    (child) =>
      Effect.callback<void>((resume) => {
        if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
        child.once("exit", () => resume(Effect.void))
        child.kill("SIGKILL")
      })
  )
  const url = yield* Effect.callback<string, CdpError>((resume) => {
    let said = ""
    child.once("error", ({ message }) => resume(Effect.fail(new CdpError({ message }))))
    child.once("exit", () =>
      resume(Effect.fail(new CdpError({ message: `The browser ended. ${said.slice(-200)}` })))
    )
    child.stderr.on("data", (chunk) => {
      said += String(chunk)
      const found = /DevTools listening on (ws:\S+)/.exec(said)
      if (found?.[1] !== undefined) resume(Effect.succeed(found[1]))
    })
  })
  const socket = yield* Effect.acquireRelease(
    Effect.callback<WebSocket, CdpError>((resume) => {
      const socket = new WebSocket(url)
      socket.addEventListener("open", () => resume(Effect.succeed(socket)))
      socket.addEventListener("error", () => resume(Effect.fail(new CdpError({ message: "No connection." }))))
    }),
    (socket) => Effect.sync(() => socket.close())
  )
  let id = 0
  return {
    send: (method, params = {}) =>
      Effect.callback<unknown, CdpError>((resume) => {
        if (socket.readyState !== WebSocket.OPEN) {
          return resume(Effect.fail(new CdpError({ message: "The session is closed." })))
        }
        const own = ++id
        const done = (result: Effect.Effect<unknown, CdpError>): void => {
          stop()
          resume(result)
        }
        const heard = ({ data }: MessageEvent): void => {
          const reply: unknown = JSON.parse(String(data))
          if (Schema.is(Reply)(reply) && reply.id === own) done(Effect.succeed(reply.result))
        }
        const closed = (): void => done(Effect.fail(new CdpError({ message: "The session is closed." })))
        const stop = (): void => {
          socket.removeEventListener("message", heard)
          socket.removeEventListener("close", closed)
        }
        socket.addEventListener("message", heard)
        socket.addEventListener("close", closed)
        socket.send(JSON.stringify({ id: own, method, params }))
        return Effect.sync(stop)
      }),
    kill: Effect.sync(() => void child.kill("SIGKILL"))
  }
})

const Reply = Schema.Struct({ id: Schema.Finite, result: Schema.Unknown })

const main = Effect.gen(function* () {
  const breaker = yield* CircuitBreaker.CircuitBreaker
  const command = ({ send }: Browser, method: string, params?: object) =>
    send(method, params).pipe(
      Effect.timeoutOrElse({
        duration: "10 seconds",
        orElse: () => Effect.fail(new CdpError({ message: "No answer in time." }))
      }),
      breaker.execute("browser")
    )
  const phase = Effect.map(breaker.state("browser"), ({ phase }) => phase)

  const first = yield* open
  const version = yield* command(first, "Browser.getVersion")
  yield* Console.log(`the browser answers: ${/Chrome/.test(JSON.stringify(version))}, ${yield* phase}`)
  yield* first.kill
  for (let i = 1; i <= 4; i++) {
    const error = yield* Effect.flip(command(first, "Target.getTargets"))
    yield* Console.log(`command ${i}: ${error._tag}, ${yield* phase}`)
  }
  const second = yield* open
  // After the open time, one command tests the session.
  yield* Effect.repeat(Effect.andThen(Effect.sleep("100 millis"), breaker.available("browser")), {
    until: (available) => available
  })
  yield* command(second, "Target.getTargets")
  yield* Console.log(`a new browser: ${yield* phase}`)
})

await Effect.runPromise(
  Effect.scoped(main).pipe(
    Effect.provide(
      CircuitBreaker.layer({
        trip: { consecutive: { failures: 3 } },
        halfOpen: { successes: 1 },
        open: Backoff.constant("5 seconds")
      })
    )
  )
)
