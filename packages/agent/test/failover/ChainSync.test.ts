import { assert, describe, it } from "@effect/vitest"
import * as ChainRecord from "#agent/failover/chain/ChainRecord"
import type { Connection } from "#agent/failover/chain/ChainStore"
import * as ChainStore from "#agent/failover/chain/ChainStore"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { InvalidOption } from "@outlast/resilience"
import { Cause, Effect, Exit, Fiber, MutableRef, Stream } from "effect"
import { TestClock } from "effect/testing"
import { a, b, pass, quiet, start, until, watched } from "./chainProcess.ts"
import { failureOf } from "./chainSupport.ts"

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** A store in memory that can be down, hang or lose its data, and counts its requests. */
const faulty = () => {
  const faults = { mode: "up" as "up" | "down" | "hangs", store: ChainStore.memory(), loads: 0, swaps: 0 }
  const through = <A, R>(effect: () => Effect.Effect<A, ChainStore.ChainStoreError, R>) =>
    Effect.suspend(() => {
      if (faults.mode === "hangs") return Effect.never
      const cause = new Error("ECONNREFUSED redis://user:hunter2@db:6379 password=hunter2")
      return faults.mode === "down"
        ? Effect.fail(new ChainStore.ChainStoreError({ operation: "load", cause }))
        : effect()
    })
  const inner = Effect.suspend(() => faults.store.open)
  const connection: Connection = {
    load: through(() => {
      faults.loads++
      return Effect.scoped(Effect.flatMap(inner, ({ load }) => load))
    }),
    swap: (...of) =>
      through(() => {
        faults.swaps++
        return Effect.scoped(Effect.flatMap(inner, ({ swap }) => swap(...of)))
      }),
    changes: Stream.empty
  }
  return Object.assign(watched({ open: through(() => Effect.succeed(connection)) }), { faults })
}

const contents = (store: ChainStore.ChainStore) =>
  Effect.scoped(Effect.flatMap(store.open, ({ load }) => load))

describe("a restart", () => {
  it.effect("never lengthens a cooldown, even if the wall clock was set back (openclaw#87608)", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      yield* TestClock.adjust(day)
      const before = yield* start(store)
      before.fail(a, hour)
      yield* before.stop
      yield* TestClock.adjust(10 * minute)
      for (const [off, left] of [
        [0, 50 * minute],
        [-2 * hour, hour],
        [20 * minute, 30 * minute],
        [2 * hour, undefined]
      ] as const) {
        const after = yield* start(store, { wall: { off } })
        assert.strictEqual(after.left(a), left)
        assert.strictEqual(after.tags(), left === undefined ? "" : "CooldownLearned")
        // Reading it again and again does not lengthen it either.
        yield* pass(store, 2_000)
        assert.strictEqual(after.left(a), left === undefined ? undefined : left - 2_000)
        yield* after.stop
        yield* TestClock.adjust(-2_000)
      }
    })
  )

  it.effect("keeps a key dead, and treats a new key under its name as ready", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      const before = yield* start(store, { keys: { KEY_A: "sk-old" } })
      before.fail(a, Infinity)
      before.fail(b, hour, "model")
      yield* before.stop
      const same = yield* start(store, { keys: { KEY_A: "sk-old" } })
      assert.strictEqual(same.left(a), Infinity)
      assert.strictEqual(same.tags(), "CooldownLearned CooldownLearned")
      const other = yield* start(store, { keys: { KEY_A: "sk-new" } })
      assert.strictEqual(other.left(a), hour, "the model's cooldown is nobody's key's")
      other.resetAll()
      yield* other.stop
      yield* pass(store, 1_000)
      assert.strictEqual(same.left(a), Infinity)
    })
  )

  it.effect("expires a streak after a quiet day, and removes expired records of every chain", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      const { swap } = yield* store.open
      const old = ChainRecord.encode({ fence: 5, cooldown: undefined })
      yield* swap("another-chain", undefined, old)
      const one = yield* start(store)
      one.fail(a, minute)
      yield* pass(store, 1_000)
      assert.strictEqual((yield* contents(store)).size, 2)
      yield* one.stop
      yield* TestClock.adjust(day + minute)
      yield* start(store)
      assert.strictEqual((yield* contents(store)).size, 0)
    })
  )

  it.effect("writes cooldowns to the store that existed when the layer was built", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      const failure = failureOf("RateLimit")
      const known = Cooldown.open(Cooldown.empty, { scope: "key", target: a, until: hour, failure }, 0)
      const one = yield* start(store, { cooldowns: MutableRef.make(known) })
      yield* one.stop
      assert.strictEqual((yield* start(store)).left(a), hour)
    })
  )
})

describe("two processes", () => {
  const two = Effect.gen(function* () {
    const store = watched(ChainStore.memory())
    return { store, one: yield* start(store), other: yield* start(store) }
  })

  it.effect("a success that began before the other's cooldown does not clear it", () =>
    Effect.gen(function* () {
      const { store, one, other } = yield* two
      one.fail(a, 5_000)
      yield* pass(store, 6_000)
      // Both know a cooldown that is over. One has an attempt in flight while the other fails.
      other.fail(a, minute)
      yield* TestClock.adjust(10)
      one.succeed(a, 20)
      yield* pass(store, 1_000)
      assert.strictEqual(other.left(a), minute - 1_010)
      assert.strictEqual(one.left(a), minute - 1_010)
    })
  )

  it.effect("a success that began after the cooldowns of both clears both", () =>
    Effect.gen(function* () {
      const { store, one, other } = yield* two
      one.fail(a, minute)
      other.fail(a, minute + 5)
      yield* TestClock.adjust(100)
      one.succeed(a, 50)
      yield* pass(store, 1_000)
      assert.isUndefined(one.left(a))
      assert.isUndefined(other.left(a))
    })
  )

  it.effect("that open a cooldown at the same moment keep the one that ends later, and lose no other", () =>
    Effect.gen(function* () {
      const { store, one, other } = yield* two
      one.fail(a, minute)
      other.fail(a, hour)
      one.fail(a, minute, "key+model")
      other.fail(b, minute)
      yield* pass(store, 1_000)
      for (const process of [one, other]) {
        assert.strictEqual(process.left(a), hour - 1_000)
        assert.strictEqual(process.left(b), minute - 1_000)
        assert.isTrue(Cooldown.isOpen(process.cooldowns.current, "key+model", a, process.now()))
      }
    })
  )

  it.effect("that write the same record: the second one merges and writes again at once", () =>
    Effect.gen(function* () {
      const memory = ChainStore.memory()
      let readers = Infinity
      /** Each reader waits until both have read. */
      const store = watched({
        open: Effect.map(memory.open, (connection) => ({
          ...connection,
          load: Effect.tap(connection.load, () =>
            Effect.andThen(
              Effect.sync(() => readers--),
              until(() => readers <= 0 || readers === Infinity)
            )
          )
        }))
      })
      const one = yield* start(store, { pollEvery: "1 hour" })
      const other = yield* start(store, { pollEvery: "1 hour" })
      readers = 2
      one.fail(a, minute)
      other.fail(a, hour)
      yield* quiet(store)
      assert.strictEqual((yield* start(watched(memory))).left(a), hour)
    })
  )

  it.effect("an old cooldown does not return with a process that was away (openclaw#23516)", () =>
    Effect.gen(function* () {
      const store = faulty()
      const one = yield* start(store)
      const other = yield* start(watched(store.faults.store))
      one.fail(a, hour)
      yield* pass(store, 1_000)
      store.faults.mode = "down"
      other.succeed(a, 0)
      yield* pass(store, minute)
      assert.strictEqual(one.left(a), hour - minute - 1_000)
      store.faults.mode = "up"
      yield* pass(store, 1_000)
      assert.isUndefined(one.left(a))
      assert.isUndefined(other.left(a))
    })
  )

  it.effect("do not share probes", () =>
    Effect.gen(function* () {
      const store = faulty()
      const one = yield* start(store)
      one.fail(a, minute)
      yield* pass(store, 1_000)
      const { swaps, loads } = store.faults
      const before = one.cooldowns.current
      one.sync.changed(before, Cooldown.beginProbe(before, a, one.now()))
      yield* quiet(store)
      assert.deepStrictEqual([store.faults.swaps, store.faults.loads], [swaps, loads])
    })
  )
})

describe("a clock that is set back while a process runs", () => {
  it.effect("lengthens no cooldown, and the next cooldown, success and reset reach all processes", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      yield* TestClock.adjust(day)
      const wall = { off: 0 }
      const one = yield* start(store, { wall })
      const other = yield* start(store, { wall })
      one.fail(a, minute)
      yield* pass(store, 1_000)
      wall.off = -hour
      yield* pass(store, minute)
      assert.isUndefined(one.left(a))
      assert.isUndefined(other.left(a))
      one.fail(a, Infinity)
      yield* pass(store, 1_000)
      assert.strictEqual(other.left(a), Infinity)
      other.resetAll()
      yield* pass(store, 1_000)
      assert.isUndefined(one.left(a))
    })
  )
})

describe("a store that is down", () => {
  it.effect("is reported once, its return is reported once, and no cooldown is lost", () =>
    Effect.gen(function* () {
      const store = faulty()
      store.faults.mode = "down"
      const one = yield* start(store)
      one.fail(a, hour)
      yield* pass(store, 10_000)
      assert.strictEqual(one.tags(), "ChainStoreDown")
      const [down] = one.events
      assert.include(JSON.stringify(down), "ECONNREFUSED")
      assert.notInclude(JSON.stringify(down), "hunter2")
      store.faults.mode = "up"
      yield* pass(store, 1_000)
      assert.strictEqual(one.tags(), "ChainStoreDown ChainStoreUp")
      assert.strictEqual((yield* start(store)).left(a), hour - 11_000)
      // The store returns without its data.
      store.faults.store = ChainStore.memory()
      yield* pass(store, 1_000)
      assert.strictEqual((yield* start(store)).left(a), hour - 12_000)
      assert.strictEqual(one.tags(), "ChainStoreDown ChainStoreUp")
    })
  )

  it.effect("delays a start and a stop for at most the time limit", () =>
    Effect.gen(function* () {
      const store = faulty()
      store.faults.mode = "hangs"
      const starting = yield* Effect.forkChild(start(store))
      yield* until(() => store.busy() > 0)
      yield* TestClock.adjust(1_999)
      assert.isUndefined(starting.pollUnsafe())
      yield* TestClock.adjust(1)
      const one = yield* Fiber.join(starting)
      assert.strictEqual(one.tags(), "ChainStoreDown")

      store.faults.mode = "up"
      yield* pass(store, 1_000)
      store.faults.mode = "hangs"
      yield* TestClock.adjust(500)
      const stopping = yield* Effect.forkChild(one.stop)
      yield* TestClock.adjust(1_499)
      assert.isUndefined(stopping.pollUnsafe())
      yield* TestClock.adjust(501)
      yield* Fiber.join(stopping)
    })
  )

  it.effect("that cannot be interrupted does not delay a stop for long", () =>
    Effect.gen(function* () {
      const stuck = Effect.uninterruptible(Effect.sleep("1 hour"))
      const connection: Connection = {
        load: Effect.as(stuck, new Map()),
        swap: () => Effect.succeed(true),
        changes: Stream.empty
      }
      const store = watched({ open: Effect.succeed(connection) })
      const starting = yield* Effect.forkChild(start(store))
      yield* until(() => store.busy() > 0)
      yield* TestClock.adjust("2 seconds")
      const one = yield* Fiber.join(starting)
      const stopping = yield* Effect.forkChild(one.stop)
      yield* TestClock.adjust("4 seconds")
      assert.isDefined(stopping.pollUnsafe())
    })
  )

  it.effect("is tried again every `pollEvery`, and counts as down after `timeout`", () =>
    Effect.gen(function* () {
      const store = faulty()
      const one = yield* start(store, { pollEvery: "10 seconds", timeout: "3 seconds" })
      const { loads } = store.faults
      yield* pass(store, 9_900)
      assert.strictEqual(store.faults.loads, loads)
      yield* pass(store, 100)
      assert.strictEqual(store.faults.loads, loads + 1)
      store.faults.mode = "hangs"
      yield* TestClock.adjust(12_900)
      assert.strictEqual(one.tags(), "")
      yield* TestClock.adjust(100)
      assert.strictEqual(one.tags(), "ChainStoreDown")
    })
  )

  it.effect("options out of range are rejected", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(start(ChainStore.memory(), { timeout: 0 }))
      assert.isTrue(Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof InvalidOption)
    })
  )

  it.effect("gets no request per change while it is slow, and no extra requests while it is down", () =>
    Effect.gen(function* () {
      const store = faulty()
      const one = yield* start(store)
      const { loads } = store.faults
      for (let n = 0; n < 100; n++) {
        one.fail(a, hour)
        one.resetAll()
      }
      yield* quiet(store)
      assert.isAtMost(store.faults.loads - loads, 2)
      store.faults.mode = "down"
      yield* pass(store, 1_000)
      store.faults.mode = "up"
      const again = store.faults.loads
      one.fail(a, hour)
      yield* quiet(store)
      assert.strictEqual(store.faults.loads, again)
    })
  )
})

describe("the content of a store", () => {
  it.effect("has no secrets", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      const one = yield* start(store, { keys: { KEY_A: "sk-very-secret" } })
      for (const scope of Cooldown.scopes) one.fail(a, hour, scope)
      yield* pass(store, 1_000)
      const all = [...(yield* contents(store))]
      assert.strictEqual(all.length, 4)
      assert.notInclude(JSON.stringify(all), "sk-very-secret")
      for (const [id] of all) assert.match(id, /^[A-Za-z0-9._+-]{1,80}$/)
    })
  )

  it.effect("may be broken or newer, which is reported once and ignored", () =>
    Effect.gen(function* () {
      const store = watched(ChainStore.memory())
      const first = yield* start(store)
      first.fail(a, hour)
      first.fail(b, hour)
      yield* first.stop
      const { swap } = yield* store.open
      const [[idA, ofA], [idB, ofB]] = [...(yield* contents(store))] as [[string, string], [string, string]]
      const newer = ofB.replace('"v":1', '"v":2')
      yield* swap(idA, ofA, ofA.slice(0, 40))
      yield* swap(idB, ofB, newer)
      yield* swap("theirs", undefined, "?")
      const one = yield* start(store)
      yield* pass(store, 3_000)
      assert.deepStrictEqual(
        one.events.map((event) => event._tag === "ChainRecordIgnored" && event.reason),
        ["broken", "newer", "broken"]
      )
      assert.isUndefined(one.left(a))
      one.fail(a, hour)
      one.fail(b, hour)
      yield* pass(store, 1_000)
      const after = yield* contents(store)
      assert.isObject(ChainRecord.decode(after.get(idA) ?? ""))
      assert.strictEqual(after.get(idB), newer, "a newer version's words are not ours to change")
      assert.strictEqual(one.left(b), hour - 1_000)
    })
  )
})

it.effect("a stop writes pending changes, publishes no event and leaves no fiber running", () =>
  Effect.gen(function* () {
    const store = faulty()
    const one = yield* start(store)
    one.fail(a, hour)
    yield* one.stop
    assert.strictEqual(store.faults.swaps, 1)
    assert.strictEqual(one.tags(), "")
    const { loads } = store.faults
    yield* pass(store, 10_000)
    assert.strictEqual(store.faults.loads, loads)
  })
)
