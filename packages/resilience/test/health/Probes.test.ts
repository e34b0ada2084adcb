/**
 * Probes of real things: a child process and a TCP socket. What is waited for is an event of theirs, never time.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { connect, createServer } from "node:net"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Scope } from "effect"
import { ConnectionMonitor } from "@outlast/resilience"

const monitored = <A, E>(program: (monitor: ConnectionMonitor.Service) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.scoped(Effect.flatMap(ConnectionMonitor.make(), program))

it.live("a child process that exits is dead at the next question", () =>
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

it.live("a socket that its peer has closed is dead, as soon as a call over it fails", () =>
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
      // The exchange fails, because the peer hangs up instead of answering.
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
