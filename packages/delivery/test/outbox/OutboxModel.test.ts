/**
 * Random lives of an outbox on each store, beside the pure lanes: receipts, deliveries, order and dead letters are
 * those that the machine predicts, also after crashes, stops and expired leases.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import * as Sweeps from "../../../../test/sweeps.ts"
import * as fc from "fast-check"
import { DeadLetters, DeliveryStore, Outbox } from "@outlast/delivery"
import * as Lane from "#delivery/outbox/LaneState"
import { answer, event, ground, onBus, passing, rejected, setBus, turn, until } from "../support/outboxes.ts"
import { onEach } from "../support/Stores.ts"

/** `good` is taken, `bad` is rejected for good, `poor` is rejected each time. */
type Kind = "good" | "bad" | "poor"

type Command =
  | { readonly do: "publish"; readonly subject: string; readonly kind: Kind }
  | { readonly do: "publishIn"; readonly subject: string; readonly kind: Kind; readonly commits: boolean }
  | { readonly do: "bus"; readonly status: "up" | "down" }
  | { readonly do: "crash" | "stop" | "replay" | "purge" | "wait" }

const subject = fc.constantFrom("a", "b")
const kind = fc.constantFrom<Kind>("good", "good", "good", "bad", "poor")
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("publish" as const), subject, kind }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("publishIn" as const), subject, kind, commits: fc.boolean() })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("bus" as const),
      status: fc.constantFrom("up" as const, "down" as const)
    })
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("crash" as const, "stop" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom("replay" as const, "purge" as const, "wait" as const) })
  }
)

/** An id says what becomes of its event. */
const idOf = (count: number, kind: Kind, subject: string): string => `${count}-${kind}-${subject}`
const kindOf = (id: string): string => id.split("-")[1] ?? ""
const subjectOf = (id: string): string => id.split("-")[2] ?? ""

/** An outbox in a scope of its own, of a process that ends in order or is killed. */
const start = (publisher: string | undefined) =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const store = yield* DeliveryStore.DeliveryStore
    let isKilled = false
    let busy = 0
    const watched = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() => {
        busy++
        return Effect.ensuring(
          effect,
          Effect.sync(() => busy--)
        )
      })
    const own: DeliveryStore.Service = {
      ...store,
      head: (owned, subject, limit) => watched(store.head(owned, subject, limit)),
      remove: (seqs) => watched(store.remove(seqs)),
      rejected: (seq, rejections, refusal) => watched(store.rejected(seq, rejections, refusal)),
      bury: (which, why) => watched(store.bury(which, why)),
      trimDead: (at) => watched(store.trimDead(at)),
      beat: (holder) => watched(store.beat(holder)),
      others: (holder) => watched(store.others(holder)),
      claim: (seen, holder) => watched(store.claim(seen, holder)),
      subjects: (publisher, limit) => watched(store.subjects(publisher, limit)),
      forget: (publisher, holder) => watched(store.forget(publisher, holder)),
      totals: watched(store.totals),
      oldest: watched(store.oldest),
      release: (holder) => Effect.suspend(() => (isKilled ? Effect.void : store.release(holder)))
    }
    /** Waits until the outbox has nothing to do before time passes or a command comes. */
    const isQuiet: Effect.Effect<void> = Effect.gen(function* () {
      for (let quiet = 0; quiet < 10; quiet = busy === 0 ? quiet + 1 : 0) yield* turn
    })
    const context = yield* Layer.buildWithScope(Outbox.layer({ publisher }), scope).pipe(
      Effect.provideService(DeliveryStore.DeliveryStore, own)
    )
    const end = (how: "crash" | "stop") =>
      Effect.suspend(() => {
        isKilled = how === "crash"
        return Scope.close(scope, Exit.void)
      })
    return { context, end, isQuiet }
  })

const live = (commands: ReadonlyArray<Command>, publisher: string | undefined) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { totals } = yield* DeliveryStore.DeliveryStore
    const letters = yield* DeadLetters.DeadLetters
    yield* answer(({ id }) => (kindOf(id) === "good" ? undefined : { error: rejected(kindOf(id) === "bad") }))
    let isUp = true
    let life = 0
    let count = 0
    let outbox = yield* start(publisher)
    /** The lanes of the machine, and what the store holds of each. */
    const lanes = new Map<string, Lane.LaneState>()
    const stored = new Map<string, Array<string>>()
    /** Events that are delivered in the end, by subject and publisher, in order. */
    const orders = new Map<string, Array<string>>()
    const dead = new Set<string>()
    const replays = new Map<string, number>()

    const laneOf = (subject: string) => lanes.get(subject) ?? Lane.empty
    const accept = (id: string, isStored: boolean) => {
      const subject = subjectOf(id)
      if (isStored) stored.set(subject, [...(stored.get(subject) ?? []), id])
      const order = publisher === undefined ? `${subject} ${life}` : subject
      if (kindOf(id) === "good") orders.set(order, [...(orders.get(order) ?? []), id])
    }
    /** The machine drains lanes: up to a poor event where no time passes, and otherwise whole. */
    const drain = (timePasses: boolean) => {
      for (const [subject, ids] of stored) {
        if (!timePasses && !lanes.has(subject)) continue
        const poor = timePasses ? -1 : ids.findIndex((id) => kindOf(id) === "poor")
        for (const id of ids.splice(0, poor === -1 ? ids.length : poor)) {
          if (kindOf(id) !== "good") dead.add(id)
        }
        if (ids.length > 0) continue
        stored.delete(subject)
        const [isDone, lane] = Lane.drained(Lane.reading(laneOf(subject)), true)
        assert.isTrue(isDone)
        if (Lane.isIdle(lane)) lanes.delete(subject)
        else lanes.set(subject, lane)
      }
    }
    const left = () => [...stored.values()].flat().length
    /** Waits until the outbox has done what the machine has done. */
    const follow = Effect.suspend(() => {
      if (!isUp) return Effect.void
      drain(false)
      const isStored = until(Effect.map(totals, ({ events }) => events === left()))
      // A lane whose last event was removed reads once more.
      return Effect.andThen(isStored, outbox.isQuiet)
    })
    const settle = Effect.suspend(() => {
      if (!isUp) return Effect.void
      drain(true)
      return passing(Effect.map(totals, ({ events }) => events === 0))
    })

    for (const command of commands) {
      switch (command.do) {
        case "publish": {
          const { kind, subject } = command
          const id = idOf(++count, kind, subject)
          const [arrival, arrived] = Lane.arrive(laneOf(subject), false)
          const isTaken = arrival === "go" && isUp && kind === "good"
          const { safe } = yield* Effect.provide(Outbox.publish(event(id, subject)), outbox.context)
          assert.strictEqual(safe, isTaken ? "broker" : "store", id)
          const end = isTaken ? "acknowledged" : "failed"
          const ended = arrival === "go" ? Lane.turnEnded(arrived, end)[1] : arrived
          const next = isTaken ? ended : Lane.committed(ended, 1)[1]
          if (Lane.isIdle(next)) lanes.delete(subject)
          else lanes.set(subject, next)
          accept(id, !isTaken)
          break
        }
        case "publishIn": {
          const { commits, kind, subject } = command
          const id = idOf(++count, kind, subject)
          const publish = Effect.provide(Outbox.publishIn(event(id, subject)), outbox.context)
          const end = commits ? Effect.void : Effect.fail("rolled back")
          const exit = yield* Effect.exit(sql.withTransaction(Effect.andThen(publish, end)))
          assert.strictEqual(Exit.isSuccess(exit), commits)
          if (!commits) break
          lanes.set(subject, Lane.found(laneOf(subject))[1])
          accept(id, true)
          break
        }
        case "bus":
          isUp = command.status === "up"
          yield* setBus(command.status)
          break
        case "wait":
          yield* settle
          break
        case "crash":
        case "stop":
          yield* settle
          yield* outbox.end(command.do)
          outbox = yield* start(publisher)
          life++
          lanes.clear()
          // Another name finds a killed process's backlog only after its lease.
          if (command.do === "crash") {
            for (let i = 0; i < 6; i++) {
              yield* Effect.andThen(TestClock.adjust("5 seconds"), outbox.isQuiet)
            }
          }
          for (const subject of stored.keys()) lanes.set(subject, Lane.found(Lane.empty)[1])
          break
        case "replay": {
          const replayed = yield* letters.replay({})
          assert.deepStrictEqual(new Set(replayed.map(({ id }) => id)), dead)
          yield* Effect.provide(
            Effect.flatMap(Outbox.Outbox, ({ sweep }) => sweep),
            outbox.context
          )
          for (const { id } of replayed) {
            const subject = subjectOf(id)
            replays.set(id, (replays.get(id) ?? 0) + 1)
            stored.set(subject, [...(stored.get(subject) ?? []), id])
            lanes.set(subject, Lane.found(laneOf(subject))[1])
          }
          dead.clear()
          break
        }
        case "purge":
          assert.strictEqual(yield* letters.purge({}), dead.size)
          for (const id of dead) replays.delete(id)
          dead.clear()
      }
      yield* follow
    }
    isUp = true
    yield* setBus("up")
    yield* settle
    const first = [...new Set(yield* onBus)]
    for (const [name, ids] of orders) {
      const found = first.filter((id) => ids.includes(id))
      assert.deepStrictEqual(found, ids, `order of ${name}`)
    }
    assert.strictEqual(first.length, [...orders.values()].flat().length, "nothing else is delivered")
    const found = yield* letters.list({}, { limit: 1_000 })
    assert.deepStrictEqual(
      new Map(found.map(({ id, replays }) => [id, replays])),
      new Map([...dead].map((id) => [id, replays.get(id) ?? 0])),
      "dead letters"
    )
    yield* outbox.end("stop")
  })

onEach((subject) => {
  for (const publisher of [undefined, "orders-1"]) {
    const name = publisher === undefined ? "a new name for each life" : "one name"
    const lives = fc.sample(fc.array(command, { minLength: 10, maxLength: 40 }), {
      numRuns: Sweeps.full(8, 4),
      seed: 26
    })
    for (const [index, commands] of lives.entries()) {
      it.effect(
        `does what the machine says, with ${name}: life ${index}`,
        () => Effect.provide(live(commands, publisher), ground(subject)),
        20_000
      )
    }
  }
})
