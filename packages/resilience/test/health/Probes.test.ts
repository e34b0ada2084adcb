/**
 * Probes of a real child process, a TCP socket, and those of `examples/session-death.ts`. The tests wait for their
 * events, never for time.
 */
import type { ChildProcess } from "node:child_process"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { connect, createServer } from "node:net"
import { assert, describe, it, vi } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import type { Scope } from "effect"
import { ConnectionMonitor } from "@outlast/resilience"

const monitored = <A, E>(program: (monitor: ConnectionMonitor.Service) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.scoped(Effect.flatMap(ConnectionMonitor.make(), program))

it.live("a child process that exits is dead at the next check", () =>
  monitored((monitor) =>
    Effect.gen(function* () {
      const child = spawn(process.execPath, ["-e", "process.stdin.resume()"], {
        stdio: ["pipe", "ignore", "ignore"]
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
      yield* monitor.register("child", {
        probe: Effect.sync(() => (child.exitCode === null && child.signalCode === null ? "alive" : "dead"))
      })
      assert.strictEqual(yield* monitor.guard("child")(Effect.succeed("answer")), "answer")
      child.stdin?.end()
      yield* Effect.promise(() => once(child, "exit"))
      assert.strictEqual((yield* monitor.ask("child")).health, "dead")
      assert.strictEqual((yield* Effect.flip(monitor.guard("child")(Effect.void)))._tag, "SessionDead")
    })
  )
)

it.live("a socket closed by its peer is dead as soon as a call over it fails", () =>
  monitored((monitor) =>
    Effect.gen(function* () {
      const server = createServer((peer) => {
        peer.once("data", () => peer.destroy())
      }).listen(0, "127.0.0.1")
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      yield* Effect.promise(() => once(server, "listening"))
      const address = server.address()
      const socket = connect(typeof address === "object" && address !== null ? address.port : 0, "127.0.0.1")
      socket.on("error", () => undefined)
      yield* Effect.promise(() => once(socket, "connect"))

      yield* monitor.register("socket", {
        probe: Effect.sync(() => (socket.destroyed ? "dead" : "alive"))
      })
      // The exchange fails, because the peer closes the connection instead of answering.
      const exchange = Effect.tryPromise({
        try: async () => {
          socket.resume()
          socket.write("hello")
          await once(socket, "close")
          throw new Error("closed by the peer")
        },
        catch: (error) => error
      })
      yield* Effect.flip(monitor.guard("socket")(exchange))
      assert.strictEqual((yield* monitor.ask("socket")).health, "dead")
      const error = yield* Effect.flip(monitor.check("socket"))
      assert.strictEqual(error._tag, "SessionDead")
    })
  )
)

describe("examples/session-death.ts", () => {
  interface Example {
    readonly commandProbe: (command: string, args: ReadonlyArray<string>) => ConnectionMonitor.Probe
    readonly processPing: (child: ChildProcess) => Effect.Effect<void, Error>
  }
  // The example runs when it is loaded, and prints its output.
  const example = Effect.promise(async (): Promise<Example> => {
    const silent = vi.spyOn(console, "log").mockReturnValue(undefined)
    const loaded = await import(new URL("../../../../examples/session-death.ts", import.meta.url).href)
    silent.mockRestore()
    return loaded
  })
  const node = (source: string) => [process.execPath, ["-e", source]] as const

  it.live("a killed command proves nothing, because only its exit code counts", () =>
    Effect.gen(function* () {
      const { commandProbe } = yield* example
      assert.strictEqual(yield* commandProbe(...node("process.exit(0)")), "alive")
      assert.strictEqual(yield* commandProbe(...node("process.exit(3)")), "dead")
      const killed = yield* Effect.flip(commandProbe(...node("process.kill(process.pid, 'SIGKILL')")))
      assert.instanceOf(killed, ConnectionMonitor.ProbeError)
      assert.match(killed.reason, /was ended by SIGKILL$/)
      const missing = yield* Effect.flip(commandProbe("no-such-command", []))
      assert.strictEqual(missing.reason, "no-such-command cannot be started")
    })
  )

  it.live("a ping leaves no listener behind, whether it is answered, abandoned or cannot be sent", () =>
    Effect.gen(function* () {
      const { processPing } = yield* example
      const child = spawn(
        process.execPath,
        ["-e", "process.on('message', (message) => message === 'ping' && process.send(message))"],
        { stdio: ["ignore", "ignore", "ignore", "ipc"] }
      )
      yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
      yield* processPing(child)
      assert.strictEqual(child.listenerCount("message"), 0)
      const givenUp = yield* Effect.forkChild(processPing(child), { startImmediately: true })
      yield* Fiber.interrupt(givenUp)
      assert.strictEqual(child.listenerCount("message"), 0)
      const ended = once(child, "exit")
      child.kill("SIGKILL")
      yield* Effect.promise(() => ended)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(processPing(child))))
      assert.strictEqual(child.listenerCount("message"), 0)
    }).pipe(Effect.scoped)
  )
})
