/**
 * A key while it is in use: the value that holds now, and, where its source can do that, how to get a newer one.
 *
 * Values have versions. Whoever was refused says which version that was: if a newer one is there already, it has
 * only to try again; if not, it starts a refresh or joins the one that is under way. So a hundred calls that are
 * refused at once cost one refresh, and a late 401 about an old value costs none.
 *
 * A refresh belongs to nobody: a caller that is interrupted leaves it to the others, and it ends with the scope of
 * the key. It runs in the context in which the key was made, untouched by the deadline of the call that started it.
 *
 * **What it does not do.** It does not know what a refused key means: `renew` says whether there is another value,
 * the owner of the call decides that the key is out. It keeps no value but the newest and stores none.
 *
 * **Example** (Once more with a newer key)
 *
 * ```ts
 * const seen = key.version
 * attempt(key.current).pipe(
 *   Effect.catchReason("ProviderFailure", "Auth", (_, failure) =>
 *     Effect.flatMap(key.renew?.(seen) ?? Effect.succeed(false), (newer) =>
 *       newer ? attempt(key.current) : Effect.fail(failure)
 *     )
 *   )
 * )
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
  /** The newest value. */
  readonly current: Redacted.Redacted
  /** Of {@link current}; the first is 1. */
  readonly version: number
  /**
   * To be run before `current` is used: refreshes a value that expires soon, and does nothing otherwise. It never
   * fails: a value that could not be refreshed is used as it is. Absent for a key that cannot expire.
   */
  readonly ready: Effect.Effect<void> | undefined
  /**
   * Asks for a value that is newer than the version that was refused. `false`: there is none, because the refresh
   * failed or gave the same value again. Absent for a key that cannot be refreshed.
   */
  readonly renew: ((seen: number) => Effect.Effect<boolean>) | undefined
}

/**
 * Milliseconds between two refreshes of a value that expires soon: while its server is down, not every call waits for
 * it.
 */
export const pause = 10_000

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** Loads the key. Fails when it is not there. */
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

    /** Ends when the refresh that is under way, or else a new one, has ended. */
    const joined: Effect.Effect<void> = Effect.suspend(() => {
      if (closed) return Effect.void
      if (underWay === undefined) {
        const fiber = Effect.runForkWith(context)(refresh)
        // A `load` without a pause has ended by now.
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
