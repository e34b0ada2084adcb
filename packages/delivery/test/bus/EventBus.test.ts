/** Consumers over the bus in memory, in virtual time. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { DeadLetters, DeliveryStore, EventBus, MemoryBus } from "@outlast/delivery"
import type { StoreError } from "@outlast/resilience"
import { bodyOf, event, setBus, until } from "../support/outboxes.ts"

const layer = (options?: MemoryBus.MemoryOptions) =>
  DeadLetters.layer.pipe(
    Layer.provideMerge(DeliveryStore.layerMemory()),
    Layer.provideMerge(MemoryBus.layer(options))
  )

const publish = (id: string, subject = "a") =>
  Effect.flatMap(EventBus.EventBus, (bus) => bus.publish({ ...event(id, subject), headers: {} }, id))

const source = { subject: "a", durable: "worker" }

/** Reads in the background, and does with each delivery what is asked for. */
const reading = (
  then: (delivery: EventBus.Delivery) => Effect.Effect<unknown, unknown>,
  options: Partial<EventBus.Subscription> = {}
) =>
  Effect.gen(function* () {
    const seen: Array<string> = []
    const fiber = yield* EventBus.subscribe({ ...source, ...options }).pipe(
      Stream.runForEach((delivery) => {
        seen.push(`${bodyOf(delivery.event)}/${delivery.deliveries}`)
        return Effect.ignore(then(delivery))
      }),
      Effect.forkChild({ startImmediately: true })
    )
    yield* TestClock.adjust(0)
    return { seen, stop: Fiber.interrupt(fiber) }
  })

describe("a consumer", () => {
  it.effect("gets what was published before it and after, of its subject only", () =>
    Effect.gen(function* () {
      yield* publish("1")
      yield* publish("x", "b")
      const { seen } = yield* reading(({ ack }) => ack)
      yield* publish("2")
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(seen, ["1/1", "2/1"])
    }).pipe(Effect.provide(layer()))
  )
  it.effect("gets a body as it was published, also when the publisher reuses its bytes", () =>
    Effect.gen(function* () {
      const { publish } = yield* EventBus.EventBus
      const made = { ...event("1", "a"), headers: {} }
      yield* publish(made, "1")
      made.body.fill(0)
      const { seen } = yield* reading(({ ack }) => ack)
      assert.deepStrictEqual(seen, ["1/1"])
    }).pipe(Effect.provide(layer()))
  )
  it.effect("gets an event again after its time to acknowledge, and after a nack's delay", () =>
    Effect.gen(function* () {
      yield* publish("1")
      yield* publish("2")
      const { seen } = yield* reading((delivery) =>
        bodyOf(delivery.event) === "1" ? Effect.void : delivery.nack("5 seconds")
      )
      yield* TestClock.adjust("4999 millis")
      assert.deepStrictEqual(seen, ["1/1", "2/1"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(seen, ["1/1", "2/1", "2/2"])
      yield* TestClock.adjust("25 seconds")
      assert.include(seen, "1/2")
    }).pipe(Effect.provide(layer()))
  )
  it.effect("gets no more than its deliveries in flight", () =>
    Effect.gen(function* () {
      for (const id of ["1", "2", "3"]) yield* publish(id)
      const { seen } = yield* reading(() => Effect.void, { inFlight: 2 })
      assert.deepStrictEqual(seen, ["1/1", "2/1"])
    }).pipe(Effect.provide(layer()))
  )
  it.effect("waits while the bus is down, and goes on where it was", () =>
    Effect.gen(function* () {
      yield* publish("1")
      const { seen } = yield* reading(({ ack }) => ack)
      yield* setBus("down")
      assert.strictEqual((yield* Effect.flip(publish("2"))).reason, "unavailable")
      yield* setBus("up")
      yield* publish("2")
      yield* until(Effect.sync(() => seen.length === 2))
      assert.deepStrictEqual(seen, ["1/1", "2/1"])
    }).pipe(Effect.provide(layer()))
  )
  it.effect("never sees a message beyond its limit: that is a dead letter, once", () =>
    Effect.gen(function* () {
      const { list } = yield* DeadLetters.DeadLetters
      yield* publish("bad")
      const { seen } = yield* reading((delivery) => delivery.nack(), { maxDeliveries: 2 })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(seen, ["bad/1", "bad/2"])
      const letters = yield* list()
      assert.deepStrictEqual(
        letters.map(({ key, source, attempts, reason }) => ({ key, source, attempts, reason })),
        [{ key: "memory/1/worker", source: "worker", attempts: 2, reason: "deliveries" }]
      )
    }).pipe(Effect.provide(layer()))
  )
  it.effect("keeps a message at the broker while its dead letter cannot be written", () =>
    Effect.gen(function* () {
      const letters = yield* DeadLetters.DeadLetters
      let isFull = true
      const full = { reason: "full" } as StoreError.StoreError
      const failing = DeadLetters.DeadLetters.of({
        ...letters,
        write: (letter) => (isFull ? Effect.fail(full) : letters.write(letter))
      })
      yield* publish("bad")
      const { seen } = yield* reading((delivery) => delivery.nack(), { maxDeliveries: 1 }).pipe(
        Effect.provideService(DeadLetters.DeadLetters, failing)
      )
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* letters.list(), [])
      isFull = false
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* letters.list()).length, 1)
      assert.deepStrictEqual(seen, ["bad/1"])
    }).pipe(Effect.provide(layer()))
  )
})

describe("handled events", () => {
  it.effect("are acknowledged, and delivered again with growing waits after failures and defects", () =>
    Effect.gen(function* () {
      yield* publish("1")
      const at: Array<number> = []
      const consuming = yield* EventBus.consume(source, ({ deliveries }) =>
        Effect.gen(function* () {
          at.push(yield* Effect.clockWith((clock) => clock.currentTimeMillis))
          if (deliveries === 1) return yield* Effect.fail("no")
          if (deliveries === 2) return yield* Effect.die("oh")
        })
      ).pipe(Effect.forkChild({ startImmediately: true }))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(at.length, 3)
      assert.isAtLeast((at[2] ?? 0) - (at[1] ?? 0), 1_500)
      yield* Fiber.interrupt(consuming)
    }).pipe(Effect.provide(layer()))
  )
  it.effect("are not delivered to others while their handler is at work", () =>
    Effect.gen(function* () {
      yield* publish("1")
      const done = yield* Deferred.make<void>()
      let calls = 0
      const consuming = yield* EventBus.consume(source, () => {
        calls++
        return Deferred.await(done)
      }).pipe(Effect.forkChild({ startImmediately: true }))
      const { seen } = yield* reading(({ ack }) => ack)
      yield* TestClock.adjust("10 minutes")
      yield* Deferred.succeed(done, undefined)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual({ calls, seen }, { calls: 1, seen: [] })
      yield* Fiber.interrupt(consuming)
    }).pipe(Effect.provide(layer()))
  )
  it.effect("are delivered again when their handler was interrupted", () =>
    Effect.gen(function* () {
      yield* publish("1")
      const consuming = yield* EventBus.consume(source, () => Effect.never).pipe(
        Effect.forkChild({ startImmediately: true })
      )
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(consuming)
      const { seen } = yield* reading(({ ack }) => ack)
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(seen, ["1/2"])
    }).pipe(Effect.provide(layer()))
  )
})

describe("wrong use", () => {
  it.effect("names the option", () =>
    Effect.gen(function* () {
      const wrong = yield* Effect.flip(
        Effect.catchDefect(Stream.runDrain(EventBus.subscribe({ subject: "a", durable: "a b" })), (defect) =>
          Effect.fail(String(defect))
        )
      )
      assert.include(String(wrong), "durable must be letters, digits")
      assert.throws(() => Effect.runSync(MemoryBus.make({ capacity: 0 })), /capacity must be/)
    }).pipe(Effect.provide(layer()))
  )
  it.effect("says which layer is missing", () =>
    Effect.gen(function* () {
      // A program in JavaScript can do this.
      const bare = Stream.runDrain(EventBus.subscribe(source)) as Effect.Effect<void, never>
      const said = yield* Effect.flip(Effect.catchDefect(bare, (defect) => Effect.fail(String(defect))))
      assert.include(said, "EventBus is not provided")
    })
  )
})
