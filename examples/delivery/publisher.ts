/** A shop: publishes an order for each number that it is sent, and says where the event is safe. */
import { Effect, Layer } from "effect"
import { DeliveryStore, Outbox } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"
import { SqliteClient } from "@outlast/node/sqlite"

const [servers = "", filename = ""] = process.argv.slice(2)

const Delivery = Outbox.layer({ publisher: "shop" }).pipe(
  Layer.provide(NatsBus.layer({ servers })),
  Layer.provide(DeliveryStore.layerSql()),
  Layer.provide(SqliteClient.layer({ filename }))
)

const order = (number: number) =>
  Outbox.publish({
    // Published twice, it is one event.
    id: `order-${number}`,
    subject: "orders.created",
    body: new TextEncoder().encode(JSON.stringify({ number }))
  })

const program = Effect.gen(function* () {
  const outbox = yield* Outbox.Outbox
  process.on("message", (number: number) => {
    Effect.runPromise(Effect.provideService(order(number), Outbox.Outbox, outbox)).then(
      ({ safe }) => process.send?.({ number, safe }),
      (error: unknown) => process.send?.({ number, safe: String(error) })
    )
  })
  process.send?.("ready")
  return yield* Effect.never
})

Effect.runFork(Effect.provide(program, Delivery))
process.on("disconnect", () => process.exit(0))
