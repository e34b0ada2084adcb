import { assert, describe, it } from "@effect/vitest"
import {
  Config,
  ConfigProvider,
  Deferred,
  Effect,
  Exit,
  Fiber,
  Inspectable,
  Layer,
  Redacted,
  Scope
} from "effect"
import { TestClock } from "effect/testing"
import * as KeySource from "#agent/failover/target/KeySource"
import type { KeyEvent } from "#agent/failover/target/KeyEvent"
import * as LiveKey from "#agent/failover/target/LiveKey"
import { Deadline, InvalidOption, ResilienceEvents } from "@outlast/resilience"

/** Makes a key from a function of the load number, counts the loads and records the events. */
const setup = (
  load: (n: number) => Effect.Effect<KeySource.Token, unknown>,
  options: Partial<KeySource.RefreshingOptions> = {}
) =>
  Effect.gen(function* () {
    const events: Array<KeyEvent> = []
    let loads = 0
    const source = KeySource.refreshing("OAUTH", {
      load: Effect.suspend(() => load(++loads)),
      ...options
    })
    const Events = ResilienceEvents.layerHandler((event) =>
      // Only the key publishes events here.
      Effect.sync(() => events.push(event as KeyEvent))
    )
    const context = yield* Layer.build(Events)
    const made = yield* Effect.exit(Effect.provideContext(LiveKey.make(source), context))
    return { made, events, loads: () => loads }
  })

const token = (value: string, expiresAt?: number): KeySource.Token => ({
  value: Redacted.make(value),
  expiresAt
})
/** A token whose load takes a second. */
const slow = (n: number) => Effect.delay(Effect.succeed(token(`v${n}`)), "1 second")
const valueOf = (key: LiveKey.LiveKey) => Redacted.value(key.current)

const live = (...args: Parameters<typeof setup>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(setup(...args))
    yield* TestClock.adjust("1 second")
    const { made, ...rest } = yield* Fiber.join(fiber)
    const key = yield* made
    assert(key.renew !== undefined && key.ready !== undefined)
    return { key, renew: key.renew, ready: key.ready, ...rest }
  })

describe("sources that are read only once", () => {
  it.effect("environment, configuration and value give a key that cannot be refreshed", () =>
    Effect.gen(function* () {
      const nested = Config.Redacted("key").pipe(Config.nested("llm"))
      for (const source of [
        KeySource.env("API_KEY"),
        KeySource.config("llm key", nested),
        KeySource.value("given", Redacted.make("secret"))
      ]) {
        const key = yield* LiveKey.make(source)
        assert.strictEqual(valueOf(key), "secret")
        assert.strictEqual(key.name, source.name)
        assert.deepStrictEqual([key.version, key.ready, key.renew], [1, undefined, undefined])
      }
      assert.instanceOf(yield* Effect.flip(LiveKey.make(KeySource.env("NOT_SET"))), Config.ConfigError)
    }).pipe(
      Effect.provide(
        ConfigProvider.layer(ConfigProvider.fromUnknown({ API_KEY: "secret", llm: { key: "secret" } }))
      )
    )
  )
})

describe("a refused key", () => {
  it.effect("is refreshed once, however many calls are refused at the same time", () =>
    Effect.gen(function* () {
      const { key, renew, loads, events } = yield* live(slow)
      assert.strictEqual(valueOf(key), "v1")
      const calls = yield* Effect.forEach(Array.from({ length: 100 }), () => Effect.forkChild(renew(1)))
      yield* TestClock.adjust("1 second")
      const answers = yield* Effect.forEach(calls, Fiber.join)
      assert.isTrue(answers.every((newer) => newer))
      assert.strictEqual(loads(), 2)
      assert.deepStrictEqual([valueOf(key), key.version], ["v2", 2])
      assert.deepStrictEqual(
        events.map(({ _tag, key }) => [_tag, key]),
        [["KeyRefreshed", "OAUTH"]]
      )
    })
  )

  it.effect("needs no refresh when a newer value exists already", () =>
    Effect.gen(function* () {
      const { renew, loads } = yield* live((n) => Effect.succeed(token(`v${n}`)))
      assert.isTrue(yield* renew(1))
      assert.isTrue(yield* renew(1))
      assert.strictEqual(loads(), 2)
      assert.isTrue(yield* renew(2))
      assert.strictEqual(loads(), 3)
    })
  )

  it.effect("is refreshed again when the newer value is refused too", () =>
    Effect.gen(function* () {
      const { key, renew } = yield* live(slow)
      for (const version of [1, 2]) {
        const call = yield* Effect.forkChild(renew(version))
        yield* TestClock.adjust("1 second")
        assert.isTrue(yield* Fiber.join(call))
      }
      assert.deepStrictEqual([valueOf(key), key.version], ["v3", 3])
    })
  )

  it.effect("is dead when the refresh fails or gives the same value", () =>
    Effect.gen(function* () {
      const same = yield* live(() => Effect.succeed(token("v1")))
      assert.isFalse(yield* same.renew(1))
      assert.deepStrictEqual(
        same.events.map((event) => event._tag === "KeyNotRefreshed" && event.why),
        ["same"]
      )
      const failing = yield* live((n) => (n === 1 ? slow(n) : Effect.fail("nothing")))
      assert.isFalse(yield* failing.renew(1))
      assert.strictEqual(valueOf(failing.key), "v1")
      // The next call may try again.
      assert.isFalse(yield* failing.renew(1))
      assert.strictEqual(failing.loads(), 3)
    })
  )

  it.effect("fails its refresh after the time limit", () =>
    Effect.gen(function* () {
      for (const [timeout, millis] of [
        [undefined, 30_000],
        ["5 seconds", 5_000]
      ] as const) {
        let interrupted = false
        const never = Effect.onInterrupt(Effect.never, () => Effect.sync(() => (interrupted = true)))
        const { renew, events } = yield* live((n) => (n === 1 ? slow(n) : never), { timeout })
        const call = yield* Effect.forkChild(renew(1))
        yield* TestClock.adjust(millis - 1)
        assert.isUndefined(call.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.isFalse(yield* Fiber.join(call))
        assert.isTrue(interrupted)
        assert.deepStrictEqual(
          events.map((event) => event._tag === "KeyNotRefreshed" && event.why),
          ["timeout"]
        )
      }
    })
  )

  it.effect("is still refreshed for other callers when the one that started it is interrupted", () =>
    Effect.gen(function* () {
      const { renew, loads } = yield* live(slow)
      const first = yield* Effect.forkChild(renew(1))
      const second = yield* Effect.forkChild(renew(1))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(first)
      yield* TestClock.adjust("500 millis")
      assert.isTrue(yield* Fiber.join(second))
      assert.strictEqual(loads(), 2)
    })
  )

  it.effect("is refreshed without the deadline of the calling program", () =>
    Effect.gen(function* () {
      const seen: Array<bigint | undefined> = []
      const { renew } = yield* live((n) =>
        Effect.as(
          Effect.tap(Deadline.Deadline, (deadline) => Effect.sync(() => seen.push(deadline))),
          token(`v${n}`)
        )
      )
      yield* Deadline.within(renew(1), "1 second")
      assert.deepStrictEqual(seen, [undefined, undefined])
    })
  )

  it.effect(
    "is not refreshed after its scope has ended, and a refresh in flight is interrupted by the end",
    () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        let interrupted = false
        const never = Effect.onInterrupt(Effect.never, () => Effect.sync(() => (interrupted = true)))
        const { renew, loads } = yield* Scope.provide(
          live((n) => (n === 1 ? slow(n) : never)),
          scope
        )
        const call = yield* Effect.forkChild(renew(1))
        yield* TestClock.adjust(0)
        yield* Scope.close(scope, Exit.void)
        assert.isFalse(yield* Fiber.join(call))
        assert.isTrue(interrupted)
        assert.isFalse(yield* renew(1))
        assert.strictEqual(loads(), 2)
      })
  )

  it.effect("is not refreshed after its scope has ended", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { renew, loads } = yield* Scope.provide(live(slow), scope)
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(yield* renew(1))
      assert.strictEqual(loads(), 1)
    })
  )
})

describe("a key that expires", () => {
  const hour = 3_600_000
  /** Each token expires an hour after its load. */
  const hourly = (n: number) =>
    Effect.clockWith((clock) => Effect.succeed(token(`v${n}`, clock.currentTimeMillisUnsafe() + hour)))

  it.effect("is refreshed before use in its last minute", () =>
    Effect.gen(function* () {
      const { key, ready, loads } = yield* live((n) => Effect.delay(hourly(n), 1))
      yield* TestClock.adjust(hour - 60_000 - 1_000)
      yield* ready
      assert.strictEqual(loads(), 1)
      yield* TestClock.adjust(1)
      const calls = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(ready))
      yield* TestClock.adjust(1)
      yield* Effect.forEach(calls, Fiber.join)
      assert.deepStrictEqual([loads(), valueOf(key), key.version], [2, "v2", 2])
      yield* ready
      assert.strictEqual(loads(), 2)
    })
  )

  it.effect("lives for as long as a refresh to the same value says", () =>
    Effect.gen(function* () {
      const { ready, loads } = yield* live(() => hourly(1))
      yield* TestClock.adjust(hour - 30_000)
      yield* ready
      assert.strictEqual(loads(), 2)
      // Its old end has passed, and the pause after a refresh, too.
      yield* TestClock.adjust(120_000)
      yield* ready
      assert.strictEqual(loads(), 2)
    })
  )

  it.effect("uses its own margin", () =>
    Effect.gen(function* () {
      const { ready, loads } = yield* live(hourly, { margin: "10 minutes" })
      yield* TestClock.adjust(hour - 600_000 - 1_001)
      yield* ready
      assert.strictEqual(loads(), 1)
      yield* TestClock.adjust(1)
      yield* ready
      assert.strictEqual(loads(), 2)
    })
  )

  it.effect("is used as it is when the refresh fails, and not every call waits for a refresh", () =>
    Effect.gen(function* () {
      const { key, ready, renew, loads } = yield* live((n) => (n === 1 ? hourly(n) : Effect.fail("down")))
      yield* TestClock.adjust(hour)
      yield* ready
      yield* ready
      assert.deepStrictEqual([loads(), valueOf(key)], [2, "v1"])
      yield* TestClock.adjust(LiveKey.pause - 1)
      yield* ready
      assert.strictEqual(loads(), 2)
      // A refused key is refreshed without that pause.
      assert.isFalse(yield* renew(1))
      assert.strictEqual(loads(), 3)
      yield* TestClock.adjust(1)
      yield* ready
      assert.strictEqual(loads(), 4)
    })
  )

  it.effect("that lives for less than its margin is refreshed at intervals, not by every call", () =>
    Effect.gen(function* () {
      const brief = (n: number) =>
        Effect.clockWith((clock) => Effect.succeed(token(`v${n}`, clock.currentTimeMillisUnsafe() + 5_000)))
      const { ready, loads } = yield* live(brief)
      for (let i = 0; i < 20; i++) yield* ready
      assert.strictEqual(loads(), 2)
    })
  )

  it.effect("without an expiry is never refreshed early", () =>
    Effect.gen(function* () {
      for (const expiresAt of [undefined, Number.NaN, Infinity]) {
        const { ready, loads } = yield* live(() => Effect.succeed(token("v1", expiresAt)))
        yield* TestClock.adjust("10 days")
        yield* ready
        assert.strictEqual(loads(), 1)
      }
    })
  )
})

describe("errors", () => {
  const secret = "sk-refresh-token-0123456789abcdef"

  it.effect("name the failure and the fix, and contain no secret", () =>
    Effect.gen(function* () {
      class Denied extends Error {
        readonly _tag = "Denied"
      }
      const cases: ReadonlyArray<
        readonly [Effect.Effect<KeySource.Token, unknown>, why: string, says: string]
      > = [
        [Effect.fail(new Denied(`no such token: ${secret}`)), "failed", "(Denied)"],
        [Effect.die(new TypeError(secret)), "failed", "(TypeError)"],
        [Effect.fail(secret), "failed", "could not be refreshed."],
        [Effect.fail({ _tag: `${secret} was refused` }), "failed", "could not be refreshed."],
        [Effect.interrupt, "failed", "could not be refreshed"],
        [Effect.succeed(token("")), "empty", "empty value"]
      ]
      for (const [load, why, says] of cases) {
        const { made } = yield* setup(() => load)
        const error = yield* Effect.flip(made)
        assert.instanceOf(error, KeySource.KeyError)
        assert.strictEqual(error.why, why)
        assert.include(error.message, says)
        assert.include(error.message, "OAUTH")
        for (const text of [
          error.message,
          error.stack ?? "",
          JSON.stringify(error),
          Inspectable.toStringUnknown(made)
        ]) {
          assert.notInclude(text, secret)
        }
      }
    })
  )

  it.effect("of the first load include its time limit", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(setup(() => Effect.never))
      yield* TestClock.adjust("30 seconds")
      const { made } = yield* Fiber.join(fiber)
      const error = yield* Effect.flip(made)
      assert.strictEqual(error._tag === "KeyError" && error.why, "timeout")
    })
  )

  it("options out of range are rejected", () => {
    const load = Effect.succeed(token("v1"))
    assert.throws(() => KeySource.refreshing("K", { load, timeout: 0 }), InvalidOption, "timeout")
    assert.throws(() => KeySource.refreshing("K", { load, margin: "-1 second" }), InvalidOption, "margin")
    const untyped = KeySource.refreshing as (name: string, options: unknown) => unknown
    assert.throws(() => untyped("K", { load: () => token("v1") }), InvalidOption, "load must be an Effect")
    assert.throws(() => untyped("K", { margin: 1 }), InvalidOption, "load is missing")
    assert.throws(() => untyped("K", { load, ttl: 1 }), InvalidOption, '"ttl" is not an option')
  })
})

it.effect("`load` of a refreshing source works without a refresh", () =>
  Effect.gen(function* () {
    const gate = yield* Deferred.make<void>()
    const source = KeySource.refreshing("OAUTH", { load: Effect.as(Deferred.await(gate), token("v1")) })
    const fiber = yield* Effect.forkChild(source.load)
    yield* Deferred.succeed(gate, undefined)
    assert.strictEqual(Redacted.value(yield* Fiber.join(fiber)), "v1")
  })
)
