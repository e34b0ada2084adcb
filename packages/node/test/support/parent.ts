/** A program with a supervised process, the server at its first argument: prints the ids of the process and of its children, and then ends as it is told. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Schedule } from "effect"
import { existsSync } from "node:fs"
import { StdioRpc, Supervised } from "@outlast/node/process"
import * as Child from "./Child.ts"

const [server = ""] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const family = yield* Supervised.make({
    name: "family",
    command: process.execPath,
    args: [server, "stubborn family left"],
    // The tests end this program long before.
    stopLimit: "5 minutes",
    handshake: (io) => Effect.tap(StdioRpc.make(io), (rpc) => rpc.request("ping"))
  })
  yield* family.use(() => Effect.void)
  const { pid } = yield* family.status
  const child = /child (\d+)/.exec(yield* family.stderr)?.[1]
  // SIGTERM ends the child, and the leader ignores it.
  const exitOnceTerminated = Effect.repeat(
    Effect.sync(() => existsSync(`/proc/${child}`)),
    { while: (isAlive) => isAlive, schedule: Schedule.spaced("10 millis") }
  ).pipe(Effect.andThen(Effect.sync(() => process.exit(0))))
  Child.commands((line) => {
    if (line === "exit") process.exit(0)
    if (line === "exit while it stops") {
      Effect.runFork(family.stop)
      Effect.runFork(exitOnceTerminated)
    }
    if (line === "throw") throw new Error("uncaught")
  })
  const left = /left ([\d ]+)/.exec(yield* family.stderr)?.[1]
  console.log(`pids ${pid} ${child} ${left}`)
  return yield* Effect.never
})

await Effect.runPromise(Effect.provide(Effect.scoped(program), NodeServices.layer))
