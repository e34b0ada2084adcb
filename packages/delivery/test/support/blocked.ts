/** A bus in memory whose next publishes wait until they are let go. */
import { Context, Deferred, Effect, Layer } from "effect"
import { EventBus, Outbox } from "@outlast/delivery"
import { ground } from "./outboxes.ts"
import type { Subject } from "./Stores.ts"

class Gate extends Context.Service<Gate, { wait: Effect.Effect<void> }>()("test/Gate") {}

/** Publishes wait from now on until `release` is done. */
export const holdBus = (release: Deferred.Deferred<void>) =>
  Effect.map(Gate, (gate) => {
    gate.wait = Deferred.await(release)
  })

const Gated = Layer.effect(
  EventBus.EventBus,
  Effect.gen(function* () {
    const bus = yield* EventBus.EventBus
    const gate = yield* Gate
    return EventBus.EventBus.of({
      ...bus,
      publish: (event, brokerId) =>
        Effect.andThen(
          Effect.suspend(() => gate.wait),
          bus.publish(event, brokerId)
        )
    })
  })
)

/** An outbox over such a bus. */
export const blockable = (subject: Subject, options?: Outbox.OutboxOptions) =>
  Outbox.layer(options).pipe(
    Layer.provide(Gated),
    Layer.provideMerge(Layer.sync(Gate, () => Gate.of({ wait: Effect.void }))),
    Layer.provideMerge(ground(subject))
  )
