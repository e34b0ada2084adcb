/**
 * The operator's view of circuits, limits and waits, and the effect of a reset.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { CallLimiter, Failover, FailoverReason, KeySource, ProviderFailure, Targets } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import { CircuitBreaker } from "@outlast/resilience"
import type { Chain } from "../support.ts"
import {
  answer,
  consecutive,
  failure,
  failureOf,
  inTime,
  key,
  limited,
  played,
  policy,
  recording,
  serverError,
  timed,
  timesOf
} from "../support.ts"

type Options = Failover.Options<RecoveryPolicy.DefaultClass>

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const over = (chain: Chain, options: Options = {}, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes }, ...options }))

const overloaded529 = new ProviderFailure.ProviderFailure({
  reason: new FailoverReason.ServerError(),
  evidence: { rule: "test", signal: "status", depth: 0, status: 529 },
  detail: ""
})

const at = (endpoint: string, options: Parameters<typeof played>[0]) => ({ ...played(options), endpoint })

/** Returns the only row of the list, which must exist. */
const only = Effect.gen(function* () {
  const [first] = yield* (yield* Targets.Targets).list
  return first ?? assert.fail("no target")
})

/** Five consecutive failures of one call, which open the circuit. */
const opening = { ...policy.rows, ServerError: { ...policy.rows.ServerError, attempts: 5 } }
const withoutBudget = { ...consecutive, rows: opening, retryBudget: false } as const

describe("an open circuit", () => {
  it.effect("is listed with its name, its time and its last failure, and closes on a reset", () =>
    Effect.gen(function* () {
      const fails = Effect.fail(overloaded529)
      const target = at("https://one", { answers: [fails, fails, fails, fails, fails, answer("hello")] })
      yield* Effect.gen(function* () {
        const failed = yield* inTimeOf(Effect.exit(ask), "15 seconds")
        assert.strictEqual(failed._tag, "Failure")
        const before = yield* only
        assert.strictEqual(before.state, "open")
        assert.strictEqual(before.reason, "ServerError")
        assert.strictEqual(before.message, "circuit `https://one` is open (last failure: HTTP 529)")
        assert.strictEqual(before.circuits.length, 1)
        const [circuit] = before.circuits
        assert.deepInclude(circuit, { circuit: "https://one", phase: "open", lastFailure: "HTTP 529" })
        assert.deepStrictEqual(circuit?.availableIn, before.availableIn)
        assert.isAbove(Duration.toMillis(before.availableIn ?? 0), 0)

        const { reset } = yield* Targets.Targets
        assert.deepStrictEqual(yield* reset({ key: "" }), {
          cooldowns: 0,
          circuits: [],
          limits: 0,
          isolated: []
        })
        assert.deepStrictEqual((yield* reset()).circuits, ["https://one"])
        assert.deepInclude(yield* only, { state: "ready", circuits: [], message: undefined })
        const { took } = yield* timed(ask)
        assert.strictEqual(took, 0)
        assert.strictEqual((yield* only).lastSuccessAt, timesOf(target).at(-1))
      }).pipe(over([target], {}, { ...withoutBudget, whenAllOut: "fail" }))
    })
  )

  it.effect("is named by the failure of a call that gives up", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 1 } } })
      const target = at("https://one", { answers: [Effect.fail(overloaded529)] })
      const once = { ...policy.rows, ServerError: { ...policy.rows.ServerError, attempts: 1 } }
      yield* Effect.gen(function* () {
        yield* Effect.exit(ask)
        const failed = yield* failureOf(ask)
        if (failed._tag !== "AllTargetsOut") return assert.fail(failed._tag)
        const [out] = failed.targets
        assert.strictEqual(out?.failure.evidence.rule, "circuit/open")
        assert.strictEqual(out?.failure.reason._tag, "ServerError")
        assert.deepStrictEqual(out?.failure.circuit, {
          circuit: "https://one",
          reason: "open",
          lastFailure: "HTTP 529"
        })
        assert.match(
          failed.message,
          /vendor\/m: circuit `https:\/\/one` is open \(last failure: HTTP 529\); back in \d+s\. Add another target, or wait\.$/
        )
      }).pipe(over([target], { breaker }, { rows: once, whenAllOut: "fail" }))
    })
  )

  it.effect(
    "with another name is described by its endpoint; one that another chain opened has its own message",
    () =>
      Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.make({ trip: { consecutive: { failures: 1 } } })
        yield* Effect.exit(breaker.execute("region-eu")(Effect.fail({ _tag: "Down", status: 503 })))
        const target = at("https://one", { answers: [answer("no")] })
        const circuitsOf: Options["circuitsOf"] = ({ model }) => ({ endpoint: "region-eu", model })
        yield* Effect.gen(function* () {
          const { message } = yield* failureOf(ask)
          assert.include(
            message,
            "circuit `region-eu` of https://one is open (last failure: Down (HTTP 503)); back in"
          )
        }).pipe(over([target], { breaker, circuitsOf }, { whenAllOut: "fail" }))
      })
  )

  it.effect("that is isolated stays isolated after a reset, which reports it", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = at("https://one", { answers: [answer("no")] })
      yield* Effect.gen(function* () {
        yield* breaker.isolate("https://one")
        yield* breaker.trip("m@https://one")
        const { reset } = yield* Targets.Targets
        const lifted = yield* reset({ target: "vendor/m" })
        assert.deepStrictEqual([lifted.circuits, lifted.isolated], [["m@https://one"], ["https://one"]])
        const row = yield* only
        assert.deepInclude(row, {
          state: "open",
          availableIn: undefined,
          message: "circuit `https://one` is held open by hand"
        })
        assert.include((yield* failureOf(ask)).message, "Release it, or add a target at another endpoint.")
      }).pipe(Effect.scoped, over([target], { breaker }))
    })
  )

  it.effect("of one target closes on a reset of that target, and the others stay", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const one = at("https://one", { answers: [answer("no")] })
      const two = at("https://two", { model: "m2", answers: [answer("no")] })
      yield* Effect.gen(function* () {
        for (const name of ["https://one", "https://two", "elsewhere"]) yield* breaker.trip(name)
        const { list, reset } = yield* Targets.Targets
        assert.deepStrictEqual((yield* reset({ target: "vendor/m2" })).circuits, ["https://two"])
        assert.deepStrictEqual(
          (yield* list).map(({ state }) => state),
          ["open", "ready"]
        )
        assert.deepStrictEqual((yield* reset()).circuits, ["https://one"])
        assert.strictEqual((yield* breaker.state("elsewhere")).phase, "open")
      }).pipe(over([one, two], { breaker }))
    })
  )

  it.effect("that closes before a cooldown ends leaves its target cooling", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = at("https://one", { answers: [Effect.fail(limited(600))] })
      yield* Effect.gen(function* () {
        yield* Effect.exit(ask)
        yield* breaker.trip("https://one", "20 seconds")
        const { state, reason, availableIn, circuits } = yield* only
        assert.deepStrictEqual([state, reason], ["cooling", "RateLimit"])
        assert.deepStrictEqual(availableIn, Duration.minutes(10))
        assert.lengthOf(circuits, 1)
      }).pipe(over([target], { breaker }, { whenAllOut: "fail" }))
    })
  )

  it.effect("that is half-open with a free permit leaves its target ready", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      yield* Effect.gen(function* () {
        yield* breaker.trip("https://one", "1 second")
        yield* TestClock.adjust("1 second")
        const { state, circuits } = yield* only
        assert.deepStrictEqual([state, circuits.map(({ phase }) => phase)], ["ready", ["half-open"]])
      }).pipe(over([at("https://one", { answers: [answer("hello")] })], { breaker }))
    })
  )
})

/** Runs an effect for a given time. */
const inTimeOf = <A, E, R>(effect: Effect.Effect<A, E, R>, time: Duration.Input) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust(time)
    return yield* Fiber.join(fiber)
  })

describe("the limits of a target", () => {
  const headers = {
    "x-ratelimit-limit-requests": "50",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "24s"
  }

  it.effect(
    "are listed with the remaining amount and the wait of a call, and a reset drops those that a provider named",
    () =>
      Effect.gen(function* () {
        const limiter = yield* CallLimiter.make({
          limits: { "vendor/m": { concurrency: 2, requestsPerMinute: 1 } }
        })
        const target = played({ keys: [key("A")], answers: [answer("hello")] })
        yield* Effect.gen(function* () {
          yield* ask
          const { target: ref } = yield* only
          limiter.learnUnsafe(ref, headers)
          const [concurrency, own, named] = (yield* only).limits
          assert.deepStrictEqual(concurrency, {
            kind: "concurrency",
            source: "user",
            limit: 2,
            remaining: 2,
            resetsIn: undefined,
            wait: undefined
          })
          assert.deepInclude(own, { kind: "requests", source: "user", limit: 1, remaining: 0 })
          assert.isAtLeast(Duration.toMillis(own?.wait ?? 0), 60_000)
          assert.deepInclude(named, { kind: "requests", source: "provider", limit: 50, remaining: 0 })
          assert.deepStrictEqual(named?.resetsIn, Duration.seconds(24))
          // The limit refills evenly: the first of 50 permits returns after a fiftieth of the time.
          assert.deepStrictEqual(named?.wait, Duration.millis(480))
          assert.strictEqual((yield* only).state, "ready")

          const { reset } = yield* Targets.Targets
          assert.strictEqual((yield* reset({ key: "A" })).limits, 1)
          assert.strictEqual((yield* reset({ key: "A" })).limits, 0)
          assert.deepStrictEqual(
            (yield* only).limits.map(({ source }) => source),
            ["user", "user"]
          )
        }).pipe(over([target], { limiter }))
      })
  )
})

describe("a wait on our side", () => {
  /** Returns the events of a program, each with its time. */
  const told = (
    chain: Chain,
    program: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>,
    options?: Options,
    changes?: Partial<RecoveryPolicy.RecoveryPolicy>
  ) =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      yield* inTime(Effect.exit(program).pipe(over(chain, options, changes), Effect.provide(layer)))
      return events.flatMap((event) => {
        switch (event._tag) {
          case "CallWaiting":
            return [`${event.at} waits for ${event.reason} ${event.by ?? ""} ${event.delay ?? "?"}`]
          case "CallWaited":
            return [`${event.at} waited for ${event.reason} ${event.elapsed}`]
          case "AttemptStarted":
            return [`${event.at} sent, waited ${event.waited}`]
          default:
            return []
        }
      })
    })

  it.effect(
    "for a limit is an event, and the attempt begins when its request is sent (24 s of silence)",
    () =>
      Effect.gen(function* () {
        const target = played({ answers: [Effect.delay(answer("hello"), "24 seconds"), answer("hello")] })
        const limiter = yield* CallLimiter.make({ limits: () => ({ concurrency: 1 }) })
        const both = Effect.all([ask, ask], { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* told([target], both, { limiter }), [
          "0 sent, waited 0",
          "0 waits for limit concurrency ?",
          "24000 waited for limit 24000",
          "24000 sent, waited 24000"
        ])
        assert.deepStrictEqual(timesOf(target), [0, 24_000])
      })
  )

  it.effect("for a health check of a target that is out by then gives its place back", () =>
    Effect.gen(function* () {
      const refused = new ProviderFailure.ProviderFailure({
        reason: new FailoverReason.Auth({ permanent: false }),
        evidence: { rule: "test", signal: "status", depth: 0, status: 401 },
        detail: ""
      })
      const dead = played({ answers: [Effect.delay(Effect.fail(refused), "5 seconds")] })
      const other = { ...played({ model: "other", answers: [answer("hello")] }), endpoint: "https://other" }
      const limiter = yield* CallLimiter.make({ limits: () => ({ concurrency: 2 }) })
      const isHealthy = () => Effect.delay(Effect.succeed(true), "1 second")
      yield* Effect.gen(function* () {
        // The second call has its place at 5.5 s, and its check ends after the first call was refused at 6 s.
        const both = Effect.all([ask, Effect.delay(ask, 5_500)], { concurrency: "unbounded" })
        assert.lengthOf(yield* inTimeOf(both, "1 minute"), 2)
        assert.lengthOf(timesOf(dead), 1)
        const { target } = yield* only
        const [concurrency] = yield* limiter.limits(target)
        assert.deepInclude(concurrency, { kind: "concurrency", limit: 2, remaining: 2 })
      }).pipe(over([dead, other], { limiter, isHealthy }))
    })
  )

  it.effect("for a limit of a minute reports its length", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("hello")] })
      const limiter = yield* CallLimiter.make({ limits: () => ({ requestsPerMinute: 1 }) })
      const events = yield* told(
        [target],
        Effect.andThen(ask, Effect.andThen(Effect.sleep("30 seconds"), ask)),
        { limiter }
      )
      assert.deepStrictEqual(events, [
        "0 sent, waited 0",
        "30000 waits for limit requests 31000",
        "61000 waited for limit 31000",
        "61000 sent, waited 31000"
      ])
    })
  )

  it.effect("for a circuit names the circuit", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      yield* breaker.trip("https://one", "20 seconds")
      assert.deepStrictEqual(
        yield* told(
          [at("https://one", { answers: [answer("hello")] })],
          ask,
          { breaker },
          { lastResort: false }
        ),
        [
          "0 waits for circuit https://one 20000",
          "20000 waited for circuit 20000",
          "20000 sent, waited 20000"
        ]
      )
    })
  )

  it.effect("for a cooldown and for backoff", () =>
    Effect.gen(function* () {
      const target = played({ answers: [Effect.fail(limited(30)), answer("hello")] })
      const later = Effect.andThen(Effect.sleep("10 seconds"), ask)
      assert.deepStrictEqual(yield* told([target], Effect.all([ask, later], { concurrency: 2 })), [
        "0 sent, waited 0",
        "0 waits for backoff  30000",
        "10000 waits for cooldown  20000",
        "30000 waited for backoff 30000",
        "30000 sent, waited 30000",
        "30000 waited for cooldown 20000",
        "30000 sent, waited 20000"
      ])
    })
  )

  it.effect("for a health check is reported only when the check does not answer at once", () =>
    Effect.gen(function* () {
      const target = () => played({ answers: [answer("hello")] })
      const slowly = yield* told([target()], ask, {
        isHealthy: () => Effect.delay(Effect.succeed(true), "2 seconds")
      })
      assert.deepStrictEqual(slowly, [
        "0 waits for health  ?",
        "2000 waited for health 2000",
        "2000 sent, waited 2000"
      ])
      const began = 7_200_000
      const atOnce = yield* told([target()], ask, { isHealthy: () => Effect.succeed(true) })
      assert.deepStrictEqual(atOnce, [`${began} sent, waited 0`])
    })
  )

  it.effect("for a key that is refreshed names the key, before a request and after a refusal", () =>
    Effect.gen(function* () {
      let loads = 0
      const load = Effect.suspend(() => {
        loads++
        const token = { value: Redacted.make(`token-${loads}`), expiresAt: loads === 1 ? 30_000 : 10_000_000 }
        return loads === 1 ? Effect.succeed(token) : Effect.delay(Effect.succeed(token), "3 seconds")
      })
      const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))
      const target = played({
        keys: [KeySource.refreshing("OAUTH", { load })],
        answers: [refused, answer("hello")]
      })
      assert.deepStrictEqual(yield* told([target], ask), [
        "0 waits for key OAUTH ?",
        "3000 waited for key 3000",
        "3000 sent, waited 3000",
        "3000 waits for key OAUTH ?",
        "6000 waited for key 3000",
        "6000 sent, waited 3000"
      ])
    })
  )

  it.effect(
    "that leads to no request publishes no attempt, and an interrupted call publishes the end of its wait",
    () =>
      Effect.gen(function* () {
        const { events, layer } = recording()
        const breaker = yield* CircuitBreaker.make()
        yield* breaker.trip("https://one", "20 seconds")
        const call = ask.pipe(
          over([at("https://one", { answers: [answer("no")] })], { breaker }, { lastResort: false }),
          Effect.provide(layer)
        )
        const fiber = yield* Effect.forkChild(call)
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(
          events.map(({ _tag }) => _tag),
          ["CallWaiting", "CallWaited", "CallAbandoned"]
        )
      })
  )
})

describe("the health of a provider with one key", () => {
  it.effect("is degraded by one failure that cools the key, and down when the key is dead", () =>
    Effect.gen(function* () {
      const status = Effect.flatMap(Targets.Targets, ({ providers }) =>
        Effect.map(providers, (all) => all.map(({ status }) => status))
      )
      const after = (reason: FailoverReason.FailoverReason, times = 1) =>
        Effect.gen(function* () {
          for (let n = 0; n < times; n++) yield* Effect.exit(ask)
          return yield* status
        }).pipe(
          over(
            [played({ keys: [key("A")], answers: [Effect.fail(failure(reason))] })],
            {},
            { circuits: false, whenAllOut: "fail" }
          )
        )
      const named = yield* Effect.andThen(Effect.exit(ask), status).pipe(
        over([played({ keys: [key("A")], answers: [Effect.fail(limited(3_600))] })])
      )
      assert.deepStrictEqual(named, ["degraded"])
      assert.deepStrictEqual(yield* after(new FailoverReason.Billing()), ["degraded"])
      assert.deepStrictEqual(yield* after(new FailoverReason.Billing(), 3), ["down"])
      const fails = played({ keys: [key("A")], answers: [Effect.fail(serverError)] })
      assert.deepStrictEqual(yield* inTime(Effect.andThen(Effect.exit(ask), status).pipe(over([fails]))), [
        "down"
      ])
    })
  )
})
