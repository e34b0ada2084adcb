/** A process that takes a lock when it reads a line, as the only instance: prints `held` or ends with exit code 75. */
import { once } from "node:events"
import { Host, SingleInstance } from "@outlast/node"
import { Effect } from "effect"

console.log("waiting")
await once(process.stdin, "data")
// Whoever started it is gone.
process.stdin.on("end", () => process.exit(1))

const main = Effect.andThen(SingleInstance.acquire(process.argv[2] ?? ""), () => {
  console.log("held")
  return Effect.never
})
Host.runMain(Effect.scoped(main), { wait: 0 })
