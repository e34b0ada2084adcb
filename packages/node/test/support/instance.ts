/**
 * A process that takes a lock as the only instance: `instance.ts <path> <options as JSON> <stubborn?>`. Prints `held` or
 * `refused`. A stubborn one ignores SIGTERM.
 */
import { Cause, Effect, Option } from "effect"
import { SingleInstance } from "@outlast/node/lock"
import { Host } from "@outlast/node/host"

const [path = "", options = "{}", stubborn = ""] = process.argv.slice(2)

const main = Effect.gen(function* () {
  console.log("asking")
  yield* SingleInstance.acquire(path, JSON.parse(options))
  console.log(`held ${process.pid}`)
  return yield* Effect.never
}).pipe(
  Effect.scoped,
  Effect.tapCause((cause) =>
    Effect.sync(() => {
      const error = Option.getOrUndefined(Cause.findErrorOption(cause))
      if (error !== undefined) console.log(`refused ${error.message}`)
    })
  )
)

Host.runMain(main, { wait: 0, signals: stubborn === "stubborn" ? ["SIGHUP"] : ["SIGTERM"] })
if (stubborn === "stubborn") process.on("SIGTERM", () => console.log("ignored"))
