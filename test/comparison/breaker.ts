/** Circuit breakers: Outlast's and that of `effect/persistence`, in the same situations. */
import { Duration, Effect, Exit, Fiber, Layer, Metric, Option, Schedule, Stream } from "effect"
import type { Scope } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { CircuitBreaker as EffectBreaker } from "effect/persistence"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, Metrics, ResilienceEvents } from "@outlast/resilience"
import { CircuitRefused } from "@outlast/resilience"
import { RedisCircuitStore } from "@outlast/resilience/redis"
import type { Row } from "./Row.ts"
import { cell } from "./Row.ts"

const name = "endpoint"
const fail = Effect.fail("down")
const tenSeconds = Backoff.constant("10 seconds")

/** Ours, opened by the first failure for ten seconds. */
const ours = (options: CircuitBreaker.Options = {}) =>
  CircuitBreaker.make({ trip: { consecutive: { failures: 1 } }, open: tenSeconds, ...options })

/** Theirs, the same way. */
const theirs = (
  options: Partial<Parameters<typeof EffectBreaker.make>[0]> = {}
): Effect.Effect<EffectBreaker.CircuitBreaker, never, Scope.Scope> =>
  EffectBreaker.make({
    tripPolicy: EffectBreaker.consecutive(1),
    openDuration: "10 seconds",
    ...options
  }).pipe(Effect.provide(EffectBreaker.layerStoreMemory()))

type Guard = <A, E>(call: Effect.Effect<A, E>) => Effect.Effect<A, unknown>

const guardOf = (breaker: CircuitBreaker.Service): Guard => breaker.execute(name)
const theirGuard =
  (breaker: EffectBreaker.CircuitBreaker): Guard =>
  (call) =>
    breaker.execute(call, { key: name })

/** The outcome of a call that would succeed. */
const next = (guard: Guard) =>
  Effect.match(guard(Effect.succeed("runs")), {
    onFailure: () => "is refused",
    onSuccess: (answer) => answer
  })

const trip = (guard: Guard) => Effect.ignore(guard(fail))
const failing = (guard: Guard, times: number, every: Duration.Input) =>
  Effect.repeat(Effect.andThen(trip(guard), TestClock.adjust(every)), { times: times - 1 })
const phase = (breaker: CircuitBreaker.Service) =>
  Effect.map(breaker.state(name), ({ phase }): string => phase)
const theirPhase = (breaker: EffectBreaker.CircuitBreaker) =>
  Effect.map(breaker.state(name), ({ _tag }): string => _tag.toLowerCase())

const hung = (guard: Guard) =>
  Effect.gen(function* () {
    yield* trip(guard)
    yield* TestClock.adjust("10 seconds")
    yield* Effect.forkScoped(guard(Effect.never), { startImmediately: true })
    yield* TestClock.adjust("1 day")
    return yield* next(guard)
  })

/** The time until a call is admitted, after an opening of ten seconds, when the clock is set back by an hour. */
const putBack = (guard: Guard) =>
  Effect.gen(function* () {
    yield* TestClock.adjust("2 hours")
    yield* trip(guard)
    yield* TestClock.setTime(3_600_000)
    yield* TestClock.adjust("10 seconds")
    return yield* next(guard)
  })

const ignoreRefusals = (exit: Exit.Exit<unknown, unknown>): EffectBreaker.Outcome =>
  Option.match(Exit.findErrorOption(exit), {
    onNone: () => EffectBreaker.success,
    onSome: (error) =>
      error instanceof EffectBreaker.CircuitBreakerError ? EffectBreaker.ignored : EffectBreaker.failure()
  })

const streamed = Stream.concat(Stream.make("a", "b"), Stream.fail("cut"))

/** The end of an opening after two failures: the first names a wait of five minutes, the second names none. */
const toldOnce = (
  execute: (hint: Duration.Input | undefined) => Effect.Effect<unknown, unknown>,
  openFor: Effect.Effect<Duration.Duration, unknown>
) =>
  Effect.gen(function* () {
    yield* Effect.ignore(execute("5 minutes"))
    yield* Effect.ignore(execute(undefined))
    return Duration.format(yield* openFor)
  })

const openFor = (breaker: CircuitBreaker.Service) =>
  Effect.map(breaker.state(name), ({ retryAfter }) => retryAfter ?? Duration.zero)
const theirOpenFor = (breaker: EffectBreaker.CircuitBreaker) =>
  Effect.map(breaker.state(name), (state) => (state._tag === "Open" ? state.retryAfter : Duration.zero))

/** The longest of sixty openings in a row, in years. */
const longest = (guard: Guard, openFor: Effect.Effect<Duration.Duration, unknown>) =>
  Effect.gen(function* () {
    let longest = Duration.zero
    for (let opening = 1; opening <= 60; opening++) {
      yield* trip(guard)
      const open = yield* openFor
      longest = Duration.max(longest, open)
      yield* TestClock.adjust(open)
    }
    return longest
  })

/** The number of admitted calls out of five concurrent ones after the opening. */
const probes = (guard: Guard, callers: number) =>
  Effect.gen(function* () {
    let ran = 0
    yield* trip(guard)
    yield* TestClock.adjust("10 seconds")
    const probe = guard(
      Effect.andThen(
        Effect.sync(() => ran++),
        Effect.sleep("1 second")
      )
    )
    const fibers = yield* Effect.forEach(Array.from({ length: callers }), () =>
      Effect.forkChild(Effect.exit(probe))
    )
    yield* TestClock.adjust("1 second")
    yield* Effect.forEach(fibers, Fiber.join)
    return ran
  })

/** How many probes must succeed to close the circuit. */
const untilClosed = (guard: Guard, phase: Effect.Effect<string, unknown>) =>
  Effect.gen(function* () {
    yield* trip(guard)
    yield* TestClock.adjust("10 seconds")
    let successes = 0
    while ((yield* phase) !== "closed" && successes < 10) {
      yield* next(guard)
      successes++
    }
    return successes
  })

const slow = (guard: Guard, phase: Effect.Effect<string, unknown>) =>
  Effect.gen(function* () {
    for (let call = 0; call < 20; call++) {
      const fiber = yield* Effect.forkChild(guard(Effect.sleep("9 seconds")))
      yield* TestClock.adjust("9 seconds")
      yield* Effect.exit(Fiber.join(fiber))
    }
    return yield* phase
  })

const byHand = ["trip", "reset", "isolate", "list", "available"]
const offered = (breaker: object) => byHand.filter((name) => name in breaker)
const code = (names: ReadonlyArray<string>) => names.map((name) => `\`${name}\``).join(", ")

const status = (status: number) => {
  const request = HttpClientRequest.get("http://localhost/")
  const response = HttpClientResponse.fromWeb(request, new Response("", { status }))
  return {
    response,
    error: new HttpClientError.HttpClientError({
      reason: new HttpClientError.StatusCodeError({ request, response })
    })
  }
}
const statuses = [404, 503, 524, 529]
const perStatus = (outcomes: ReadonlyArray<string>) =>
  statuses.map((status, index) => `${status}: ${outcomes[index]}`).join(", ")

const metricsOf = <E>(program: Effect.Effect<void, E, Scope.Scope>) =>
  program.pipe(
    Effect.andThen(Effect.repeat(Effect.yieldNow, { times: 20 })),
    Effect.andThen(Metric.snapshot),
    Effect.map((all) =>
      all
        .map(({ id }) => id)
        .filter((id) => id.includes("circuit"))
        .sort()
    ),
    Effect.provide(Layer.provideMerge(Metrics.layer(), ResilienceEvents.layer())),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )

/** The state of the circuit after an interrupted call or probe. */
const interrupted = (guard: Guard, phase: Effect.Effect<string, unknown>) =>
  Effect.gen(function* () {
    const stop = Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(guard(Effect.never), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
    })
    yield* stop
    const closed = yield* phase
    yield* trip(guard)
    yield* TestClock.adjust("10 seconds")
    yield* stop
    return [closed, yield* next(guard)]
  })

/** A call from before the trip fails while a probe is in flight. */
const late = (guard: Guard, phase: Effect.Effect<string, unknown>) =>
  Effect.gen(function* () {
    const start = (call: Effect.Effect<unknown, unknown>) =>
      Effect.forkChild(Effect.exit(guard(call)), { startImmediately: true })
    const old = yield* start(Effect.andThen(Effect.sleep("11 seconds"), fail))
    yield* trip(guard)
    yield* TestClock.adjust("10 seconds")
    const probe = yield* start(Effect.sleep("5 seconds"))
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(old)
    const between = yield* phase
    yield* Fiber.interrupt(probe)
    return between
  })

/** A call that hangs, with a time limit inside the breaker, and with one outside. */
const limits = <E>(
  make: () => Effect.Effect<
    { readonly guard: Guard; readonly phase: Effect.Effect<string, unknown> },
    E,
    Scope.Scope
  >
) =>
  Effect.forEach(["inside", "outside"] as const, (where) =>
    Effect.gen(function* () {
      const { guard, phase } = yield* make()
      const limit = <A, E>(call: Effect.Effect<A, E>) => Effect.timeout(call, "1 second")
      const call = where === "inside" ? guard(limit(Effect.never)) : limit(guard(Effect.never))
      const fiber = yield* Effect.forkChild(Effect.exit(call))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      return yield* phase
    })
  )

const remainder = (
  call: Effect.Effect<unknown, unknown>,
  wait: (error: unknown) => Duration.Duration | undefined
) =>
  Effect.gen(function* () {
    yield* Effect.ignore(call)
    yield* TestClock.adjust("3 seconds")
    const error = yield* Effect.flip(call)
    return Duration.format(wait(error) ?? Duration.infinity)
  })

export const rows: ReadonlyArray<Row> = [
  {
    behaviour: "A probe hangs; a day later a call comes",
    ours: cell(
      "runs",
      Effect.flatMap(ours(), (breaker) => hung(guardOf(breaker))),
      (seen) => `it ${seen}: a probe has 1 minute (\`probeLimit\`)`
    ),
    theirs: cell(
      "is refused",
      Effect.flatMap(theirs(), (breaker) => hung(theirGuard(breaker))),
      (seen) => `it ${seen}, as long as the probe hangs`
    )
  },
  {
    behaviour: "The wall clock is put back by an hour while the circuit is open for 10 s; after these a call",
    ours: cell(
      "runs",
      Effect.flatMap(ours(), (breaker) => putBack(guardOf(breaker))),
      (seen) => `${seen}: monotonic time`
    ),
    theirs: cell(
      "is refused",
      Effect.flatMap(theirs(), (breaker) => putBack(theirGuard(breaker))),
      (seen) => seen
    )
  },
  {
    behaviour: "Failures in a row, 45 minutes apart, limit 2: the circuit is",
    ours: cell(
      "closed",
      Effect.flatMap(ours({ trip: { consecutive: { failures: 2, within: "1 minute" } } }), (breaker) =>
        Effect.andThen(failing(guardOf(breaker), 3, "45 minutes"), phase(breaker))
      ),
      (seen) => `${seen}, with \`within: "1 minute"\``
    ),
    theirs: cell(
      ["open", "closed"],
      Effect.forEach(["45 minutes", "1 hour"] as const, (every) =>
        Effect.flatMap(
          theirs({ tripPolicy: EffectBreaker.consecutive(2), openDuration: "1 day" }),
          (breaker) => Effect.andThen(failing(theirGuard(breaker), 3, every), theirPhase(breaker))
        )
      ),
      ([often, seldom]) => `${often}: no window, but what idles for an hour is forgotten (${seldom})`
    )
  },
  {
    behaviour: "Rate of failures, minimum 4 calls: 4 failures, 45 minutes apart: the circuit is",
    ours: cell(
      "closed",
      Effect.flatMap(ours({ trip: { consecutive: false, rate: { minimumCalls: 4 } } }), (breaker) =>
        Effect.andThen(failing(guardOf(breaker), 4, "45 minutes"), phase(breaker))
      ),
      (seen) => `${seen}: the last minute counts (\`window\`)`
    ),
    theirs: cell(
      "open",
      Effect.flatMap(
        theirs({ tripPolicy: EffectBreaker.rate({ size: 4, minimumCalls: 4 }), openDuration: "1 day" }),
        (breaker) => Effect.andThen(failing(theirGuard(breaker), 4, "45 minutes"), theirPhase(breaker))
      ),
      (seen) => `${seen}: the last calls count, however old`
    )
  },
  {
    behaviour: "A stream fails in the middle, limit 1: the circuit is",
    ours: cell(
      "open",
      Effect.flatMap(ours(), (breaker) =>
        Effect.andThen(Effect.ignore(Stream.runDrain(breaker.executeStream(name)(streamed))), phase(breaker))
      ),
      (seen) => `${seen} (\`executeStream\`)`
    ),
    theirs: cell(
      "closed",
      Effect.flatMap(theirs(), (breaker) =>
        Effect.andThen(
          Effect.ignore(Stream.runDrain(Stream.unwrap(theirGuard(breaker)(Effect.succeed(streamed))))),
          theirPhase(breaker)
        )
      ),
      (seen) => `${seen}: guards effects, such as the one that opens the stream`
    )
  },
  {
    behaviour: "A breaker inside refuses: the one around it, limit 1, is",
    ours: cell(
      "closed",
      Effect.gen(function* () {
        const [outer, inner] = [yield* ours(), yield* ours()]
        yield* inner.trip(name)
        yield* Effect.ignore(guardOf(outer)(guardOf(inner)(Effect.void)))
        return yield* phase(outer)
      }),
      (seen) => `${seen}: a refusal is no failure`
    ),
    theirs: cell(
      ["open", "closed"],
      Effect.forEach([undefined, ignoreRefusals], (classify) =>
        Effect.gen(function* () {
          const [outer, inner] = [yield* theirs(), yield* theirs()]
          yield* trip(theirGuard(inner))
          const call = theirGuard(inner)(Effect.void)
          yield* Effect.ignore(outer.execute(call, { key: name, classify }))
          return yield* theirPhase(outer)
        })
      ),
      ([plain, classified]) => `${plain}; ${classified} with a \`classify\` of yours`
    )
  },
  {
    behaviour: 'The first of two failures says "retry after 5 minutes", the second opens the circuit: for',
    ours: cell(
      "5m",
      Effect.flatMap(ours({ trip: { consecutive: { failures: 2 } } }), (breaker) =>
        toldOnce(
          (retryAfter) =>
            breaker.execute(name, { classify: () => ({ counts: "failure", retryAfter }) })(fail),
          openFor(breaker)
        )
      ),
      (seen) => seen
    ),
    theirs: cell(
      "10s",
      Effect.flatMap(theirs({ tripPolicy: EffectBreaker.consecutive(2) }), (breaker) =>
        toldOnce(
          (retryAfter) =>
            breaker.execute(fail, { key: name, classify: () => EffectBreaker.failure({ retryAfter }) }),
          theirOpenFor(breaker)
        )
      ),
      (seen) => `${seen}: the hint is only read from the failure that opens`
    )
  },
  {
    behaviour: "10 s, doubled with each opening: the longest of 60",
    ours: cell(
      "at most 2m",
      Effect.flatMap(ours({ open: undefined }), (breaker) =>
        Effect.map(longest(guardOf(breaker), openFor(breaker)), (longest) =>
          Duration.isLessThanOrEqualTo(longest, Duration.minutes(2)) ? "at most 2m" : Duration.format(longest)
        )
      ),
      (seen) => `${seen}, jitter included: every backoff has a cap`
    ),
    theirs: cell(
      ["2m", "over a billion years"],
      Effect.forEach(
        [
          Schedule.min([Schedule.exponential("10 seconds"), Schedule.spaced("2 minutes")]),
          Schedule.exponential("10 seconds")
        ],
        (openDuration) =>
          Effect.flatMap(theirs({ openDuration }), (breaker) =>
            Effect.map(longest(theirGuard(breaker), theirOpenFor(breaker)), (longest) =>
              Duration.toDays(longest) > 365e9 ? "over a billion years" : Duration.format(longest)
            )
          )
      ),
      ([capped, free]) => `${free}; ${capped} if you cap the schedule`
    )
  },
  {
    behaviour: "Probes at a time, of 5 callers",
    ours: cell(
      3,
      Effect.flatMap(ours({ halfOpen: { permits: 3, successes: 3 } }), (breaker) =>
        probes(guardOf(breaker), 5)
      ),
      (seen) => `${seen} with \`permits: 3\` (and as many \`successes\`); default 1`
    ),
    theirs: cell(
      1,
      Effect.flatMap(theirs(), (breaker) => probes(theirGuard(breaker), 5)),
      (seen) => `${seen}, always`
    )
  },
  {
    behaviour: "Successful probes that close the circuit",
    ours: cell(
      2,
      Effect.flatMap(ours(), (breaker) => untilClosed(guardOf(breaker), phase(breaker))),
      (seen) => `${seen} (\`successes\`)`
    ),
    theirs: cell(
      1,
      Effect.flatMap(theirs(), (breaker) => untilClosed(theirGuard(breaker), theirPhase(breaker))),
      (seen) => `${seen}, always`
    )
  },
  {
    behaviour: "20 calls succeed, each after 9 s: the circuit is",
    ours: cell(
      "open",
      Effect.flatMap(
        ours({
          open: Backoff.constant("1 hour"),
          trip: { consecutive: false, rate: { minimumCalls: 5, slow: 0.5, slowerThan: "5 seconds" } }
        }),
        (breaker) => slow(guardOf(breaker), phase(breaker))
      ),
      (seen) => `${seen}, with \`slowerThan: "5 seconds"\``
    ),
    theirs: cell(
      "closed",
      Effect.flatMap(theirs({ tripPolicy: EffectBreaker.rate({ size: 5 }) }), (breaker) =>
        slow(theirGuard(breaker), theirPhase(breaker))
      ),
      (seen) => `${seen}: time does not count`
    )
  },
  {
    behaviour: "By hand",
    ours: cell<ReadonlyArray<string>>(byHand, Effect.map(ours(), offered), code),
    theirs: cell<ReadonlyArray<string>>(
      [],
      Effect.map(theirs(), offered),
      (seen) => code(seen) || "none of these"
    )
  },
  {
    behaviour: "What a reader sees when the time is up and no call has come",
    ours: cell(
      ["half-open", true],
      Effect.gen(function* () {
        const breaker = yield* ours()
        yield* trip(guardOf(breaker))
        yield* TestClock.adjust("10 seconds")
        return [yield* phase(breaker), yield* breaker.available(name)]
      }),
      ([phase]) => `${phase}, and \`available\` says yes`
    ),
    theirs: cell(
      "open",
      Effect.gen(function* () {
        const breaker = yield* theirs()
        yield* trip(theirGuard(breaker))
        yield* TestClock.adjust("10 seconds")
        return yield* theirPhase(breaker)
      }),
      (seen) => seen
    )
  },
  {
    behaviour: "HTTP statuses",
    ours: cell(
      ["failure", "failure", "failure", "failure"],
      Effect.sync(() =>
        statuses.map((code): string => CircuitBreaker.classify(Exit.fail(status(code).error)).counts)
      ),
      (seen) => `${perStatus(seen)}: every failure counts until \`classify\` says otherwise`
    ),
    theirs: cell(
      ["success", "failure", "success", "success"],
      Effect.forEach(statuses, (code) =>
        Effect.map(HttpClient.circuitBreakerClassifier(Exit.succeed(status(code).response)), ({ _tag }) =>
          _tag.toLowerCase()
        )
      ),
      (seen) => `${perStatus(seen)} (\`HttpClient.circuitBreakerClassifier\`)`
    )
  },
  {
    behaviour: "Metrics after one trip",
    ours: cell<ReadonlyArray<string>>(
      ["outlast_circuit_state", "outlast_circuit_transitions_total"],
      metricsOf(Effect.flatMap(ours(), (breaker) => trip(guardOf(breaker)))),
      code
    ),
    theirs: cell<ReadonlyArray<string>>(
      [],
      metricsOf(Effect.flatMap(theirs(), (breaker) => trip(theirGuard(breaker)))),
      (seen) => code(seen) || "none; write your own over `transitions`"
    )
  }
]

/** Rows in which Effect's breaker is equal or better. */
export const even: ReadonlyArray<Row> = [
  {
    behaviour: "20 callers come together when the time is up: how many run",
    ours: cell(
      1,
      Effect.flatMap(ours(), (breaker) => probes(guardOf(breaker), 20)),
      String
    ),
    theirs: cell(
      1,
      Effect.flatMap(theirs(), (breaker) => probes(theirGuard(breaker), 20)),
      String
    )
  },
  {
    behaviour: "A call is interrupted, later a probe: the circuit, and the next call",
    ours: cell(
      ["closed", "runs"],
      Effect.flatMap(ours(), (breaker) => interrupted(guardOf(breaker), phase(breaker))),
      (seen) => seen.join(", ")
    ),
    theirs: cell(
      ["closed", "runs"],
      Effect.flatMap(theirs(), (breaker) => interrupted(theirGuard(breaker), theirPhase(breaker))),
      (seen) => seen.join(", ")
    )
  },
  {
    behaviour: "A call from before the trip fails while a probe is under way: the circuit is",
    ours: cell(
      "half-open",
      Effect.flatMap(ours(), (breaker) => late(guardOf(breaker), phase(breaker))),
      (seen) => `${seen} as before`
    ),
    theirs: cell(
      "half-open",
      Effect.flatMap(theirs(), (breaker) =>
        late(
          theirGuard(breaker),
          Effect.map(theirPhase(breaker), (seen) => seen.replace("halfopen", "half-open"))
        )
      ),
      (seen) => `${seen} as before`
    )
  },
  {
    behaviour: "3 s into an opening of 10 s, a refusal says: again in",
    ours: cell(
      "7s",
      Effect.flatMap(ours(), (breaker) =>
        remainder(breaker.execute(name)(fail), (error) =>
          error instanceof CircuitRefused.CircuitRefused ? error.retryAfter : undefined
        )
      ),
      String
    ),
    theirs: cell(
      "7s",
      Effect.flatMap(theirs(), (breaker) =>
        remainder(theirGuard(breaker)(fail), (error) =>
          error instanceof EffectBreaker.CircuitBreakerError && error.reason._tag === "CircuitOpen"
            ? error.reason.retryAfter
            : undefined
        )
      ),
      String
    )
  },
  {
    behaviour: "Transitions as a stream",
    ours: cell(
      ["closed to open", "open to half-open"],
      Effect.gen(function* () {
        const breaker = yield* ours()
        return yield* seen(
          Stream.map(breaker.transitions, ({ from, to }) => `${from} to ${to}`),
          guardOf(breaker)
        )
      }),
      (seen) => seen.join(", ")
    ),
    theirs: cell(
      ["Closed to Open", "Open to HalfOpen"],
      Effect.gen(function* () {
        const breaker = yield* theirs()
        return yield* seen(
          Stream.map(breaker.transitions, ({ from, to }) => `${from} to ${to}`),
          theirGuard(breaker)
        )
      }),
      (seen) => seen.join(", ")
    )
  },
  {
    behaviour: "A time limit of 1 s around a call that hangs, limit 1: inside the breaker, outside of it",
    ours: cell(
      ["open", "closed"],
      limits(() => Effect.map(ours(), (breaker) => ({ guard: guardOf(breaker), phase: phase(breaker) }))),
      (seen) => seen.join(", ")
    ),
    theirs: cell(
      ["open", "closed"],
      limits(() =>
        Effect.map(theirs(), (breaker) => ({ guard: theirGuard(breaker), phase: theirPhase(breaker) }))
      ),
      (seen) => seen.join(", ")
    )
  },
  {
    behaviour: "Shared over Redis",
    ours: cell(
      true,
      Effect.sync(() => "make" in RedisCircuitStore),
      () => "`RedisCircuitStore`"
    ),
    theirs: cell(
      true,
      Effect.sync(() => "layerStoreRedis" in EffectBreaker),
      () => "`layerStoreRedis`"
    )
  },
  {
    behaviour: "`classify` as an effect that finds a failure, limit 1",
    ours: cell(
      "closed",
      Effect.gen(function* () {
        const breaker = yield* ours()
        // The types do not allow this value.
        const classify = (() => Effect.succeed({ counts: "failure" })) as unknown as CircuitBreaker.Classify
        yield* breaker.execute(name, { classify })(Effect.void)
        return yield* phase(breaker)
      }),
      () => "no: a plain function"
    ),
    theirs: cell(
      "open",
      Effect.gen(function* () {
        const breaker = yield* theirs()
        const classify = () => Effect.succeed(EffectBreaker.failure())
        yield* breaker.execute(Effect.void, { key: name, classify })
        return yield* theirPhase(breaker)
      }),
      (seen) => `yes: ${seen}`
    )
  },
  {
    behaviour: "A combinator for `HttpClient`",
    ours: cell(
      false,
      Effect.sync(() => "withCircuitBreaker" in CircuitBreaker),
      () => "no: guard the effect under the URL's origin"
    ),
    theirs: cell(
      true,
      Effect.sync(() => "withCircuitBreaker" in HttpClient),
      () => "`HttpClient.withCircuitBreaker`"
    )
  }
]

/** The first two transitions of a circuit that opens and is tried again. */
const seen = (transitions: Stream.Stream<string>, guard: Guard) =>
  Effect.gen(function* () {
    const reader = yield* transitions.pipe(
      Stream.take(2),
      Stream.runCollect,
      Effect.forkChild({ startImmediately: true })
    )
    yield* trip(guard)
    yield* TestClock.adjust("10 seconds")
    yield* trip(guard)
    return yield* Fiber.join(reader)
  })
