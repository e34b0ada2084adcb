/**
 * A key in use: its current value and, if the source supports it, the means to refresh it.
 *
 * Values have versions. A call whose key was refused passes the version that it used. If a newer value exists
 * already, the call only retries. Otherwise it starts a refresh, or joins the one in flight. A hundred calls that are
 * refused at the same time therefore cost one refresh, and a late 401 about an old value costs none.
 *
 * A refresh does not belong to the call that started it: it continues when that call is interrupted, and ends with
 * the scope of the key. The refresh runs in the context in which the key was made, so the deadline of that call does
 * not apply.
 *
 * **Limits.** A refused key is not marked as out here: `renew` reports whether there is another value, and the owner
 * of the call decides. Only the newest value is kept, and none is stored.
 *
 * **Example** (Once more with a newer key)
 *
 * ```ts
 * const withNewerKey = (key: LiveKey) => {
 *   const seen = key.version
 *   return attempt(key.current).pipe(
 *     Effect.catchReason("ProviderFailure", "Auth", (_, failure) =>
 *       Effect.flatMap(key.renew?.(seen) ?? Effect.succeed(false), (newer) =>
 *         newer ? attempt(key.current) : Effect.fail(failure)
 *       )
 *     )
 *   )
 * }
 * ```
 */
import type { Config, Scope } from "effect"
import { Cause, Effect, Exit, Fiber, Redacted } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import type { KeyEvent } from "./KeyEvent.ts"
import type { KeyError, KeySource, Refresh, Token } from "./KeySource.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface LiveKey {
  readonly name: string
  /** The newest value of the key. */
  readonly current: Redacted.Redacted
  /** Version of {@link current}; the first is 1. */
  readonly version: number
  /**
   * Refreshes a value that expires soon, and does nothing otherwise. Run it before each use of `current`. Never
   * fails: a value that could not be refreshed is used as it is. Absent for a key that cannot expire.
   */
  readonly ready: Effect.Effect<void> | undefined
  /**
   * Requests a value newer than the version `seen`, which the provider refused. Returns false when the refresh failed
   * or returned the same value again. Absent for a key that cannot be refreshed.
   */
  readonly renew: ((seen: number) => Effect.Effect<boolean>) | undefined
}

/**
 * Minimum milliseconds between two refreshes of a value that expires soon, so that not every call waits while its
 * server is down.
 */
export const pause = 10_000

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Loads the key. Fails when there is none. */
export const make = (source: KeySource): Effect.Effect<LiveKey, Config.ConfigError | KeyError, Scope.Scope> =>
  source.refresh === undefined
    ? Effect.map(source.load, (current) => ({
        name: source.name,
        current,
        version: 1,
        ready: undefined,
        renew: undefined
      }))
    : refreshed(source.name, source.refresh)

const refreshed = (name: string, { load, margin }: Refresh): Effect.Effect<LiveKey, KeyError, Scope.Scope> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<never>()
    let token: Token = yield* load
    let version = 1
    let underWay: Fiber.Fiber<void> | undefined
    let readyAgainAt = -Infinity
    let closed = false
    yield* Effect.addFinalizer(() => {
      closed = true
      return underWay === undefined ? Effect.void : Fiber.interrupt(underWay)
    })

    const take = (exit: Exit.Exit<Token, KeyError>): ResilienceEvents.NoTime<KeyEvent> | undefined => {
      if (Exit.isFailure(exit)) {
        const error = exit.cause.reasons.find(Cause.isFailReason)?.error
        return error && { _tag: "KeyNotRefreshed", key: name, why: error.why, message: error.message }
      }
      const isSame = Redacted.value(exit.value.value) === Redacted.value(token.value)
      token = exit.value
      if (!isSame) return { _tag: "KeyRefreshed", key: name, version: ++version }
      const message = `The key ${name} was refreshed to the value that it had.`
      return { _tag: "KeyNotRefreshed", key: name, why: "same", message }
    }

    const refresh: Effect.Effect<void> = Effect.exit(load).pipe(
      Effect.flatMap((exit) => {
        underWay = undefined
        const event = take(exit)
        return event === undefined ? Effect.void : ResilienceEvents.publishNow<KeyEvent>(event)
      })
    )

    /** Joins the refresh in flight, or starts one, and waits for its end. */
    const joined: Effect.Effect<void> = Effect.suspend(() => {
      if (closed) return Effect.void
      if (underWay === undefined) {
        const fiber = Effect.runForkWith(context)(refresh)
        // A `load` that never suspends has ended by now.
        if (fiber.pollUnsafe() === undefined) underWay = fiber
        return Effect.asVoid(Fiber.await(fiber))
      }
      return Effect.asVoid(Fiber.await(underWay))
    })

    const isDue = (now: number): boolean =>
      token.expiresAt !== undefined && now >= token.expiresAt - margin && now >= readyAgainAt

    return {
      name,
      get current() {
        return token.value
      },
      get version() {
        return version
      },
      ready: Effect.clockWith((clock) => {
        if (!isDue(clock.currentTimeMillisUnsafe())) return Effect.void
        return Effect.andThen(
          joined,
          Effect.sync(() => {
            readyAgainAt = clock.currentTimeMillisUnsafe() + pause
          })
        )
      }),
      renew: (seen) =>
        Effect.suspend(() =>
          version > seen ? Effect.succeed(true) : Effect.map(joined, () => version > seen)
        )
    }
  })
