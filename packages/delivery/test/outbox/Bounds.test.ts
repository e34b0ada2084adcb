/** Bounds and the end of an outbox whose store commits slowly, and publishes that are interrupted at any moment. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, References, Scope } from "effect"
import { SqliteClient } from "@outlast/node/sqlite"
import { StoreError } from "@outlast/resilience"
import { DeadLetters, DeliveryStore, Outbox, OutboxFull, TooLarge } from "@outlast/delivery"
import { event, ground, onBus, outbox, recorded, setBus, turns, until } from "../support/outboxes.ts"
import { blockable, holdBus } from "../support/blocked.ts"
import type { Subject } from "../support/Stores.ts"

/** A store in memory whose commits wait for `wait`. `sizes` has the number of events of each one. */
const slowStore = () => {
  const commits = {
    sizes: [] as Array<number>,
    wait: Effect.void as Effect.Effect<void, StoreError.StoreError>
  }
  const slow = Layer.effect(
    DeliveryStore.DeliveryStore,
    Effect.map(DeliveryStore.DeliveryStore, (store) => ({
      ...store,
      insert: (publisher, rows) =>
        Effect.suspend(() => {
          commits.sizes.push(rows.length)
          return Effect.andThen(commits.wait, store.insert(publisher, rows))
        })
    }))
  ).pipe(Layer.provide(Layer.fresh(DeliveryStore.layerMemory())))
  const subject: Subject = {
    isSql: false,
    // A client is needed for `publishIn` alone.
    layer: () => Layer.merge(slow, SqliteClient.layer({ filename: ":memory:" }))
  }
  return { commits, subject }
}

const publishing = (id: string) => Effect.forkChild(Outbox.publish(event(id)), { startImmediately: true })
const backlog = Effect.flatMap(Outbox.Outbox, ({ status }) => Effect.map(status, ({ backlog }) => backlog))
const busy = new StoreError.StoreError({ reason: "locked", store: "test", detail: "busy" })

describe("the limit of publishes in flight", () => {
  it.effect("counts events in the queue and in the commit that is under way", () => {
    const { commits, subject } = slowStore()
    return Effect.gen(function* () {
      const release = yield* Deferred.make<void>()
      commits.wait = Deferred.await(release)
      const first = yield* publishing("1")
      yield* until(Effect.sync(() => commits.sizes.length === 1))
      const behind = [yield* publishing("2"), yield* publishing("3")]
      const beyond = yield* publishing("4")
      assert.isDefined(beyond.pollUnsafe(), "the fourth one is refused at once")
      assert.instanceOf(yield* Effect.flip(Fiber.join(beyond)), OutboxFull)
      yield* Deferred.succeed(release, undefined)
      yield* Effect.forEach([first, ...behind], Fiber.join)
      assert.deepStrictEqual(commits.sizes, [1, 2])
      assert.strictEqual((yield* Outbox.publish(event("5"))).safe, "store")
    }).pipe(Effect.provide(outbox(subject, { mode: "alwaysStore", maxInFlight: 3 })))
  })

  it.effect("counts a publish no more when it is acknowledged, failed or interrupted", () => {
    const { subject } = slowStore()
    return Effect.gen(function* () {
      for (const id of ["1", "2", "3"]) {
        assert.strictEqual((yield* Outbox.publish(event(id))).safe, "broker")
      }
      const release = yield* Deferred.make<void>()
      yield* holdBus(release)
      const going = yield* publishing("4")
      for (const id of ["5", "6", "7"]) {
        const waiting = yield* publishing(id)
        assert.isUndefined(waiting.pollUnsafe(), "it waits for its turn")
        yield* Fiber.interrupt(waiting)
      }
      yield* Fiber.interrupt(going)
      yield* Deferred.succeed(release, undefined)
      yield* setBus("down")
      for (const id of ["8", "9", "10"]) {
        assert.strictEqual((yield* Outbox.publish(event(id))).safe, "store")
      }
    }).pipe(Effect.provide(blockable(subject, { maxInFlight: 2 })))
  })
})

describe("a commit", () => {
  it.effect("has at most the events of the option and 8 MiB, unless one event is larger", () => {
    const { commits, subject } = slowStore()
    const large = (id: string, megabytes: number) =>
      Outbox.publish({ subject: "orders", id, body: new Uint8Array(megabytes * 1_048_576) })
    return Effect.gen(function* () {
      const ids = ["1", "2", "3", "4", "5"]
      yield* Effect.forEach(ids, (id) => Outbox.publish(event(id)), { concurrency: "unbounded" })
      assert.deepStrictEqual(commits.sizes.splice(0), [2, 2, 1])
      yield* Effect.all([large("a", 5), large("b", 4), large("c", 9)], { concurrency: "unbounded" })
      assert.deepStrictEqual(commits.sizes, [1, 1, 1])
    }).pipe(
      Effect.provide(
        outbox(
          subject,
          { mode: "alwaysStore", commitBatch: 2, maxBytes: 10 * 1_048_576 },
          { bus: { maxPayload: 20 * 1_048_576 } }
        )
      )
    )
  })

  it.effect("that fails takes its events out of the backlog again", () => {
    const { commits, subject } = slowStore()
    return Effect.gen(function* () {
      commits.wait = Effect.fail(busy)
      for (const id of ["1", "2", "3"]) {
        assert.instanceOf(yield* Effect.flip(Outbox.publish(event(id))), StoreError.StoreError)
      }
      assert.strictEqual(yield* backlog, 0)
      commits.wait = Effect.void
      // Events that failed would fill the outbox.
      assert.strictEqual((yield* Outbox.publish(event("4"))).safe, "store")
    }).pipe(Effect.provide(outbox(subject, { mode: "alwaysStore", cap: { events: 2 }, waitForRoom: 0 })))
  })
})

describe("a publish that is interrupted", () => {
  it.effect("is taken back from the queue, and is undecided when its commit is under way", () => {
    const { commits, subject } = slowStore()
    return Effect.gen(function* () {
      const events = yield* recorded
      const release = yield* Deferred.make<void>()
      commits.wait = Deferred.await(release)
      const writing = yield* publishing("1")
      yield* until(Effect.sync(() => commits.sizes.length === 1))
      const queued = yield* publishing("2")
      yield* Fiber.interrupt(queued)
      assert.strictEqual(yield* backlog, 1)
      yield* Fiber.interrupt(writing)
      yield* Deferred.succeed(release, undefined)
      assert.strictEqual((yield* Outbox.publish(event("3"))).safe, "store")
      yield* until(Effect.map(onBus, (bodies) => bodies.join() === "1,3"))
      assert.deepStrictEqual(
        events.filter(({ _tag }) => _tag === "PublishUndecided").map((said) => "id" in said && said.id),
        ["1"]
      )
    }).pipe(Effect.scoped, Effect.provide(outbox(subject, { mode: "alwaysStore" })))
  })

  it.effect("at any moment of its way does not hold up its subject", () => {
    const { subject } = slowStore()
    return Effect.gen(function* () {
      for (let steps = 0; steps < 60; steps++) {
        const lane = `s${steps}`
        const publish = (id: string) => Outbox.publish(event(`${lane}/${id}`, lane))
        const release = yield* Deferred.make<void>()
        yield* holdBus(release)
        const first = yield* Effect.forkChild(publish("1"), { startImmediately: true })
        // It yields after each step, so the turn may be granted between two of them.
        const second = yield* Effect.forkChild(
          Effect.provideService(publish("2"), References.MaxOpsBeforeYield, 4)
        )
        yield* Effect.repeat(Effect.yieldNow, { times: steps })
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(first)
        yield* Fiber.interrupt(second)
        assert.strictEqual((yield* publish("3")).safe, "broker", `after ${steps} steps`)
      }
    }).pipe(Effect.provide(blockable(subject)))
  })
})

describe("an outbox that has ended", () => {
  it.effect("refuses publish and publishIn, and sends and stores nothing", () => {
    const { subject } = slowStore()
    return Effect.gen(function* () {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(Outbox.layer(), scope)
      const { publish, publishIn } = Context.get(context, Outbox.Outbox)
      yield* Scope.close(scope, Exit.void)
      const errors = [yield* Effect.flip(publish(event("1"))), yield* Effect.flip(publishIn(event("2")))]
      for (const error of errors) assert.include(error.message, "the outbox is closed")
      yield* turns
      assert.deepStrictEqual(yield* onBus, [])
      const { totals } = yield* DeliveryStore.DeliveryStore
      assert.strictEqual((yield* totals).events, 0)
    }).pipe(Effect.provide(ground(subject)))
  })
})

describe("the cap", () => {
  it.effect("makes the oldest events dead letters also when only publishIn exceeds it", () => {
    const { subject } = slowStore()
    return Effect.gen(function* () {
      const { list } = yield* DeadLetters.DeadLetters
      yield* setBus("down")
      for (const id of ["1", "2", "3"]) yield* Outbox.publishIn(event(id))
      yield* until(Effect.map(list(), ({ length }) => length > 0))
      assert.deepStrictEqual(
        (yield* list()).map(({ id }) => id),
        ["1"]
      )
    }).pipe(Effect.provide(outbox(subject, { cap: { events: 2 }, whenFull: "shedOldest" })))
  })

  it.effect("of one event accepts as many bytes as it says, and not one more", () => {
    const { subject } = slowStore()
    const sized = (bytes: number) => Outbox.publish({ subject: "a", id: "x", body: new Uint8Array(bytes) })
    return Effect.gen(function* () {
      const error = yield* Effect.flip(sized(1_000))
      assert.instanceOf(error, TooLarge)
      // The subject, the id and the headers count, too.
      const others = error instanceof TooLarge ? error.bytes - 1_000 : 0
      assert.instanceOf(yield* Effect.flip(sized(1_000 - others + 1)), TooLarge)
      assert.strictEqual((yield* sized(1_000 - others)).safe, "broker")
    }).pipe(Effect.provide(outbox(subject, { maxBytes: 1_000 })))
  })
})
