import { assert, describe, it } from "@effect/vitest"
import { jetstream, jetstreamManager } from "@nats-io/jetstream"
import { connect } from "@nats-io/transport-node"
import { DeadLetters, DeliveryStore } from "@outlast/delivery"
import { SqliteClient } from "@outlast/node/sqlite"
import { Effect, Layer } from "effect"
import { spawn } from "node:child_process"
import { join } from "node:path"
import * as Programs from "../programs.ts"
import * as Nats from "../services/Nats.ts"
import * as Server from "../services/Server.ts"
import * as Sweeps from "../sweeps.ts"
import { run } from "./delivery.ts"

/** One of each kind, and more. */
const rounds = Sweeps.full(7, 3)

const poison = Programs.bundled(new URL("poison.ts", import.meta.url))

/** Runs a consumer until it dies, or until it and those before it have `said` that there is a dead letter and a good event. */
const consumer = (url: string, file: string, said: ReadonlyArray<string>) =>
  Effect.callback<ReadonlyArray<string>>((resume) => {
    const child = spawn(process.execPath, [poison, url, file], {
      stdio: ["pipe", "pipe", "inherit"]
    })
    let output = ""
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString()
      const all = [...said, ...output.split("\n")]
      if (all.includes("dead") && all.includes("good")) child.stdin.end()
    })
    child.once("close", () => resume(Effect.succeed(output.trim().split("\n"))))
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

describe.skipIf(Nats.missing !== undefined)("a broker and publishers that are killed", () => {
  it.live(
    "lose no event and no order",
    () =>
      Effect.gen(function* () {
        const result = yield* run({ rounds, seed: "ci", parallel: 3 })
        assert.isAtLeast(result.kills, rounds)
        assert.isAbove(result.events, 100)
        assert.deepStrictEqual(
          { lost: result.lost, outOfOrder: result.outOfOrder },
          { lost: 0, outOfOrder: 0 }
        )
      }),
    300_000
  )

  it.live(
    "a handler that kills its process leaves one dead letter, and the next event is handled",
    () =>
      Effect.gen(function* () {
        const server = yield* Nats.running()
        const file = join(yield* Server.folder, "dead.db")
        yield* Effect.promise(async () => {
          const nc = await connect({ servers: server.url })
          await (await jetstreamManager(nc)).streams.add({ name: "EV", subjects: ["ev.>"] })
          for (const id of ["poison", "good"]) {
            const { headers } = await import("@nats-io/transport-node")
            const all = headers()
            all.set("Outlast-Event-Id", id)
            await jetstream(nc).publish("ev.a", id, { msgID: id, headers: all })
          }
          await nc.close()
        })
        const lives: Array<ReadonlyArray<string>> = []
        while (!lives.flat().includes("dead") && lives.length < 10) {
          lives.push(yield* consumer(server.url, file, lives.flat()))
        }
        assert.include(lives.flat(), "good")
        assert.deepStrictEqual(
          lives.flat().filter((id) => id === "poison"),
          ["poison", "poison", "poison"]
        )
        const letters = yield* Effect.flatMap(DeadLetters.DeadLetters, ({ list }) => list()).pipe(
          Effect.provide(
            DeadLetters.layer.pipe(
              Layer.provide(DeliveryStore.layerSql()),
              Layer.provide(SqliteClient.layer({ filename: file }))
            )
          )
        )
        assert.deepStrictEqual(
          letters.map(({ key, attempts }) => ({ key, attempts })),
          [{ key: "EV/1/worker", attempts: 3 }]
        )
      }).pipe(Effect.scoped),
    120_000
  )
})
