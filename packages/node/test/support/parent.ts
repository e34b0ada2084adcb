/** A program with a supervised process: prints the ids of the process and of its child, and then ends as it is told. */
import { NodeServices } from "@effect/platform-node"
import { Effect } from "effect"
import { fileURLToPath } from "node:url"
import { StdioRpc, Supervised } from "@outlast/node/process"
import * as Child from "./Child.ts"

const server = fileURLToPath(new URL("stdioServer.mjs", import.meta.url))

const program = Effect.gen(function* () {
  const family = yield* Supervised.make({
    name: "family",
    command: process.execPath,
    args: [server, "family"],
    handshake: (io) => Effect.tap(StdioRpc.make(io), (rpc) => rpc.request("ping"))
  })
  yield* family.use(() => Effect.void)
  const { pid } = yield* family.status
  const child = /child (\d+)/.exec(yield* family.stderr)?.[1]
  Child.commands((line) => {
    if (line === "exit") process.exit(0)
    if (line === "throw") throw new Error("uncaught")
  })
  console.log(`pids ${pid} ${child}`)
  return yield* Effect.never
})

await Effect.runPromise(Effect.provide(Effect.scoped(program), NodeServices.layer))
