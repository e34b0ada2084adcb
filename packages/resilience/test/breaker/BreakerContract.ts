/**
 * The behaviours of every circuit breaker, with any store. The numbers 1 to 24 name the behaviours.
 *
 * `contract` declares the tests for one store. Each call of its `makeLayer` creates a new store. A layer that is built
 * twice stands for two processes that share one store.
 */
import { assert, describe, it } from "@effect/vitest"
import {
  Cause,
  Clock,
  Context,
  Data,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Scope,
  Stream
} from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import type { CircuitTransition } from "#resilience/breaker/CircuitEvent"
import { CircuitRefused } from "#resilience/breaker/CircuitRefused"
import * as Sweeps from "../../../../test/sweeps.ts"

export type MakeLayer = (options?: CircuitBreaker.Options) => Layer.Layer<CircuitBreaker.CircuitBreaker>

export interface ContractOptions {
  /** True when processes share the circuits. Tests that need a single process are skipped, tests with two are added. */
  readonly shared?: boolean | undefined
  /** Completes when store and breaker have each other's changes. Default: completes at once. */
  readonly quiet?: Effect.Effect<void> | undefined
}

/** Opens for 10 s, 20 s, 40 s, 80 s, 120 s, exactly. */
export const exact = Backoff.exponential({ initial: "10 seconds", factor: 2, cap: "120 seconds", jitter: 0 })

class ServerDown extends Data.TaggedError("ServerDown")<{
  readonly retryAfter?: Duration.Duration | undefined
}> {}

const down = Effect.fail(new ServerDown({}))
const leaveAlone = (time: Duration.Input) =>
  Effect.fail(new ServerDown({ retryAfter: Duration.fromInputUnsafe(time) }))

/** A call in flight. Each of its functions completes when the call has ended. */
export interface UnderWay {
  readonly fiber: Fiber.Fiber<unknown, unknown>
  readonly succeed: Effect.Effect<Exit.Exit<unknown, unknown>>
  readonly fail: (error?: unknown) => Effect.Effect<Exit.Exit<unknown, unknown>>
  readonly die: Effect.Effect<Exit.Exit<unknown, unknown>>
  readonly interrupt: Effect.Effect<void>
}

/** Starts a call and returns it once its body runs. Undefined when it was refused. */
export const attempt = (
  breaker: CircuitBreaker.Service,
  names: CircuitBreaker.Names,
  options?: CircuitBreaker.CallOptions
): Effect.Effect<UnderWay | undefined> =>
  Effect.gen(function* () {
    const begun = yield* Deferred.make<void>()
    const ending = yield* Deferred.make<unknown, unknown>()
    const body = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(ending))
    const fiber = yield* Effect.forkDetach(breaker.execute(names, options)(body))
    const runs = yield* Effect.raceFirst(
      Effect.as(Deferred.await(begun), true),
      Effect.as(Fiber.await(fiber), false)
    )
    if (!runs) return undefined
    const end = (exit: Exit.Exit<unknown, unknown>) =>
      Effect.andThen(Deferred.done(ending, exit), Fiber.await(fiber))
    return {
      fiber,
      succeed: end(Exit.void),
      fail: (error = new ServerDown({})) => end(Exit.fail(error)),
      die: end(Exit.die("defect")),
      interrupt: Fiber.interrupt(fiber)
    }
  })

export const begin = (...args: Parameters<typeof attempt>): Effect.Effect<UnderWay> =>
  Effect.map(attempt(...args), (call) => {
    if (call === undefined) throw new Error("refused")
    return call
  })

export const works = (breaker: CircuitBreaker.Service, names: CircuitBreaker.Names) =>
  Effect.orDie(breaker.execute(names)(Effect.succeed("fine")))

/** Makes `count` failing calls. None may be refused. */
export const fails = (breaker: CircuitBreaker.Service, name: CircuitBreaker.Names, count = 1, call = down) =>
  Effect.forEach(
    Array.from({ length: count }),
    () =>
      Effect.map(Effect.flip(breaker.execute(name)(call)), (error) =>
        assert.strictEqual(error._tag, "ServerDown")
      ),
    { discard: true }
  )

/** Returns the refusal of the next call, whose body must not run. */
export const refusal = (breaker: CircuitBreaker.Service, names: CircuitBreaker.Names) =>
  Effect.map(
    Effect.flip(breaker.execute(names)(Effect.die("a refused call ran"))),
    (error): CircuitRefused => error
  )

/** Every change of a circuit is at least two events, so these are more than the 1,024 that are kept for a slow reader. */
const flood = 1_200

export const contract = (
  store: string,
  makeLayer: MakeLayer,
  { shared = false, quiet = Effect.void }: ContractOptions = {}
): void => {
  const check = (
    title: string,
    options: CircuitBreaker.Options,
    body: (breaker: CircuitBreaker.Service) => Effect.Effect<void, unknown, Scope.Scope>
  ): void => {
    it.effect(title, () =>
      Effect.flatMap(CircuitBreaker.CircuitBreaker, body).pipe(
        Effect.provide(makeLayer({ open: exact, ...options }))
      )
    )
  }
  const pass = (time: Duration.Input) =>
    quiet.pipe(Effect.andThen(TestClock.adjust(time)), Effect.andThen(quiet))

  const phase = (breaker: CircuitBreaker.Service, name = "a") =>
    Effect.map(breaker.state(name), ({ phase }) => phase)
  const expectPhase = (breaker: CircuitBreaker.Service, expected: string, name = "a") =>
    Effect.map(phase(breaker, name), (actual) => assert.strictEqual(actual, expected))
  const trips = (failures: number): CircuitBreaker.Options => ({ trip: { consecutive: { failures } } })
  /** Opens on the first failure, closes on the first success. */
  const quick = { trip: { consecutive: { failures: 1 } }, halfOpen: { successes: 1 } } as const
  const opened = (breaker: CircuitBreaker.Service, name = "a") =>
    Effect.andThen(fails(breaker, name), expectPhase(breaker, "open", name))
  const expired = (breaker: CircuitBreaker.Service, name = "a") =>
    Effect.andThen(opened(breaker, name), pass("10 seconds"))
  /** Collects the transitions from now on. */
  const watched = (breaker: CircuitBreaker.Service) =>
    Effect.gen(function* () {
      const seen: Array<CircuitTransition> = []
      yield* breaker.transitions.pipe(
        Stream.runForEach((transition) => Effect.sync(() => void seen.push(transition))),
        Effect.forkScoped({ startImmediately: true })
      )
      yield* Effect.yieldNow
      return seen
    })
  const settled = Effect.andThen(quiet, Effect.repeat(Effect.yieldNow, { times: 20 }))

  describe(`${store}: what opens a circuit`, () => {
    check(
      "1: a success resets the consecutive failures; the n-th consecutive failure opens the circuit",
      trips(5),
      (breaker) =>
        Effect.gen(function* () {
          yield* fails(breaker, "a", 4)
          yield* works(breaker, "a")
          yield* fails(breaker, "a", 4)
          yield* expectPhase(breaker, "closed")
          yield* fails(breaker, "a")
          yield* expectPhase(breaker, "open")
        })
    )

    check("1: five consecutive failures open the circuit by default", {}, (breaker) =>
      Effect.gen(function* () {
        yield* fails(breaker, "a", 4)
        yield* expectPhase(breaker, "closed")
        yield* fails(breaker, "a")
        yield* expectPhase(breaker, "open")
        yield* expectPhase(breaker, "closed", "b")
      })
    )

    check(
      "2: failures older than the window do not count, after any pause",
      { trip: { consecutive: false, rate: { window: "1 minute", minimumCalls: 4 } } },
      (breaker) =>
        Effect.gen(function* () {
          // A shared store asks every second, which makes a long pause expensive.
          for (const pause of ["1 minute", "1 hour", ...(shared ? [] : (["30 days"] as const))] as const) {
            yield* fails(breaker, "a", 3)
            yield* pass(pause)
            yield* fails(breaker, "a", 3)
            yield* expectPhase(breaker, "closed")
            yield* pass("1 minute")
          }
          yield* fails(breaker, "a", 3)
          yield* pass("50 seconds")
          yield* fails(breaker, "a")
          yield* expectPhase(breaker, "open")
        })
    )

    check(
      "2: consecutive failures older than `within` do not count",
      { trip: { consecutive: { failures: 3, within: "1 minute" } } },
      (breaker) =>
        Effect.gen(function* () {
          yield* fails(breaker, "a", 2)
          yield* pass("1 hour")
          yield* fails(breaker, "a", 2)
          yield* expectPhase(breaker, "closed")
          yield* pass("59 seconds")
          yield* fails(breaker, "a")
          yield* expectPhase(breaker, "open")
        })
    )

    check(
      "3: a rate is not judged below the minimum of calls, and opens exactly at its share",
      { trip: { consecutive: false, rate: { minimumCalls: 6, failures: 0.5 } } },
      (breaker) =>
        Effect.gen(function* () {
          yield* fails(breaker, "a", 5)
          yield* expectPhase(breaker, "closed")
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "open")
          yield* fails(breaker, "b", 2)
          for (let n = 0; n < 3; n++) yield* works(breaker, "b")
          // 2 of 5, then 2 of 6, 3 of 7, 4 of 8.
          yield* works(breaker, "b")
          yield* fails(breaker, "b")
          yield* expectPhase(breaker, "closed", "b")
          yield* fails(breaker, "b")
          yield* expectPhase(breaker, "open", "b")
        })
    )

    check(
      "4: a call slower than the limit counts as slow even when it succeeds",
      {
        trip: {
          consecutive: false,
          rate: { minimumCalls: 2, failures: false, slow: 0.5, slowerThan: "5 seconds" }
        }
      },
      (breaker) =>
        Effect.gen(function* () {
          const timed = (time: Duration.Input) =>
            Effect.gen(function* () {
              const call = yield* begin(breaker, "a")
              yield* pass(time)
              yield* call.succeed
            })
          yield* timed("5 seconds")
          yield* timed("5 seconds")
          yield* timed("5 seconds")
          yield* expectPhase(breaker, "closed")
          yield* timed("5001 millis")
          yield* expectPhase(breaker, "closed")
          yield* timed("5001 millis")
          yield* timed("5001 millis")
          yield* expectPhase(breaker, "open")
        })
    )

    check("a defect counts as a failure and is passed on", trips(1), (breaker) =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(breaker.execute("a")(Effect.die("oops")))
        assert.deepStrictEqual(exit, Exit.die("oops"))
        yield* expectPhase(breaker, "open")
      })
    )

    check("with concurrent calls, failures of three distinct calls are needed", trips(3), (breaker) =>
      Effect.gen(function* () {
        const bystander = yield* begin(breaker, "a", { call: "other" })
        const failing = (call: string, name = "a") =>
          Effect.flatMap(begin(breaker, name, { call }), (started) => started.fail())
        for (const call of ["x", "x", "x", "y", "x", "y"]) yield* failing(call)
        yield* expectPhase(breaker, "closed")
        yield* failing("z")
        yield* expectPhase(breaker, "open")
        yield* bystander.succeed
        // A call that is alone opens the circuit with its own attempts.
        for (const call of ["x", "x", "x"]) yield* failing(call, "b")
        yield* expectPhase(breaker, "open", "b")
      })
    )
  })

  describe(`${store}: open circuit`, () => {
    check(
      "5: a call is refused at once without running, with the exact remaining time",
      trips(1),
      (breaker) =>
        Effect.gen(function* () {
          yield* opened(breaker)
          yield* pass("3456 millis")
          const fiber = yield* Effect.forkChild(breaker.execute("a")(Effect.die("a refused call ran")), {
            startImmediately: true
          })
          const exit = fiber.pollUnsafe()
          if (exit === undefined || Exit.isSuccess(exit)) throw new Error("not refused at once")
          const error = Option.getOrThrow(Cause.findErrorOption(exit.cause))
          assert.instanceOf(error, CircuitRefused)
          assert.deepStrictEqual(
            [error.circuit, error.reason, error.isRetryable, error.retryAfter],
            ["a", "open", true, Duration.millis(6_544)]
          )
          assert.strictEqual(
            error.message,
            "Circuit `a` is open for another 6.6 s (last failure: ServerDown). Wait, or call something else."
          )
          const status = yield* breaker.state("a")
          assert.deepStrictEqual(status.retryAfter, Duration.millis(6_544))
        })
    )

    check(
      "6: the next call runs when the open time is over, and not a millisecond earlier",
      trips(1),
      (breaker) =>
        Effect.gen(function* () {
          yield* opened(breaker)
          yield* pass("9999 millis")
          assert.deepStrictEqual((yield* refusal(breaker, "a")).retryAfter, Duration.millis(1))
          yield* pass("1 millis")
          assert.strictEqual(yield* works(breaker, "a"), "fine")
        })
    )

    check("other circuits are not affected", trips(1), (breaker) =>
      Effect.gen(function* () {
        yield* opened(breaker)
        assert.strictEqual(yield* works(breaker, "b"), "fine")
      })
    )
  })

  describe(`${store}: half-open circuit`, () => {
    for (const permits of [1, 3]) {
      check(
        `7: of 20 callers that arrive together, ${permits} run and the rest are refused as half-open`,
        { trip: { consecutive: { failures: 1 } }, halfOpen: { permits, successes: 3 } },
        (breaker) =>
          Effect.gen(function* () {
            yield* expired(breaker)
            const calls = yield* Effect.forEach(Array.from({ length: 20 }), () => attempt(breaker, "a"), {
              concurrency: "unbounded"
            })
            const running = calls.filter((call) => call !== undefined)
            assert.lengthOf(running, permits)
            const error = yield* refusal(breaker, "a")
            assert.deepStrictEqual([error.reason, error.retryAfter], ["half-open", undefined])
            assert.strictEqual(
              error.message,
              "Circuit `a` is half-open: its probes are in flight (last failure: ServerDown). Retry when they have ended."
            )
            for (const call of running) yield* call.succeed
            yield* expectPhase(breaker, permits === 3 ? "closed" : "half-open")
          })
      )
    }

    check(
      "8: a probe that is interrupted, ignored or not classified frees its permit and does not count",
      trips(1),
      (breaker) =>
        Effect.gen(function* () {
          yield* expired(breaker)
          const probe = yield* begin(breaker, "a")
          yield* probe.interrupt
          yield* quiet
          yield* expectPhase(breaker, "half-open")
          const says = { classify: () => ({ counts: "ignored" }) as const }
          yield* (yield* begin(breaker, "a", says)).fail()
          yield* expectPhase(breaker, "half-open")
          const throws = {
            classify: () => {
              throw new Error("a bug in classify")
            }
          }
          const exit = yield* (yield* begin(breaker, "a", throws)).fail("its own error")
          assert.deepStrictEqual(exit, Exit.fail("its own error"))
          yield* expectPhase(breaker, "half-open")
          // None of these counted: two successes are still needed.
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "half-open")
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "closed")
        })
    )

    check(
      "9: a probe that exceeds its limit loses its permit, and its outcome does not count",
      { ...quick, halfOpen: { successes: 1, probeLimit: "5 seconds" } },
      (breaker) =>
        Effect.gen(function* () {
          yield* expired(breaker)
          const hanging = yield* begin(breaker, "a")
          yield* pass("4999 millis")
          assert.strictEqual((yield* refusal(breaker, "a")).reason, "half-open")
          yield* pass("1 millis")
          const second = yield* begin(breaker, "a")
          yield* hanging.fail()
          yield* expectPhase(breaker, "half-open")
          assert.isFalse(yield* breaker.available("a"))
          yield* second.succeed
          yield* expectPhase(breaker, "closed")
        })
    )

    check(
      "9: a probe stuck for a day does not block the circuit",
      { ...quick, halfOpen: { successes: 1, probeLimit: "5 seconds" } },
      (breaker) =>
        Effect.gen(function* () {
          yield* expired(breaker)
          const hanging = yield* begin(breaker, "a")
          yield* pass("1 day")
          assert.isTrue(yield* breaker.available("a"))
          yield* hanging.succeed
          yield* expectPhase(breaker, "half-open")
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "closed")
        })
    )

    check("10: a late outcome changes nothing in any later phase", quick, (breaker) =>
      Effect.gen(function* () {
        const late = () => Effect.forEach(["a", "a"], (name) => begin(breaker, name))
        const [failure, success] = yield* late()
        const before = Effect.map(breaker.state("a"), ({ phase, generation, failures }) =>
          [phase, generation, failures].join(" ")
        )
        const unchanged = (call: UnderWay | undefined, how: "fail" | "succeed") =>
          Effect.gen(function* () {
            if (call === undefined) throw new Error("refused")
            yield* quiet
            const was = yield* before
            yield* how === "fail" ? call.fail() : call.succeed
            yield* quiet
            assert.strictEqual(yield* before, was)
          })
        // Admitted closed; now open.
        yield* opened(breaker)
        yield* unchanged(failure, "fail")
        yield* pass("10 seconds")
        // Now half-open.
        const probe = yield* begin(breaker, "a")
        yield* unchanged(success, "succeed")
        // A probe; now closed by hand, then isolated.
        yield* breaker.reset("a")
        yield* unchanged(probe, "fail")
        const [third, fourth] = yield* late()
        yield* Effect.scoped(Effect.andThen(breaker.isolate("a"), unchanged(third, "fail")))
        // Closed again, in another generation.
        yield* unchanged(fourth, "fail")
        yield* expectPhase(breaker, "closed")
      })
    )

    check("13: the same classifier decides in every phase", quick, (breaker) =>
      Effect.gen(function* () {
        const classify: CircuitBreaker.Classify = (exit) =>
          Exit.isSuccess(exit) && exit.value === "bad" ? { counts: "failure" } : { counts: "success" }
        const run = (answer: Effect.Effect<string, string>) =>
          Effect.exit(breaker.execute("a", { classify })(answer))
        yield* run(Effect.fail("fine by this classifier"))
        yield* expectPhase(breaker, "closed")
        yield* run(Effect.succeed("bad"))
        yield* expectPhase(breaker, "open")
        yield* pass("10 seconds")
        yield* run(Effect.succeed("bad"))
        yield* expectPhase(breaker, "open")
        yield* pass("20 seconds")
        yield* run(Effect.fail("fine by this classifier"))
        yield* expectPhase(breaker, "closed")
      })
    )

    check(
      "15: a circuit closes after s successes of p probes, and opens as soon as that is impossible",
      { trip: { consecutive: { failures: 1 } }, halfOpen: { permits: 2, successes: 2, outOf: 4 } },
      (breaker) =>
        Effect.gen(function* () {
          yield* expired(breaker)
          yield* fails(breaker, "a", 2)
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "half-open")
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "closed")
          yield* opened(breaker)
          yield* pass("20 seconds")
          yield* works(breaker, "a")
          yield* fails(breaker, "a", 2)
          yield* expectPhase(breaker, "half-open")
          yield* fails(breaker, "a")
          yield* expectPhase(breaker, "open")
        })
    )
  })

  describe(`${store}: classification`, () => {
    check(
      "11: an interruption does not count in any phase; with a failure next to it, the classifier decides",
      quick,
      (breaker) =>
        Effect.gen(function* () {
          const both = Effect.failCause(
            Cause.fromReasons([...Cause.fail("real").reasons, ...Cause.interrupt(1).reasons])
          )
          const interrupted = begin(breaker, "a").pipe(
            Effect.flatMap(({ interrupt }) => interrupt),
            Effect.andThen(quiet)
          )
          const asked: Array<unknown> = []
          const classify: CircuitBreaker.Classify = (exit) => {
            asked.push(exit)
            return { counts: "failure" }
          }
          yield* interrupted
          yield* Effect.exit(breaker.execute("a", { classify })(Effect.interrupt))
          yield* quiet
          yield* expectPhase(breaker, "closed")
          assert.lengthOf(asked, 0)
          yield* Effect.exit(breaker.execute("a", { classify: () => ({ counts: "ignored" }) })(both))
          yield* expectPhase(breaker, "closed")
          yield* Effect.exit(breaker.execute("a")(both))
          yield* expectPhase(breaker, "open")
          yield* pass("10 seconds")
          yield* interrupted
          yield* Effect.exit(breaker.execute("a", { classify })(Effect.interrupt))
          yield* quiet
          yield* expectPhase(breaker, "half-open")
          assert.lengthOf(asked, 0)
          yield* Effect.exit(breaker.execute("a", { classify })(both))
          yield* quiet
          yield* expectPhase(breaker, "open")
          assert.lengthOf(asked, 1)
        })
    )

    check("12: a timeout inside counts as a failure, a timeout outside does not count", trips(1), (breaker) =>
      Effect.gen(function* () {
        const outside = yield* Effect.forkChild(
          Effect.exit(Effect.timeout(breaker.execute("a")(Effect.never), "1 second"))
        )
        yield* pass("1 second")
        assert.isTrue(Exit.isFailure(yield* Fiber.join(outside)))
        yield* expectPhase(breaker, "closed")
        const inside = yield* Effect.forkChild(
          Effect.exit(breaker.execute("a")(Effect.timeout(Effect.never, "1 second")))
        )
        yield* pass("1 second")
        assert.isTrue(Exit.isFailure(yield* Fiber.join(inside)))
        yield* expectPhase(breaker, "open")
      })
    )

    check("14: a refusal by an inner circuit does not count for the outer one", trips(1), (breaker) =>
      Effect.gen(function* () {
        yield* opened(breaker, "inner")
        const nested = breaker.execute("outer")(breaker.execute("inner")(down))
        for (let n = 0; n < 3; n++) {
          const error = yield* Effect.flip(nested)
          assert.instanceOf(error, CircuitRefused)
        }
        yield* expectPhase(breaker, "closed", "outer")
        // Calls that the inner circuit lets through fail for both.
        yield* pass("10 seconds")
        yield* Effect.flip(nested)
        yield* expectPhase(breaker, "open", "outer")
      })
    )

    check("14: a probe refused by an inner circuit frees the permit", quick, (breaker) =>
      Effect.gen(function* () {
        yield* expired(breaker, "outer")
        yield* opened(breaker, "inner")
        const nested = breaker.execute("outer")(breaker.execute("inner")(down))
        assert.strictEqual((yield* Effect.flip(nested))._tag, "CircuitRefused")
        yield* expectPhase(breaker, "half-open", "outer")
        yield* works(breaker, "outer")
        yield* expectPhase(breaker, "closed", "outer")
      })
    )
  })

  describe(`${store}: open time`, () => {
    check(
      "16: consecutive openings last longer up to the cap, and restart after as long closed",
      quick,
      (breaker) =>
        Effect.gen(function* () {
          const lasts = (seconds: number) =>
            Effect.gen(function* () {
              const { retryAfter } = yield* breaker.state("a")
              assert.deepStrictEqual(retryAfter, Duration.seconds(seconds))
              yield* pass(Duration.seconds(seconds))
            })
          for (const seconds of [10, 20, 40, 80, 120, 120]) {
            yield* fails(breaker, "a")
            yield* lasts(seconds)
          }
          yield* works(breaker, "a")
          yield* pass("119 seconds")
          yield* fails(breaker, "a")
          yield* lasts(120)
          yield* works(breaker, "a")
          yield* pass("120 seconds")
          yield* fails(breaker, "a")
          yield* lasts(10)
        })
    )

    check(
      "16: jitter never exceeds the cap",
      { ...quick, open: Backoff.exponential({ initial: "1 minute", cap: "2 minutes", jitter: 0.5 }) },
      (breaker) =>
        Effect.gen(function* () {
          for (let n = 0; n < 40; n++) {
            yield* fails(breaker, "a")
            const { retryAfter = Duration.zero } = yield* breaker.state("a")
            assert.isAtMost(Duration.toMillis(retryAfter), 120_000)
            assert.isAtLeast(Duration.toMillis(retryAfter), 30_000)
            yield* pass("2 minutes")
          }
        })
    )

    check(
      "17: Retry-After lengthens and never shortens an opening, is capped, and is kept by failures that do not trip",
      { ...trips(2), maxRetryAfter: "5 minutes" },
      (breaker) =>
        Effect.gen(function* () {
          const retryAfter = Effect.map(breaker.state("a"), ({ retryAfter }) => retryAfter)
          const tripped = (...waits: ReadonlyArray<Duration.Input | undefined>) =>
            Effect.gen(function* () {
              yield* breaker.reset("a")
              yield* quiet
              for (const wait of waits)
                yield* fails(breaker, "a", 1, wait === undefined ? down : leaveAlone(wait))
              return yield* retryAfter
            })
          assert.deepStrictEqual(yield* tripped(undefined, "1 minute"), Duration.minutes(1))
          assert.deepStrictEqual(yield* tripped(undefined, "1 second"), Duration.seconds(10))
          assert.deepStrictEqual(yield* tripped(undefined, "1 day"), Duration.minutes(5))
          assert.deepStrictEqual(yield* tripped("1 minute", undefined), Duration.minutes(1))
          assert.deepStrictEqual(yield* tripped("1 minute", "30 seconds"), Duration.minutes(1))
          yield* breaker.reset("a")
          yield* fails(breaker, "a", 1, leaveAlone("1 minute"))
          yield* pass("20 seconds")
          yield* works(breaker, "a")
          yield* fails(breaker, "a", 2)
          assert.deepStrictEqual(yield* retryAfter, Duration.seconds(40))
        })
    )

    check("17: Retry-After also counts from a probe, a classifier and a permit", quick, (breaker) =>
      Effect.gen(function* () {
        yield* expired(breaker)
        yield* fails(breaker, "a", 1, leaveAlone("1 minute"))
        assert.deepStrictEqual((yield* breaker.state("a")).retryAfter, Duration.minutes(1))
        const classify = () => ({ counts: "failure", retryAfter: "2 minutes" }) as const
        yield* breaker.execute("b", { classify })(Effect.void)
        assert.deepStrictEqual((yield* breaker.state("b")).retryAfter, Duration.minutes(2))
        const permit = yield* breaker.acquire("c")
        yield* permit.fail({ retryAfter: "3 minutes" })
        assert.deepStrictEqual((yield* breaker.state("c")).retryAfter, Duration.minutes(3))
      })
    )

    if (!shared) {
      check("18: a change of the wall clock has no effect", quick, (breaker) =>
        Effect.gen(function* () {
          const clock = yield* Clock.Clock
          let step = 0
          const stepping: Clock.Clock = {
            ...clock,
            currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + step,
            currentTimeMillis: Effect.sync(() => clock.currentTimeMillisUnsafe() + step)
          }
          yield* Effect.gen(function* () {
            for (const hours of [-1, 1, 24, -24]) {
              step = 0
              yield* breaker.reset("a")
              yield* opened(breaker)
              step = hours * 3_600_000
              assert.deepStrictEqual((yield* refusal(breaker, "a")).retryAfter, Duration.seconds(10))
              yield* pass("9999 millis")
              assert.deepStrictEqual((yield* refusal(breaker, "a")).retryAfter, Duration.millis(1))
              step = -step
              yield* pass("1 millis")
              yield* works(breaker, "a")
              yield* expectPhase(breaker, "closed")
            }
          }).pipe(Effect.provideService(Clock.Clock, stepping))
        })
      )
    }
  })

  describe(`${store}: changes by hand`, () => {
    check("19: an isolated circuit refuses calls until every hold is released", trips(2), (breaker) =>
      Effect.gen(function* () {
        yield* fails(breaker, "a")
        const [first, second] = [yield* Scope.make(), yield* Scope.make()]
        const generation = Effect.map(breaker.state("a"), ({ generation }) => generation)
        const before = yield* generation
        yield* Scope.provide(breaker.isolate("a"), first)
        assert.isAbove(yield* generation, before)
        yield* Scope.provide(breaker.isolate("a"), second)
        const held = yield* generation
        yield* pass("1 second")
        const error = yield* refusal(breaker, "a")
        assert.deepStrictEqual([error.reason, error.retryAfter], ["isolated", undefined])
        assert.strictEqual(
          error.message,
          "Circuit `a` is held open by hand (last failure: ServerDown). Release it, or call something else."
        )
        yield* Scope.close(first, Exit.void)
        yield* expectPhase(breaker, "isolated")
        yield* breaker.reset("a")
        yield* breaker.trip("a")
        yield* expectPhase(breaker, "isolated")
        yield* Scope.close(second, Exit.void)
        yield* expectPhase(breaker, "closed")
        assert.isAbove(yield* generation, held)
        // Earlier counts are cleared.
        yield* fails(breaker, "a")
        yield* expectPhase(breaker, "closed")
      })
    )

    check("19: reset closes the circuit and clears the counts", trips(2), (breaker) =>
      Effect.gen(function* () {
        yield* fails(breaker, "a")
        const before = yield* breaker.state("a")
        assert.strictEqual(before.failures, 1)
        yield* breaker.reset("a")
        const after = yield* breaker.state("a")
        assert.isAbove(after.generation, before.generation)
        assert.strictEqual(after.failures, 0)
        yield* fails(breaker, "a")
        yield* expectPhase(breaker, "closed")
        yield* fails(breaker, "a")
        yield* expectPhase(breaker, "open")
        assert.strictEqual((yield* breaker.state("a")).openings, 1)
        yield* breaker.reset("a")
        yield* expectPhase(breaker, "closed")
        assert.strictEqual((yield* breaker.state("a")).openings, 0)
        assert.strictEqual(yield* works(breaker, "a"), "fine")
      })
    )

    check("19: trip opens the circuit for the policy's time or the given time", {}, (breaker) =>
      Effect.gen(function* () {
        yield* breaker.trip("a")
        assert.deepStrictEqual((yield* refusal(breaker, "a")).retryAfter, Duration.seconds(10))
        yield* breaker.trip("b", "3 seconds")
        assert.deepStrictEqual((yield* refusal(breaker, "b")).retryAfter, Duration.seconds(3))
        yield* pass("3 seconds")
        assert.strictEqual(yield* works(breaker, "b"), "fine")
        const exit = yield* Effect.exit(breaker.trip("b", -1))
        assert.match(
          Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "",
          /CircuitBreaker: trip\.length must be/
        )
      })
    )
  })

  describe(`${store}: observation`, () => {
    check("20: reading changes nothing, and `available` predicts the next call", trips(1), (breaker) =>
      Effect.gen(function* () {
        const seen = yield* watched(breaker)
        const foretold = (expected: boolean, names: CircuitBreaker.Names = "a") =>
          Effect.gen(function* () {
            yield* quiet
            const before = yield* breaker.list
            for (let n = 0; n < 3; n++) {
              assert.strictEqual(yield* breaker.available(names), expected)
              yield* breaker.state("a")
            }
            assert.deepStrictEqual(yield* breaker.list, before)
            const call = yield* attempt(breaker, names)
            assert.strictEqual(call !== undefined, expected)
            yield* call?.interrupt ?? Effect.void
            yield* quiet
          })
        assert.lengthOf(yield* breaker.list, 0)
        yield* breaker.state("a")
        yield* breaker.available(["a", "b"])
        assert.lengthOf(yield* breaker.list, 0)
        yield* foretold(true)
        yield* opened(breaker)
        yield* foretold(false)
        yield* foretold(false, ["b", "a"])
        yield* pass("10 seconds")
        yield* settled
        const before = seen.length
        yield* expectPhase(breaker, "half-open")
        yield* breaker.available("a")
        yield* settled
        assert.strictEqual(seen.length, before, "time alone is no transition")
        yield* foretold(true)
        const probe = yield* begin(breaker, "a")
        yield* foretold(false)
        yield* probe.interrupt
        yield* quiet
        yield* foretold(true, ["a", "b"])
        yield* Effect.scoped(Effect.andThen(breaker.isolate("a"), foretold(false)))
        yield* foretold(true)
      })
    )

    check("20: `state` and `list` show all known facts of a circuit", trips(2), (breaker) =>
      Effect.gen(function* () {
        const unknown = yield* breaker.state("a")
        assert.deepStrictEqual(unknown, {
          circuit: "a",
          phase: "closed",
          generation: 0,
          retryAfter: undefined,
          failures: 0,
          openings: 0,
          lastFailure: undefined
        })
        yield* fails(breaker, "a")
        assert.strictEqual((yield* breaker.state("a")).failures, 1)
        yield* fails(breaker, "a")
        const { generation, ...open } = yield* breaker.state("a")
        assert.isAbove(generation, 0)
        assert.deepStrictEqual(open, {
          circuit: "a",
          phase: "open",
          retryAfter: Duration.seconds(10),
          failures: 0,
          openings: 1,
          lastFailure: "ServerDown"
        })
        yield* works(breaker, "b")
        const names = (yield* breaker.list).map(({ circuit }) => circuit)
        assert.deepStrictEqual(names.toSorted(), ["a", "b"])
      })
    )

    check("21: each transition is published once, in order, after the state has changed", quick, (breaker) =>
      Effect.gen(function* () {
        const seen = yield* watched(breaker)
        const states: Array<string> = []
        yield* breaker.transitions.pipe(
          Stream.runForEach(() => Effect.map(phase(breaker), (now) => void states.push(now))),
          Effect.forkScoped({ startImmediately: true })
        )
        yield* settled
        yield* pass("1 second")
        yield* fails(breaker, "a")
        yield* settled
        yield* pass("10 seconds")
        const probe = yield* begin(breaker, "a")
        yield* settled
        yield* probe.fail()
        yield* settled
        yield* breaker.trip("a")
        yield* settled
        yield* breaker.reset("a")
        yield* settled
        yield* Effect.scoped(Effect.andThen(breaker.isolate("a"), settled))
        yield* settled
        assert.deepStrictEqual(
          seen.map(({ at, from, to, cause, openFor }) => [at, from, to, cause, openFor]),
          [
            [1_000, "closed", "open", "consecutive", 10_000],
            [11_000, "open", "half-open", undefined, undefined],
            [11_000, "half-open", "open", "probe", 20_000],
            [11_000, "open", "open", "tripped", 40_000],
            [11_000, "open", "closed", undefined, undefined],
            [11_000, "closed", "isolated", undefined, undefined],
            [11_000, "isolated", "closed", undefined, undefined]
          ]
        )
        assert.deepStrictEqual(states, ["open", "half-open", "open", "open", "closed", "isolated", "closed"])
        const generations = seen.map(({ generation }) => generation)
        assert.deepStrictEqual(
          generations,
          [...new Set(generations)].toSorted((a, b) => a - b)
        )
        assert.isTrue(seen.every(({ _tag, circuit }) => _tag === "CircuitTransition" && circuit === "a"))
      })
    )

    for (const [how, events] of [
      ["fails", { publish: () => Effect.die("a broken observer") }],
      [
        "throws",
        {
          publish: () => {
            throw new Error("a broken observer")
          }
        }
      ],
      ["hangs", { publish: () => Effect.never }]
    ] as const) {
      check(`21: an observer that ${how} cannot change or hold up a call`, quick, (breaker) =>
        Effect.gen(function* () {
          // A shared store is asked in each round.
          for (let n = 0; n < (shared ? 60 : flood / 2); n++) {
            yield* breaker.reset("a")
            yield* quiet
            yield* fails(breaker, "a")
            assert.strictEqual((yield* refusal(breaker, "a")).reason, "open")
          }
          yield* settled
          yield* pass("10 seconds")
          yield* works(breaker, "a")
          yield* expectPhase(breaker, "closed")
        }).pipe(
          Effect.provideService(ResilienceEvents.ResilienceEvents, {
            stream: Stream.empty,
            tap: () => Effect.void,
            ...events
          })
        )
      )
    }

    check(
      "21: an observer sees refusals and transitions in order, and survives its own failures",
      quick,
      (breaker) =>
        Effect.gen(function* () {
          const seen: Array<string> = []
          const events = yield* ResilienceEvents.make()
          yield* events.tap((event) => {
            seen.push(event._tag)
            return Effect.die("a broken observer")
          })
          yield* Effect.gen(function* () {
            yield* fails(breaker, "a")
            yield* refusal(breaker, "a")
            yield* breaker.reset("a")
          }).pipe(Effect.provideService(ResilienceEvents.ResilienceEvents, events))
          yield* settled
          assert.deepStrictEqual(seen, [
            "CircuitFailure",
            "CircuitTransition",
            "CircuitRefusal",
            "CircuitTransition"
          ])
        })
    )

    check("21: a reader that does not read loses the oldest events and blocks nothing", quick, (breaker) =>
      Effect.gen(function* () {
        const gate = yield* Deferred.make<void>()
        const seen: Array<number> = []
        yield* breaker.transitions.pipe(
          Stream.runForEach(({ generation }) =>
            Effect.andThen(
              Deferred.await(gate),
              Effect.sync(() => void seen.push(generation))
            )
          ),
          Effect.forkScoped({ startImmediately: true })
        )
        yield* settled
        for (let n = 0; n < flood; n++) {
          yield* breaker.trip("a")
          yield* breaker.reset("a")
        }
        yield* quiet
        const { generation } = yield* breaker.state("a")
        yield* Deferred.succeed(gate, undefined)
        yield* Effect.repeat(Effect.yieldNow, { times: 2 * flood })
        assert.isBelow(seen.length, 2 * flood)
        assert.strictEqual(seen.at(-1), generation)
        assert.deepStrictEqual(
          seen,
          seen.toSorted((a, b) => a - b)
        )
      })
    )
  })

  describe(`${store}: many circuits`, () => {
    check("22: names used once leave a bounded list", {}, (breaker) =>
      Effect.gen(function* () {
        let most = 0
        for (let n = 0; n < Sweeps.runs(400_000); n++) {
          yield* breaker.execute(`name ${n}`)(Effect.void)
          if (n % 10_000 === 0) most = Math.max(most, (yield* breaker.list).length)
        }
        assert.isAtMost(Math.max(most, (yield* breaker.list).length), 10_000)
      })
    )

    check("22: names whose calls failed are removed too", { maxCircuits: 100 }, (breaker) =>
      Effect.gen(function* () {
        let most = 0
        for (let n = 0; n < 5_000; n++) {
          yield* fails(breaker, `name ${n}`)
          most = Math.max(most, (yield* breaker.list).length)
        }
        assert.isAtMost(most, 200)
      })
    )

    check(
      "22: a circuit that is open, probing, isolated or in use is not removed",
      { ...quick, maxCircuits: 10 },
      (breaker) =>
        Effect.gen(function* () {
          yield* opened(breaker, "open")
          yield* expired(breaker, "probing")
          yield* breaker.trip("open")
          const probe = yield* begin(breaker, "probing")
          yield* breaker.isolate("isolated")
          const call = yield* begin(breaker, "in use", { call: 1 })
          for (let n = 0; n < 1_000; n++) yield* works(breaker, `name ${n}`)
          const list = yield* breaker.list
          assert.isBelow(list.length, 20)
          for (const name of ["open", "probing", "isolated", "in use"]) {
            assert.isTrue(
              list.some(({ circuit }) => circuit === name),
              name
            )
          }
          yield* expectPhase(breaker, "open", "open")
          assert.isFalse(yield* breaker.available("probing"))
          yield* probe.succeed
          yield* expectPhase(breaker, "closed", "probing")
          yield* call.fail()
          yield* expectPhase(breaker, "open", "in use")
        })
    )

    check(
      "22: a circuit in use is not removed even when all circuits have counts",
      { ...trips(2), maxCircuits: 5 },
      (breaker) =>
        Effect.gen(function* () {
          yield* breaker.trip("open")
          const call = yield* begin(breaker, "in use", { call: 1 })
          for (let n = 0; n < 200; n++) yield* fails(breaker, `name ${n}`)
          const list = yield* breaker.list
          assert.isAtMost(list.length, 10)
          for (const name of ["open", "in use"]) {
            assert.isTrue(
              list.some(({ circuit }) => circuit === name),
              name
            )
          }
          yield* call.succeed
        })
    )

    check(
      "22: the oldest circuits are removed, and no more than necessary",
      { ...trips(2), maxCircuits: 10 },
      (breaker) =>
        Effect.gen(function* () {
          for (let n = 0; n < 11; n++) yield* fails(breaker, `name ${n}`)
          const names = (yield* breaker.list).map(({ circuit }) => circuit)
          assert.deepStrictEqual(
            names,
            Array.from({ length: 10 }, (_, n) => `name ${n + 1}`)
          )
        })
    )

    check("21: a counted call and a reset of a closed circuit publish no transition", trips(3), (breaker) =>
      Effect.gen(function* () {
        const seen = yield* watched(breaker)
        yield* fails(breaker, "a", 2)
        yield* breaker.reset("a")
        yield* Effect.scoped(Effect.andThen(breaker.isolate("b"), breaker.reset("b")))
        yield* settled
        assert.deepStrictEqual(
          seen.map(({ circuit, from, to }) => `${circuit}:${from}>${to}`),
          ["b:closed>isolated", "b:isolated>closed"]
        )
      })
    )

    check(
      "24: attempts of a stream belong to a call, and an ignored end does not count",
      trips(2),
      (breaker) =>
        Effect.gen(function* () {
          yield* breaker.acquire("a", { call: "other" })
          const cut = (call: string) =>
            Effect.exit(Stream.runDrain(breaker.executeStream("a", { call })(Stream.fail("cut"))))
          yield* cut("x")
          yield* cut("x")
          yield* expectPhase(breaker, "closed")
          const classify = () => ({ counts: "ignored" }) as const
          yield* Stream.runDrain(breaker.executeStream("a", { classify })(Stream.make(1)))
          yield* cut("y")
          yield* expectPhase(breaker, "open")
        })
    )

    check(
      "22: an open circuit is removed once it was idle long enough, and not before",
      { maxCircuits: 10, idleAfter: "1 minute" },
      (breaker) =>
        Effect.gen(function* () {
          const known = Effect.map(breaker.list, (list) => list.some(({ circuit }) => circuit === "a"))
          const crowd = Effect.forEach(
            Array.from({ length: 40 }, (_, n) => `name ${n}`),
            (name) => works(breaker, name),
            { discard: true }
          )
          yield* breaker.trip("a")
          yield* pass("69 seconds")
          yield* crowd
          assert.isTrue(yield* known)
          yield* pass("1 second")
          yield* crowd
          assert.isFalse(yield* known)
        })
    )

    check(
      "22: a circuit removed during a call still gets its outcome",
      { ...quick, maxCircuits: 1 },
      (breaker) =>
        Effect.gen(function* () {
          const call = yield* begin(breaker, "a")
          yield* works(breaker, "b")
          assert.deepStrictEqual(
            (yield* breaker.list).map(({ circuit }) => circuit),
            ["b"]
          )
          yield* call.fail()
          yield* expectPhase(breaker, "open", "a")
          assert.strictEqual((yield* refusal(breaker, "a")).reason, "open")
        })
    )

    check(
      "22: the outcome is dropped when the circuit was created again meanwhile",
      { ...quick, maxCircuits: 1 },
      (breaker) =>
        Effect.gen(function* () {
          const seen = yield* watched(breaker)
          const call = yield* begin(breaker, "a")
          yield* works(breaker, "b")
          yield* works(breaker, "a")
          yield* call.fail()
          yield* expectPhase(breaker, "closed", "a")
          yield* settled
          assert.lengthOf(seen, 0)
        })
    )
  })

  describe(`${store}: streams`, () => {
    const some = Stream.make(1, 2, 3)
    const running = (breaker: CircuitBreaker.Service, stream: Stream.Stream<number, unknown>) =>
      Effect.exit(Stream.runCollect(breaker.executeStream("a")(stream)))

    check("24: a failure after some elements counts as a failure", trips(1), (breaker) =>
      Effect.gen(function* () {
        const got: Array<number> = []
        const stream = Stream.concat(some, Stream.fail("cut"))
        const exit = yield* breaker
          .executeStream("a")(stream)
          .pipe(
            Stream.runForEach((n) => Effect.sync(() => void got.push(n))),
            Effect.exit
          )
        assert.deepStrictEqual(exit, Exit.fail("cut"))
        assert.deepStrictEqual(got, [1, 2, 3])
        yield* expectPhase(breaker, "open")
        const refused = yield* Effect.flip(Stream.runDrain(breaker.executeStream("a")(some)))
        assert.instanceOf(refused, CircuitRefused)
      })
    )

    check(
      "24: a defect counts as a failure, an outcome ignored by the classifier does not",
      trips(1),
      (breaker) =>
        Effect.gen(function* () {
          const classify = () => ({ counts: "ignored" }) as const
          yield* Effect.exit(Stream.runDrain(breaker.executeStream("a", { classify })(Stream.fail("cut"))))
          yield* expectPhase(breaker, "closed")
          yield* running(breaker, Stream.concat(some, Stream.die("oops")))
          yield* expectPhase(breaker, "open")
        })
    )

    check("24: the natural end counts as one success", quick, (breaker) =>
      Effect.gen(function* () {
        yield* expired(breaker)
        const ends: Array<Exit.Exit<unknown, unknown>> = []
        const classify: CircuitBreaker.Classify = (exit) => {
          ends.push(exit)
          return CircuitBreaker.classify(exit)
        }
        const got = yield* Stream.runCollect(breaker.executeStream("a", { classify })(some))
        assert.deepStrictEqual([...got], [1, 2, 3])
        assert.deepStrictEqual(ends, [Exit.void])
        yield* expectPhase(breaker, "closed")
      })
    )

    check("24: a consumer that stops early, fails or is interrupted reports no outcome", quick, (breaker) =>
      Effect.gen(function* () {
        const free = Effect.gen(function* () {
          yield* quiet
          yield* expectPhase(breaker, "half-open")
          assert.isTrue(yield* breaker.available("a"))
        })
        yield* expired(breaker)
        yield* Stream.runDrain(Stream.take(breaker.executeStream("a")(some), 1))
        yield* free
        const broken = Stream.mapEffect(breaker.executeStream("a")(some), () => Effect.fail("consumer"))
        assert.strictEqual(yield* Effect.flip(Stream.runDrain(broken)), "consumer")
        yield* free
        const begun = yield* Deferred.make<void>()
        const fiber = yield* breaker
          .executeStream("a")(Stream.concat(some, Stream.never))
          .pipe(
            Stream.runForEach(() => Deferred.succeed(begun, undefined)),
            Effect.forkChild
          )
        yield* Deferred.await(begun)
        assert.isFalse(yield* breaker.available("a"))
        yield* Fiber.interrupt(fiber)
        yield* free
      })
    )

    check("24: the permit lives as long as the stream", quick, (breaker) =>
      Effect.gen(function* () {
        yield* expired(breaker)
        const gate = yield* Deferred.make<void>()
        const begun = yield* Deferred.make<void>()
        const fiber = yield* breaker
          .executeStream("a")(Stream.concat(some, Stream.drain(Stream.fromEffect(Deferred.await(gate)))))
          .pipe(
            Stream.runForEach(() => Deferred.succeed(begun, undefined)),
            Effect.forkChild
          )
        yield* Deferred.await(begun)
        assert.strictEqual((yield* refusal(breaker, "a")).reason, "half-open")
        yield* expectPhase(breaker, "half-open")
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.join(fiber)
        yield* expectPhase(breaker, "closed")
      })
    )

    check("24: a stream may use several circuits; each run of it is a call", trips(2), (breaker) =>
      Effect.gen(function* () {
        const stream = breaker.executeStream(["a", "b"])(Stream.fail("cut"))
        yield* Effect.exit(Stream.runDrain(stream))
        yield* expectPhase(breaker, "closed")
        yield* Effect.exit(Stream.runDrain(stream))
        yield* expectPhase(breaker, "open")
        yield* expectPhase(breaker, "open", "b")
      })
    )
  })

  describe(`${store}: permits`, () => {
    check("a permit counts once, with its first report", trips(2), (breaker) =>
      Effect.gen(function* () {
        const failures = Effect.map(breaker.state("a"), ({ failures }) => failures)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const permit = yield* breaker.acquire("a")
            yield* permit.fail()
            yield* permit.fail()
            yield* permit.succeed
            yield* permit.ignore
          })
        )
        assert.strictEqual(yield* failures, 1)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const permit = yield* breaker.acquire("a")
            yield* permit.ignore
            yield* permit.fail()
          })
        )
        assert.strictEqual(yield* failures, 1)
        yield* Effect.scoped(Effect.flatMap(breaker.acquire("a"), ({ succeed }) => succeed))
        assert.strictEqual(yield* failures, 0)
      })
    )

    check("a scope that ends without a report frees the permit", quick, (breaker) =>
      Effect.gen(function* () {
        yield* expired(breaker)
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* breaker.acquire("a")
            const error = yield* Effect.flip(Effect.scoped(breaker.acquire("a")))
            assert.strictEqual(error.reason, "half-open")
          })
        )
        yield* quiet
        yield* expectPhase(breaker, "half-open")
        yield* Effect.scoped(Effect.flatMap(breaker.acquire("a"), ({ succeed }) => succeed))
        yield* expectPhase(breaker, "closed")
      })
    )

    check("a permit belongs to a call", trips(2), (breaker) =>
      Effect.gen(function* () {
        yield* breaker.acquire("a", { call: "other" })
        for (const call of ["x", "x"]) yield* (yield* breaker.acquire("a", { call })).fail()
        yield* expectPhase(breaker, "closed")
        yield* (yield* breaker.acquire("a", { call: "y" })).fail()
        yield* expectPhase(breaker, "open")
      })
    )
  })

  describe(`${store}: several circuits`, () => {
    check("with several circuits, a refusal by one leaves the others unchanged", quick, (breaker) =>
      Effect.gen(function* () {
        yield* expired(breaker)
        yield* opened(breaker, "z")
        const seen = yield* watched(breaker)
        const before = yield* breaker.state("a")
        const error = yield* refusal(breaker, ["z", "a", "b"])
        assert.deepStrictEqual([error.circuit, error.reason], ["z", "open"])
        assert.deepStrictEqual(yield* breaker.state("a"), before)
        yield* settled
        assert.lengthOf(seen, 0)
        assert.isTrue(yield* breaker.available("a"))
        yield* works(breaker, "a")
      })
    )

    check("each of several circuits gets the outcome of a call once", trips(2), (breaker) =>
      Effect.gen(function* () {
        yield* fails(breaker, ["a", "b", "a"])
        assert.strictEqual((yield* breaker.state("a")).failures, 1)
        yield* fails(breaker, "b")
        yield* expectPhase(breaker, "open", "b")
        yield* expectPhase(breaker, "closed", "a")
        assert.strictEqual(yield* works(breaker, []), "fine")
      })
    )

    check("a call can probe several circuits, and frees all of their permits", quick, (breaker) =>
      Effect.gen(function* () {
        yield* opened(breaker, "a")
        yield* expired(breaker, "b")
        const both = yield* begin(breaker, ["b", "a"])
        assert.strictEqual((yield* refusal(breaker, "a")).reason, "half-open")
        assert.strictEqual((yield* refusal(breaker, "b")).reason, "half-open")
        yield* both.interrupt
        yield* quiet
        assert.isTrue(yield* breaker.available(["a", "b"]))
        yield* works(breaker, ["a", "b"])
        yield* expectPhase(breaker, "closed", "a")
        yield* expectPhase(breaker, "closed", "b")
      })
    )
  })

  describe(`${store}: total outage`, () => {
    check("calls that start after the circuit opened make no attempts except probes", {}, (breaker) =>
      Effect.gen(function* () {
        let attempts = 0
        const call = breaker.execute("a")(
          Effect.suspend(() => {
            attempts++
            return down
          })
        )
        for (let n = 0; n < 5; n++) yield* Effect.flip(call)
        assert.strictEqual(attempts, 5)
        let openings = 1
        for (let second = 0; second < 600; second++) {
          yield* pass("1 second")
          const { phase } = yield* breaker.state("a")
          if (phase === "half-open") openings++
          for (let n = 0; n < 5; n++) yield* Effect.flip(call)
        }
        // 10 + 20 + 40 + 80 + 4 times 120 seconds: one probe at the end of each.
        assert.strictEqual(openings, 8)
        assert.strictEqual(attempts, 5 + 7)
      })
    )
  })

  if (shared) {
    describe(`${store}: two processes`, () => {
      it.effect("23: a shared opening ends once for all processes, and allows one probe for all", () =>
        Effect.gen(function* () {
          const layer = makeLayer({ open: exact, ...quick })
          const processOf = Effect.map(Layer.build(Layer.fresh(layer)), (context) =>
            Context.get(context, CircuitBreaker.CircuitBreaker)
          )
          const [first, second] = [yield* processOf, yield* processOf]
          yield* quiet
          yield* fails(first, "a")
          yield* pass("4 seconds")
          assert.deepStrictEqual((yield* refusal(second, "a")).retryAfter, Duration.seconds(6))
          // A process that starts now does not restart the opening.
          const third = yield* processOf
          yield* quiet
          assert.deepStrictEqual((yield* refusal(third, "a")).retryAfter, Duration.seconds(6))
          yield* pass("6 seconds")
          const calls = yield* Effect.forEach(
            [first, second, third, first, second, third],
            (breaker) => attempt(breaker, "a"),
            { concurrency: "unbounded" }
          )
          assert.lengthOf(
            calls.filter((call) => call !== undefined),
            1
          )
          for (const call of calls) yield* call?.succeed ?? Effect.void
          yield* quiet
          for (const breaker of [first, second, third]) yield* expectPhase(breaker, "closed")
        })
      )
    })
  }
}
