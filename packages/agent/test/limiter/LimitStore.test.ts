import * as NodeRedis from "@effect/platform-node/NodeRedis"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import type { Scope } from "effect"
import { Context, Duration, Effect, Exit, Fiber, Layer, Scope as Scopes } from "effect"
import { RateLimiter } from "effect/persistence"
import { TestClock } from "effect/testing"
import { InvalidOption, ResilienceEvents } from "@outlast/resilience"
import * as CallLimiter from "#agent/limiter/CallLimiter"
import type { LimiterEvent } from "#agent/limiter/LimiterEvent"
import type { Limits } from "#agent/limiter/LimitState"
import * as LimitStore from "#agent/limiter/LimitStore"
import * as RedisServer from "../../../../test/services/Redis.ts"
import { ask, timed } from "./support.ts"

/** Limiters of several processes over one store. */
type Shared = (
  processes: number,
  limits: Limits
) => Effect.Effect<ReadonlyArray<CallLimiter.Service>, never, Scope.Scope>

const limiterOver = (limits: Limits) =>
  Effect.flatMap(LimitStore.make(), (store) => CallLimiter.make({ limits: { "vendor/m": limits }, store }))

/** Waits for one turn of the event loop, so that real I/O can continue. */
const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

/** Waits for a fiber in virtual time while real I/O is running. */
const joined = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() =>
    fiber.pollUnsafe() === undefined
      ? Effect.andThen(turn, Effect.andThen(TestClock.adjust("100 millis"), joined(fiber)))
      : Fiber.join(fiber)
  )

const contract = (shared: Shared) => {
  it.effect("calls of all processes together keep the limit", () =>
    Effect.gen(function* () {
      const processes = yield* shared(2, { requestsPerMinute: 10 })
      for (let i = 0; i < 10; i++) {
        const limiter = processes[i % 2]
        assert(limiter !== undefined)
        yield* limiter.acquire(ask({ maxWait: 0 }))
      }
      for (const limiter of processes) {
        const error = yield* Effect.flip(limiter.acquire(ask({ maxWait: 0 })))
        assert.strictEqual(error.wait, 6_000)
      }
    })
  )

  it.effect("a rejection and an interruption return the reservation", () =>
    Effect.gen(function* () {
      const [one, two] = yield* shared(2, { requestsPerMinute: 1, concurrency: 1 })
      assert(one !== undefined && two !== undefined)
      yield* one.acquire(ask())
      yield* Effect.flip(two.acquire(ask({ maxWait: "59 seconds" })))
      // While the store is called, and while the reserved place is awaited.
      for (const turns of [0, 1, 2, 20]) {
        const waiting = yield* Effect.forkChild(two.acquire(ask({ maxWait: "1 hour" })))
        for (let i = 0; i < turns; i++) yield* turn
        yield* Fiber.interrupt(waiting)
      }
      // Neither interrupted call keeps a place before this one.
      const next = yield* joined(yield* Effect.forkChild(timed(two, ask({ maxWait: "61 seconds" }))))
      assert.isAtLeast(next.at, 60_000)
      assert.isAtMost(next.at, 61_000)
    })
  )

  it.effect("unused tokens are available to other processes, and tokens beyond the estimate are not", () =>
    Effect.gen(function* () {
      const [one, two] = yield* shared(2, { tokensPerMinute: 100 })
      assert(one !== undefined && two !== undefined)
      const permit = yield* one.acquire(ask({ tokens: 90 }))
      yield* Effect.flip(two.acquire(ask({ tokens: 50, maxWait: 0 })))
      yield* permit.settle({ inputTokens: 10, outputTokens: 20 })
      const other = yield* two.acquire(ask({ tokens: 50, maxWait: 0 }))
      yield* other.settle({ inputTokens: 70 })
      yield* Effect.flip(one.acquire(ask({ tokens: 10, maxWait: 0 })))
    })
  )
}

describe("over effect's RateLimiter in memory", () => {
  contract((processes, limits) =>
    Effect.gen(function* () {
      const context = yield* Layer.build(Layer.provide(RateLimiter.layer, RateLimiter.layerStoreMemory))
      return yield* Effect.forEach(Array.from({ length: processes }), () => limiterOver(limits)).pipe(
        Effect.provideContext(context)
      )
    })
  )
})

describe.skipIf(RedisServer.missing !== undefined)("over Redis", () => {
  const scope = Effect.runSync(Scopes.make())
  let server: RedisServer.RedisServer | undefined
  let stores = 0
  beforeAll(async () => {
    server = await Effect.runPromise(Scopes.provide(RedisServer.running, scope))
  })
  afterAll(() => Effect.runPromise(Scopes.close(scope, Exit.void)))

  contract((processes, limits) =>
    Effect.suspend(() => {
      assert(server !== undefined)
      const { port } = server
      const prefix = `limits-${++stores}:`
      const one = Effect.gen(function* () {
        // A separate connection.
        const context = yield* Layer.build(
          RateLimiter.layer.pipe(
            Layer.provide(RateLimiter.layerStoreRedis({ prefix })),
            Layer.provide(Layer.fresh(NodeRedis.layer({ socket: { host: "127.0.0.1", port } })))
          )
        )
        return yield* Effect.provideContext(limiterOver(limits), context)
      })
      return Effect.orDie(Effect.forEach(Array.from({ length: processes }), () => one))
    })
  )
})

describe("a lost store", () => {
  const failed = new RateLimiter.RateLimiterError({
    reason: new RateLimiter.RateLimitStoreError({ message: "connection refused" })
  })

  /** A limiter over a store with controlled answers. */
  const setup = (options: LimitStore.StoreOptions = {}) =>
    Effect.gen(function* () {
      const events: Array<string> = []
      const store = { asked: 0, answer: Effect.fail(failed) as Consumed }
      const Events = ResilienceEvents.layerHandler((event) =>
        // Only the store publishes events here.
        Effect.sync(() => events.push((event as LimiterEvent)._tag))
      )
      const context = yield* Layer.build(Events)
      const real = yield* Layer.build(Layer.provide(RateLimiter.layer, RateLimiter.layerStoreMemory))
      const rateLimiter = RateLimiter.RateLimiter.of({
        ...Context.get(real, RateLimiter.RateLimiter),
        consume: () => Effect.suspend(() => (store.asked++, store.answer))
      })
      const limiter = yield* CallLimiter.make({
        limits: { "vendor/m": { requestsPerMinute: 2 } },
        store: yield* Effect.provideService(LimitStore.make(options), RateLimiter.RateLimiter, rateLimiter)
      })
      const acquire = Effect.provideContext(limiter.acquire(ask({ maxWait: 0 })), context)
      return { acquire, store, events }
    })
  type Consumed = ReturnType<RateLimiter.RateLimiter["consume"]>
  const ready: Consumed = Effect.succeed({
    delay: Duration.zero,
    limit: 2,
    remaining: 1,
    resetAfter: Duration.zero
  })

  it.effect("leaves each process with its own limits, is not used for a while, and is reported once", () =>
    Effect.gen(function* () {
      const { acquire, store, events } = yield* setup()
      yield* acquire
      yield* TestClock.adjust(LimitStore.pause - 1)
      yield* acquire
      yield* Effect.flip(acquire)
      assert.strictEqual(store.asked, 1)
      yield* TestClock.adjust("2 minutes")
      yield* acquire
      assert.strictEqual(store.asked, 2)
      assert.deepStrictEqual(events, ["LimitStoreLost"])
      yield* TestClock.adjust(LimitStore.pause)
      store.answer = ready
      yield* acquire
      assert.deepStrictEqual(events, ["LimitStoreLost", "LimitStoreBack"])
    })
  )

  it.effect("includes a store that does not answer in time", () =>
    Effect.gen(function* () {
      for (const [timeout, millis] of [
        [undefined, 1_000],
        ["3 seconds", 3_000]
      ] as const) {
        const { acquire, store, events } = yield* setup({ timeout })
        store.answer = Effect.never
        const call = yield* Effect.forkChild(acquire)
        yield* TestClock.adjust(millis - 1)
        assert.isUndefined(call.pollUnsafe())
        yield* TestClock.adjust(1)
        yield* Fiber.join(call)
        assert.deepStrictEqual(events, ["LimitStoreLost"])
      }
    })
  )

  it.effect("includes a store that throws", () =>
    Effect.gen(function* () {
      const { acquire, store, events } = yield* setup()
      store.answer = Effect.die(new Error("a mistake in a driver"))
      yield* acquire
      assert.deepStrictEqual(events, ["LimitStoreLost"])
    })
  )

  it("rejects a timeout out of range", () => {
    assert.throws(() => LimitStore.make({ timeout: 0 }), InvalidOption, "LimitStore: timeout")
  })
})

it.effect("a call that waits for the store delays its process, so that priorities hold", () =>
  Effect.gen(function* () {
    const context = yield* Layer.build(Layer.provide(RateLimiter.layer, RateLimiter.layerStoreMemory))
    const limits = { requestsPerMinute: 2 }
    const [other, limiter] = yield* Effect.provideContext(
      Effect.all([limiterOver(limits), limiterOver(limits)]),
      context
    )
    yield* other.acquire(ask())
    yield* other.acquire(ask())
    const order: Array<string> = []
    const call = (name: string, priority: "interactive" | "background") =>
      Effect.forkChild(
        Effect.andThen(
          limiter.acquire(ask({ priority })),
          Effect.sync(() => order.push(name))
        )
      )
    yield* call("first", "background")
    yield* TestClock.adjust("1 second")
    yield* call("late", "background")
    yield* call("now", "interactive")
    yield* TestClock.adjust("10 minutes")
    assert.deepStrictEqual(order, ["first", "now", "late"])
  })
)
