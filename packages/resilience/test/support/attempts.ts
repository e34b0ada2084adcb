/** Scripted attempts under virtual time. */
import { Clock, Data, Effect, Fiber } from "effect"
import type { Duration, Exit } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, ResilienceEvents, Retry } from "@outlast/resilience"

/** A retryable failure, optionally with a class and a wait. */
export class Busy extends Data.TaggedError("Busy")<{
  readonly n?: number
  readonly class?: string
  readonly wait?: Duration.Input
}> {}

/** A failure that is not retryable. */
export class Malformed extends Data.TaggedError("Malformed") {}

export const classify = (error: Busy | Malformed): Retry.Verdict =>
  error._tag === "Busy" ? Retry.again({ class: error.class, retryAfter: error.wait }) : Retry.stop

/** 1, 2, 4, 8 … seconds, up to 30, without jitter. */
export const exact = Backoff.exponential({ initial: "1 second", factor: 2, cap: "30 seconds", jitter: 0 })

export const common = { classify, backoff: exact } as const

/** Opens for ten seconds after two consecutive failures, and closes on the first success. */
export const quick = CircuitBreaker.layer({
  trip: { consecutive: { failures: 2 } },
  open: Backoff.constant("10 seconds"),
  halfOpen: { successes: 1 }
})

export const busy = Effect.fail(new Busy({}))

/** Each attempt ends as scripted, and the last entry repeats. `at` holds the start times. */
export const scripted = <A, E, R>(
  ...script: readonly [Effect.Effect<A, E, R>, ...Array<Effect.Effect<A, E, R>>]
) => {
  const at: Array<number> = []
  const attempt = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    at.push(now)
    return script[Math.min(at.length, script.length) - 1] ?? script[0]
  })
  return { at, attempt }
}

/** The result of an effect within this virtual time, and the time of its end. */
export const settle = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  within: Duration.Input = "1 hour"
): Effect.Effect<{ readonly exit: Exit.Exit<A, E>; readonly after: number }, never, R> =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    const fiber = yield* Effect.exit(effect).pipe(
      Effect.flatMap((exit) => Effect.map(Clock.currentTimeMillis, (end) => ({ exit, after: end - start }))),
      Effect.forkChild({ startImmediately: true })
    )
    yield* TestClock.adjust(within)
    return yield* Fiber.join(fiber)
  })

/** The failure of an effect that must fail within this virtual time. */
export const failureOf = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  within: Duration.Input = "1 hour"
): Effect.Effect<E & { readonly after: number }, never, R> =>
  Effect.gen(function* () {
    const { exit, after } = yield* settle(Effect.flip(effect), within)
    if (exit._tag === "Failure") return yield* Effect.die(exit.cause)
    return Object.assign(exit.value as E & object, { after })
  })

/** Runs an effect and collects the events that it publishes. */
export const recorded = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const events: Array<ResilienceEvents.ResilienceEvent> = []
  const layer = ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push(event)))
  return Effect.map(Effect.provide(effect, layer), (value) => ({ value, events }))
}
