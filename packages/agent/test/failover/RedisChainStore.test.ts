import * as NodeRedis from "@effect/platform-node/NodeRedis"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as RedisChainStore from "#agent/failover/chain/RedisChainStore"
import { InvalidOption } from "@outlast/resilience"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { Redis } from "effect/persistence"
import { contract } from "./ChainStoreContract.ts"
import { a, b, pass, quiet, start, until, watched } from "./chainProcess.ts"
import * as RedisServer from "../../../../test/services/Redis.ts"

const hour = 3_600_000
const connection = ({ port }: RedisServer.RedisServer) =>
  NodeRedis.layer({ socket: { host: "127.0.0.1", port }, disableOfflineQueue: true })

describe.skipIf(RedisServer.missing !== undefined)("RedisChainStore", () => {
  const scope = Effect.runSync(Scope.make())
  let server: RedisServer.RedisServer | undefined
  let sets = 0
  beforeAll(async () => {
    server = await Effect.runPromise(Scope.provide(RedisServer.running, scope))
  })
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  const storeOf = (options: { readonly prefix?: string } = {}) => {
    if (server === undefined) throw new Error("Redis is not running")
    return RedisChainStore.make({ redis: connection(server), ...options })
  }

  contract(
    "RedisChainStore",
    Effect.sync(() => {
      const prefix = `chain-${++sets}`
      return [storeOf({ prefix }), storeOf({ prefix })]
    })
  )

  it.effect("announces changes, so that other processes do not wait for their next round", () =>
    Effect.gen(function* () {
      const store = storeOf({ prefix: "announced" })
      const one = yield* start(store)
      const other = yield* start(store)
      // No time passes, so only the announcement can deliver it. A process that has not subscribed yet misses it.
      let round = 0
      yield* until(() => {
        if (round++ % 50 === 0) {
          one.resetAll()
          one.fail(a, hour)
        }
        return other.left(a) === hour
      })
      assert.strictEqual(other.left(a), hour)
      one.resetAll()
      yield* until(() => other.left(a) === undefined)
      assert.isUndefined(other.left(a))
    })
  )

  it.effect("separates sets by their prefix, and expires a set without writes", () =>
    Effect.gen(function* () {
      const one = yield* storeOf({ prefix: "one" }).open
      const two = yield* storeOf({ prefix: "two" }).open
      const three = yield* storeOf().open
      yield* one.swap("id", undefined, "1")
      yield* three.swap("id", undefined, "3")
      assert.strictEqual((yield* two.load).size, 0)
      if (server === undefined) return
      const redis = Context.get(yield* Layer.build(connection(server)), Redis.Redis)
      const left = yield* redis.send<number>("PTTL", "one")
      assert.isTrue(left > 30 * 24 * hour && left <= 31 * 24 * hour, String(left))
      assert.strictEqual(yield* redis.send<string>("HGET", "outlast:chain", "id"), "3")
    })
  )

  it("rejects an empty prefix", () => {
    assert.throws(() => storeOf({ prefix: "" }), InvalidOption)
  })

  it.effect("may be down at the start, be killed and return empty: processes write their records again", () =>
    Effect.gen(function* () {
      const own = yield* RedisServer.running
      yield* own.kill
      const store = watched(RedisChainStore.make({ redis: connection(own) }))
      const one = yield* start(store)
      const other = yield* start(store)
      assert.strictEqual(one.tags(), "ChainStoreDown")
      one.fail(a, hour)
      const settled = (condition: () => boolean): Effect.Effect<void> =>
        Effect.suspend(() =>
          condition() ? Effect.void : Effect.andThen(pass(store, 500), settled(condition))
        )

      yield* own.start
      yield* settled(() => other.left(a) !== undefined && one.tags() === "ChainStoreDown ChainStoreUp")

      yield* own.kill
      yield* settled(() => one.tags().endsWith("Down"))
      other.fail(b, Infinity)
      one.succeed(a, 0)
      yield* pass(store, 5_000)
      assert.isDefined(other.left(a))
      assert.isUndefined(one.left(b))

      yield* own.start
      yield* settled(() => one.left(b) === Infinity && other.left(a) === undefined)
      yield* quiet(store)
      const count = (tag: string) => one.events.filter(({ _tag }) => _tag === tag).length
      assert.deepStrictEqual([count("ChainStoreDown"), count("ChainStoreUp")], [2, 2])
    })
  )
})
