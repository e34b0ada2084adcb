/**
 * The behaviour of the servers behind a chain, as data. A world is JSON: `npm run simulate -- --world FILE.json`.
 * All times are milliseconds, all shares from 0 to 1.
 */
import { Schema } from "effect"

const atLeast = (minimum: number) => Schema.Finite.check(Schema.isGreaterThanOrEqualTo(minimum))
const Millis = atLeast(0)
const Share = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/** A fixed time, a uniform one, or one with a long tail (log-normal). */
export const Spread = Schema.Union([
  Millis,
  Schema.Struct({ from: Millis, to: Millis }),
  Schema.Struct({ median: atLeast(1), p99: atLeast(1) })
])
export type Spread = typeof Spread.Type

/** A failed response of the server. */
export const Failing = Schema.Struct({
  /** An HTTP status, or a connection that breaks. */
  status: Schema.Union([
    Schema.Int.check(Schema.isBetween({ minimum: 400, maximum: 599 })),
    Schema.Literal("reset")
  ]),
  /** The header `retry-after`. Default: none. */
  retryAfter: Schema.optionalKey(Millis)
})
export type Failing = typeof Failing.Type

export const Server = Schema.Struct({
  /** Milliseconds until the end of an answer. */
  answer: Spread,
  /** The part of that time until the first token of a stream. Default 0.2. */
  firstToken: Schema.optionalKey(Share),
  /** Streams whose first token comes late, by chance: `after` milliseconds. Default: none. */
  slowFirstToken: Schema.optionalKey(Schema.Struct({ share: Share, after: Spread })),
  /** Requests that fail by chance. Default: none. */
  fails: Schema.optionalKey(
    Schema.Struct({
      share: Share,
      /** Milliseconds until a failure. */
      after: Spread,
      /** One of these, with equal probability. */
      as: Schema.NonEmptyArray(Failing)
    })
  ),
  /** The share of requests that are accepted and never answered. Default 0. */
  hangs: Schema.optionalKey(Share),
  /** In these times every request fails at once, or hangs. Default: none. */
  outages: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        from: Millis,
        /** Default: no end. */
        to: Schema.optionalKey(Millis),
        as: Schema.Union([Failing, Schema.Literal("hang")]),
        /** Milliseconds until a failure. Default 50. */
        after: Schema.optionalKey(Spread)
      })
    )
  ),
  /** A bucket of `requests`, refilled evenly in `per`. Requests above it get 429. Default: no limit. */
  limit: Schema.optionalKey(
    Schema.Struct({
      requests: Count,
      per: atLeast(1),
      /** The owner of a bucket. Default `key`. */
      scope: Schema.optionalKey(Schema.Literals(["key", "vendor"])),
      /** The header `retry-after`. Default: the time until the next request is accepted, in whole seconds. */
      retryAfter: Schema.optionalKey(Millis)
    })
  ),
  /**
   * Concurrent requests. Further requests are shed at once, or wait. A cancelled request keeps its slot until its
   * end. Default: no limit.
   */
  capacity: Schema.optionalKey(
    Schema.Struct({
      slots: Count,
      /** Requests that wait longer than this are shed. Default 0: no request waits. */
      queue: Schema.optionalKey(Millis),
      as: Failing
    })
  ),
  /** These keys of the vendor, counted from 1, are refused with 401. Default: none. */
  deadKeys: Schema.optionalKey(Schema.Array(Count))
})
export type Server = typeof Server.Type

export const World = Schema.Struct({
  about: Schema.optionalKey(Schema.String),
  /** The main server of this world. */
  main: Server,
  /** The server of another vendor. Default: one that answers every request as fast as `main` does. */
  other: Schema.optionalKey(Server),
  /** True when the program has a health check, before each attempt, that never returns. Default `false`. */
  healthCheckHangs: Schema.optionalKey(Schema.Boolean)
})
export type World = typeof World.Type

/** The server of an entry of a chain. */
export const serverOf = (world: World, role: "main" | "other"): Server =>
  role === "main" ? world.main : (world.other ?? { answer: world.main.answer })

/** The time for a draw in [0, 1). */
export const spread = (time: Spread, draw: number): number => {
  if (typeof time === "number") return time
  if ("from" in time) return time.from + (time.to - time.from) * draw
  const sigma = Math.log(time.p99 / time.median) / quantile(0.99)
  return time.median * Math.exp(sigma * quantile(Math.min(Math.max(draw, 0.001), 0.999)))
}

/** The quantile of a logistic distribution, which is close to a normal one and has a formula. */
const quantile = (p: number): number => Math.log(p / (1 - p)) / 1.702
