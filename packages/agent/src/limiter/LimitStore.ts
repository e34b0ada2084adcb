/**
 * Shares limits between processes.
 *
 * The store is effect's own `RateLimiter` (`effect/persistence`), in memory or over Redis. It has one bucket for the
 * calls and one for the tokens of a key and model. Each bucket holds one minute's limit and refills evenly. In
 * addition each process enforces the whole limit with its own exact window; the buckets limit all processes together.
 * A full bucket lets up to twice its limit through in its first minute, like the buckets of providers.
 *
 * An amount is reserved when it is taken: a waiting process keeps its place before later ones, in any process.
 *
 * A store that fails, or does not answer within the time limit, is not used for {@link pause} milliseconds. Meanwhile
 * each process uses only its own window. Both changes are published (`LimitStoreLost`, `LimitStoreBack`).
 *
 * **What it does not do.** It shares neither concurrency nor limits that providers name. A process that died would
 * never return its concurrency permits, and every process learns from its own answers.
 *
 * **Example** (A limit shared by all workers)
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
import type { Clock } from "effect"
import { Duration, Effect } from "effect"
import { RateLimiter } from "effect/persistence"
import { ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"
import * as Redaction from "../secrets/Redaction.ts"
import type { LimiterEvent } from "./LimiterEvent.ts"

export interface LimitStore {
  /**
   * Takes an amount from a minute's limit. Returns the milliseconds until it may be used: 0 is now. A negative amount
   * gives back. Never fails: a lost store returns 0.
   */
  readonly take: (name: string, perMinute: number, amount: number) => Effect.Effect<number>
}

export interface StoreOptions {
  /** Maximum time for an answer of the store. Default 1 second. */
  readonly timeout?: Duration.Input | undefined
}

export const defaults = { timeout: "1 second" } as const

/** Milliseconds for which a lost store is not used. */
export const pause = 5_000

const around = MissingService.get(RateLimiter.RateLimiter, "RateLimiter", "RateLimiter.layer")

/**
 * Creates a store over the `RateLimiter` of the context. Throws an `InvalidOption` (a `RangeError`) for an invalid
 * timeout.
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
          Effect.catchDefect(() => Effect.fail({ message: "unexpected error" })),
          Effect.matchEffect({
            onFailure: ({ message }) => lost(`The limit store failed: ${Redaction.scrub(message, 200)}.`),
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

const publish = ResilienceEvents.publishNow<LimiterEvent>

const nowOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
