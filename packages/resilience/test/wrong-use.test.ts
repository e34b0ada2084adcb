/** The error messages for wrong use of this package, and the line they point at. */
import { Effect, Layer, Stream } from "effect"
import { assert, it } from "vitest"
import {
  Alerts,
  AttemptLimits,
  Backoff,
  CircuitBreaker,
  ConnectionMonitor,
  Deadline,
  FailureStreaks,
  HealthWindow,
  Metrics,
  ResilienceEvents,
  Retry,
  RetryBudget
} from "@outlast/resilience"
import * as RedisCircuitStore from "#resilience/breaker/RedisCircuitStore"

/** Input from plain JavaScript, whatever the types require. */
const untyped = (value: unknown): never => value as never
/** Options from a file. */
const json = (text: string): never => untyped(JSON.parse(text))

/** Runs an effect whose options are checked only when it is built. */
const built = (effect: Effect.Effect<unknown, unknown, never>): unknown => Effect.runSync(effect)
const layered = <A>(layer: Layer.Layer<A>): unknown => built(Effect.scoped(Layer.build(layer)))

const classify = () => Retry.stop
const breaker = CircuitBreaker.make()
const guardedBy = (f: (service: CircuitBreaker.Service) => unknown): unknown =>
  built(Effect.scoped(Effect.map(breaker, f)))
const monitored = (f: (service: ConnectionMonitor.Service) => Effect.Effect<unknown, unknown, never>) =>
  built(Effect.flatMap(ConnectionMonitor.make(), f))

const rows: ReadonlyArray<readonly [wrong: () => unknown, message: string]> = [
  // Retry
  [() => Retry.with(untyped(3)), "Retry: options must be an object, got 3"],
  [() => Retry.with(untyped(null)), "Retry: options must be an object, got null"],
  [() => Retry.with(untyped(() => 1)), "Retry: options must be an object, got a function"],
  [
    () => Retry.with(untyped({ classify, retries: 3 })),
    `Retry: "retries" is not an option. Options: classify, attempts, attemptsPerClass, attemptPools, backoff, retryAfter, maxRetryAfter, retryAfterJitter, deadline, budget, breaker, name`
  ],
  [
    () => Retry.with({ classify, deadline: untyped("5 secs") }),
    `Retry: deadline must be a finite duration of at least 0, got "5 secs"`
  ],
  [
    () => Retry.with({ classify, attempts: untyped("3") }),
    `Retry: attempts must be an integer of at least 1, got "3"`
  ],
  [
    () => Retry.with({ classify, attemptsPerClass: untyped([3]) }),
    "Retry: attemptsPerClass must be an object, got [3]"
  ],
  [
    () => Retry.with({ classify, breaker: untyped("anthropic") }),
    `Retry: breaker must be an object, got "anthropic"`
  ],
  [() => Retry.with({ classify, breaker: untyped({}) }), "Retry: breaker.circuit is missing"],
  [
    () => Retry.with({ classify, breaker: { circuit: "api", classify: untyped("all") } }),
    `Retry: breaker.classify must be a function (exit) => Outcome, got "all"`
  ],
  [
    () => Retry.with({ classify, backoff: json(`{ "_tag": "Exponential", "initial": "1 second" }`) }),
    "Retry: backoff: factor is missing"
  ],
  [
    () => Retry.with({ classify })(untyped(() => fetch("http://localhost"))),
    "Retry: effect must be an Effect, got a function"
  ],
  [
    () => Retry.with(untyped(Promise.resolve()), { classify }),
    "Retry: effect must be an Effect, got a promise"
  ],
  [() => Retry.withStream({ classify })(untyped([1, 2])), "Retry: stream must be a Stream, got [1,2]"],
  // Backoff and counters of attempts
  [
    () => Backoff.exponential(json(`{ "base": "1 second" }`)),
    `Backoff: "base" is not an option. Options: initial, factor, cap, jitter`
  ],
  [
    () => Backoff.exponential({ initial: untyped("1 sec") }),
    `Backoff: initial must be a duration from 0 to 365d, got "1 sec"`
  ],
  [
    () => Backoff.sequence(untyped("1 second")),
    `Backoff: delays must be a list of at least one duration, got "1 second"`
  ],
  [() => Backoff.constant("1 second", untyped(0.5)), "Backoff: options must be an object, got 0.5"],
  [
    () => Backoff.schedule(untyped("1 second")),
    `Backoff: spec must be a Backoff, for example Backoff.exponential(), got "1 second"`
  ],
  [() => AttemptLimits.make(untyped({})), "AttemptLimits: perClass is missing"],
  [
    () => AttemptLimits.make({ perClass: json(`{ "RateLimit": "5" }`) }),
    `AttemptLimits: perClass.RateLimit must be an integer of at least 1, got "5"`
  ],
  [
    () => FailureStreaks.make(untyped({ size: 5 })),
    `FailureStreaks: "size" is not an option. Options: capacity`
  ],
  [
    () => RetryBudget.layer(json(`{ "ratio": "20%" }`)),
    `RetryBudget: ratio must be a finite number from 0 to 10, got "20%"`
  ],
  [
    () => RetryBudget.make(untyped({ refill: "6 seconds" })),
    `RetryBudget: "refill" is not an option. Options: paidBy, ratio, burst, refillEvery, window, inFlight`
  ],
  [
    () => Deadline.within("1 minute")(untyped(() => Effect.void)),
    "Deadline: effect must be an Effect, got a function"
  ],
  [() => Deadline.enforce(untyped(Promise.resolve())), "Deadline: effect must be an Effect, got a promise"],
  // CircuitBreaker
  [
    () => layered(CircuitBreaker.layer(untyped({ failures: 3 }))),
    `CircuitBreaker: "failures" is not an option. Options: trip, halfOpen, open, restart, maxRetryAfter, maxCircuits, idleAfter, store, describe`
  ],
  [
    () => layered(CircuitBreaker.layer({ trip: json(`{ "consecutive": 5 }`) })),
    "CircuitBreaker: trip.consecutive must be false, or an object, got 5"
  ],
  [
    () => layered(CircuitBreaker.layer({ trip: { rate: untyped({ share: 0.5 }) } })),
    `CircuitBreaker: "trip.rate.share" is not an option. Options: window, minimumCalls, failures, slow, slowerThan`
  ],
  [
    () => layered(CircuitBreaker.layer({ open: untyped("10 seconds") })),
    `CircuitBreaker: open must be a Backoff, for example Backoff.exponential(), got "10 seconds"`
  ],
  [
    () => layered(CircuitBreaker.layer({ store: untyped("redis://localhost") })),
    `CircuitBreaker: store must be a CircuitStore, for example RedisCircuitStore.make({ redis }), got "redis://localhost"`
  ],
  [
    () => RedisCircuitStore.make(untyped({ url: "redis://localhost" })),
    `RedisCircuitStore: "url" is not an option. Options: redis, prefix, onStoreError, timeout, syncEvery, now`
  ],
  [
    () => RedisCircuitStore.make({ redis: untyped("redis://localhost") }),
    `RedisCircuitStore: redis must be a Layer, for example NodeRedis.layer({ url }), got "redis://localhost"`
  ],
  [
    () => guardedBy((service) => service.execute(untyped(undefined))),
    "CircuitBreaker: names must be the name of a circuit, or a list of names, got undefined"
  ],
  [
    () => guardedBy((service) => service.execute("")),
    'CircuitBreaker: names must be the name of a circuit, or a list of names, got ""'
  ],
  [
    () => guardedBy((service) => service.execute("api", untyped(classify))),
    "CircuitBreaker: options must be an object, got a function"
  ],
  [
    () => guardedBy((service) => service.execute("api")(untyped(Promise.resolve()))),
    "CircuitBreaker: effect must be an Effect, got a promise"
  ],
  [
    () => guardedBy((service) => service.executeStream("api")(untyped(Effect.void))),
    "CircuitBreaker: stream must be a Stream, got an Effect"
  ],
  // A missing service
  [
    () => built(untyped(CircuitBreaker.execute("api")(Effect.void))),
    "CircuitBreaker is not provided. Provide CircuitBreaker.layer()."
  ],
  [
    () => built(untyped(Stream.runDrain(CircuitBreaker.executeStream("api")(Stream.empty)))),
    "CircuitBreaker is not provided. Provide CircuitBreaker.layer()."
  ],
  [
    () => built(untyped(Retry.with(Effect.void, { classify, budget: true }))),
    "RetryBudget is not provided. Provide RetryBudget.layer()."
  ],
  [
    () => built(untyped(Retry.with(Effect.void, { classify, breaker: { circuit: "api" } }))),
    "CircuitBreaker is not provided. Provide CircuitBreaker.layer()."
  ],
  // Health
  [
    () => HealthWindow.spec(untyped({ span: "5m" })),
    `HealthWindow: span must be a finite duration of at least 1ms, got "5m"`
  ],
  [
    () => built(ConnectionMonitor.make(untyped({ pingEvery: "30 seconds" }))),
    `ConnectionMonitor: "pingEvery" is not an option. Options: window, interval, timeout, cooldown, maxIdle, idleFor, counts`
  ],
  [
    () => built(ConnectionMonitor.make({ window: untyped(20) })),
    "HealthWindow: options must be an object, got 20"
  ],
  [
    () =>
      monitored((monitor) => Effect.scoped(monitor.register("api", { ping: untyped(() => Effect.void) }))),
    "ConnectionMonitor: ping must be an Effect, got a function"
  ],
  [
    () => monitored((monitor) => monitor.record("api", untyped("failed"))),
    `ConnectionMonitor: outcome must be "success" or "failure", got "failed"`
  ],
  [
    () => monitored((monitor) => monitor.guard("api")(untyped(() => Effect.void))),
    "ConnectionMonitor: effect must be an Effect, got a function"
  ],
  // Telemetry
  [
    () => layered(Alerts.layer(untyped({ threshold: 5 }))),
    `Alerts: "threshold" is not an option. Options: failures, window, clearBelow, maxKeys, isFailure, keyOf, onAlert`
  ],
  [
    () => layered(Alerts.layer({ onAlert: untyped(Effect.void) })),
    "Alerts: onAlert must be a function (alert) => Effect<void>, got an Effect"
  ],
  [
    () => layered(Metrics.layer({ attemptsOf: untyped(3) })),
    "Metrics: attemptsOf must be a function (event) => number | undefined, got 3"
  ],
  [
    () => layered(ResilienceEvents.layer(untyped(100))),
    "ResilienceEvents: options must be an object, got 100"
  ],
  [
    () => ResilienceEvents.layerHandler(untyped(Effect.void)),
    "ResilienceEvents: handler must be a function (event) => Effect<void>, got an Effect"
  ],
  [
    () => ResilienceEvents.layerTap(untyped(() => Effect.void)),
    "ResilienceEvents: handler must be an Effect, got a function"
  ]
]

it.each(rows.map(([wrong, message]) => ({ wrong, message })))(
  "is refused: $message",
  ({ wrong, message }) => {
    try {
      wrong()
    } catch (error) {
      assert.strictEqual(error instanceof Error ? error.message : error, message)
      return
    }
    assert.fail("was accepted")
  }
)
