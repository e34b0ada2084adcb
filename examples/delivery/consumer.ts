/** Billing: a durable consumer that handles each order once, although it may be delivered more often. */
import { Effect, Layer } from "effect"
import { DeadLetters, DeliveryStore, EventBus } from "@outlast/delivery"
import { NatsBus } from "@outlast/delivery/nats"

const [servers = ""] = process.argv.slice(2)
const billed = new Set<string>()

const program = EventBus.consume({ subject: "orders.>", durable: "billing" }, ({ event }) =>
  Effect.sync(() => {
    if (billed.has(event.id)) return
    billed.add(event.id)
    process.send?.(event.id)
  })
)

Effect.runFork(
  program.pipe(
    Effect.provide(NatsBus.layer({ servers })),
    Effect.provide(DeadLetters.layer.pipe(Layer.provide(DeliveryStore.layerMemory())))
  )
)
process.on("disconnect", () => process.exit(0))
