import { assert, it } from "@effect/vitest"
import { Effect, Layer, Logger, Metric } from "effect"
import { TestClock } from "effect/testing"
import { DeadLetters, DeliveryMetrics, DeliveryStore, MemoryBus, Outbox } from "@outlast/delivery"
import { ResilienceEvents } from "@outlast/resilience"
import {
  answer,
  event,
  onBus,
  passing,
  recorded,
  rejected,
  setBus,
  turn,
  turns,
  until
} from "../support/outboxes.ts"

const value = <I, O>(metric: Metric.Metric<I, O>) => Metric.value(metric)

const layer = (options?: Outbox.OutboxOptions, deadLetters: DeliveryStore.DeadOptions = {}) =>
  Outbox.layer(options).pipe(
    Layer.provideMerge(DeadLetters.layer),
    Layer.provideMerge(DeliveryStore.layerMemory({ deadLetters })),
    Layer.provideMerge(MemoryBus.layer()),
    Layer.provideMerge(DeliveryMetrics.layer()),
    Layer.provideMerge(ResilienceEvents.layer()),
    Layer.provideMerge(Layer.succeed(Metric.MetricRegistry, new Map()))
  )

it.effect("counts what an outbox does, and says how much waits and for how long", () =>
  Effect.gen(function* () {
    yield* Outbox.publish(event("1"))
    yield* answer(({ id }) => (id === "bad" ? { error: rejected(true) } : undefined))
    yield* Outbox.publish(event("bad", "other"))
    yield* turns
    yield* setBus("down")
    yield* Outbox.publish(event("2"))
    yield* Outbox.publish(event("3"))
    yield* turns
    yield* TestClock.adjust("5 seconds")
    yield* turn
    assert.strictEqual((yield* value(DeliveryMetrics.published)).count, 1)
    assert.strictEqual((yield* value(DeliveryMetrics.stored)).count, 3)
    assert.strictEqual((yield* value(DeliveryMetrics.backlog)).value, 2)
    assert.strictEqual((yield* value(DeliveryMetrics.oldest)).value, 5)
    assert.strictEqual((yield* value(DeliveryMetrics.deadLetters)).value, 1)
    const died = Metric.withAttributes(DeliveryMetrics.died, { source: "outbox", reason: "rejected" })
    assert.strictEqual((yield* value(died)).count, 1)
    assert.isAbove((yield* value(DeliveryMetrics.retried)).count, 0)
    yield* setBus("up")
    yield* until(Effect.map(onBus, ({ length }) => length === 3))
    yield* turns
    yield* TestClock.adjust("5 seconds")
    yield* turn
    assert.strictEqual((yield* value(DeliveryMetrics.drained)).count, 2)
    assert.strictEqual((yield* value(DeliveryMetrics.backlog)).value, 0)
    assert.strictEqual((yield* value(DeliveryMetrics.oldest)).value, 0)
  }).pipe(Effect.provide(layer()))
)

it.effect("says once that the backlog grows, and once that it has shrunk", () =>
  Effect.gen(function* () {
    const events = yield* recorded
    const growth = () => events.map(({ _tag }) => _tag).filter((tag) => tag.startsWith("Backlog"))
    yield* setBus("down")
    for (let i = 0; i < 30; i++) {
      yield* Outbox.publish(event(`${i}`))
      yield* TestClock.adjust("5 seconds")
      yield* turn
    }
    assert.deepStrictEqual(growth(), ["BacklogGrew"])
    assert.strictEqual((yield* value(DeliveryMetrics.growing)).value, 1)
    yield* setBus("up")
    yield* until(Effect.map(onBus, ({ length }) => length === 30))
    yield* turns
    yield* TestClock.adjust("5 seconds")
    yield* turn
    assert.deepStrictEqual(growth(), ["BacklogGrew", "BacklogShrank"])
    assert.strictEqual((yield* value(DeliveryMetrics.growing)).value, 0)
  }).pipe(Effect.scoped, Effect.provide(layer()))
)

it.effect("counts events that a full outbox refused", () =>
  Effect.gen(function* () {
    const events = yield* recorded
    yield* setBus("down")
    yield* Outbox.publish(event("1"))
    yield* Effect.flip(Outbox.publish(event("2")))
    yield* TestClock.adjust("5 seconds")
    yield* turn
    assert.strictEqual((yield* value(DeliveryMetrics.refused)).count, 1)
    assert.strictEqual(events.filter(({ _tag }) => _tag === "OutboxRefused").length, 1)
  }).pipe(Effect.scoped, Effect.provide(layer({ cap: { events: 1 }, waitForRoom: 0 })))
)

it.effect("says once that dead letters are at their cap, and that is no failure of the store", () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => lines.push(String(message)))
  return Effect.gen(function* () {
    const events = yield* recorded
    const full = () => events.filter(({ _tag }) => _tag === "DeadLettersFull").length
    const died = () => events.filter(({ _tag }) => _tag === "EventDied").length
    yield* answer(() => ({ error: rejected(true) }))
    yield* Outbox.publish(event("1"))
    yield* Outbox.publish(event("2"))
    for (let sweep = 0; sweep < 10; sweep++) {
      yield* TestClock.adjust("5 seconds")
      yield* turns
    }
    assert.deepStrictEqual([died(), full()], [1, 1])
    assert.lengthOf(
      lines.filter((line) => line.includes("cannot become a dead letter")),
      1
    )
    assert.isEmpty(lines.filter((line) => line.includes("cannot use its store")))
    assert.notInclude(
      events.map(({ _tag }) => _tag),
      "OutboxStoreFailed"
    )
    yield* (yield* DeadLetters.DeadLetters).purge({})
    yield* passing(Effect.sync(() => died() === 2))
    yield* Outbox.publish(event("3"))
    yield* passing(Effect.sync(() => full() === 2))
  }).pipe(Effect.scoped, Effect.provide(layer(undefined, { cap: 1 })), Effect.provide(Logger.layer([logger])))
})
