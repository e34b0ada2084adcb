/** What a drain reads, sends and counts while its broker or its store fails. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { SqliteClient } from "@outlast/node/sqlite"
import { StoreError } from "@outlast/resilience"
import { BusError, DeadLetters, DeliveryStore, EventBus, Outbox } from "@outlast/delivery"
import {
  answer,
  event,
  ground,
  onBus,
  outbox,
  passing,
  recorded,
  rejected,
  setBus,
  turns,
  unavailable,
  until
} from "../support/outboxes.ts"
import type { Subject } from "../support/Stores.ts"

/** A store in memory, some of whose operations are replaced. */
const store = (
  replaced: (store: DeliveryStore.Service) => Partial<DeliveryStore.Service> = () => ({}),
  deadLetters: DeliveryStore.DeadOptions = {}
): Subject => ({
  isSql: false,
  layer: () =>
    Layer.merge(
      Layer.effect(
        DeliveryStore.DeliveryStore,
        Effect.map(DeliveryStore.DeliveryStore, (store) => ({ ...store, ...replaced(store) }))
      ).pipe(Layer.provide(Layer.fresh(DeliveryStore.layerMemory({ deadLetters })))),
      // A client is needed for `publishIn` alone.
      SqliteClient.layer({ filename: ":memory:" })
    )
})

/** As {@link store}, with the reads of drains, which wait for `gate`. */
const readStore = () => {
  const gate = { wait: Effect.void as Effect.Effect<void> }
  const reads: Array<{ readonly subject: string; readonly limit: number }> = []
  const subject = store(({ head }) => ({
    head: (publishers, subject, limit) => {
      reads.push({ subject, limit })
      return Effect.andThen(gate.wait, head(publishers, subject, limit))
    }
  }))
  return { gate, reads, subject }
}

const status = Effect.flatMap(Outbox.Outbox, ({ status }) => status)
const publishAll = (ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id) => Outbox.publish(event(id, id)), { concurrency: "unbounded" })
const subjects = ["a", "b", "c", "d", "e", "f"]

describe("behind a circuit that is not closed", () => {
  it.effect("one subject tests the broker, with one event, and no other subject is read", () => {
    const { gate, reads, subject } = readStore()
    return Effect.gen(function* () {
      const release = yield* Deferred.make<void>()
      yield* answer(() => ({ error: unavailable }))
      yield* publishAll(subjects)
      yield* passing(Effect.map(status, ({ circuit }) => circuit === "open"))
      gate.wait = Deferred.await(release)
      reads.length = 0
      yield* TestClock.adjust("15 seconds")
      yield* turns
      assert.lengthOf(reads, 1)
      assert.strictEqual(reads[0]?.limit, 1)
      yield* answer(() => undefined)
      yield* Deferred.succeed(release, undefined)
      yield* passing(Effect.map(onBus, ({ length }) => length === subjects.length))
    }).pipe(Effect.provide(outbox(subject)))
  })

  it.effect("the broker is tested again after a test that failed", () =>
    Effect.gen(function* () {
      let sent = 0
      yield* answer(() => {
        sent++
        return { error: unavailable }
      })
      yield* publishAll(subjects)
      yield* passing(Effect.map(status, ({ circuit }) => circuit === "open"))
      const before = sent
      yield* passing(Effect.sync(() => sent > before))
      yield* answer(() => undefined)
      yield* passing(
        Effect.map(onBus, ({ length }) => length === subjects.length),
        "10 seconds"
      )
      assert.strictEqual((yield* status).backlog, 0)
    }).pipe(Effect.provide(outbox(store())))
  )
})

describe("a subject whose stream fails", () => {
  it.effect("is tried with one event, less and less often, however well others do", () => {
    const { reads, subject } = readStore()
    let tried = 0
    const full = new BusError({ reason: "unavailable", scope: "subject", detail: "It is full." })
    const bus = Layer.effect(
      EventBus.EventBus,
      Effect.map(EventBus.EventBus, (bus) => ({
        ...bus,
        publish: (event, brokerId) =>
          event.subject === "full"
            ? Effect.andThen(
                Effect.sync(() => tried++),
                Effect.delay(Effect.fail(full), "1 second")
              )
            : bus.publish(event, brokerId)
      }))
    )
    const layer = Outbox.layer({ mode: "alwaysStore" }).pipe(
      Layer.provide(bus),
      Layer.provideMerge(ground(subject))
    )
    return Effect.gen(function* () {
      for (const id of ["1", "2"]) yield* Outbox.publish(event(id, "full"))
      for (let second = 0; second < 60; second++) {
        yield* Outbox.publish(event(`other ${second}`, "other"))
        yield* TestClock.adjust("1 second")
      }
      assert.lengthOf(yield* onBus, 60)
      assert.isAtMost(tried, 10)
      assert.deepStrictEqual(
        reads.flatMap(({ limit, subject }) => (subject === "full" ? [limit] : [])).slice(1),
        Array.from({ length: tried - 1 }, () => 1)
      )
    }).pipe(Effect.provide(layer))
  })
})

describe("events that were acknowledged", () => {
  it.effect("are not sent again when the store could not remove them at first", () => {
    const sent: Array<string> = []
    let failures = 2
    const subject = store(({ remove }) => ({
      remove: (seqs) =>
        Effect.suspend(() =>
          failures-- > 0
            ? Effect.fail(new StoreError.StoreError({ reason: "locked", store: "test", detail: "busy" }))
            : remove(seqs)
        )
    }))
    return Effect.gen(function* () {
      yield* answer(({ id }) => {
        sent.push(id)
        return undefined
      })
      yield* setBus("down")
      for (const id of ["1", "2"]) yield* Outbox.publish(event(id))
      yield* setBus("up")
      yield* passing(Effect.map(status, ({ backlog }) => backlog === 0))
      assert.deepStrictEqual(sent, ["1", "2"])
    }).pipe(Effect.provide(outbox(subject)))
  })
})

describe("a dead letter", () => {
  it.effect("leaves the backlog at once, and the oldest one beyond the cap goes", () =>
    Effect.gen(function* () {
      const events = yield* recorded
      const { list } = yield* DeadLetters.DeadLetters
      yield* answer(() => ({ error: rejected(true) }))
      yield* Outbox.publish(event("1"))
      yield* until(Effect.map(list(), ([letter]) => letter?.id === "1"))
      const { backlog, dead } = yield* status
      assert.deepStrictEqual({ backlog, dead }, { backlog: 0, dead: 1 })
      yield* Outbox.publish(event("2"))
      yield* until(Effect.map(list(), (letters) => letters.map(({ id }) => id).join() === "2"))
      yield* until(Effect.sync(() => events.some(({ _tag }) => _tag === "DeadLettersDropped")))
      assert.strictEqual((yield* status).dead, 1)
    }).pipe(Effect.scoped, Effect.provide(outbox(store(undefined, { cap: 1, whenFull: "shedOldest" }))))
  )

  it.effect("that has no room keeps its event in the backlog, and the next is delivered after it", () =>
    Effect.gen(function* () {
      const { list, purge } = yield* DeadLetters.DeadLetters
      yield* answer(({ id }) => (id === "3" ? undefined : { error: rejected(true) }))
      for (const id of ["1", "2", "3"]) yield* Outbox.publish(event(id))
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(
        (yield* list()).map(({ id }) => id),
        ["1"]
      )
      assert.strictEqual((yield* status).backlog, 2)
      yield* purge({ ids: ["1"] })
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(
        (yield* list()).map(({ id }) => id),
        ["2"]
      )
      assert.strictEqual((yield* status).backlog, 0)
    }).pipe(Effect.scoped, Effect.provide(outbox(store(undefined, { cap: 1 }))))
  )

  it.effect("that is too old is removed by a sweep", () =>
    Effect.gen(function* () {
      const events = yield* recorded
      const { write } = yield* DeadLetters.DeadLetters
      const { showDead } = yield* DeliveryStore.DeliveryStore
      const letter = { source: "test", reason: "rejected", detail: "", attempts: 1, at: 0 } as const
      yield* write({ ...event("1"), ...letter, headers: {}, key: "test/1" })
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* showDead("1"))._tag, "Some")
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* showDead("1"))._tag, "None")
      assert.lengthOf(
        events.filter(({ _tag }) => _tag === "DeadLettersDropped"),
        1
      )
    }).pipe(Effect.scoped, Effect.provide(outbox(store(undefined, { ttl: "10 minutes" }))))
  )
})

describe("subjects beyond those that are remembered", () => {
  it.effect("have every event stored first, from the first one too many", () =>
    Effect.gen(function* () {
      yield* answer(({ subject }) =>
        subject === "free"
          ? undefined
          : { error: new BusError({ reason: "unavailable", scope: "subject", detail: "full" }) }
      )
      yield* Outbox.publishIn(event("1", "a"))
      assert.strictEqual((yield* Outbox.publish(event("2", "free"))).safe, "broker")
      yield* Outbox.publishIn(event("3", "b"))
      assert.strictEqual((yield* Outbox.publish(event("4", "free"))).safe, "store")
    }).pipe(Effect.provide(outbox(store(), { maxSubjects: 1 })))
  )
})

describe("a claimed backlog", () => {
  it.effect("is forgotten with its publisher when it is empty", () =>
    Effect.gen(function* () {
      const { hold, insert, others } = yield* DeliveryStore.DeliveryStore
      const row = { ...event("1"), headers: {}, brokerId: "1", bytes: 1, at: 0, rejections: 0, refusal: "" }
      yield* hold("gone", "killed")
      yield* insert("gone", [row])
      yield* passing(
        Effect.map(onBus, (bodies) => bodies.join() === "1"),
        "5 seconds"
      )
      const names = Effect.map(others("nobody"), (found) => found.map(({ id }) => id))
      assert.include(yield* names, "gone")
      yield* TestClock.adjust("5 seconds")
      assert.notInclude(yield* names, "gone")
    }).pipe(Effect.provide(outbox(store())))
  )
})

describe("a commit that is under way", () => {
  const held = () => {
    const commits = { count: 0, wait: Effect.void as Effect.Effect<void> }
    const subject = store(({ insert }) => ({
      insert: (publisher, rows) =>
        Effect.suspend(() => {
          commits.count++
          return Effect.andThen(commits.wait, insert(publisher, rows))
        })
    }))
    return { commits, subject }
  }

  it.effect("and the events behind it count in a sweep", () => {
    const { commits, subject } = held()
    return Effect.gen(function* () {
      const release = yield* Deferred.make<void>()
      commits.wait = Deferred.await(release)
      const { publish, sweep } = yield* Outbox.Outbox
      const fibers = [yield* Effect.forkChild(publish(event("1")), { startImmediately: true })]
      yield* until(Effect.sync(() => commits.count === 1))
      for (const id of ["2", "3"]) {
        fibers.push(yield* Effect.forkChild(publish(event(id)), { startImmediately: true }))
      }
      yield* sweep
      assert.strictEqual((yield* status).backlog, 3)
      yield* Deferred.succeed(release, undefined)
      yield* Effect.forEach(fibers, Fiber.join)
    }).pipe(Effect.provide(outbox(subject, { mode: "alwaysStore" })))
  })

  it.effect("and the events behind it are stored before the outbox ends", () => {
    const { commits, subject } = held()
    return Effect.gen(function* () {
      const release = yield* Deferred.make<void>()
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(Outbox.layer(), scope)
      const { publish } = Context.get(context, Outbox.Outbox)
      yield* setBus("down")
      commits.wait = Deferred.await(release)
      const first = yield* Effect.forkChild(publish(event("1")), { startImmediately: true })
      yield* until(Effect.sync(() => commits.count === 1))
      const second = yield* Effect.forkChild(publish(event("2")), { startImmediately: true })
      const ending = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* turns
      yield* Deferred.succeed(release, undefined)
      yield* Fiber.join(ending)
      assert.deepStrictEqual(
        [yield* Fiber.join(first), yield* Fiber.join(second)],
        [
          { id: "1", safe: "store" },
          { id: "2", safe: "store" }
        ]
      )
    }).pipe(Effect.provide(ground(subject)))
  })
})
