import { assert, describe, it } from "@effect/vitest"
import { Cause, Data, Deferred, Duration, Effect, Exit, Fiber, Ref, Scheduler, Scope, Stream } from "effect"
import { CircuitBreaker as EffectBreaker, RateLimiter } from "effect/persistence"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import { CircuitRefused } from "#resilience/breaker/CircuitRefused"
import * as CircuitState from "#resilience/breaker/CircuitState"
import type { Answer, Breaker, Change, SharedCircuits } from "#resilience/breaker/CircuitStore"
import { InvalidOption } from "#resilience/Options"
import * as Refusal from "#resilience/Refusal"
import { attempt, begin, contract, exact, fails, refusal, works } from "./BreakerContract.ts"

contract("memory", CircuitBreaker.layer)

/** Opens on the first failure, closes on the first success. */
const quick: CircuitBreaker.Options = {
  trip: { consecutive: { failures: 1 } },
  halfOpen: { successes: 1 },
  open: exact
}

const phase = (breaker: CircuitBreaker.Service, name = "a") =>
  Effect.map(breaker.state(name), ({ phase }) => phase)

const halfOpen = (breaker: CircuitBreaker.Service, ...names: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    for (const name of names) yield* breaker.trip(name)
    yield* TestClock.adjust("10 seconds")
  })

describe("interruption between any two operations", () => {
  /** Interrupts the first fiber it runs before its n-th operation. */
  class Interrupting extends Scheduler.MixedScheduler {
    readonly at: number
    operations = 0
    constructor(at: number) {
      super()
      this.at = at
    }
    override shouldYield(fiber: Fiber.Fiber<unknown, unknown>): boolean {
      if (++this.operations !== this.at) return false
      fiber.interruptUnsafe()
      return true
    }
  }

  const everywhere = (
    title: string,
    call: (breaker: CircuitBreaker.Service) => Effect.Effect<unknown, unknown>,
    prepare: (breaker: CircuitBreaker.Service) => Effect.Effect<void>,
    verify: (breaker: CircuitBreaker.Service, at: number) => Effect.Effect<void>,
    options = quick
  ) =>
    it.effect(title, () =>
      Effect.gen(function* () {
        let interrupted = 0
        for (let at = 1; ; at++) {
          const scheduler = new Interrupting(at)
          yield* Effect.scoped(
            Effect.gen(function* () {
              const breaker = yield* CircuitBreaker.make(options)
              yield* prepare(breaker)
              const fiber = yield* Effect.forkChild(
                Effect.provideService(call(breaker), Scheduler.Scheduler, scheduler)
              )
              const exit = yield* Fiber.await(fiber)
              if (Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause)) interrupted++
              yield* verify(breaker, at)
            })
          )
          if (scheduler.operations < at) break
        }
        assert.isAbove(interrupted, 5)
      })
    )

  const permitIsFree =
    (...names: ReadonlyArray<string>) =>
    (breaker: CircuitBreaker.Service, at: number) =>
      Effect.gen(function* () {
        for (const name of names) {
          const isFree = (yield* phase(breaker, name)) !== "half-open" || (yield* breaker.available(name))
          assert.isTrue(isFree, `${name} at operation ${at}`)
        }
      })

  const two = Effect.andThen(Effect.yieldNow, Effect.succeed("fine"))
  const broken = Effect.andThen(Effect.yieldNow, Effect.fail("broken"))

  everywhere(
    "a probe frees its permit",
    (breaker) => breaker.execute("a")(two),
    (breaker) => halfOpen(breaker, "a"),
    permitIsFree("a")
  )
  everywhere(
    "a probe that fails frees its permit",
    (breaker) => breaker.execute("a")(broken),
    (breaker) => halfOpen(breaker, "a"),
    permitIsFree("a")
  )
  everywhere(
    "a probe of several circuits frees all of them",
    (breaker) => breaker.execute(["a", "b", "c"])(two),
    (breaker) => halfOpen(breaker, "a", "c"),
    permitIsFree("a", "b", "c")
  )
  for (const [how, say] of [
    ["succeeds", (permit: CircuitBreaker.Permit) => permit.succeed],
    ["fails", (permit: CircuitBreaker.Permit) => permit.fail()],
    ["says nothing", (permit: CircuitBreaker.Permit) => permit.ignore]
  ] as const) {
    everywhere(
      `a permit that ${how} is free`,
      (breaker) => Effect.scoped(Effect.flatMap(breaker.acquire("a"), say)),
      (breaker) => halfOpen(breaker, "a"),
      permitIsFree("a")
    )
  }
  everywhere(
    "a stream frees its permit",
    (breaker) => Stream.runDrain(breaker.executeStream("a")(Stream.make(1, 2))),
    (breaker) => halfOpen(breaker, "a"),
    permitIsFree("a")
  )
  everywhere(
    "a stream that fails frees its permit",
    (breaker) =>
      Stream.runDrain(breaker.executeStream("a")(Stream.concat(Stream.make(1), Stream.fail("cut")))),
    (breaker) => halfOpen(breaker, "a"),
    permitIsFree("a")
  )
  everywhere(
    "nobody goes on using a closed circuit",
    (breaker) => breaker.execute(["a", "b"], { call: 1 })(two),
    () => Effect.void,
    (breaker, at) =>
      Effect.gen(function* () {
        for (let n = 0; n < 9; n++) yield* works(breaker, `name ${n}`)
        const names = (yield* breaker.list).map(({ circuit }) => circuit)
        assert.notInclude(names, "a", `at operation ${at}`)
        assert.notInclude(names, "b", `at operation ${at}`)
      }),
    { ...quick, maxCircuits: 3 }
  )
})

describe("the caller's own exit", () => {
  for (const [title, exit] of [
    ["success", Exit.succeed(1)],
    ["failure", Exit.fail("no")],
    ["defect", Exit.die("oops")],
    ["both", Exit.failCause(Cause.fromReasons([...Cause.fail("no").reasons, ...Cause.die("oops").reasons]))]
  ] as const) {
    it.effect(`${title} is passed on, whatever the classifier does`, () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 100 } } })
        const classifiers: ReadonlyArray<CircuitBreaker.Classify | undefined> = [
          undefined,
          () => {
            throw new Error("a bug in classify")
          },
          () => ({ counts: "failure", retryAfter: "not a duration" as never }),
          () => ({ counts: "failure", retryAfter: Number.NaN }),
          () => ({ counts: "failure", retryAfter: -1 })
        ]
        for (const classify of classifiers) {
          for (const names of ["a", ["a", "b"]]) {
            const call: Effect.Effect<number, string> = exit
            assert.deepStrictEqual(yield* Effect.exit(breaker.execute(names, { classify })(call)), exit)
          }
        }
        yield* (yield* breaker.acquire("c")).fail({ retryAfter: "not a duration" as never })
        assert.strictEqual((yield* breaker.state("c")).failures, 1)
      })
    )
  }

  it.effect("a call does not count when the classifier throws", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(quick)
      const classify = () => {
        throw new Error("a bug in classify")
      }
      yield* Effect.exit(breaker.execute("a", { classify })(Effect.fail("no")))
      yield* Effect.exit(Stream.runDrain(breaker.executeStream("a", { classify })(Stream.fail("no"))))
      assert.strictEqual(yield* phase(breaker), "closed")
    })
  )
})

describe("default classification", () => {
  class Mine extends Data.TaggedError("Mine")<{}> {
    readonly [Refusal.mark] = true
  }
  const refused = new CircuitRefused({ circuit: "a", reason: "open", retryAfter: undefined })
  const effects = new EffectBreaker.CircuitBreakerError({
    reason: new EffectBreaker.CircuitHalfOpen({ key: "k" })
  })
  const limiter = new RateLimiter.RateLimiterError({
    reason: new RateLimiter.RateLimitExceeded({
      key: "k",
      retryAfter: Duration.zero,
      limit: 1,
      remaining: 0
    })
  })
  const reasons = (...causes: ReadonlyArray<Cause.Cause<unknown>>) =>
    Exit.failCause(Cause.fromReasons(causes.flatMap(({ reasons }) => reasons)))

  it("a refusal is ignored: of Outlast, of a custom class, and of Effect", () => {
    for (const error of [refused, new Mine(), effects, limiter]) {
      assert.isTrue(Refusal.isRefusal(error))
      assert.deepStrictEqual(CircuitBreaker.classify(Exit.fail(error)), { counts: "ignored" })
    }
    for (const error of [new Error("no"), "no", undefined, null, 5, { _tag: "CircuitRefused" }]) {
      assert.isFalse(Refusal.isRefusal(error))
      assert.strictEqual(CircuitBreaker.classify(Exit.fail(error)).counts, "failure")
    }
  })

  it("a refusal together with another failure is classified by that failure", () => {
    const only = reasons(Cause.fail(refused), Cause.fail(new Mine()), Cause.interrupt(1))
    assert.strictEqual(CircuitBreaker.classify(only).counts, "ignored")
    for (const other of [Cause.fail("no"), Cause.die("oops")]) {
      assert.strictEqual(CircuitBreaker.classify(reasons(Cause.fail(refused), other)).counts, "failure")
    }
    assert.strictEqual(CircuitBreaker.classify(Exit.die(refused)).counts, "failure")
  })

  it("a success counts, and a failure counts with its `retryAfter`", () => {
    assert.deepStrictEqual(CircuitBreaker.classify(Exit.succeed(refused)), { counts: "success" })
    const retryAfter = Duration.seconds(3)
    assert.deepStrictEqual(CircuitBreaker.classify(Exit.fail({ retryAfter })), {
      counts: "failure",
      retryAfter
    })
    for (const error of [{ retryAfter: "3 seconds" }, { retryAfter: 3_000 }]) {
      const { counts, ...rest } = CircuitBreaker.classify(Exit.fail(error))
      assert.strictEqual(counts, "failure")
      assert.isTrue(
        "retryAfter" in rest && Duration.equals(Duration.fromInputUnsafe(rest.retryAfter ?? 0), retryAfter)
      )
    }
    for (const error of [{ retryAfter: "soon" }, {}, "no", null]) {
      assert.deepStrictEqual(CircuitBreaker.classify(Exit.fail(error)), {
        counts: "failure",
        retryAfter: undefined
      })
    }
    assert.deepStrictEqual(CircuitBreaker.classify(reasons(Cause.fail("no"), Cause.fail({ retryAfter }))), {
      counts: "failure",
      retryAfter
    })
  })
})

describe("CircuitRefused", () => {
  const refused = (reason: CircuitRefused["reason"], retryAfter?: Duration.Duration, lastFailure?: string) =>
    new CircuitRefused({ circuit: "api", reason, retryAfter, lastFailure })

  it("the message says what to do, for each reason", () => {
    assert.strictEqual(
      refused("open", Duration.millis(3_750), "HTTP 529").message,
      "Circuit `api` is open for another 3.8 s (last failure: HTTP 529). Wait, or call something else."
    )
    assert.strictEqual(refused("open").message, "Circuit `api` is open. Wait, or call something else.")
    assert.strictEqual(
      refused("half-open", undefined, "Timeout").message,
      "Circuit `api` is half-open: its probes are in flight (last failure: Timeout). Retry when they have ended."
    )
    assert.strictEqual(
      refused("isolated").message,
      "Circuit `api` is held open by hand. Release it, or call something else."
    )
    assert.strictEqual(
      refused("store").message,
      'Circuit `api` refused the call because its store cannot be reached (onStoreError: "fail"). Restore the store, or use "allow".'
    )
    assert.strictEqual(refused("isolated")._tag, "CircuitRefused")
    assert.isTrue(Refusal.isRefusal(refused("half-open")))
    assert.isTrue(refused("half-open").isRetryable)
  })
})

describe("the last failure of a circuit", () => {
  const secret = "sk-live-0123456789"
  class ServerDown extends Data.TaggedError("ServerDown")<{
    readonly message: string
    readonly status?: number
  }> {}
  const trip = { consecutive: { failures: 1 } } as const

  /** The last failure in a refusal and in the list, after one call with this outcome. */
  const after = (call: Effect.Effect<unknown, unknown>, options: CircuitBreaker.Options = {}) =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip, ...options })
      yield* Effect.exit(breaker.execute("a")(call))
      const refused = yield* Effect.flip(breaker.execute("a")(Effect.die("ran")))
      const [listed] = yield* breaker.list
      assert.instanceOf(refused, CircuitRefused)
      assert.strictEqual(listed?.lastFailure, refused.lastFailure)
      assert.notInclude(`${refused.message} ${JSON.stringify(listed)}`, secret)
      return refused.lastFailure
    })

  it.effect("is the tag or the name of an error and its HTTP status, and never its message", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* after(Effect.fail(new ServerDown({ message: secret }))), "ServerDown")
      assert.strictEqual(
        yield* after(Effect.fail(new ServerDown({ message: secret, status: 529 }))),
        "ServerDown (HTTP 529)"
      )
      assert.strictEqual(yield* after(Effect.fail({ status: 503, body: secret })), "HTTP 503")
      assert.strictEqual(yield* after(Effect.die(new TypeError(secret))), "TypeError")
      assert.isUndefined(yield* after(Effect.fail(secret)))
      assert.isUndefined(yield* after(Effect.fail({ _tag: `no name: ${secret}` })))
    })
  )

  it.effect("is not replaced by a call that began before the circuit opened", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip })
      const late = Effect.delay(Effect.fail({ status: 500 }), "1 second")
      const fiber = yield* Effect.forkChild(Effect.exit(breaker.execute("a")(late)))
      yield* TestClock.adjust(0)
      yield* Effect.exit(breaker.execute("a")(Effect.fail({ status: 529 })))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.strictEqual((yield* breaker.state("a")).lastFailure, "HTTP 529")
    })
  )

  it.effect("is the result of `describe`, cut to 200 characters", () =>
    Effect.gen(function* () {
      const failing = Effect.fail(new ServerDown({ message: "x".repeat(300) }))
      const describe = (error: unknown) => (error instanceof ServerDown ? error.message : undefined)
      assert.strictEqual((yield* after(failing, { describe }))?.length, 200)
      const broken = () => {
        throw new Error(secret)
      }
      assert.isUndefined(yield* after(failing, { describe: broken }))
      assert.throws(
        () => Effect.runSync(Effect.scoped(CircuitBreaker.make({ describe: "x" as never }))),
        "describe"
      )
    })
  )

  it.effect("is the description given by the owner of a permit, and is cleared when the circuit closes", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 2 } } })
      const fiber = yield* Effect.fiber
      breaker.enterUnsafe("a", fiber, undefined)?.({ counts: "failure", what: "HTTP 529" }, fiber)
      assert.strictEqual((yield* breaker.state("a")).lastFailure, "HTTP 529")
      yield* Effect.scoped(
        Effect.flatMap(breaker.acquire("a"), (permit) => permit.fail({ what: "first token timeout" }))
      )
      assert.strictEqual(
        (yield* Effect.flip(Effect.scoped(breaker.acquire("a")))).lastFailure,
        "first token timeout"
      )
      yield* breaker.reset("a")
      assert.isUndefined((yield* breaker.state("a")).lastFailure)
    })
  )
})

describe("options", () => {
  const refusedOptions: ReadonlyArray<readonly [CircuitBreaker.Options, string, unknown, string]> = [
    [{ trip: { consecutive: { failures: 0 } } }, "trip.consecutive.failures", 0, "an integer of at least 1"],
    [
      { trip: { consecutive: { failures: 1.5 } } },
      "trip.consecutive.failures",
      1.5,
      "an integer of at least 1"
    ],
    [
      { trip: { consecutive: { failures: Number.NaN } } },
      "trip.consecutive.failures",
      Number.NaN,
      "an integer of at least 1"
    ],
    [
      { trip: { consecutive: { within: 0 } } },
      "trip.consecutive.within",
      0,
      "a finite duration of at least 1ms"
    ],
    [
      { trip: { consecutive: { within: Number.NaN } } },
      "trip.consecutive.within",
      Number.NaN,
      "a finite duration of at least 1ms"
    ],
    [
      { trip: { consecutive: false } },
      "trip",
      undefined,
      "a policy that can open the circuit: consecutive, rate or both"
    ],
    [{ trip: { rate: { window: -1 } } }, "trip.rate.window", -1, "a finite duration of at least 1ms"],
    [
      { trip: { rate: { window: Duration.infinity } } },
      "trip.rate.window",
      Duration.infinity,
      "a finite duration of at least 1ms"
    ],
    [{ trip: { rate: { minimumCalls: 0 } } }, "trip.rate.minimumCalls", 0, "an integer of at least 1"],
    [
      { trip: { rate: { failures: 0 } } },
      "trip.rate.failures",
      0,
      "false, or a finite number above 0 and at most 1"
    ],
    [
      { trip: { rate: { failures: 1.01 } } },
      "trip.rate.failures",
      1.01,
      "false, or a finite number above 0 and at most 1"
    ],
    [
      { trip: { rate: { failures: Number.NaN } } },
      "trip.rate.failures",
      Number.NaN,
      "false, or a finite number above 0 and at most 1"
    ],
    [
      { trip: { rate: { failures: false } } },
      "trip.rate.failures",
      false,
      "a share from 0 to 1 unless trip.rate.slow is set"
    ],
    [
      { trip: { rate: { slow: 0, slowerThan: 1 } } },
      "trip.rate.slow",
      0,
      "a finite number above 0 and at most 1"
    ],
    [
      { trip: { rate: { slow: 0.5 } } },
      "trip.rate.slowerThan",
      undefined,
      "set together with trip.rate.slow"
    ],
    [{ trip: { rate: { slowerThan: 5 } } }, "trip.rate.slowerThan", 5, "set together with trip.rate.slow"],
    [
      { trip: { rate: { slow: 0.5, slowerThan: -5 } } },
      "trip.rate.slowerThan",
      -5,
      "a finite duration of at least 0"
    ],
    [{ halfOpen: { permits: 0 } }, "halfOpen.permits", 0, "an integer of at least 1"],
    [{ halfOpen: { successes: 0 } }, "halfOpen.successes", 0, "an integer of at least 1"],
    [{ halfOpen: { successes: 3, outOf: 2 } }, "halfOpen.outOf", 2, "an integer of at least 3"],
    [{ halfOpen: { outOf: 1 } }, "halfOpen.outOf", 1, "an integer of at least 2"],
    [{ halfOpen: { probeLimit: 0 } }, "halfOpen.probeLimit", 0, "a finite duration of at least 1ms"],
    [{ maxRetryAfter: -1 }, "maxRetryAfter", -1, "a finite duration of at least 0"],
    [
      { maxRetryAfter: Duration.infinity },
      "maxRetryAfter",
      Duration.infinity,
      "a finite duration of at least 0"
    ],
    [{ maxCircuits: 0 }, "maxCircuits", 0, "an integer of at least 1"],
    [{ idleAfter: -1 }, "idleAfter", -1, "a finite duration of at least 0"]
  ]
  for (const [options, field, value, allowed] of refusedOptions) {
    it.effect(`refused: ${field} ${String(value)}`, () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(Effect.scoped(CircuitBreaker.make(options)))
        const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
        assert.instanceOf(error, RangeError)
        assert.instanceOf(error, InvalidOption)
        assert.deepStrictEqual(
          [error.module, error.field, error.value, error.allowed],
          ["CircuitBreaker", field, value, allowed]
        )
      })
    )
  }

  it.effect("refused: a backoff written by hand whose cap is below its initial delay", () =>
    Effect.gen(function* () {
      const open = { ...exact, cap: Duration.seconds(1) }
      const exit = yield* Effect.exit(Effect.scoped(CircuitBreaker.make({ open })))
      assert.match(
        Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "",
        /CircuitBreaker: open: cap must be a duration from 10s to .*, got 1s/
      )
    })
  )

  it("the defaults are as documented", () => {
    assert.deepStrictEqual(CircuitBreaker.defaults, {
      consecutive: { failures: 5, distinctCalls: 3 },
      rate: { window: "1 minute", minimumCalls: 10, failures: 0.5 },
      halfOpen: { permits: 1, successes: 2, probeLimit: "1 minute" },
      open: Backoff.exponential({
        initial: "10 seconds",
        factor: 2,
        cap: "120 seconds",
        jitter: 0.1
      }),
      restart: "stable",
      maxRetryAfter: "1 hour",
      maxCircuits: 10_000,
      idleAfter: "10 minutes"
    })
  })

  it.effect(
    "the defaults apply: a rate of one half of ten calls, a probe limit of a minute, a maximum wait of an hour",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make({ trip: { consecutive: false, rate: {} } })
        yield* fails(breaker, "a", 9)
        assert.strictEqual(yield* phase(breaker), "closed")
        yield* fails(breaker, "a")
        assert.strictEqual(yield* phase(breaker), "open")
        yield* TestClock.adjust("12 seconds")
        yield* begin(breaker, "a")
        yield* TestClock.adjust("59999 millis")
        assert.isFalse(yield* breaker.available("a"))
        yield* TestClock.adjust("1 millis")
        yield* begin(breaker, "a")
        yield* (yield* breaker.acquire("b")).fail({ retryAfter: "1 day" })
        yield* fails(breaker, "b", 9)
        assert.deepStrictEqual((yield* breaker.state("b")).retryAfter, Duration.hours(1))
      })
  )
})

describe("end of the layer", () => {
  it.effect("ends the readers of its transitions", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const breaker = yield* Scope.provide(CircuitBreaker.make(quick), scope)
      const fiber = yield* Effect.forkChild(Stream.runCollect(breaker.transitions), {
        startImmediately: true
      })
      yield* Effect.yieldNow
      yield* breaker.trip("a")
      yield* Scope.close(scope, Exit.void)
      const seen = yield* Fiber.join(fiber)
      assert.deepStrictEqual(
        [...seen].map(({ to }) => to),
        ["open"]
      )
    })
  )
})

describe("a reader of transitions that lags behind", () => {
  it.effect("loses events without affecting other readers", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(quick)
      yield* breaker.transitions.pipe(
        Stream.runForEach(() => Effect.never),
        Effect.forkScoped({ startImmediately: true })
      )
      let seen = 0
      yield* breaker.transitions.pipe(
        Stream.runForEach(() => Effect.sync(() => seen++)),
        Effect.forkScoped({ startImmediately: true })
      )
      yield* Effect.yieldNow
      for (let n = 0; n < 2_000; n++) {
        yield* breaker.trip("a")
        yield* breaker.reset("a")
        yield* Effect.yieldNow
      }
      yield* Effect.repeat(Effect.yieldNow, { times: 100 })
      assert.strictEqual(seen, 4_000)
    })
  )
})

describe("combinators of the environment", () => {
  it.effect("guard with the provided breaker", () =>
    Effect.gen(function* () {
      yield* Effect.exit(Effect.fail("no").pipe(CircuitBreaker.execute("a")))
      const breaker = yield* CircuitBreaker.CircuitBreaker
      assert.strictEqual(yield* phase(breaker), "open")
      const stream = Stream.make(1).pipe(CircuitBreaker.executeStream("a"))
      assert.instanceOf(yield* Effect.flip(Stream.runDrain(stream)), CircuitRefused)
      yield* Effect.exit(Stream.runDrain(Stream.fail("no").pipe(CircuitBreaker.executeStream("b"))))
      assert.strictEqual(yield* phase(breaker, "b"), "open")
    }).pipe(Effect.provide(CircuitBreaker.layer(quick)))
  )
})

// The breaker's reactions to scripted stores. RedisCircuitStore.test.ts tests a real one.
describe("behaviour 23: a store", () => {
  /** The store's interface with plain answers. */
  interface Scripted extends Omit<SharedCircuits, "admit" | "settle"> {
    readonly admit: (circuit: string, holder: string) => Effect.Effect<Answer | undefined>
    readonly settle: (...args: Parameters<SharedCircuits["settle"]>) => Effect.Effect<boolean>
  }
  const asked = <A>(answer: Effect.Effect<A>) => Effect.succeed({ answer, leave: Effect.void })

  const overStore = (
    shared: (breaker: Breaker) => Partial<Scripted>,
    body: (breaker: CircuitBreaker.Service) => Effect.Effect<void, unknown, Scope.Scope>
  ) => {
    const attach = (breaker: Breaker) => {
      const {
        admit = () => Effect.succeed(undefined),
        settle = () => Effect.succeed(false),
        ...rest
      } = shared(breaker)
      return Effect.succeed({
        isCurrent: () => true,
        share: () => undefined,
        admit: (...args: Parameters<Scripted["admit"]>) => asked(admit(...args)),
        settle: (...args: Parameters<Scripted["settle"]>) => asked(settle(...args)),
        sync: Effect.succeed(true),
        ...rest
      })
    }
    return Effect.flatMap(CircuitBreaker.CircuitBreaker, body).pipe(
      Effect.provide(CircuitBreaker.layer({ ...quick, store: { attach } }))
    )
  }
  const over = (
    shared: Partial<Scripted>,
    body: (breaker: CircuitBreaker.Service) => Effect.Effect<void, unknown, Scope.Scope>
  ) => overStore(() => shared, body)

  it.effect('with onStoreError "fail" every call is refused without running while the store is down', () =>
    over({ isCurrent: () => false }, (breaker) =>
      Effect.gen(function* () {
        for (const names of ["a", ["a", "b"]]) {
          const error = yield* refusal(breaker, names)
          assert.deepStrictEqual([error.circuit, error.reason, error.retryAfter], ["a", "store", undefined])
          assert.isFalse(yield* breaker.available(names))
        }
        assert.strictEqual((yield* Effect.flip(breaker.acquire("a"))).reason, "store")
        const stream = breaker.executeStream("a")(Stream.die("a refused stream ran"))
        assert.strictEqual((yield* Effect.flip(Stream.runDrain(stream))).reason, "store")
      })
    )
  )

  it.effect('with onStoreError "fail" a probe is refused when the store fails meanwhile', () => {
    let current = true
    const admit = () =>
      Effect.sync(() => {
        current = false
        return undefined
      })
    return over({ admit, isCurrent: () => current }, (breaker) =>
      Effect.gen(function* () {
        yield* halfOpen(breaker, "a")
        assert.strictEqual((yield* refusal(breaker, "a")).reason, "store")
      })
    )
  })

  it.effect("without an answer this process decides alone, and the call's own result is kept", () =>
    over({}, (breaker) =>
      Effect.gen(function* () {
        yield* fails(breaker, "a")
        assert.strictEqual((yield* refusal(breaker, "a")).reason, "open")
        yield* TestClock.adjust("10 seconds")
        yield* fails(breaker, "a")
        assert.strictEqual(yield* phase(breaker), "open")
        yield* TestClock.adjust("20 seconds")
        assert.strictEqual(yield* works(breaker, "a"), "fine")
        assert.strictEqual(yield* phase(breaker), "closed")
      })
    )
  )

  it.effect("without an answer one of two concurrent calls probes", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<undefined>()
      yield* over({ admit: () => Deferred.await(gate) }, (breaker) =>
        Effect.gen(function* () {
          yield* halfOpen(breaker, "a")
          const asking = yield* Effect.forkChild(
            Effect.forEach([1, 2, 3], () => attempt(breaker, "a"), { concurrency: "unbounded" })
          )
          yield* Effect.repeat(Effect.yieldNow, { times: 10 })
          yield* Deferred.succeed(gate, undefined)
          const calls = yield* Fiber.join(asking)
          assert.lengthOf(
            calls.filter((call) => call !== undefined),
            1
          )
        })
      )
    })
  )

  it.effect("without an answer about a probe's outcome, the changes made meanwhile stay", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<boolean>()
      const asked = yield* Deferred.make<void>()
      const settle = () => Effect.andThen(Deferred.succeed(asked, undefined), Deferred.await(gate))
      yield* over({ settle }, (breaker) =>
        Effect.gen(function* () {
          yield* halfOpen(breaker, "a")
          const probe = yield* begin(breaker, "a")
          const end = yield* Effect.forkChild(probe.fail())
          yield* Deferred.await(asked)
          yield* breaker.reset("a")
          yield* Deferred.succeed(gate, false)
          yield* Fiber.join(end)
          assert.strictEqual(yield* phase(breaker), "closed")
        })
      )
    })
  )

  it.effect(
    "a probe is refused when the store has given its permits away or the circuit is open after all",
    () => {
      const answers: Array<CircuitState.CircuitState> = []
      const now = 10_000
      const base = { ...CircuitState.initial, openings: 1, backoff: 10_000, lasted: 10_000 }
      answers.push({
        ...base,
        phase: "half-open",
        generation: 2,
        cause: "tripped",
        since: now,
        leases: [{ holder: "another process", until: now + 60_000 }],
        successes: 0,
        failures: 0
      })
      answers.push({ ...base, phase: "open", generation: 3, since: now, until: now + 500, cause: "probe" })
      const admit =
        ({ adopt }: Breaker): Scripted["admit"] =>
        (circuit) =>
          Effect.suspend(() => {
            const state = answers.shift()
            const answer = { granted: false, generation: 0 }
            return state === undefined ? Effect.succeed(answer) : Effect.as(adopt(circuit, state), answer)
          })
      return overStore(
        (store) => ({ admit: admit(store) }),
        (breaker) =>
          Effect.gen(function* () {
            yield* halfOpen(breaker, "a")
            assert.strictEqual((yield* refusal(breaker, "a")).reason, "half-open")
            assert.isFalse(yield* breaker.available("a"))
            yield* TestClock.adjust("1 minute")
          })
      )
    }
  )

  it.effect(
    "when one of several probes is refused, the other permits are given back in the order of names",
    () => {
      const told: Array<string> = []
      const admit =
        ({ adopt }: Breaker): Scripted["admit"] =>
        (circuit, holder) =>
          Effect.suspend(() => {
            told.push(`admit ${circuit}`)
            const state: CircuitState.CircuitState = {
              ...CircuitState.initial,
              phase: "half-open",
              generation: 2,
              cause: "tripped",
              leases: [{ holder: circuit === "c" ? "another process" : holder, until: 1e9 }],
              successes: 0,
              failures: 0
            }
            return Effect.as(adopt(circuit, state), { granted: circuit !== "c", generation: 2 })
          })
      const settle =
        ({ adopt }: Breaker): Scripted["settle"] =>
        (circuit, _grant, { outcome }) =>
          Effect.suspend(() => {
            told.push(`${outcome} ${circuit}`)
            const free: CircuitState.CircuitState = {
              ...CircuitState.initial,
              phase: "half-open",
              generation: 2,
              cause: "tripped",
              leases: [],
              successes: 0,
              failures: 0
            }
            return Effect.as(adopt(circuit, free), true)
          })
      return overStore(
        (store) => ({ admit: admit(store), settle: settle(store) }),
        (breaker) =>
          Effect.gen(function* () {
            yield* halfOpen(breaker, "a", "b", "c")
            const error = yield* refusal(breaker, ["c", "b", "a"])
            assert.deepStrictEqual([error.circuit, error.reason], ["c", "half-open"])
            assert.deepStrictEqual(told, ["admit a", "admit b", "admit c", "ignored a", "ignored b"])
            assert.isTrue(yield* breaker.available(["a", "b"]))
          })
      )
    }
  )

  it.effect("the store's verdict about a probe's outcome is adopted", () => {
    const settle =
      ({ adopt }: Breaker) =>
      () =>
        Effect.as(adopt("a", { ...CircuitState.initial, generation: 7 }), true)
    return overStore(
      (store) => ({ settle: settle(store) }),
      (breaker) =>
        Effect.gen(function* () {
          yield* halfOpen(breaker, "a")
          yield* fails(breaker, "a")
          const { phase, generation } = yield* breaker.state("a")
          assert.deepStrictEqual([phase, generation], ["closed", 7])
        })
    )
  })

  it.effect(
    "a call is let through without a probe when the store says that the circuit was closed meanwhile",
    () => {
      const admit =
        ({ adopt }: Breaker) =>
        () =>
          Effect.as(adopt("a", { ...CircuitState.initial, generation: 7 }), { granted: false, generation: 7 })
      return overStore(
        (store) => ({ admit: admit(store) }),
        (breaker) =>
          Effect.gen(function* () {
            yield* halfOpen(breaker, "a")
            yield* works(breaker, "a")
            assert.strictEqual(yield* phase(breaker), "closed")
          })
      )
    }
  )

  it.effect("a permit of an old generation makes the call be decided again", () =>
    over({ admit: () => Effect.succeed({ granted: true, generation: 99 }) }, (breaker) =>
      Effect.gen(function* () {
        yield* halfOpen(breaker, "a")
        assert.strictEqual((yield* refusal(breaker, "a")).reason, "half-open")
      })
    )
  )

  it.effect("many refusals and failures push out no transition", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const events = yield* ResilienceEvents.make()
      yield* events.tap((event) => Effect.sync(() => void seen.push(event._tag)))
      yield* Effect.flatMap(CircuitBreaker.make(quick), (breaker) =>
        Effect.gen(function* () {
          const many = Array.from({ length: 3_000 }, () =>
            Effect.exit(breaker.execute("a")(Effect.fail("no")))
          )
          // The observer gets no turn before all of them are done.
          yield* Effect.withFiber((fiber) => {
            const run = Effect.runSyncWith(fiber.context)
            for (const call of many) run(call)
            return Effect.void
          })
          yield* breaker.reset("a")
          const transitions = () => seen.filter((tag) => tag === "CircuitTransition").length
          yield* Effect.repeat(Effect.yieldNow, { until: () => transitions() >= 2 })
          assert.strictEqual(transitions(), 2)
        })
      ).pipe(Effect.provideService(ResilienceEvents.ResilienceEvents, events))
    })
  )

  it.effect("a probe that ends after its limit is published", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const events = yield* ResilienceEvents.make()
      yield* events.tap((event) => Effect.sync(() => void seen.push(event._tag)))
      yield* Effect.flatMap(CircuitBreaker.make(quick), (breaker) =>
        Effect.gen(function* () {
          yield* halfOpen(breaker, "a")
          const slow = yield* Effect.forkChild(breaker.execute("a")(Effect.sleep("1 minute")))
          yield* TestClock.adjust("1 minute")
          yield* Fiber.join(slow)
          assert.strictEqual(yield* Effect.map(breaker.state("a"), ({ phase }) => phase), "half-open")
          yield* Effect.repeat(Effect.yieldNow, { times: 20 })
          assert.include(seen, "CircuitProbeLate")
        })
      ).pipe(Effect.provideService(ResilienceEvents.ResilienceEvents, events))
    })
  )

  it.effect("with more permits than successes, probes run concurrently", () =>
    Effect.flatMap(CircuitBreaker.make({ ...quick, halfOpen: { permits: 5 } }), (breaker) =>
      Effect.gen(function* () {
        yield* halfOpen(breaker, "a")
        const calls = yield* Effect.forEach(Array.from({ length: 20 }), () => attempt(breaker, "a"))
        assert.lengthOf(
          calls.filter((call) => call !== undefined),
          5
        )
      })
    )
  )

  it.effect("a circuit in use is not removed for newer names", () =>
    Effect.flatMap(CircuitBreaker.make({ maxCircuits: 100 }), (breaker) =>
      Effect.gen(function* () {
        for (let n = 0; n < 4; n++) {
          yield* fails(breaker, "hot")
          for (let m = 0; m < 60; m++) {
            yield* TestClock.adjust("1 milli")
            yield* fails(breaker, `other ${n} ${m}`)
          }
        }
        yield* fails(breaker, "hot")
        assert.strictEqual(yield* Effect.map(breaker.state("hot"), ({ phase }) => phase), "open")
      })
    )
  )

  for (const outcome of [undefined, true, {}]) {
    it.effect(`a classifier that returns ${JSON.stringify(outcome)} makes the call not count`, () =>
      Effect.flatMap(CircuitBreaker.make(quick), (breaker) =>
        Effect.gen(function* () {
          // As in a JavaScript program.
          const classify = (() => outcome) as unknown as CircuitBreaker.Classify
          assert.strictEqual(yield* breaker.execute("a", { classify })(Effect.succeed("fine")), "fine")
          yield* Effect.exit(breaker.execute("a", { classify })(Effect.fail("no")))
          yield* Effect.exit(breaker.execute("a", { classify })(Effect.fail("no")))
          assert.strictEqual(yield* Effect.map(breaker.state("a"), ({ phase }) => phase), "closed")
        })
      )
    )
  }

  it.effect("a call can be interrupted while the store does not answer", () =>
    over({ admit: () => Effect.never, settle: () => Effect.never }, (breaker) =>
      Effect.gen(function* () {
        yield* halfOpen(breaker, "a")
        const call = yield* Effect.forkChild(breaker.execute("a")(Effect.void), { startImmediately: true })
        yield* Fiber.interrupt(call)
        assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(call)))
      })
    )
  )

  it.effect("changes of other processes apply here and are not sent back", () => {
    const changes: Array<Change> = []
    let told: Breaker | undefined
    const attach = (breaker: Breaker) =>
      Effect.sync((): SharedCircuits => {
        told = breaker
        return {
          isCurrent: () => true,
          share: (change: Change) => void changes.push(change),
          admit: () => asked(Effect.succeed(undefined)),
          settle: () => asked(Effect.succeed(false)),
          sync: Effect.succeed(true)
        }
      })
    return Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.CircuitBreaker
      const adopt = told?.adopt ?? (() => Effect.void)
      const base = { ...CircuitState.initial, generation: 4, openings: 1, backoff: 500, lasted: 500 }
      yield* adopt("a", { ...base, phase: "open", since: 0, until: 500, cause: "consecutive" })
      const error = yield* refusal(breaker, "a")
      assert.deepStrictEqual([error.reason, error.retryAfter], ["open", Duration.millis(500)])
      yield* adopt("a", { ...CircuitState.initial, generation: 5 })
      assert.strictEqual(yield* works(breaker, "a"), "fine")
      assert.deepStrictEqual(changes, [])
    }).pipe(Effect.provide(CircuitBreaker.layer({ ...quick, store: { attach } })))
  })

  it.effect("gets the changes that this process decided, and no others", () => {
    const changes: Array<Change> = []
    return over({ share: (change) => void changes.push(change) }, (breaker) =>
      Effect.gen(function* () {
        const told = () =>
          changes
            .splice(0)
            .map(({ circuit, before, after, byHand }) => [circuit, before.phase, after.phase, byHand])
        yield* works(breaker, "a")
        yield* fails(breaker, "a")
        assert.deepStrictEqual(told(), [["a", "closed", "open", false]])
        yield* breaker.trip("b")
        yield* breaker.reset("b")
        yield* Effect.scoped(breaker.isolate("b"))
        assert.deepStrictEqual(told(), [
          ["b", "closed", "open", true],
          ["b", "open", "closed", true],
          ["b", "closed", "isolated", true],
          ["b", "isolated", "closed", true]
        ])
      })
    )
  })
})

it.effect("the state of a circuit can be read from one Ref for all calls", () =>
  Effect.gen(function* () {
    const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 1 } } })
    const ref = yield* breaker.ref("a")
    assert.strictEqual((yield* Ref.get(ref)).phase, "closed")
    yield* Effect.ignore(Effect.fail("no").pipe(breaker.execute("a")))
    assert.strictEqual((yield* Ref.get(ref)).phase, "open")
    assert.strictEqual(yield* breaker.ref("a"), ref)
  })
)
