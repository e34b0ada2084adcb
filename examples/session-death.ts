/**
 * Detects sessions that die: a child process that exits, and a terminal pane that is checked by a command.
 *
 *     npm run session-death -w examples
 *
 * In practice the pane's probe is `tmux has-session -t agent`. Here Node stands in for the command, so that the example
 * runs everywhere. Only the exit code counts; a command that cannot be started proves nothing.
 */
import type { ChildProcess } from "node:child_process"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { Console, Effect, Layer } from "effect"
import { ConnectionMonitor, ResilienceEvents } from "@outlast/resilience"

/** Alive while the process has neither an exit code nor a signal that ended it. */
const processProbe = (child: ChildProcess): ConnectionMonitor.Probe =>
  Effect.sync(() => (child.exitCode === null && child.signalCode === null ? "alive" : "dead"))

/** Sends a message and waits for the reply. Leaves no listener behind, however it ends. */
export const processPing = (child: ChildProcess) =>
  Effect.callback<void, Error>((resume) => {
    const end = (answer: Effect.Effect<void, Error>) => {
      child.off("message", answered)
      resume(answer)
    }
    const answered = () => end(Effect.void)
    child.on("message", answered)
    child.send("ping", (error) => {
      if (error !== null) end(Effect.fail(error))
    })
    // Runs when the monitor's time limit interrupts the ping.
    return Effect.sync(() => child.off("message", answered))
  })

/** Exit code 0 means alive, any other means dead. A command that cannot be started, or is killed, proves nothing. */
export const commandProbe = (command: string, args: ReadonlyArray<string>): ConnectionMonitor.Probe =>
  Effect.callback((resume) => {
    const child = spawn(command, args, { stdio: "ignore" })
    child.once("error", () =>
      resume(Effect.fail(new ConnectionMonitor.ProbeError({ reason: `${command} cannot be started` })))
    )
    child.once("exit", (code, signal) =>
      resume(
        code === null
          ? Effect.fail(new ConnectionMonitor.ProbeError({ reason: `${command} was ended by ${signal}` }))
          : Effect.succeed(code === 0 ? "alive" : "dead")
      )
    )
    return Effect.sync(() => child.kill())
  })

const worker = () =>
  spawn(process.execPath, ["-e", "process.on('message', (message) => process.send(message))"], {
    stdio: ["ignore", "ignore", "inherit", "ipc"]
  })

const main = Effect.gen(function* () {
  const monitor = yield* ConnectionMonitor.ConnectionMonitor

  const child = worker()
  yield* monitor.register("worker", { probe: processProbe(child), ping: processPing(child) })
  yield* Console.log(`worker: ${(yield* monitor.ask("worker")).outcomes > 0 ? "answers" : "is silent"}`)
  child.kill()
  yield* Effect.promise(() => once(child, "exit"))
  // Checks at once. Otherwise the next ping, or a failing call, would find out.
  yield* monitor.ask("worker")
  yield* monitor
    .guard("worker")(Console.log("never sent"))
    .pipe(Effect.catchTag("SessionDead", (error) => Console.log(error.message)))

  const second = worker()
  yield* monitor.register("worker", { probe: processProbe(second), ping: processPing(second) })
  yield* monitor.guard("worker")(Console.log("worker: sent to the new one"))
  second.kill()

  const panes = {
    pane: commandProbe(process.execPath, ["-e", "process.exit(1)"]),
    "other pane": commandProbe("no-such-tmux", ["has-session", "-t", "agent"])
  }
  for (const [name, probe] of Object.entries(panes)) {
    yield* monitor.register(name, { probe })
    const { health } = yield* monitor.ask(name)
    yield* Console.log(`${name}: ${health}`)
  }
})

/** Prints the published events without their times. */
const Events = ResilienceEvents.layerHandler((event) =>
  event._tag === "PingUnavailable" && "reason" in event
    ? Console.log(`${event._tag}: ${String(event.reason)}`)
    : Console.log(event._tag)
)

await Effect.runPromise(
  main.pipe(Effect.scoped, Effect.provide(Layer.provideMerge(ConnectionMonitor.layer(), Events)))
)
