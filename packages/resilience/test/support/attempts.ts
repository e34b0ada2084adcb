/** Attempts that end as a script says, under virtual time. */
import { Clock, Data, Effect, Fiber } from "effect"
import type { Duration, Exit } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, ResilienceEvents, Retry } from "@outlast/resilience"

/** A failure that passes, of a class and with a wait if so wanted. */
export class Busy extends Data.TaggedError("Busy")<{
  readonly n?: number
  readonly class?: string
  readonly wait?: Duration.Input
}> {}

/** A failure that does not pass. */
export class Malformed extends Data.TaggedError("Malformed") {}

export const classify = (error: Busy | Malformed): Retry.Verdict =>
  error._tag === "Busy" ? Retry.again({ class: error.class, retryAfter: error.wait }) : Retry.stop

/** 1, 2, 4, 8 … seconds, up to 30, without jitter. */
export const exact = Backoff.exponential({ initial: "1 second", factor: 2, cap: "30 seconds", jitter: 0 })

export const common = { classify, backoff: exact } as const

/** Opens for ten seconds after two failures in a row, and closes with the first success. */
export const quick = CircuitBreaker.layer({
  trip: { consecutive: { failures: 2 } },
  open: Backoff.constant("10 seconds"),
  halfOpen: { successes: 1 }
})

export const busy = Effect.fail(new Busy({}))

/** Each attempt ends as the script says, the last entry for ever; `at` has the times at which they began. */
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

/** How an effect ends within so much virtual time, and when. */
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

/** The failure of an effect that must fail with it within so much virtual time. */
export const failureOf = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  within: Duration.Input = "1 hour"
): Effect.Effect<E & { readonly after: number }, never, R> =>
  Effect.gen(function* () {
    const { exit, after } = yield* settle(Effect.flip(effect), within)
    if (exit._tag === "Failure") return yield* Effect.die(exit.cause)
    return Object.assign(exit.value as E & object, { after })
  })

/** Runs an effect and keeps the events that it publishes. */
export const recorded = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const events: Array<ResilienceEvents.ResilienceEvent> = []
  const layer = ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push(event)))
  return Effect.map(Effect.provide(effect, layer), (value) => ({ value, events }))
}
