/** Promises of the outbox on every store: one suite in memory, on SQLite and on PostgreSQL. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Option, Scope } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import { StoreError } from "@outlast/resilience"
import {
  DeadLetters,
  DeliveryStore,
  EventBus,
  MemoryBus,
  Outbox,
  OutboxFull,
  TooLarge
} from "@outlast/delivery"
import {
  answer,
  event,
  ground,
  now,
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
import { blockable, holdBus } from "../support/blocked.ts"
import { onEach } from "../support/Stores.ts"

const holds = (wanted: ReadonlyArray<string>) =>
  Effect.map(onBus, (bodies) => bodies.join() === wanted.join())

const backlog = Effect.flatMap(Outbox.Outbox, ({ status }) => Effect.map(status, ({ backlog }) => backlog))
/** The stored events of `orders-1`, of which the first has this id. */
const stored = (id: string) =>
  Effect.map(
    Effect.flatMap(DeliveryStore.DeliveryStore, ({ head }) => head(["orders-1"], "orders", 10)),
    (rows) => {
      assert.strictEqual(rows[0]?.id, id)
      return rows
    }
  )
const totals = Effect.flatMap(DeliveryStore.DeliveryStore, ({ totals }) => totals)

onEach((subject) => {
  const layer = (options?: Outbox.OutboxOptions, bus?: MemoryBus.MemoryOptions) =>
    outbox(subject, options, bus === undefined ? {} : { bus })

  describe("publish", () => {
    it.effect("goes straight to the broker while it answers", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* Outbox.publish(event("1")), { id: "1", safe: "broker" })
        assert.deepStrictEqual(yield* onBus, ["1"])
        assert.strictEqual((yield* totals).events, 0)
      }).pipe(Effect.provide(layer()))
    )
    it.effect("stores events in an outage, drains them in order, and goes straight again", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        for (const id of ["1", "2", "3"]) {
          assert.deepStrictEqual(yield* Outbox.publish(event(id)), { id, safe: "store" })
        }
        assert.strictEqual((yield* totals).events, 3)
        yield* setBus("up")
        yield* until(holds(["1", "2", "3"]))
        yield* until(Effect.map(totals, ({ events }) => events === 0))
        const { flush } = yield* Outbox.Outbox
        assert.deepStrictEqual(yield* flush("1 minute"), { left: 0 })
        assert.strictEqual((yield* Outbox.publish(event("4"))).safe, "broker")
        assert.strictEqual((yield* onBus).at(-1), "4")
      }).pipe(Effect.provide(layer()))
    )
    it.effect("keeps the order of a subject when the first of many concurrent events fails", () =>
      Effect.gen(function* () {
        let failures = 0
        yield* answer(({ subject }) =>
          subject === "orders" && failures++ < 1 ? { error: unavailable } : undefined
        )
        const ids = Array.from({ length: 200 }, (_, i) => `${i}`)
        yield* Effect.forEach(ids, (id) => Outbox.publish(event(id)), { concurrency: "unbounded" })
        yield* passing(Effect.map(onBus, ({ length }) => length === 200))
        assert.deepStrictEqual(yield* onBus, ids)
      }).pipe(Effect.provide(layer()))
    )
    it.effect("drains at once when the broker comes back while a publish is still failing", () =>
      Effect.gen(function* () {
        const release = yield* Deferred.make<void>()
        let sent = 0
        yield* setBus("down")
        yield* Outbox.publish(event("1"))
        yield* turns
        yield* holdBus(release)
        yield* answer(() => (++sent === 1 ? { error: unavailable } : undefined))
        yield* setBus("up")
        yield* turns
        yield* setBus("down")
        yield* setBus("up")
        yield* turns
        yield* Deferred.succeed(release, undefined)
        // No time passes: no wait ends by itself.
        yield* until(holds(["1"]))
        assert.strictEqual(sent, 2)
      }).pipe(Effect.provide(blockable(subject)))
    )
    it.effect("stores every event first in the mode alwaysStore", () =>
      Effect.gen(function* () {
        assert.strictEqual((yield* Outbox.publish(event("1"))).safe, "store")
        yield* until(holds(["1"]))
      }).pipe(Effect.provide(layer({ mode: "alwaysStore" })))
    )
    it.effect("accepts a repeated id once, stored or published", () =>
      Effect.gen(function* () {
        yield* Outbox.publish(event("0"))
        yield* Outbox.publish(event("0"))
        yield* setBus("down")
        yield* Effect.all([Outbox.publish(event("1")), Outbox.publish(event("1"))], { concurrency: 2 })
        yield* Outbox.publish(event("1"))
        yield* Outbox.publish(event("2"))
        yield* setBus("up")
        yield* until(holds(["0", "1", "2"]))
        yield* turns
        assert.deepStrictEqual(yield* onBus, ["0", "1", "2"])
      }).pipe(Effect.provide(layer()))
    )
    it.effect("counts a repeated id once from the next sweep on", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        for (const id of ["1", "1", "1", "2"]) yield* Outbox.publish(event(id))
        const { sweep } = yield* Outbox.Outbox
        yield* sweep
        assert.strictEqual(yield* backlog, 2)
      }).pipe(Effect.provide(layer()))
    )
    it.effect("publishes nothing twice when an acknowledgement is lost within the dedupe window", () =>
      Effect.gen(function* () {
        let lost = 0
        yield* answer(() => (lost++ === 0 ? { error: unavailable, stored: true } : undefined))
        assert.strictEqual((yield* Outbox.publish(event("1"))).safe, "store")
        yield* passing(Effect.map(totals, ({ events }) => events === 0))
        assert.deepStrictEqual(yield* onBus, ["1"])
      }).pipe(Effect.provide(layer()))
    )
    it.effect("publishes again with the same event id when the acknowledgement is lost for longer", () =>
      Effect.gen(function* () {
        let lost = 0
        yield* answer(() => (++lost <= 2 ? { error: unavailable, stored: lost === 1 } : undefined))
        yield* Outbox.publish(event("1"))
        yield* passing(Effect.map(totals, ({ events }) => events === 0))
        const { stored } = yield* MemoryBus.MemoryBus
        assert.deepStrictEqual(
          (yield* stored).map(({ event }) => event.id),
          ["1", "1"]
        )
      }).pipe(Effect.provide(layer({}, { dedupeWindow: "1 millis" })))
    )
    it.effect("refuses an event that is too large, before it is stored", () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(Outbox.publish({ subject: "a", body: new Uint8Array(2_000) }))
        assert.instanceOf(error, TooLarge)
        assert.include(error.message, "1000 are allowed")
        assert.strictEqual((yield* totals).events, 0)
      }).pipe(Effect.provide(layer({ maxBytes: 1_000 })))
    )
    it.effect("keeps body, headers and id through the store", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        const body = Uint8Array.from({ length: 256 }, (_, i) => i)
        const { id } = yield* Outbox.publish({ subject: "a.b", body, headers: { "Trace-Id": "ü" } })
        yield* setBus("up")
        const { stored } = yield* MemoryBus.MemoryBus
        yield* until(Effect.map(stored, ({ length }) => length === 1))
        const [kept] = yield* stored
        assert.deepStrictEqual(kept?.brokerId, id)
        assert.deepStrictEqual(
          { ...kept?.event, body: [...(kept?.event.body ?? [])] },
          { id, subject: "a.b", body: [...body], headers: { "Trace-Id": "ü" } }
        )
      }).pipe(Effect.provide(layer()))
    )
  })

  describe("interruption", () => {
    it.effect("takes back a publish that waits for its turn", () =>
      Effect.gen(function* () {
        const release = yield* Deferred.make<void>()
        const { stored } = yield* MemoryBus.MemoryBus
        const events = yield* recorded
        const blocked = yield* Outbox.Outbox
        yield* holdBus(release)
        const first = yield* Effect.forkChild(blocked.publish(event("1")), { startImmediately: true })
        const second = yield* Effect.forkChild(blocked.publish(event("2")), { startImmediately: true })
        const third = yield* Effect.forkChild(blocked.publish(event("3")), { startImmediately: true })
        yield* Fiber.interrupt(second)
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(first)
        yield* Fiber.join(third)
        assert.deepStrictEqual(
          (yield* stored).map(({ event }) => event.id),
          ["1", "3"]
        )
        assert.notInclude(
          events.map(({ _tag }) => _tag),
          "PublishUndecided"
        )
      }).pipe(Effect.scoped, Effect.provide(blockable(subject)))
    )
    it.effect("says that a publish on its way is undecided, and lets the next one go", () =>
      Effect.gen(function* () {
        const release = yield* Deferred.make<void>()
        const events = yield* recorded
        const { publish } = yield* Outbox.Outbox
        yield* holdBus(release)
        const first = yield* Effect.forkChild(publish(event("1")), { startImmediately: true })
        const second = yield* Effect.forkChild(publish(event("2")), { startImmediately: true })
        yield* Effect.yieldNow
        yield* Fiber.interrupt(first)
        yield* Deferred.succeed(release, undefined)
        assert.strictEqual((yield* Fiber.join(second)).safe, "broker")
        assert.deepStrictEqual(
          events.filter(({ _tag }) => _tag === "PublishUndecided").map((said) => "id" in said && said.id),
          ["1"]
        )
        assert.strictEqual((yield* publish(event("1"))).safe, "broker")
      }).pipe(Effect.scoped, Effect.provide(blockable(subject)))
    )
  })

  describe("transactions", () => {
    if (subject.isSql) {
      it.effect("refuse publish and name publishIn", () =>
        Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const exit = yield* Effect.exit(sql.withTransaction(Outbox.publish(event("1"))))
          assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
          assert.include(String(Exit.isFailure(exit) && Cause.squash(exit.cause)), "Outbox.publishIn")
        }).pipe(Effect.provide(layer()))
      )
    }
    it.effect("that commit publish their events behind each other, those that roll back do not", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql.withTransaction(Effect.andThen(Outbox.publishIn(event("1")), Outbox.publishIn(event("2"))))
        yield* Effect.exit(
          sql.withTransaction(Effect.andThen(Outbox.publishIn(event("x")), Effect.fail("no")))
        )
        yield* Outbox.publish(event("3"))
        yield* until(holds(["1", "2", "3"]))
        yield* turns
        assert.deepStrictEqual(yield* onBus, ["1", "2", "3"])
      }).pipe(Effect.provide(layer()))
    )
    it.effect("that roll back take no event of another caller with them", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* setBus("down")
        const inside = yield* Deferred.make<void>()
        const leave = yield* Deferred.make<void>()
        const doomed = yield* Outbox.publishIn(event("x")).pipe(
          Effect.andThen(Deferred.succeed(inside, undefined)),
          Effect.andThen(Deferred.await(leave)),
          Effect.andThen(Effect.fail("no")),
          sql.withTransaction,
          Effect.forkChild
        )
        yield* Deferred.await(inside)
        const other = yield* Effect.forkChild(Outbox.publish(event("1")))
        yield* turns
        yield* Deferred.succeed(leave, undefined)
        assert.isTrue(Exit.isFailure(yield* Fiber.await(doomed)))
        assert.strictEqual((yield* Fiber.join(other)).safe, "store")
        yield* setBus("up")
        yield* until(holds(["1"]))
      }).pipe(Effect.provide(layer()))
    )
    it.effect("are made for publishIn outside of one", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* Outbox.publishIn(event("1")), { id: "1" })
        yield* until(holds(["1"]))
      }).pipe(Effect.provide(layer()))
    )
  })

  describe("rejections", () => {
    it.effect("make an event a dead letter after three, and hold up only its own subject", () =>
      Effect.gen(function* () {
        let tried = 0
        yield* answer(({ id }) => {
          if (id !== "bad") return undefined
          tried++
          return { error: rejected() }
        })
        assert.strictEqual((yield* Outbox.publish(event("bad"))).safe, "store")
        assert.strictEqual((yield* Outbox.publish(event("next"))).safe, "store")
        assert.strictEqual((yield* Outbox.publish(event("other", "elsewhere"))).safe, "broker")
        yield* until(Effect.sync(() => tried === 2))
        yield* turns
        assert.deepStrictEqual(yield* onBus, ["other"])
        yield* passing(holds(["other", "next"]))
        assert.strictEqual(tried, 3)
        const { list } = yield* DeadLetters.DeadLetters
        const [letter] = yield* list()
        assert.strictEqual(letter?.id, "bad")
        assert.strictEqual(letter?.reason, "rejected")
        assert.strictEqual(letter?.attempts, 3)
        assert.include(letter?.detail, "not wanted")
      }).pipe(Effect.provide(layer()))
    )
    it.effect("are not exceeded when the dead letter cannot be written at first", () =>
      Effect.gen(function* () {
        let sent = 0
        yield* answer(() => {
          sent++
          return { error: rejected() }
        })
        const store = yield* DeliveryStore.DeliveryStore
        let failures = 2
        const failing: DeliveryStore.Service = {
          ...store,
          bury: (which, why) =>
            Effect.suspend(() =>
              failures-- > 0
                ? Effect.fail(new StoreError.StoreError({ reason: "locked", store: "test", detail: "busy" }))
                : store.bury(which, why)
            )
        }
        const context = yield* Layer.build(Outbox.layer()).pipe(
          Effect.provideService(DeliveryStore.DeliveryStore, failing)
        )
        yield* Effect.provide(Outbox.publish(event("bad")), context)
        const { list } = yield* DeadLetters.DeadLetters
        yield* passing(Effect.map(list(), ({ length }) => length === 1))
        assert.strictEqual(failures, -1)
        assert.strictEqual(sent, 3)
        assert.strictEqual((yield* list())[0]?.attempts, 3)
      }).pipe(Effect.scoped, Effect.provide(ground(subject)))
    )
    it.effect("that make a dead letter let nothing overtake the events behind it", () =>
      Effect.gen(function* () {
        yield* answer(({ id }) => (id === "bad" ? { error: rejected(true) } : undefined))
        yield* setBus("down")
        for (const id of ["1", "bad", "2", "3"]) yield* Outbox.publish(event(id))
        yield* setBus("up")
        // No time passes, so no sweep finds what a drain has left.
        yield* until(Effect.map(onBus, ({ length }) => length === 3))
        assert.deepStrictEqual(yield* onBus, ["1", "2", "3"])
      }).pipe(Effect.provide(layer()))
    )
    it.effect("keep the broker's words when one rejection is enough", () =>
      Effect.gen(function* () {
        let sent = 0
        yield* answer(() => {
          sent++
          return { error: rejected() }
        })
        yield* Outbox.publish(event("bad"))
        const { list } = yield* DeadLetters.DeadLetters
        yield* passing(Effect.map(list(), ({ length }) => length === 1))
        const [letter] = yield* list()
        assert.include(letter?.detail, "not wanted")
        assert.strictEqual(letter?.attempts, 1)
        assert.strictEqual(sent, 1)
      }).pipe(Effect.provide(layer({ rejections: 1 })))
    )
    it.effect("that are permanent make a dead letter at once", () =>
      Effect.gen(function* () {
        yield* answer(({ id }) => (id === "bad" ? { error: rejected(true) } : undefined))
        yield* Outbox.publish(event("bad"))
        yield* Outbox.publish(event("next"))
        yield* until(holds(["next"]))
        const { list } = yield* DeadLetters.DeadLetters
        assert.strictEqual((yield* list())[0]?.id, "bad")
      }).pipe(Effect.provide(layer()))
    )
    it.effect("are not counted while the broker is unavailable", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        yield* Outbox.publish(event("1"))
        for (let i = 0; i < 20; i++) {
          yield* TestClock.adjust("1 minute")
          yield* turns
        }
        const { list } = yield* DeadLetters.DeadLetters
        assert.deepStrictEqual(yield* list(), [])
        yield* setBus("up")
        yield* until(holds(["1"]))
      }).pipe(Effect.provide(layer()))
    )
    it.effect("of a full stream do not open the circuit over the broker", () =>
      Effect.gen(function* () {
        yield* Effect.forEach(["1", "2", "3", "4", "5", "6", "7"], (id) => Outbox.publish(event(id, id)))
        const { status } = yield* Outbox.Outbox
        assert.strictEqual((yield* status).circuit, "closed")
        assert.strictEqual((yield* status).backlog, 5)
      }).pipe(Effect.provide(layer({}, { capacity: 2 })))
    )
    it.effect("are replayed with a fresh broker id, behind what the subject has stored", () =>
      Effect.gen(function* () {
        const { replay } = yield* DeadLetters.DeadLetters
        const { sweep } = yield* Outbox.Outbox
        yield* answer(({ id }) => (id === "bad" ? { error: rejected(true), stored: true } : undefined))
        yield* Outbox.publish(event("bad"))
        yield* until(Effect.map(totals, ({ dead }) => dead === 1))
        yield* answer(() => undefined)
        yield* setBus("down")
        yield* Outbox.publish(event("1"))
        const [replayed] = yield* replay({ ids: ["bad"] })
        assert.strictEqual(replayed?.id, "bad")
        yield* sweep
        yield* setBus("up")
        yield* until(holds(["bad", "1", "bad"]))
        const { stored } = yield* MemoryBus.MemoryBus
        assert.deepStrictEqual(
          (yield* stored).map(({ brokerId }) => brokerId),
          ["bad", "1", replayed?.brokerId]
        )
      }).pipe(Effect.provide(layer()))
    )
  })

  describe("a full outbox", () => {
    const cap = { events: 4 }
    const fill = Effect.andThen(
      setBus("down"),
      Effect.forEach(["1", "2"], (id) => Outbox.publish(event(id)))
    )

    it.effect("makes publishes wait for room above half of the cap, for one second", () =>
      Effect.gen(function* () {
        yield* fill
        const third = yield* Effect.forkChild(Outbox.publish(event("3")))
        yield* turns
        yield* TestClock.adjust("999 millis")
        yield* turns
        assert.isUndefined(third.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        assert.strictEqual((yield* Fiber.join(third)).safe, "store")
      }).pipe(Effect.provide(layer({ cap })))
    )
    it.effect("lets a waiting publish go as soon as there is room", () =>
      Effect.gen(function* () {
        yield* fill
        const third = yield* Effect.forkChild(Outbox.publish(event("3")))
        yield* turns
        assert.isUndefined(third.pollUnsafe())
        yield* setBus("up")
        yield* Fiber.join(third)
        yield* until(holds(["1", "2", "3"]))
        assert.strictEqual(yield* now, 0)
      }).pipe(Effect.provide(layer({ cap })))
    )
    it.effect("refuses the event at the cap", () =>
      Effect.gen(function* () {
        yield* fill
        yield* Outbox.publish(event("3"))
        yield* Outbox.publish(event("4"))
        const error = yield* Effect.flip(Outbox.publish(event("5")))
        assert.instanceOf(error, OutboxFull)
        assert.include(error.message, "4 events, its cap")
        assert.instanceOf(yield* Effect.flip(Outbox.publishIn(event("6"))), OutboxFull)
        yield* setBus("up")
        yield* until(holds(["1", "2", "3", "4"]))
        yield* until(Effect.map(backlog, (left) => left === 0))
        yield* Outbox.publish(event("7"))
      }).pipe(Effect.provide(layer({ cap, waitForRoom: 0 })))
    )
    it.effect("makes the oldest events dead letters if the option says so, and counts and reports them", () =>
      Effect.gen(function* () {
        const events = yield* recorded
        yield* fill
        for (const id of ["3", "4", "5", "6"]) yield* Outbox.publish(event(id))
        const { list } = yield* DeadLetters.DeadLetters
        const letters = yield* list()
        assert.deepStrictEqual(letters.map(({ id, reason }) => `${id} ${reason}`).sort(), [
          "1 shed",
          "2 shed"
        ])
        assert.strictEqual(
          events.reduce((sum, said) => sum + (said._tag === "EventsShed" ? said.events : 0), 0),
          2
        )
        yield* setBus("up")
        yield* until(holds(["3", "4", "5", "6"]))
      }).pipe(Effect.scoped, Effect.provide(layer({ cap, whenFull: "shedOldest", waitForRoom: 0 })))
    )
    it.effect("refuses publishes beyond those that may be under way", () =>
      Effect.gen(function* () {
        const release = yield* Deferred.make<void>()
        const { publish } = yield* Outbox.Outbox
        yield* holdBus(release)
        const going = yield* Effect.forEach(["1", "2", "3"], (id) =>
          Effect.forkChild(publish(event(id)), { startImmediately: true })
        )
        const error = yield* Effect.flip(publish(event("4")))
        assert.include(error.message, "3 publishes are under way")
        yield* Deferred.succeed(release, undefined)
        yield* Effect.forEach(going, Fiber.join)
      }).pipe(Effect.provide(blockable(subject, { maxInFlight: 3 })))
    )
  })

  describe("several lives", () => {
    /** An outbox in a scope of its own. A killed one releases nothing. */
    const start = (
      options: Outbox.OutboxOptions = {},
      isKilled = false,
      wait: Effect.Effect<void> = Effect.void
    ) =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const store = yield* DeliveryStore.DeliveryStore
        const bus = yield* EventBus.EventBus
        const own = isKilled ? { ...store, release: () => Effect.void } : store
        const slow: EventBus.Service = {
          ...bus,
          publish: (event, brokerId) => Effect.andThen(wait, bus.publish(event, brokerId))
        }
        const context = yield* Layer.buildWithScope(Outbox.layer(options), scope).pipe(
          Effect.provideService(DeliveryStore.DeliveryStore, own),
          Effect.provideService(EventBus.EventBus, slow)
        )
        const run = <A, E, R>(effect: Effect.Effect<A, E, R | Outbox.Outbox>) =>
          Effect.provide(effect, context)
        return { run, stop: Scope.close(scope, Exit.void) }
      })

    it.effect("a stopped outbox leaves its backlog, and the next start delivers it first", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        const one = yield* start()
        yield* one.run(Outbox.publish(event("1")))
        yield* one.stop
        assert.strictEqual((yield* totals).events, 1)
        const two = yield* start()
        yield* two.run(Outbox.publish(event("2")))
        yield* setBus("up")
        yield* until(holds(["1", "2"]))
        yield* two.stop
      }).pipe(Effect.provide(ground(subject)))
    )
    it.effect("a killed outbox's backlog is taken over after a lease", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        const one = yield* start({}, true)
        yield* one.run(Outbox.publish(event("1")))
        yield* one.stop
        yield* setBus("up")
        const two = yield* start()
        yield* turns
        assert.deepStrictEqual(yield* onBus, [])
        yield* passing(holds(["1"]), "5 seconds")
        assert.isAtLeast(yield* now, 20_000)
        yield* two.stop
      }).pipe(Effect.provide(ground(subject)))
    )
    it.effect("a fixed name takes over its own backlog at once, in order", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        const one = yield* start({ publisher: "orders-1" }, true)
        yield* one.run(Outbox.publish(event("1")))
        yield* one.stop
        const two = yield* start({ publisher: "orders-1" })
        assert.strictEqual((yield* two.run(Outbox.publish(event("2")))).safe, "store")
        yield* setBus("up")
        yield* until(holds(["1", "2"]))
        yield* two.stop
      }).pipe(Effect.provide(ground(subject)))
    )
    it.effect("an outbox that lost its lease goes on under a new name", () =>
      Effect.gen(function* () {
        const events = yield* recorded
        yield* setBus("down")
        const one = yield* start({ publisher: "orders-1" })
        yield* one.run(Outbox.publish(event("1")))
        const two = yield* start({ publisher: "orders-1" })
        const sweep = Effect.flatMap(Outbox.Outbox, ({ sweep }) => sweep)
        yield* one.run(sweep)
        assert.include(
          events.map(({ _tag }) => _tag),
          "LeaseLost"
        )
        assert.strictEqual((yield* one.run(Outbox.publish(event("2", "other")))).safe, "store")
        yield* setBus("up")
        yield* until(Effect.map(onBus, (bodies) => bodies.length >= 2))
        yield* turns
        assert.deepStrictEqual([...new Set(yield* onBus)].sort(), ["1", "2"])
        yield* one.stop
        yield* two.stop
      }).pipe(Effect.scoped, Effect.provide(ground(subject)))
    )
    it.effect("an outbox that lost its backlog publishes nothing of a subject before that backlog", () =>
      Effect.gen(function* () {
        const sweep = Effect.flatMap(Outbox.Outbox, ({ sweep }) => sweep)
        const release = yield* Deferred.make<void>()
        yield* setBus("down")
        const one = yield* start({ publisher: "orders-1" })
        yield* one.run(Outbox.publish(event("1")))
        yield* one.run(Outbox.publish(event("2")))
        const two = yield* start({ publisher: "orders-1" }, false, Deferred.await(release))
        yield* one.run(sweep)
        yield* setBus("up")
        assert.strictEqual((yield* one.run(Outbox.publish(event("3")))).safe, "store")
        yield* one.run(Outbox.publish(event("other", "b")))
        yield* Effect.repeat(Effect.andThen(TestClock.adjust("5 seconds"), turns), { times: 3 })
        assert.deepStrictEqual(yield* onBus, ["other"])
        yield* Deferred.succeed(release, undefined)
        yield* passing(holds(["other", "1", "2", "3"]), "5 seconds")
        const straight = Effect.map(one.run(Outbox.publish(event("4"))), ({ safe }) => safe === "broker")
        yield* passing(straight, "5 seconds")
        yield* one.stop
        yield* two.stop
      }).pipe(Effect.scoped, Effect.provide(ground(subject)))
    )
    it.effect("an outbox takes its lost backlog back when the process that took it is killed", () =>
      Effect.gen(function* () {
        const sweep = Effect.flatMap(Outbox.Outbox, ({ sweep }) => sweep)
        yield* setBus("down")
        const one = yield* start({ publisher: "orders-1" })
        yield* one.run(Outbox.publish(event("1")))
        const two = yield* start({ publisher: "orders-1" }, true, Effect.never)
        yield* one.run(sweep)
        yield* two.stop
        yield* one.run(Outbox.publish(event("2")))
        yield* setBus("up")
        yield* passing(holds(["1", "2"]), "5 seconds")
        yield* turns
        assert.deepStrictEqual(yield* onBus, ["1", "2"])
        yield* one.stop
      }).pipe(Effect.scoped, Effect.provide(ground(subject)))
    )
    it.effect("an outbox does not wait for a claimed backlog that its owner took back", () =>
      Effect.gen(function* () {
        const events = yield* recorded
        const { hold, insert } = yield* DeliveryStore.DeliveryStore
        yield* setBus("down")
        const killed = yield* start({ publisher: "orders-1" }, true)
        yield* killed.run(Outbox.publish(event("1")))
        yield* killed.stop
        const one = yield* start({ publisher: "orders-2", mode: "alwaysStore" })
        const isClaimed = Effect.sync(() => events.some(({ _tag }) => _tag === "BacklogClaimed"))
        yield* passing(isClaimed, "5 seconds")
        // The owner is back. It stores events of the same subject, and publishes none of them.
        yield* hold("orders-1", "owner")
        const [row] = yield* stored("1")
        if (row !== undefined) yield* insert("orders-1", [{ ...row, id: "2", brokerId: "2" }])
        yield* one.run(Effect.flatMap(Outbox.Outbox, ({ sweep }) => sweep))
        yield* one.run(Outbox.publish(event("3")))
        yield* setBus("up")
        // In small steps: the owner of this test does not renew its lease.
        yield* passing(holds(["3"]), "100 millis")
        yield* one.stop
      }).pipe(Effect.scoped, Effect.provide(ground(subject)))
    )
    it.effect("flush waits for the backlog, and says what is left", () =>
      Effect.gen(function* () {
        const { flush } = yield* Outbox.Outbox
        yield* setBus("down")
        yield* Outbox.publish(event("1"))
        const late = yield* Effect.forkChild(flush("3 seconds"), { startImmediately: true })
        yield* turns
        yield* TestClock.adjust("3 seconds")
        assert.deepStrictEqual(yield* Fiber.join(late), { left: 1 })
        yield* setBus("up")
        assert.deepStrictEqual(yield* flush("1 minute"), { left: 0 })
      }).pipe(Effect.provide(layer()))
    )
    it.effect("a status has the time of the oldest event", () =>
      Effect.gen(function* () {
        yield* TestClock.adjust("1 hour")
        yield* setBus("down")
        yield* Outbox.publish(event("1"))
        const { status } = yield* Outbox.Outbox
        assert.deepStrictEqual((yield* status).oldest, Option.some(3_600_000))
      }).pipe(Effect.provide(layer()))
    )
    it.effect("more subjects than are remembered are stored first, and drained in order", () =>
      Effect.gen(function* () {
        yield* setBus("down")
        const ids = Array.from({ length: 60 }, (_, i) => `${i}`)
        yield* Effect.forEach(ids, (id, i) => Outbox.publish(event(id, `s${i % 20}`)))
        yield* setBus("up")
        yield* passing(Effect.map(onBus, ({ length }) => length === 60))
        const bodies = yield* onBus
        for (let i = 0; i < 20; i++) {
          assert.deepStrictEqual(
            bodies.filter((id) => Number(id) % 20 === i),
            [`${i}`, `${i + 20}`, `${i + 40}`]
          )
        }
        const straight = Effect.map(Outbox.publish(event("last")), ({ safe }) => safe === "broker")
        yield* passing(straight, "5 seconds")
      }).pipe(Effect.provide(layer({ maxSubjects: 3 })))
    )
    it.effect(
      "ten thousand events drain within one reconnect",
      () =>
        Effect.gen(function* () {
          yield* setBus("down")
          const ids = Array.from({ length: 10_000 }, (_, i) => `${i}`)
          yield* Effect.forEach(ids, (id, i) => Outbox.publish(event(id, `s${i % 50}`)), {
            concurrency: 1_000,
            discard: true
          })
          const { status } = yield* Outbox.Outbox
          assert.strictEqual((yield* status).backlog, 10_000)
          yield* setBus("up")
          yield* until(Effect.map(onBus, ({ length }) => length === 10_000))
          const last = new Map<number, number>()
          for (const body of yield* onBus) {
            const subject = Number(body) % 50
            assert.isAbove(Number(body), last.get(subject) ?? -1)
            last.set(subject, Number(body))
          }
        }).pipe(Effect.provide(layer({}, { capacity: 20_000 }))),
      60_000
    )
  })
})
