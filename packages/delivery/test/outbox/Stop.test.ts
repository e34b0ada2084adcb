/** An outbox that ends, and a program that waits for its backlog before. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { SqliteClient } from "@outlast/node/sqlite"
import { StoreError } from "@outlast/resilience"
import { DeliveryStore, EventBus, Outbox } from "@outlast/delivery"
import { event, onBus, outbox, setBus, turns, unavailable, until } from "../support/outboxes.ts"
import type { Subject } from "../support/Stores.ts"

/** A bus whose publishes wait for `answer`. */
const slow = (answer: Effect.Effect<{ readonly duplicate: boolean }, typeof unavailable>) =>
  Layer.succeed(EventBus.EventBus, {
    publish: () => answer,
    deliveries: () => Stream.never,
    status: Stream.never,
    maxPayload: Effect.succeed(Infinity)
  })

/** A client is needed for the type alone: nothing here uses `publishIn`. */
const memory: Subject = {
  isSql: false,
  layer: () => Layer.merge(DeliveryStore.layerMemory(), SqliteClient.layer({ filename: ":memory:" }))
}

describe("a stopped outbox", () => {
  it.effect(
    "fails a publish whose broker fails after the stop, and those behind it, instead of leaving them",
    () =>
      Effect.gen(function* () {
        const answer = yield* Deferred.make<{ readonly duplicate: boolean }, typeof unavailable>()
        const scope = yield* Scope.make()
        const context = yield* Layer.buildWithScope(
          Outbox.layer().pipe(
            Layer.provide(slow(Deferred.await(answer))),
            Layer.provide(DeliveryStore.layerMemory())
          ),
          scope
        )
        const { publish } = Context.get(context, Outbox.Outbox)
        const publishes = yield* Effect.forEach(["1", "2"], (id) =>
          Effect.forkChild(Effect.flip(publish(event(id))), { startImmediately: true })
        )
        yield* Scope.close(scope, Exit.void)
        yield* Deferred.fail(answer, unavailable)
        for (const fiber of publishes) {
          const error = yield* Fiber.join(fiber)
          assert.instanceOf(error, StoreError.StoreError)
          assert.include(error.message, "the outbox is closed")
        }
      })
  )
  it.effect("removes what it has published before another process may take its backlog", () =>
    Effect.gen(function* () {
      const calls: Array<string> = []
      let sent = 0
      const observed = Layer.effect(
        DeliveryStore.DeliveryStore,
        Effect.map(DeliveryStore.DeliveryStore, (store) => ({
          ...store,
          remove: (seqs) => Effect.tap(store.remove(seqs), () => Effect.sync(() => calls.push("remove"))),
          release: (holder) =>
            Effect.andThen(
              Effect.sync(() => calls.push("release")),
              store.release(holder)
            )
        }))
      ).pipe(Layer.provide(DeliveryStore.layerMemory()))
      // The first event is acknowledged, the second one is on its way.
      const answer = Effect.suspend(() =>
        ++sent === 1 ? Effect.succeed({ duplicate: false }) : Effect.never
      )
      yield* Effect.gen(function* () {
        yield* Effect.all([Outbox.publish(event("1")), Outbox.publish(event("2"))], { concurrency: 2 })
        yield* until(Effect.sync(() => sent === 2))
        assert.deepStrictEqual(calls, [])
      }).pipe(
        Effect.provide(
          Outbox.layer({ mode: "alwaysStore" }).pipe(
            Layer.provide(slow(answer)),
            Layer.provide(Layer.fresh(observed))
          )
        )
      )
      assert.deepStrictEqual(calls, ["remove", "release"])
    })
  )
})

describe("flush", () => {
  it.effect("waits also for subjects beyond those that are remembered", () =>
    Effect.gen(function* () {
      const { flush } = yield* Outbox.Outbox
      yield* setBus("down")
      for (const id of ["1", "2", "3", "4", "5"]) yield* Outbox.publish(event(id, `s${id}`))
      yield* setBus("up")
      assert.deepStrictEqual(yield* flush("1 minute"), { left: 0 })
      assert.deepStrictEqual((yield* onBus).toSorted(), ["1", "2", "3", "4", "5"])
    }).pipe(Effect.provide(outbox(memory, { maxSubjects: 2 })))
  )
})

describe("a publisher that uses its buffer again", () => {
  it.effect("changes no event that it has published", () =>
    Effect.gen(function* () {
      const { flush } = yield* Outbox.Outbox
      const body = new TextEncoder().encode("1")
      yield* setBus("down")
      yield* Outbox.publish({ subject: "orders", body })
      body.fill(0x32)
      yield* setBus("up")
      yield* flush("1 minute")
      yield* Outbox.publish({ subject: "orders", body })
      body.fill(0x33)
      yield* turns
      assert.deepStrictEqual(yield* onBus, ["1", "2"])
    }).pipe(Effect.provide(outbox(memory)))
  )
})

describe("a bus that interrupts itself", () => {
  it.effect("does not end the drain of its subject", () => {
    let calls = 0
    return Effect.gen(function* () {
      yield* Outbox.publish(event("1"))
      const { flush } = yield* Outbox.Outbox
      yield* until(Effect.sync(() => calls > 0))
      assert.deepStrictEqual(yield* flush("1 hour"), { left: 0 })
    }).pipe(
      Effect.provide(
        Outbox.layer({ mode: "alwaysStore" }).pipe(
          Layer.provide(
            slow(
              Effect.suspend(() => (++calls === 1 ? Effect.interrupt : Effect.succeed({ duplicate: false })))
            )
          ),
          Layer.provide(DeliveryStore.layerMemory())
        )
      )
    )
  })
})
