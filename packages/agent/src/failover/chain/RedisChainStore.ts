/**
 * A `ChainStore` in Redis. Processes on several machines learn each other's cooldowns, successes and resets at once,
 * and a restarted process finds them again.
 *
 * One hash has a field for each scope. A script compares, sets and announces the change. A process that missed the
 * announcement reads the hash again within a second. The hash expires after 31 days without a write.
 *
 * **When Redis is down** or has lost its data, each process uses its local cooldowns. When Redis is back, they write
 * what is missing (see `ChainSync`).
 *
 * **Example**
 *
 * ```ts
 * const store = RedisChainStore.make({ redis: NodeRedis.layer({ url: "redis://127.0.0.1:6379" }) })
 * ```
 */
import { Context, Effect, Layer, Stream } from "effect"
import { Redis } from "effect/persistence"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../../options/Kind.ts"
import type { ChainStore, Connection } from "./ChainStore.ts"
import { ChainStoreError } from "./ChainStore.ts"

export interface Options<E> {
  /** Layer of the connection, built in the background and again after a failure. */
  readonly redis: Layer.Layer<Redis.Redis, E>
  /** Name of the hash and of the channel. Use one for each set of chains. Default "outlast:chain". */
  readonly prefix?: string | undefined
}

export const defaults = { prefix: "outlast:chain" } as const

const checks: Check.Checks<Options<unknown>> = {
  redis: Check.is.required(Kind.layer("a Layer of Redis, for example NodeRedis.layer({ url })")),
  prefix: Kind.name
}

/**
 * Throws an `InvalidOption` (a `RangeError`) for a value that is not a Layer, an empty prefix and an unknown option.
 */
export const make = <E>(options: Options<E>): ChainStore => {
  Check.fields("RedisChainStore", options, checks)
  const { redis, prefix = defaults.prefix } = options
  return {
    open: Layer.build(redis).pipe(
      Effect.mapError((cause) => new ChainStoreError({ operation: "open", cause })),
      Effect.map((context): Connection => {
        const connection = Context.get(context, Redis.Redis)
        const failed = (operation: "load" | "swap") => (cause: unknown) =>
          new ChainStoreError({ operation, cause })
        return {
          load: Effect.map(connection.eval(loadScript)(prefix), toMap).pipe(Effect.mapError(failed("load"))),
          swap: (id, expected = "", value = "") =>
            Effect.map(connection.eval(swapScript)(prefix, id, expected, value), (done) => done === 1).pipe(
              Effect.mapError(failed("swap"))
            ),
          changes: Stream.unwrap(Effect.map(connection.subscribe(prefix), Stream.fromQueue))
        }
      })
    )
  }
}

/** Converts a list in which each field is followed by its value. */
const toMap = (flat: ReadonlyArray<string>): ReadonlyMap<string, string> => {
  const values = new Map<string, string>()
  for (let at = 0; at + 1 < flat.length; at += 2) values.set(flat[at] ?? "", flat[at + 1] ?? "")
  return values
}

/** Loads all fields with a script: the reply of a plain command depends on the client's protocol version. */
const loadScript = Redis.script((prefix: string) => [prefix], {
  numberOfKeys: 1,
  lua: `return redis.call('HGETALL', KEYS[1])`
}).withReturnType<ReadonlyArray<string>>()

const swapScript = Redis.script(
  (prefix: string, id: string, expected: string, value: string) => [prefix, id, expected, value],
  {
    numberOfKeys: 1,
    lua: `
      local id, expected, value = ARGV[1], ARGV[2], ARGV[3]
      if (redis.call('HGET', KEYS[1], id) or '') ~= expected then return 0 end
      if value == '' then redis.call('HDEL', KEYS[1], id) else redis.call('HSET', KEYS[1], id, value) end
      redis.call('PEXPIRE', KEYS[1], ${31 * 24 * 60 * 60 * 1_000})
      redis.call('PUBLISH', KEYS[1], id)
      return 1`
  }
).withReturnType<number>()
