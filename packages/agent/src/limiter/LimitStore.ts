/**
 * Limits that several processes keep together.
 *
 * The store is effect's own `RateLimiter` (`effect/persistence`), in memory or over Redis: a bucket for the calls and
 * one for the tokens of a key and model, each as large as a minute's limit and filled evenly. Each process keeps the
 * whole limit in its own exact window besides; the buckets hold the processes together back. A bucket that was full
 * lets up to twice its limit through in its first minute, as those of the providers do.
 *
 * What is taken is reserved: a process that has to wait keeps its place before those that come later, in whichever
 * process they are.
 *
 * A store that fails, or does not answer within the time limit, is left alone for {@link pause}; meanwhile each
 * process goes by its own window only. That is published, once each way (`LimitStoreLost`, `LimitStoreBack`).
 *
 * **What it does not do.** It shares neither concurrency nor what providers say: a process that died would keep its
 * places for ever, and every process hears from its providers itself.
 *
 * **Example** (A limit that all workers keep together)
 *
 * ```ts
 * const Limiter = Layer.unwrap(
 *   Effect.map(LimitStore.make(), (store) => CallLimiter.layer({ limits, store }))
 * ).pipe(
 *   Layer.provide(RateLimiter.layer),
 *   Layer.provide(RateLimiter.layerStoreRedis({ prefix: "my-agents:" })),
 *   Layer.provide(NodeRedis.layer({ socket: { host: "localhost", port: 6379 } }))
 * )
 * ```
 */
import { Clock, Duration, Effect } from "effect"
import { RateLimiter } from "effect/persistence"
import { ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"
import * as Redaction from "../secrets/Redaction.ts"
import type { LimiterEvent } from "./LimiterEvent.ts"

export interface LimitStore {
  /**
   * Takes an amount of what a minute allows and says in how many milliseconds it may be used: 0 is now. A negative
   * amount gives back. Never fails: a store that is lost answers 0.
   */
  readonly take: (name: string, perMinute: number, amount: number) => Effect.Effect<number>
}

export interface StoreOptions {
  /** How long the store may take to answer. Default 1 second. */
  readonly timeout?: Duration.Input | undefined
}

export const defaults = { timeout: "1 second" } as const

/** Milliseconds for which a store that was lost is not asked. */
export const pause = 5_000

const around = MissingService.get(RateLimiter.RateLimiter, "RateLimiter", "RateLimiter.layer")

/**
 * A store over the `RateLimiter` of the context. Throws an `InvalidOption` (a `RangeError`) for a timeout out of range.
 */
export const make = (
  options: StoreOptions = {}
): Effect.Effect<LimitStore, never, RateLimiter.RateLimiter> => {
  Options.fields<StoreOptions>("LimitStore", options, { timeout: Kind.finiteDuration({ min: "1 millis" }) })
  const timeout = Duration.fromInputUnsafe(options.timeout ?? defaults.timeout)
  return Effect.map(around, (limiter) => {
    let lostUntil: number | undefined

    const lost = (message: string): Effect.Effect<number> =>
      Effect.clockWith((clock) => {
        const isNew = lostUntil === undefined
        lostUntil = nowOf(clock) + pause
        return Effect.as(isNew ? publish({ _tag: "LimitStoreLost", message }) : Effect.void, 0)
      })

    const answered = (delay: number): Effect.Effect<number> => {
      if (lostUntil === undefined) return Effect.succeed(delay)
      lostUntil = undefined
      return Effect.as(publish({ _tag: "LimitStoreBack" }), delay)
    }

    const take: LimitStore["take"] = (name, perMinute, amount) =>
      limiter
        .consume({
          key: name,
          algorithm: "token-bucket",
          onExceeded: "delay",
          window: "1 minute",
          limit: perMinute,
          tokens: amount
        })
        .pipe(
          Effect.timeoutOrElse({
            duration: timeout,
            orElse: () => Effect.fail({ message: `no answer within ${Duration.format(timeout)}` })
          }),
          Effect.catchDefect(() => Effect.fail({ message: "it broke" })),
          Effect.matchEffect({
            onFailure: ({ message }) => lost(`The store of the limits: ${Redaction.scrub(message, 200)}.`),
            onSuccess: ({ delay }) => answered(Duration.toMillis(delay))
          })
        )

    return {
      take: (name, perMinute, amount) =>
        Effect.clockWith((clock) =>
          lostUntil !== undefined && nowOf(clock) < lostUntil
            ? Effect.succeed(0)
            : take(name, perMinute, amount)
        )
    }
  })
}

const publish = (event: ResilienceEvents.NoTime<LimiterEvent>): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (at) => ResilienceEvents.publish({ ...event, at }))

const nowOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
