/** A consumer that is killed by one event: its handler ends the process. */
import { DeadLetters, DeliveryStore, EventBus } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import { SqliteClient } from "@outlast/node/sqlite"
import { Effect, Layer } from "effect"
import { writeSync } from "node:fs"

const [servers = "", filename = ""] = process.argv.slice(2)

const program = EventBus.consume(
  { subject: "ev.>", durable: "worker", maxDeliveries: 3, ackWait: "200 millis" },
  ({ event }) =>
    Effect.sync(() => {
      writeSync(1, `${event.id}\n`)
      if (event.id === "poison") process.kill(process.pid, "SIGKILL")
    })
)

/** Says when the event is a dead letter. */
const watched = Effect.gen(function* () {
  const { list } = yield* DeadLetters.DeadLetters
  while ((yield* list()).length === 0) yield* Effect.sleep("20 millis")
  writeSync(1, "dead\n")
})

Effect.runFork(
  Effect.all([program, watched], { concurrency: 2 }).pipe(
    Effect.provide(
      DeadLetters.layer.pipe(
        Layer.provideMerge(NatsBus.layer({ servers })),
        Layer.provide(DeliveryStore.layerSql()),
        Layer.provide(SqliteClient.layer({ filename }))
      )
    )
  )
)
process.stdin.on("end", () => process.exit(0)).resume()
