/**
 * Sessions that die: a child process that exits, and a terminal pane that is asked for by a command.
 *
 *     npm run session-death -w examples
 *
 * The pane's probe is `tmux has-session -t agent` in real life. Here Node plays the command, so that it runs
 * everywhere: what counts is the exit code, and that a command which cannot be started proves nothing.
 */
import type { ChildProcess } from "node:child_process"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { Console, Effect, Layer } from "effect"
import { ConnectionMonitor, ResilienceEvents } from "@outlast/resilience"

/** Alive while it has neither an exit code nor a signal that ended it. */
const processProbe = (child: ChildProcess): ConnectionMonitor.Probe =>
  Effect.sync(() => (child.exitCode === null && child.signalCode === null ? "alive" : "dead"))

/** One message there and back. However it ends, it leaves no listener behind. */
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
    // The monitor's time limit interrupts it.
    return Effect.sync(() => child.off("message", answered))
  })

/** Exit code 0: alive; any other: dead. A command that cannot be started, or is killed, says nothing. */
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
  // The next ping would find out; a failing call, or asking, does so at once.
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

/** What is published, without the times. */
const Events = ResilienceEvents.layerHandler((event) =>
  event._tag === "PingUnavailable" && "reason" in event
    ? Console.log(`${event._tag}: ${String(event.reason)}`)
    : Console.log(event._tag)
)

await Effect.runPromise(
  main.pipe(Effect.scoped, Effect.provide(Layer.provideMerge(ConnectionMonitor.layer(), Events)))
)
