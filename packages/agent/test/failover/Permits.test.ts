/** Circuits, retry budget, deadlines and probes around the calls of a chain. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, FailoverReason, KeySource } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import { CircuitBreaker, Deadline, RetryBudget } from "@outlast/resilience"
import type { Chain, Played } from "../support.ts"
import {
  answer,
  consecutive,
  failure,
  failureOf,
  finish,
  inTime,
  key,
  limited,
  played,
  policy,
  recording,
  say,
  serverError,
  text,
  timed,
  timesOf
} from "../support.ts"

type Options = Failover.Options<RecoveryPolicy.DefaultClass>

const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const read = Stream.runDrain(LanguageModel.streamText({ prompt: "What is the plan?" }))

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}, options: Options = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes }, ...options }))

const fails = Effect.fail(serverError)
const overloaded = failure(new FailoverReason.Overloaded())
const timesEach = (n: number, effect: typeof fails) => Array.from({ length: n }, () => effect)

/** A policy where each failure moves on at once without a cooldown, and five consecutive failures open a circuit. */
const brisk: Partial<RecoveryPolicy.RecoveryPolicy> = {
  ...consecutive,
  patience: Duration.zero,
  retryBudget: false,
  rows: {
    ...policy.rows,
    ServerError: { ...policy.rows.ServerError, cooldown: undefined, attempts: 1 },
    Overloaded: { ...policy.rows.Overloaded, cooldown: undefined, attempts: 1 }
  }
}

const counts = (...targets: ReadonlyArray<Played>) => targets.map(({ requests }) => requests.length)

describe("the circuit of an endpoint", () => {
  it.effect(
    "opens after failures, and then calls skip the endpoint without a request (pydantic/pydantic-ai#3023)",
    () =>
      Effect.gen(function* () {
        const first = { ...played({ answers: [fails] }), endpoint: "https://one" }
        const second = played({ model: "m2", answers: [answer("hello")] })
        yield* Effect.gen(function* () {
          for (let n = 0; n < 8; n++) yield* ask
        }).pipe(over([first, second], brisk))
        assert.deepStrictEqual(counts(first, second), [5, 8])
      })
  )

  it.effect("is shared by all models there, and another endpoint has its own", () =>
    Effect.gen(function* () {
      const at = (endpoint: string, target: Played) => ({ ...target, endpoint })
      const first = at("https://one", played({ answers: [fails] }))
      const sibling = at("https://one", played({ model: "m2", answers: [answer("no")] }))
      const other = at("https://two", played({ model: "m3", answers: [answer("hello")] }))
      yield* Effect.gen(function* () {
        // The failures must be consecutive: a success of the other model would reset the count.
        for (let n = 0; n < 6; n++) yield* ask
      }).pipe(over([first, other, sibling], brisk))
      assert.deepStrictEqual(counts(first, sibling, other), [5, 0, 6])
    })
  )

  it.effect("lets one call through as a probe, and two successes close it", () =>
    Effect.gen(function* () {
      const slowly = Effect.delay(answer("back"), "1 second")
      const answers = [...timesEach(5, fails), slowly, slowly, answer("back")]
      const first = { ...played({ answers }), endpoint: "https://one" }
      const second = played({ model: "m2", answers: [answer("hello")] })
      yield* inTime(
        Effect.gen(function* () {
          for (let n = 0; n < 5; n++) yield* ask
          yield* Effect.sleep("1 minute")
          // All at once: one call is the probe, the others are answered elsewhere.
          yield* Effect.all([ask, ask, ask, ask], { concurrency: "unbounded" })
          assert.deepStrictEqual(counts(first, second), [6, 8])
          yield* ask
          yield* ask
          assert.deepStrictEqual(counts(first, second), [8, 8])
        }).pipe(over([first, second], brisk))
      )
    })
  )

  it.effect("does not count overloads, which belong to the model's circuit", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const first = { ...played({ answers: [Effect.fail(overloaded)] }), endpoint: "https://one" }
      const second = played({ model: "m2", answers: [answer("hello")] })
      yield* Effect.gen(function* () {
        for (let n = 0; n < 6; n++) yield* ask
      }).pipe(over([first, second], brisk, { breaker }))
      assert.deepStrictEqual(counts(first, second), [5, 6])
      const phases = (yield* breaker.list).map(({ circuit, phase }) => [circuit, phase])
      assert.deepInclude(phases, ["m@https://one", "open"])
      assert.deepInclude(phases, ["https://one", "closed"])
    })
  )

  it.effect("does not count failures that are not the endpoint's fault", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const first = played({
        answers: [Effect.fail(failure(new FailoverReason.Billing()))],
        keys: [key("A"), key("B"), key("C"), key("D"), key("E"), key("F")]
      })
      yield* Effect.exit(ask.pipe(over([first], {}, { breaker })))
      assert.strictEqual(first.requests.length, 6)
      assert.isTrue((yield* breaker.list).every(({ phase }) => phase === "closed"))
    })
  )

  it.effect("does not change when the model's circuit refuses a call", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = { ...played({ answers: [fails] }), endpoint: "https://one" }
      const rows = { ...policy.rows, ServerError: { ...policy.rows.ServerError, attempts: 5 } }
      yield* inTime(
        Effect.gen(function* () {
          yield* breaker.trip("m@https://one")
          yield* Effect.exit(ask)
          yield* breaker.reset("m@https://one")
          // No other call is in flight there, so five failures of one call are enough.
          yield* Effect.exit(ask)
        }).pipe(over([target], { rows, retryBudget: false, whenAllOut: "fail" }, { breaker }))
      )
      assert.strictEqual(target.requests.length, 5)
      assert.strictEqual((yield* breaker.state("https://one")).openings, 1)
    })
  )

  it.effect("can have names set by the user", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      yield* breaker.trip("region-eu")
      const first = played({ answers: [answer("no")] })
      const second = played({ model: "m2", answers: [answer("hello")] })
      const circuitsOf: Options["circuitsOf"] = ({ model }) => ({
        endpoint: model === "m" ? "region-eu" : "region-us",
        model
      })
      yield* ask.pipe(over([first, second], {}, { breaker, circuitsOf }))
      assert.deepStrictEqual(counts(first, second), [0, 1])
    })
  )

  it.effect("that is open for the only target is waited for, within the deadline", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = { ...played({ answers: [answer("hello")] }), endpoint: "https://one" }
      yield* breaker.trip("https://one", "20 seconds")
      const { took } = yield* inTime(timed(ask).pipe(over([target], { lastResort: false }, { breaker })))
      assert.strictEqual(took, 20_000)
      yield* breaker.trip("https://one", "10 minutes")
      const late = yield* inTime(
        timed(failureOf(ask)).pipe(over([target], { lastResort: false }, { breaker }))
      )
      assert.deepStrictEqual([late.took, late.value._tag, target.requests.length], [0, "AllTargetsOut", 1])
    })
  )

  it.effect("that is held open by hand is not waited for", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = { ...played({ answers: [answer("no")] }), endpoint: "https://one" }
      yield* Effect.scoped(
        Effect.andThen(
          breaker.isolate("https://one"),
          Effect.gen(function* () {
            const { took, value } = yield* inTime(timed(failureOf(ask)).pipe(over([target], {}, { breaker })))
            assert.deepStrictEqual([took, value._tag, target.requests.length], [0, "AllTargetsOut", 0])
          })
        )
      )
    })
  )

  it.effect("stops a delayed repeat when it opens during the delay", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = { ...played({ answers: [fails, answer("hello")] }), endpoint: "https://one" }
      const fiber = yield* Effect.forkChild(
        timed(ask).pipe(over([target], { lastResort: false }, { breaker }))
      )
      yield* TestClock.adjust("500 millis")
      yield* breaker.trip("https://one", "30 seconds")
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(timesOf(target), [0, 30_500])
    })
  )

  it.effect("that opens with a failure sends the call on without the delay of a repeat", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const first = {
        ...played({ answers: [Effect.andThen(breaker.trip("https://one", "1 minute"), fails)] }),
        endpoint: "https://one"
      }
      const second = { ...played({ model: "m2", answers: [answer("hello")] }), endpoint: "https://two" }
      const { took } = yield* inTime(timed(ask).pipe(over([first, second], {}, { breaker })))
      assert.deepStrictEqual([took, ...counts(first, second)], [0, 1, 1])
    })
  )

  it.effect("counts each attempt, or only the end of a target's series of attempts", () =>
    Effect.gen(function* () {
      const seen = (breaker: "inside" | "outside") =>
        Effect.gen(function* () {
          const circuits = yield* CircuitBreaker.make()
          const first = { ...played({ answers: [fails] }), endpoint: "https://one" }
          const second = played({ model: "m2", answers: [answer("hello")] })
          yield* inTime(ask.pipe(over([first, second], { breaker }, { breaker: circuits })))
          assert.strictEqual(first.requests.length, 3)
          return (yield* circuits.state("https://one")).failures
        })
      assert.deepStrictEqual([yield* seen("inside"), yield* seen("outside")], [3, 1])
    })
  )

  it.effect("counts a series that another call ended once, and the next target on its own", () =>
    Effect.gen(function* () {
      const circuits = yield* CircuitBreaker.make()
      // While the first call waits for its repeat, the server tells the second one to wait ten seconds.
      const first = { ...played({ answers: [fails, Effect.fail(limited(100))] }), endpoint: "https://one" }
      const second = {
        ...played({ model: "m2", answers: [fails, answer("hello")] }),
        endpoint: "https://two"
      }
      const later = Effect.delay(Effect.exit(ask), 500)
      yield* inTime(
        Effect.all([Effect.exit(ask), later], { concurrency: "unbounded" }).pipe(
          over([first, second], { breaker: "outside" }, { breaker: circuits })
        )
      )
      assert.strictEqual(first.requests.length, 2)
      assert.strictEqual((yield* circuits.state("https://one")).failures, 1)
      assert.strictEqual((yield* circuits.state("https://two")).phase, "closed")
    })
  )
})

describe("a permit", () => {
  /** Opens the circuit, lets its time pass, and returns true if a probe is let through after `lost`. */
  const afterLost = (
    lost: (
      chain: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>
    ) => Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>,
    hang: Effect.Effect<never>
  ) =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = {
        ...played({ answers: [hang, answer("hello")], streams: [Stream.fromEffect(hang)] }),
        endpoint: "https://one"
      }
      return yield* Effect.gen(function* () {
        yield* breaker.trip("https://one", "1 second")
        yield* TestClock.adjust("2 seconds")
        const fiber = yield* Effect.forkChild(Effect.exit(lost(ask)))
        yield* TestClock.adjust("10 millis")
        yield* Fiber.interrupt(fiber)
        assert.strictEqual((yield* breaker.state("https://one")).phase, "half-open")
        return yield* breaker.available("https://one")
      }).pipe(over([target], {}, { breaker }))
    })

  it.effect("of an interrupted attempt is released, by text and by streams", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* afterLost((text) => text, Effect.never))
      assert.isTrue(yield* afterLost(() => read, Effect.never))
    })
  )

  it.effect("of an attempt that dies is released, by text and by streams", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* afterLost((text) => text, Effect.die("bug")))
      assert.isTrue(yield* afterLost(() => read, Effect.die("bug")))
    })
  )

  it.effect("is released by a stream that the consumer stops reading", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const endless = Stream.concat(say(...text.block("a")), Stream.never)
      const target = { ...played({ streams: [endless] }), endpoint: "https://one" }
      yield* Effect.gen(function* () {
        yield* breaker.trip("https://one", "1 second")
        yield* TestClock.adjust("2 seconds")
        yield* LanguageModel.streamText({ prompt: "x" }).pipe(Stream.take(1), Stream.runDrain)
        assert.isTrue(yield* breaker.available("https://one"))
      }).pipe(over([target], {}, { breaker }))
    })
  )
})

describe("a health check", () => {
  it.effect("runs before each attempt, and an unhealthy target gets no attempt", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const isHealthy: Options["isHealthy"] = ({ model }) =>
        Effect.sync(() => {
          asked.push(model)
          return model !== "m"
        })
      const first = played({ answers: [answer("no")] })
      const second = played({ model: "m2", answers: [fails, answer("hello")] })
      yield* inTime(ask.pipe(over([first, second], {}, { isHealthy })))
      assert.deepStrictEqual(counts(first, second), [0, 2])
      assert.deepStrictEqual(asked.slice(0, 2), ["m", "m2"])
    })
  )

  it.effect("that does not answer within the connect limit counts as healthy", () =>
    Effect.gen(function* () {
      const first = played({ answers: [answer("no")] })
      const second = played({ model: "m2", answers: [answer("hello")] })
      const isHealthy: Options["isHealthy"] = ({ model }) =>
        model === "m" ? Effect.never : Effect.succeed(true)
      const { took } = yield* inTime(timed(ask).pipe(over([first, second], {}, { isHealthy })))
      assert.strictEqual(took, 10_000)
      assert.deepStrictEqual(counts(first, second), [1, 0])
    })
  )

  it.effect("that does not answer ends at the deadline of the program around the call", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("hello")] })
      const { took } = yield* inTime(
        timed(Effect.exit(ask)).pipe(
          Deadline.within("3 seconds"),
          over([target], {}, { isHealthy: () => Effect.never })
        )
      )
      assert.strictEqual(took, 3_000)
    })
  )

  it.effect("that dies counts as healthy", () =>
    Effect.gen(function* () {
      const first = played({ answers: [answer("hello")] })
      const isHealthy: Options["isHealthy"] = () => Effect.die("bug")
      const { took } = yield* inTime(timed(ask).pipe(over([first], {}, { isHealthy })))
      assert.deepStrictEqual([took, counts(first)], [0, [1]])
    })
  )

  it.effect("that stays unhealthy ends the call at its deadline with that failure", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("no")] })
      const { value, took } = yield* inTime(
        timed(failureOf(ask)).pipe(over([target], {}, { isHealthy: () => Effect.succeed(false) }))
      )
      assert.strictEqual(value._tag, "AllTargetsOut")
      assert.isTrue(took > 100_000 && took <= 120_000)
      assert.strictEqual(target.requests.length, 0)
    })
  )
})

describe("the retry budget", () => {
  /** Returns the number of requests that 200 concurrent calls send to a target that always fails. */
  const storm = (changes: Partial<RecoveryPolicy.RecoveryPolicy>) =>
    Effect.gen(function* () {
      const target = played({ answers: [fails] })
      const rows = { ...policy.rows, ServerError: { ...policy.rows.ServerError, attempts: 10 } }
      yield* inTime(
        Effect.forEach(Array.from({ length: 200 }), () => Effect.exit(ask), {
          concurrency: "unbounded"
        }).pipe(over([target], { circuits: false, rows, deadline: Duration.seconds(20), ...changes }))
      )
      return target.requests.length
    })

  it.effect("refilled by calls limits a storm of retries to a fifth of the calls and the reserve", () =>
    Effect.gen(function* () {
      const requests = yield* storm({ retryBudget: { paidBy: "calls" } })
      // 200 first attempts, 40 for the share, 10 from the reserve and its refill in 20 s.
      assert.isAtLeast(requests, 250)
      assert.isAtMost(requests, 254)
    })
  )

  it.effect("refilled by successes limits a storm of retries to the reserve when every call fails", () =>
    Effect.gen(function* () {
      const requests = yield* storm({})
      // 200 first attempts, 10 from the reserve and its refill in 20 s.
      assert.isAtLeast(requests, 210)
      assert.isAtMost(requests, 214)
    })
  )

  it.effect(
    "that is empty allows one switch and no repeat, and returns the original failure after 15 s",
    () =>
      Effect.gen(function* () {
        const none = { retryBudget: { ratio: 0, burst: 0 } }
        const chain = ["m1", "m2", "m3"].map((model) => played({ model, answers: [fails] }))
        const [first, second, third] = chain
        if (first === undefined || second === undefined || third === undefined) return assert.fail()
        const { value, took } = yield* inTime(timed(failureOf(ask)).pipe(over([first, second, third], none)))
        assert.deepStrictEqual(counts(first, second, third), [1, 1, 0])
        assert.isTrue(took >= 15_000 && took < 17_000)
        assert.isTrue(value._tag === "ProviderFailure" && value.reason._tag === "ServerError")
        const alone = played({ answers: [fails, answer("no")] })
        const failed = yield* inTime(failureOf(ask).pipe(over([alone], none)))
        assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ServerError")
        assert.strictEqual(alone.requests.length, 1)
      })
  )

  it.effect("may be shared, and false means no budget", () =>
    Effect.gen(function* () {
      const retryBudget = yield* RetryBudget.make({ ratio: 0, burst: 1, refillEvery: "1 day" })
      const one = played({ answers: [fails] })
      const two = played({ answers: [fails] })
      const sharing = (target: Played) => over([target], { circuits: false }, { retryBudget })
      yield* inTime(Effect.andThen(Effect.exit(ask.pipe(sharing(one))), Effect.exit(ask.pipe(sharing(two)))))
      assert.deepStrictEqual(counts(one, two), [2, 1])
      const free = played({ answers: [fails] })
      yield* inTime(Effect.exit(ask.pipe(over([free], { circuits: false, retryBudget: false }))))
      assert.deepStrictEqual(counts(free), [5])
    })
  )

  it.effect("is not charged for a first attempt that goes elsewhere because a circuit is open", () =>
    Effect.gen(function* () {
      const first = { ...played({ answers: [answer("no")] }), endpoint: "https://one" }
      const second = played({ model: "m2", answers: [answer("hello")] })
      const breaker = yield* CircuitBreaker.make()
      yield* breaker.isolate("https://one")
      const retryBudget = yield* RetryBudget.make({ ratio: 0, burst: 1, refillEvery: "1 day" })
      yield* Effect.gen(function* () {
        for (let n = 0; n < 5; n++) yield* ask
      }).pipe(over([first, second], {}, { breaker, retryBudget }))
      assert.deepStrictEqual(counts(first, second), [0, 5])
      assert.strictEqual(yield* retryBudget.amplification, 1)
      assert.isTrue(yield* retryBudget.withdraw)
    })
  )

  it.effect("is not needed for asking again with a renewed key when another call has used it up", () =>
    Effect.gen(function* () {
      const retryBudget = yield* RetryBudget.make({ ratio: 0, burst: 1, refillEvery: "1 day" })
      let loads = 0
      const load = Effect.suspend(() => {
        const token = Effect.succeed({ value: Redacted.make(`token-${++loads}`) })
        return loads === 1 ? token : Effect.andThen(retryBudget.withdraw, token)
      })
      const refused = failure(new FailoverReason.Auth({ permanent: false }))
      const target = played({
        keys: [KeySource.refreshing("OAUTH", { load })],
        answers: [Effect.fail(refused), answer("hello")]
      })
      const { took } = yield* inTime(timed(ask).pipe(over([target], {}, { retryBudget })))
      assert.deepStrictEqual([took, target.requests.length, loads], [0, 2, 2])
    })
  )

  it.effect("is not charged for the continuation of a stream", () =>
    Effect.gen(function* () {
      const broken = say(text.start(), text.delta("One, "))
      const target = played({ streams: [broken, say(...text.block("two."), finish())] })
      const retryBudget = yield* RetryBudget.make({ ratio: 0, burst: 1, refillEvery: "1 day" })
      yield* inTime(read.pipe(over([target], {}, { retryBudget })))
      assert.strictEqual(target.requests.length, 2)
      assert.deepStrictEqual([yield* retryBudget.withdraw, yield* retryBudget.withdraw], [true, false])
    })
  )
})

describe("the deadline of the program around a call", () => {
  it.effect("the deadline of the program around a call", () =>
    Effect.gen(function* () {
      const target = played({ answers: [Effect.fail(limited(20)), answer("hello")] })
      const { took } = yield* inTime(
        timed(failureOf(ask)).pipe(Deadline.within("19 seconds"), over([target]))
      )
      assert.deepStrictEqual([took, target.requests.length], [0, 1])
      const enough = played({ answers: [Effect.fail(limited(20)), answer("hello")] })
      yield* inTime(ask.pipe(Deadline.within("21 seconds"), over([enough])))
      assert.strictEqual(enough.requests.length, 2)
    })
  )

  it.effect("prevents every attempt once it has passed", () =>
    Effect.gen(function* () {
      const target = played({ answers: [answer("no")] })
      const failed = yield* failureOf(ask).pipe(Deadline.within("0 seconds"), over([target]))
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "Timeout")
      assert.strictEqual(target.requests.length, 0)
      const cut = played({ answers: [Effect.delay(answer("half", "length", 600), "10 seconds")] })
      const response = yield* inTime(ask.pipe(Deadline.within("5 seconds"), over([cut])))
      assert.deepStrictEqual([response.text, cut.requests.length], ["half", 1])
    })
  )
})

describe("a probe of a cooling target", () => {
  const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))

  it.effect("is sent near the end of the cooldown, one at a time", () =>
    Effect.gen(function* () {
      const first = played({
        keys: [key("A")],
        answers: [refused, Effect.delay(answer("back"), "1 second"), answer("back")]
      })
      const second = played({ keys: [key("B")], answers: [answer("hello")] })
      yield* inTime(
        Effect.gen(function* () {
          yield* ask
          // The last 30 s of ten minutes, which is less than a quarter of the cooldown.
          yield* Effect.sleep("569999 millis")
          yield* ask
          assert.deepStrictEqual(counts(first, second), [1, 2])
          yield* Effect.sleep("1 millis")
          yield* Effect.all([ask, ask, ask], { concurrency: "unbounded" })
          assert.deepStrictEqual(counts(first, second), [2, 4])
          yield* ask
          assert.deepStrictEqual(counts(first, second), [3, 4])
        }).pipe(over([first, second]))
      )
    })
  )

  it.effect("that fails changes nothing: the cooldown ends at its usual time", () =>
    Effect.gen(function* () {
      const first = played({ keys: [key("A")], answers: [refused, refused, answer("back")] })
      const second = played({ keys: [key("B")], answers: [answer("hello")] })
      const { layer, of } = recording()
      yield* inTime(
        Effect.gen(function* () {
          for (const millis of [0, 570_000, 29_999, 1]) {
            yield* Effect.sleep(millis)
            yield* ask
          }
        }).pipe(over([first, second]))
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(timesOf(first), [0, 570_000, 600_000])
      assert.strictEqual(of("CooldownOpened").length, 1)
    })
  )

  it.effect("that was interrupted makes room for another", () =>
    Effect.gen(function* () {
      const first = played({ keys: [key("A")], answers: [refused, Effect.never, answer("back")] })
      const second = played({ keys: [key("B")], answers: [answer("hello")] })
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("570 seconds")
        const probe = yield* Effect.forkChild(ask)
        yield* TestClock.adjust("1 second")
        yield* Fiber.interrupt(probe)
        yield* ask
        assert.deepStrictEqual(counts(first, second), [3, 1])
      }).pipe(over([first, second]))
    })
  )

  it.effect("that a circuit refused makes room for another", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const answers = [refused, answer("back")]
      const first = { ...played({ keys: [key("A")], answers }), endpoint: "https://one" }
      const second = {
        ...played({ keys: [key("B")], answers: [answer("hello")] }),
        endpoint: "https://two"
      }
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("570 seconds")
        yield* breaker.trip("https://one", "1 second")
        yield* ask
        assert.deepStrictEqual(counts(first, second), [1, 2])
        yield* TestClock.adjust("1 second")
        yield* ask
        assert.deepStrictEqual(counts(first, second), [2, 2])
      }).pipe(over([first, second], {}, { breaker }))
    })
  )

  it.effect("is sent although the cooldown of another target opens while it is checked", () =>
    Effect.gen(function* () {
      const first = played({ keys: [key("A")], answers: [refused, answer("back")] })
      const second = played({ keys: [key("B")], answers: [answer("hello"), refused] })
      const isHealthy: Options["isHealthy"] = ({ key }) =>
        Effect.delay(Effect.succeed(true), key === "A" ? 1_000 : 0)
      yield* inTime(
        Effect.gen(function* () {
          yield* ask
          yield* Effect.sleep("575 seconds")
          const other = Effect.delay(Effect.exit(ask), 500)
          yield* Effect.all([ask, other], { concurrency: "unbounded" })
        }).pipe(over([first, second], {}, { isHealthy }))
      )
      // The other call is refused at 576.5 s.
      assert.deepStrictEqual(timesOf(second), [1_000, 576_500])
      assert.strictEqual(timesOf(first)[1], 577_000)
    })
  )

  it.effect("is never sent within a wait that the server named", () =>
    Effect.gen(function* () {
      const first = played({ keys: [key("A")], answers: [Effect.fail(limited(100)), answer("back")] })
      const second = played({ keys: [key("B")], answers: [answer("hello")] })
      yield* Effect.gen(function* () {
        yield* ask
        yield* TestClock.adjust("99999 millis")
        yield* ask
        assert.deepStrictEqual(counts(first, second), [1, 2])
      }).pipe(over([first, second]))
    })
  )
})

describe("a delayed repeat", () => {
  it.effect("respects a wait that the server named to another call meanwhile", () =>
    Effect.gen(function* () {
      // Both calls are in flight. The second gets the wait before the first fails.
      const first = played({
        answers: [Effect.delay(fails, 2_000), Effect.delay(Effect.fail(limited(10)), 1_000), answer("hello")]
      })
      yield* inTime(Effect.all([ask, ask], { concurrency: "unbounded" }).pipe(over([first])))
      for (const time of timesOf(first).slice(2)) assert.isAtLeast(time, 11_000)
    })
  )
})

describe("fifty calls when a provider dies", () => {
  /** Returns the most concurrent attempts at the dead provider after its circuit has opened. */
  const mostProbes = (changes: Partial<RecoveryPolicy.RecoveryPolicy>) =>
    Effect.gen(function* () {
      let open = 0
      let most = 0
      const dying = Effect.acquireUseRelease(
        Effect.sync(() => (most = Math.max(most, ++open))),
        () => Effect.delay(fails, 300),
        () => Effect.sync(() => --open)
      )
      const first = { ...played({ answers: [dying] }), endpoint: "https://one" }
      const second = {
        ...played({ model: "m2", answers: [Effect.delay(answer("hello"), 300)] }),
        endpoint: "https://two"
      }
      const fifty = Effect.forEach(Array.from({ length: 50 }), () => ask, { concurrency: "unbounded" })
      yield* inTime(
        Effect.gen(function* () {
          yield* fifty
          assert.isAtMost(first.requests.length + second.requests.length, 105)
          const before = first.requests.length + second.requests.length
          most = 0
          for (let n = 0; n < 20; n++) {
            yield* Effect.sleep("10 seconds")
            yield* fifty
          }
          const later = first.requests.length + second.requests.length - before
          assert.isAtMost(later, 1_050)
        }).pipe(over([first, second], changes))
      )
      return most
    })

  it.effect(
    "in flight make at most 2.1 attempts each, and later ones 1.05, with three probes at a time (safe-client-gateway PR #3442)",
    () => Effect.map(mostProbes({}), (most) => assert.isAtMost(most, 3))
  )

  it.effect("probe one at a time when the circuit has one permit", () =>
    Effect.map(mostProbes(consecutive), (most) => assert.isAtMost(most, 1))
  )
})

it.effect("calls are answered by the next target when the policy has no circuits", () =>
  Effect.gen(function* () {
    const first = played({ answers: [fails] })
    const second = played({ model: "m2", answers: [answer("hello")] })
    yield* Effect.gen(function* () {
      for (let n = 0; n < 8; n++) yield* ask
    }).pipe(over([first, second], { ...brisk, circuits: false }))
    assert.deepStrictEqual(counts(first, second), [8, 8])
  })
)

describe("an interrupted call", () => {
  it.effect("ends the health check that it waits for", () =>
    Effect.gen(function* () {
      const { layer } = recording()
      let ended = 0
      const isHealthy = () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => void ended++))
      const target = played({ answers: [answer("hello")] })
      const call = yield* Effect.forkChild(
        ask.pipe(Effect.provide(Failover.layer([target], { policy, isHealthy })), Effect.provide(layer))
      )
      yield* TestClock.adjust("100 millis")
      assert.strictEqual(ended, 0)
      yield* Fiber.interrupt(call)
      assert.strictEqual(ended, 1)
      assert.lengthOf(target.requests, 0)
    })
  )
})
