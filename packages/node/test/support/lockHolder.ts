/**
 * A process that takes a lock: `lockHolder.ts <path> <wait in ms>`. Prints `held` or `refused`, and releases on
 * `release`.
 */
import { Deferred, Effect } from "effect"
import { StoreLock } from "@outlast/node/lock"
import * as Child from "./Child.ts"

const [path = "", wait = "0"] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const released = yield* Deferred.make<void>()
  Child.commands((line) => {
    if (line === "release") Deferred.doneUnsafe(released, Effect.void)
    if (line === "ping") console.log("pong")
  })
  console.log("asking")
  yield* StoreLock.acquire(path, { wait: Number(wait) })
  console.log(`held ${process.pid}`)
  yield* Deferred.await(released)
}).pipe(
  Effect.scoped,
  Effect.matchEffect({
    onFailure: (error) => Effect.sync(() => console.log(`refused ${error.message}`)),
    onSuccess: () => Effect.sync(() => console.log("released"))
  })
)

await Effect.runPromise(program)
process.exit()
