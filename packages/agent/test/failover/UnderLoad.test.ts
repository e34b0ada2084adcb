/**
 * Chains under partial failure, outages and concurrency. The simulation (`npm run simulate`) shows the same worlds
 * with numbers. Each test here is named after a problem in one of them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Random, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, FailoverReason, Presets, RecoveryPolicy } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import type { CircuitEvent } from "@outlast/resilience"
import { CircuitBreaker, ResilienceEvents, RetryBudget } from "@outlast/resilience"
import type { Chain, Played } from "../support.ts"
import {
  answer,
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

/** Each call has its own prompt, so that a server can identify it. */
const ask = (call = 0) => LanguageModel.generateText({ prompt: `question ${call}` })
const read = Stream.runDrain(LanguageModel.streamText({ prompt: "question" }))

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}, options: Options = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes }, ...options }))

/** Runs in virtual time with a fixed random seed. */
const simulated = <A, E, R>(effect: Effect.Effect<A, E, R>) => inTime(Random.withSeed(effect, "under load"))

/** Starts calls, one every `every` milliseconds. Returns the result and the duration of each. */
const calls = (count: number, every = 0, concurrency: number | "unbounded" = "unbounded") =>
  Effect.forEach(
    Array.from({ length: count }, (_, n) => n),
    (n) => Effect.delay(timed(Effect.exit(ask(n))), n * every),
    { concurrency }
  )

type Called = Effect.Success<ReturnType<typeof calls>>
const answered = (all: Called) => all.filter(({ value }) => Exit.isSuccess(value)).length
const longest = (all: Called) => Math.max(...all.map(({ took }) => took))

/** Returns the same sequence of numbers in [0, 1) for the same seed. */
const numbers = (seed: number) => {
  let last = seed
  return () => (last = (last * 48_271) % 2_147_483_647) / 2_147_483_647
}

const fails = Effect.fail(serverError)
const overloaded = Effect.fail(failure(new FailoverReason.Overloaded()))
const hello = answer("hello")

/**
 * A share of the requests fails after 50 ms, the others are answered after 3 s. Reports the number of each request.
 */
const flaky = (
  share: number,
  failing: typeof fails,
  seed: number,
  options: { readonly model?: string } = {}
) => {
  const draw = numbers(seed)
  const reply = Effect.suspend(() =>
    draw() < share ? Effect.delay(failing, 50) : Effect.delay(hello, "3 seconds")
  )
  return { ...played({ ...options, answers: [reply] }), endpoint: `https://${options.model ?? "m"}` }
}

const at = (endpoint: string, target: Played): Played => ({ ...target, endpoint })

/** Reports each phase that a circuit enters. */
const watching = (changed: (to: string) => void) =>
  ResilienceEvents.layerHandler((event) =>
    Effect.sync(() => {
      // The tag proves the type of the event.
      if (event._tag === "CircuitTransition") changed((event as CircuitEvent.CircuitTransition).to)
    })
  )

describe("a target that fails a share of its requests", () => {
  it.effect("answers at least as many calls as single attempts would, although failures are fast", () =>
    Effect.gen(function* () {
      const seed = 95_028
      const target = flaky(0.3, fails, seed)
      const draw = numbers(seed)
      const once = Array.from({ length: 120 }, draw).filter((n) => n >= 0.3).length
      const all = yield* simulated(calls(120, 250).pipe(over([target])))
      assert.isAtLeast(answered(all), once)
      assert.isAtLeast(answered(all), 114)
    })
  )

  it.effect("does not cool both of two targets for 64 concurrent calls", () =>
    Effect.gen(function* () {
      const chain: Chain = [flaky(0.1, overloaded, 1), flaky(0.1, overloaded, 2, { model: "m2" })]
      const { value: all, took } = yield* simulated(timed(calls(640, 0, 64)).pipe(over(chain)))
      assert.strictEqual(answered(all), 640)
      // Ten waves of three seconds, and the time of the retries.
      assert.isAtMost(took, 45_000)
      assert.isAtMost(longest(all), 15_000)
    })
  )
})

describe("a rate limit reached by 60 calls at once", () => {
  /** Accepts 20 requests per second from `since` on. Tells the others to retry after a second. */
  const limitedTo20 = (since: number) => {
    let tokens = 20
    let last = since
    return at(
      "https://one",
      played({
        answers: [
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            tokens = Math.min(20, tokens + (Math.max(0, now - last) * 20) / 1_000)
            last = Math.max(last, now)
            if (now < since || tokens < 1) return Effect.delay(Effect.fail(limited(1)), 50)
            tokens--
            return Effect.delay(hello, "1 second")
          })
        ]
      })
    )
  }

  for (const since of [0, 1_000]) {
    it.effect(`answers all of them, if it accepts requests after ${since} ms`, () =>
      Effect.gen(function* () {
        const target = limitedTo20(since)
        // The policy keeps its jitter, which spreads the calls.
        const all = yield* simulated(
          calls(60).pipe(Effect.provide(Failover.layer([target], { policy: RecoveryPolicy.interactive })))
        )
        assert.strictEqual(answered(all), 60)
        assert.isAtMost(longest(all), 6_000)
        const perCall = Map.groupBy(target.requests, ({ request }) => JSON.stringify(request.prompt))
        assert.isAtMost(Math.max(...[...perCall.values()].map(({ length }) => length)), 3)
      })
    )
  }
})

describe("a server that refuses calls while it answers others", () => {
  it.effect("answers each call, even one that it refuses more often than the attempts of its row", () =>
    Effect.gen(function* () {
      // Ten requests a second. The others get a 429 with a wait of a second.
      let tokens = 10
      let last = 0
      const reply = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        tokens = Math.min(10, tokens + (now - last) / 100)
        last = now
        if (tokens < 1) return Effect.delay(Effect.fail(limited(1)), 50)
        tokens--
        return Effect.delay(hello, 300)
      })
      const target = at("https://one", played({ answers: [reply] }))
      const all = yield* simulated(
        calls(300, 12).pipe(Effect.provide(Failover.layer([target], { policy: RecoveryPolicy.interactive })))
      )
      assert.strictEqual(answered(all), 300)
      const perCall = Map.groupBy(target.requests, ({ request }) => JSON.stringify(request.prompt))
      const most = Math.max(...[...perCall.values()].map(({ length }) => length))
      assert.isAbove(most, 5)
      assert.isAtMost(most, 10)
    })
  )
})

describe("a rate limit whose server names no wait", () => {
  it.effect("does not put the last vendor out: the next call is answered there at once", () =>
    Effect.gen(function* () {
      const refuses = Effect.fail(failure(new FailoverReason.RateLimit()))
      const first = at("https://one", played({ model: "m1", answers: [refuses] }))
      const last = at("https://two", played({ model: "m2", answers: [refuses, hello] }))
      const RateLimit = { ...policy.rows.RateLimit, attempts: 1 }
      const all = yield* simulated(
        calls(2, 1_000).pipe(over([first, last], { rows: { ...policy.rows, RateLimit } }))
      )
      assert.strictEqual(answered(all), 1)
      assert.deepStrictEqual(timesOf(first), [0])
      assert.deepStrictEqual(timesOf(last), [0, 1_000])
    })
  )
})

describe("calls that wake again and again to targets that other calls have put out", () => {
  /** Accepts `count` requests in two seconds. The others are told when to come again, in whole seconds. */
  const window = (count: number) => {
    let accepted: ReadonlyArray<number> = []
    return (now: number): number => {
      accepted = accepted.filter((time) => time > now - 2_000)
      if (accepted.length >= count) return Math.ceil(((accepted[0] ?? now) + 2_000 - now) / 1_000)
      accepted = [...accepted, now]
      return 0
    }
  }
  const within = (...windows: ReadonlyArray<(now: number) => number>) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const wait = windows.reduce((wait, next) => (wait > 0 ? wait : next(now)), 0)
      return wait > 0 ? Effect.delay(Effect.fail(limited(wait)), 20) : Effect.delay(hello, 400)
    })

  it.effect("wait on while their deadline lasts", () =>
    Effect.gen(function* () {
      const shared = window(6)
      const one = (name: string) =>
        at("https://one", played({ keys: [key(name)], answers: [within(window(4), shared)] }))
      const other = at("https://other", played({ model: "m2", answers: [within(window(3))] }))
      const all = yield* simulated(
        calls(70, 50).pipe(
          Effect.provide(
            Failover.layer([one("one"), one("two"), other], { policy: RecoveryPolicy.interactive })
          )
        )
      )
      assert.strictEqual(answered(all), 70)
    })
  )
})

describe("the jittered wait of a call for a cooldown", () => {
  it.effect("ends in virtual time, whatever fraction of a millisecond it has", () =>
    Effect.gen(function* () {
      let free = 0
      const target = played({
        answers: [
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            if (now < free) return Effect.delay(Effect.fail(limited(1)), 50)
            free = now + 2_000
            return Effect.delay(hello, 100)
          })
        ]
      })
      // It stood still: the end of a wait was a fraction ahead of a clock that sleeps of that length do not move.
      const all = yield* simulated(
        calls(30).pipe(Effect.provide(Failover.layer([target], { policy: RecoveryPolicy.interactive })))
      )
      assert.strictEqual(all.length, 30)
    })
  )
})

describe("rate limited targets that name a short wait", () => {
  const refuses = (after: number) => Effect.delay(Effect.fail(limited(1)), after)

  it.effect("of sixty vendors do not keep the first call from the one that answers", () =>
    Effect.gen(function* () {
      const vendors = Array.from({ length: 60 }, (_, n) =>
        at(`https://${n}`, played({ model: `m${n}`, answers: [refuses(40)] }))
      )
      const good = at("https://good", played({ model: "good", answers: [hello] }))
      const [first, ...others] = vendors
      if (first === undefined) return
      const all = yield* simulated(calls(1).pipe(over([first, ...others, good])))
      assert.strictEqual(answered(all), 1)
      // The first vendors are asked again within `patience`, the others once.
      assert.isAtMost(Math.max(...others.slice(2).map(({ requests }) => requests.length)), 1)
      assert.isAtMost(longest(all), 10_000)
    })
  )

  it.effect("of one model are left for another model once patience is over", () =>
    Effect.gen(function* () {
      const keys = ["one", "two", "three"].map((name) =>
        at("https://one", played({ keys: [key(name)], answers: [refuses(600)] }))
      )
      const [first, ...others] = keys
      if (first === undefined) return
      const other = at("https://other", played({ model: "m2", answers: [hello] }))
      const all = yield* simulated(calls(1).pipe(over([first, ...others, other])))
      assert.strictEqual(answered(all), 1)
      assert.isAtMost(longest(all), Duration.toMillis(policy.patience) + 1_500)
    })
  )
})

describe("a silent vendor", () => {
  const second = () =>
    played({ model: "m2", answers: [hello], streams: [say(...text.block("hello"), finish())] })

  it.effect("is not asked by the second stream", () =>
    Effect.gen(function* () {
      const hangs = played({ streams: [Stream.never] })
      const took = yield* simulated(
        Effect.andThen(
          read,
          Effect.map(timed(read), ({ took }) => took)
        ).pipe(over([hangs, second()]))
      )
      assert.deepStrictEqual([timesOf(hangs), took], [[0], 0])
    })
  )

  it.effect("is not asked by the second stream, although it sent headers", () =>
    Effect.gen(function* () {
      const silent = played({})
      const hangs = {
        ...silent,
        build: Effect.map(silent.build, (model) => ({
          ...model,
          streamText: (request: ProviderModel.ProviderRequest) => {
            request.heard?.({})
            requests++
            return Stream.never
          }
        }))
      }
      let requests = 0
      yield* simulated(Effect.andThen(read, read).pipe(over([hangs, second()])))
      assert.strictEqual(requests, 1)
    })
  )

  it.effect("is not asked by the second call for a whole answer, when the model reports headers", () =>
    Effect.gen(function* () {
      const silent = played({ answers: [Effect.never] })
      const hangs = {
        ...silent,
        build: Effect.map(silent.build, (model) => ({ ...model, reportsHeaders: true }))
      }
      const took = yield* simulated(
        Effect.andThen(
          ask(),
          Effect.map(timed(ask()), ({ took }) => took)
        ).pipe(over([hangs, second()]))
      )
      assert.deepStrictEqual([timesOf(silent), took], [[0], 0])
    })
  )

  it.effect("is left by the first stream at the first limit for an equivalent target, without a repeat", () =>
    Effect.gen(function* () {
      const hangs = at("https://one", played({ streams: [Stream.never] }))
      const well = at("https://two", played({ streams: [say(...text.block("hello"), finish())] }))
      const { took } = yield* simulated(timed(read).pipe(over([hangs, well])))
      assert.deepStrictEqual([timesOf(hangs), took], [[0], 60_000])
    })
  )

  it.effect("that accepts no connection is left at the first limit for an equivalent target", () =>
    Effect.gen(function* () {
      const timeout = Effect.fail(failure(new FailoverReason.Timeout({ phase: "connect", local: true })))
      const silent = at("https://one", played({ answers: [Effect.delay(timeout, "10 seconds")] }))
      const { took } = yield* simulated(
        timed(ask()).pipe(over([silent, at("https://two", played({ answers: [hello] }))]))
      )
      assert.deepStrictEqual([timesOf(silent), took], [[0], 10_000])
    })
  )
})

describe("a call that waits for a cooldown", () => {
  it.effect("continues soon after another target of the chain answers again", () =>
    Effect.gen(function* () {
      const until4s = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        now < 4_000 ? Effect.delay(overloaded, 10) : Effect.delay(hello, 50)
      )
      const chain: Chain = [
        at("https://one", played({ answers: [until4s] })),
        at("https://two", played({ model: "m2", answers: [until4s] }))
      ]
      const all = yield* simulated(
        calls(200, 100).pipe(Effect.provide(Failover.layer(chain, { policy: RecoveryPolicy.interactive })))
      )
      assert.isAtMost(longest(all), 30_000)
    })
  )
})

describe("a health check", () => {
  it.effect("that never returns does not keep a call from its answer", () =>
    Effect.gen(function* () {
      const target = played({ answers: [hello] })
      const { took } = yield* simulated(
        timed(ask()).pipe(over([target], {}, { isHealthy: () => Effect.never }))
      )
      assert.isAtMost(took, Duration.toMillis(policy.deadline))
      assert.lengthOf(target.requests, 1)
    })
  )

  it.effect("uses a limit that a policy from a JSON file gives as words", () =>
    Effect.gen(function* () {
      const target = played({ answers: [hello] })
      const limits: typeof policy.limits = { ...policy.limits, ...JSON.parse('{ "connect": "3 seconds" }') }
      yield* simulated(ask().pipe(over([target], { limits }, { isHealthy: () => Effect.never })))
      assert.deepStrictEqual(timesOf(target), [3_000])
    })
  )

  it.effect("that dies does not keep a call from its answer", () =>
    Effect.gen(function* () {
      const target = played({ answers: [hello] })
      yield* simulated(ask().pipe(over([target], {}, { isHealthy: () => Effect.die("bug") })))
      assert.lengthOf(target.requests, 1)
    })
  )

  for (const [name, interrupted] of [
    ["at once", Effect.interrupt],
    ["after a second", Effect.delay(Effect.interrupt, "1 second")],
    ["by its fiber", Effect.withFiber((fiber) => Effect.as(Fiber.interrupt(fiber), true))]
  ] as const) {
    it.effect(`that interrupts itself ${name} does not keep a call from its answer`, () =>
      Effect.gen(function* () {
        const target = played({ answers: [hello] })
        yield* simulated(ask().pipe(over([target], {}, { isHealthy: () => interrupted })))
        assert.lengthOf(target.requests, 1)
      })
    )
  }

  it.effect("that did not return is paused for a minute", () =>
    Effect.gen(function* () {
      const target = played({ answers: [hello] })
      const asked: Array<number> = []
      const isHealthy = () =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          asked.push(now)
          return Effect.never
        })
      yield* simulated(
        Effect.forEach([0, 0, 59_999, 1], (pause) => Effect.delay(ask(), pause)).pipe(
          over([target], {}, { isHealthy })
        )
      )
      assert.deepStrictEqual(asked, [0, 70_000])
      assert.deepStrictEqual(timesOf(target), [10_000, 10_000, 69_999, 80_000])
    })
  )

  it.effect("during which another call opened a cooldown sends no request to the target", () =>
    Effect.gen(function* () {
      const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))
      const target = played({ answers: [Effect.delay(refused, 500)] })
      const other = played({ model: "m2", answers: [hello] })
      const isHealthy = ({ model }: { readonly model: string }) =>
        model === "m2" ? Effect.succeed(true) : Effect.delay(Effect.succeed(true), checks++ * 1_000)
      let checks = 0
      const all = yield* simulated(calls(2).pipe(over([target, other], {}, { isHealthy })))
      assert.deepStrictEqual([answered(all), target.requests.length], [2, 1])
    })
  )
})

describe("a circuit", () => {
  const failuresToOpen = <Class extends string>(options: Failover.Options<Class>, failing: typeof fails) =>
    Effect.gen(function* () {
      let failures = 0
      let opened: number | undefined
      const counted = Effect.andThen(
        Effect.sync(() => failures++),
        failing
      )
      const target = at("https://one", played({ answers: [Effect.delay(counted, 50)] }))
      const watch = watching((to) => {
        if (to === "open") opened ??= failures
      })
      yield* simulated(
        calls(2).pipe(Effect.provide(Failover.layer([target], options)), Effect.provide(watch))
      )
      return opened
    })

  it.effect("of the preset nexo opens at the fifth consecutive failure of two concurrent calls", () =>
    Effect.gen(function* () {
      const { policy, circuitsOf } = Presets.nexo
      assert.strictEqual(yield* failuresToOpen({ policy, circuitsOf }, fails), 5)
    })
  )

  it.effect("of the preset decision037 opens at the fifth consecutive failure of two concurrent calls", () =>
    Effect.gen(function* () {
      const { policy } = Presets.decision037
      // Failures that this preset's document says the circuit counts.
      const rateLimited = Effect.fail(failure(new FailoverReason.RateLimit()))
      assert.strictEqual(yield* failuresToOpen({ policy }, rateLimited), 5)
    })
  )

  it.effect("that slow answers opened stays open while probes are slow", () =>
    Effect.gen(function* () {
      const target = at("https://one", played({ answers: [Effect.delay(hello, "20 seconds")] }))
      const rate = { minimumCalls: 10, failures: false, slow: 0.5, slowerThan: "10 seconds" } as const
      const phases: Array<string> = []
      yield* simulated(
        calls(200, 1_000).pipe(
          over([target], { circuits: { trip: { consecutive: false, rate } } }),
          Effect.provide(watching((to) => phases.push(to)))
        )
      )
      assert.include(phases, "open")
      assert.notInclude(phases, "closed")
    })
  )

  it.effect("that leaves no other target lets one attempt per second pass, and two successes close it", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = at("https://one", played({ answers: [fails, hello] }))
      yield* breaker.trip("https://one", "10 minutes")
      const all = yield* simulated(calls(3).pipe(over([target], {}, { breaker })))
      assert.strictEqual(answered(all), 3)
      assert.deepStrictEqual(timesOf(target), [0, 1_000, 2_000, 2_000])
      assert.strictEqual((yield* breaker.state("https://one")).phase, "closed")
    })
  )

  it.effect("lets no call pass that has another target, or whose policy has no last resort", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make()
      const target = at("https://one", played({ answers: [hello] }))
      const other = at("https://two", played({ model: "m2", answers: [hello] }))
      yield* breaker.trip("https://one", "10 minutes")
      yield* simulated(ask().pipe(over([target, other], {}, { breaker })))
      yield* breaker.trip("https://one", "10 minutes")
      const failed = yield* simulated(
        failureOf(ask()).pipe(over([target], { lastResort: false }, { breaker }))
      )
      assert.deepStrictEqual([target.requests.length, other.requests.length], [0, 1])
      assert.strictEqual(failed._tag, "AllTargetsOut")
    })
  )

  it.effect("that closes releases the waiting calls gradually", () =>
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make(RecoveryPolicy.circuits)
      const target = at("https://one", played({ answers: [Effect.delay(hello, 400)] }))
      yield* breaker.trip("https://one", "5 seconds")
      const late = Effect.delay(ask(), 6_500)
      const [all] = yield* simulated(
        Effect.all([calls(30), late], { concurrency: "unbounded" }).pipe(
          over([target], { lastResort: false }, { breaker })
        )
      )
      assert.strictEqual(answered(all), 30)
      const perTime = Map.groupBy(timesOf(target), (time) => time)
      // Three probes; three waiting calls, then two for each success among them. The later call passes.
      const released = [6, 12, 6].map((count, n) => [7_000 + n * 1_000, count])
      assert.deepStrictEqual(
        [...perTime].map(([time, { length }]) => [time, length]),
        [[5_000, 3], [6_000, 3], [6_500, 1], ...released]
      )
    })
  )
})

describe("two vendors that are down at the same time", () => {
  it.effect("never both cool, and the next calls after the outage are answered", () =>
    Effect.gen(function* () {
      const down = (n: number) => Array.from({ length: n }, () => overloaded)
      const one = at("https://one", played({ model: "m1", answers: [...down(12), hello] }))
      const two = at("https://two", played({ model: "m2", answers: [...down(12), hello] }))
      const both = Effect.gen(function* () {
        for (let n = 0; n < 6; n++) yield* Effect.exit(ask(n))
        return yield* timed(ask(6))
      })
      const { took } = yield* simulated(both.pipe(over([one, two], { maxAttempts: 4 })))
      assert.isAtMost(took, 10_000)
    })
  )
})

describe("a chain of 100 targets", () => {
  it.effect("answers the first call although the first 99 are rate limited", () =>
    Effect.gen(function* () {
      const [first, ...rest] = Array.from({ length: 99 }, (_, n) =>
        played({ model: `m${n}`, answers: [Effect.fail(limited(60))] })
      )
      const last = played({ model: "last", answers: [hello] })
      if (first === undefined) return assert.fail()
      const { took } = yield* simulated(timed(ask()).pipe(over([first, ...rest, last])))
      assert.strictEqual(took, 0)
      assert.deepStrictEqual(
        [first, ...rest, last].map(({ requests }) => requests.length),
        Array.from({ length: 100 }, () => 1)
      )
    })
  )

  it.effect("answers the first call after one short wait when the first 99 keys name a short wait", () =>
    Effect.gen(function* () {
      const target = played({
        keys: Array.from({ length: 100 }, (_, n) => key(`KEY_${n}`)),
        answers: [...Array.from({ length: 100 }, () => Effect.fail(limited(1))), hello]
      })
      const { took } = yield* simulated(timed(ask()).pipe(over([target])))
      // The first key is asked twice, a second plus a tenth of jitter apart, and every other key once.
      assert.isAtMost(took, 1_100)
      assert.strictEqual(target.requests.length, 101)
    })
  )

  it.effect("answers the first call although the first 99 keys are refused", () =>
    Effect.gen(function* () {
      const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))
      const target = played({
        keys: Array.from({ length: 100 }, (_, n) => key(`KEY_${n}`)),
        answers: [...Array.from({ length: 99 }, () => refused), hello]
      })
      const { took } = yield* simulated(timed(ask()).pipe(over([target])))
      assert.deepStrictEqual([took, target.requests.length], [0, 100])
    })
  )
})

describe("a chain of 40 overloaded targets and a good one last", () => {
  it.effect("reaches the last one, and does not return to the first ones after each cooldown", () =>
    Effect.gen(function* () {
      const vendor = (i: number) =>
        at(`https://${i}`, played({ model: `m${i}`, answers: [i < 40 ? overloaded : hello] }))
      const chain: Chain = [vendor(0), ...Array.from({ length: 40 }, (_, i) => vendor(i + 1))]
      const all = yield* simulated(calls(60, 1_000).pipe(over(chain)))
      assert.isAtLeast(answered(all), 30)
    })
  )
})

describe("fifty concurrent calls with several keys", () => {
  const refused = Effect.delay(Effect.fail(failure(new FailoverReason.Auth({ permanent: true }))), 50)

  /** A target that refuses some of its keys, and the keys of its requests. */
  const refusing = (keys: ReadonlyArray<string>, isRefused: (key: string) => boolean) => {
    const asked: Array<string> = []
    const target = played({ keys: keys.map(key) })
    const build = Effect.map(target.build, (model) => ({
      ...model,
      generateText: ({ key }: ProviderModel.ProviderRequest) => {
        const by = key === undefined ? "" : Redacted.value(key).replace("secret-of-", "")
        asked.push(by)
        return isRefused(by) ? refused : Effect.delay(hello, "1 second")
      }
    }))
    return { asked, target: { ...target, build } }
  }

  it.effect("send four requests each when only the last key works", () =>
    Effect.gen(function* () {
      const keys = Array.from({ length: 40 }, (_, n) => `KEY_${n}`)
      const { asked, target } = refusing(keys, (key) => key !== "KEY_39")
      const all = yield* simulated(calls(50).pipe(over([target])))
      assert.strictEqual(answered(all), 50)
      assert.isAtMost(asked.length, 200)
    })
  )

  it.effect("all begin at the first key as long as no key was refused", () =>
    Effect.gen(function* () {
      const other = played({ model: "m2", keys: [key("O")], answers: [refused] })
      const { asked, target } = refusing(["A", "B"], () => false)
      // The refused key belongs to another model.
      const all = Effect.andThen(Effect.exit(ask()), calls(50))
      yield* simulated(all.pipe(over([other, target])))
      assert.deepStrictEqual([...new Set(asked)], ["A"])
    })
  )

  it.effect("all use the key that has answered", () =>
    Effect.gen(function* () {
      const { asked, target } = refusing(["A", "B", "C"], (key) => key === "A")
      yield* simulated(Effect.andThen(ask(), calls(50)).pipe(over([target])))
      assert.deepStrictEqual([asked[0], ...new Set(asked.slice(1))], ["A", "B"])
    })
  )
})

describe("the cooldown of a model", () => {
  /** Returns the cooldowns that `program` opens over a model with these answers and a second one that works. */
  const opened = (
    answers: ReadonlyArray<typeof hello>,
    program: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>
  ) =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const first = played({ answers })
      const second = played({ model: "m2", answers: [hello] })
      yield* simulated(program.pipe(over([first, second], { circuits: false }), Effect.provide(layer)))
      return { scopes: of("CooldownOpened").map(({ scope }) => scope), requests: first.requests.length }
    })

  it.effect("does not open after three failures of one call", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* opened([fails, fails, fails, hello], Effect.andThen(ask(1), ask(2))), {
        scopes: [],
        requests: 4
      })
    })
  )

  it.effect("opens after the failures of two calls", () =>
    Effect.gen(function* () {
      const three = ask(1).pipe(Effect.andThen(ask(2)), Effect.andThen(ask(3)))
      // Three requests of the first call, three of the second, none of the third.
      assert.deepStrictEqual(yield* opened([fails], three), { scopes: ["model"], requests: 6 })
    })
  )

  it.effect("does not open after the failures of two calls with a success between", () =>
    Effect.gen(function* () {
      const three = ask(1).pipe(Effect.andThen(ask(2)), Effect.andThen(ask(3)))
      const answers = [fails, fails, fails, hello, fails]
      assert.deepStrictEqual(yield* opened(answers, three), { scopes: [], requests: 7 })
    })
  )

  it.effect("that did not open still makes its own call prefer other targets to another key there", () =>
    Effect.gen(function* () {
      const broken = Effect.fail(failure(new FailoverReason.Network()))
      const first = at("https://one", played({ keys: [key("A"), key("B")], answers: [broken] }))
      const second = at("https://two", played({ model: "m2", answers: [hello] }))
      const { took } = yield* simulated(timed(ask()).pipe(over([first, second])))
      const keys = first.requests.map(({ request }) => request.key && Redacted.value(request.key))
      assert.deepStrictEqual(keys, ["secret-of-A", "secret-of-A", "secret-of-A"])
      assert.deepStrictEqual([took, second.requests.length], [3_000, 1])
    })
  )

  it.effect("does not open after the failures of two calls while a later attempt is in flight", () =>
    Effect.gen(function* () {
      const inFlight = (length: Duration.Input) =>
        opened(
          [fails, fails, fails, Effect.delay(hello, length), fails],
          Effect.all([ask(1), Effect.delay(ask(2), "5 seconds"), Effect.delay(ask(3), "6 seconds")], {
            concurrency: "unbounded"
          })
        )
      assert.deepStrictEqual(yield* inFlight("1 minute"), { scopes: [], requests: 7 })
    })
  )
})

describe("more calls than a server takes, which refuses without naming a wait", () => {
  /** Takes `slots` requests at a time, for 400 ms each. The others are refused. */
  const server = (slots: number) => {
    let busy = 0
    const answers = Effect.suspend(() => {
      if (busy >= slots) return Effect.delay(Effect.fail(failure(new FailoverReason.RateLimit())), 20)
      busy++
      return Effect.ensuring(
        Effect.delay(hello, 400),
        Effect.sync(() => busy--)
      )
    })
    return played({ answers: [answers] })
  }

  it.effect("wait for the retry budget, and are all answered", () =>
    Effect.gen(function* () {
      const target = server(10)
      const all = yield* simulated(calls(80).pipe(over([target])))
      assert.strictEqual(answered(all), 80)
      assert.isAtMost(longest(all), 20_000)
      assert.isAtMost(target.requests.length, 80 * 4)
    })
  )

  it.effect("are all answered when requests take time to arrive, and others take the free places", () =>
    Effect.gen(function* () {
      let working = 0
      const work = Effect.acquireUseRelease(
        Effect.sync(() => working++),
        (before) => (before < 4 ? Effect.delay(hello, 300) : overloaded),
        () => Effect.sync(() => working--)
      )
      const target = played({ answers: [Effect.delay(work, 150)] })
      const all = yield* simulated(calls(200, 30).pipe(over([target])))
      assert.strictEqual(answered(all), 200)
    })
  )

  it.effect("take a token each, also when a success lets them go", () =>
    Effect.gen(function* () {
      const made = yield* RetryBudget.make({ paidBy: "successes" })
      let taken = 0
      let refused = 0
      const retryBudget: RetryBudget.Service = {
        ...made,
        withdrawUnsafe: (fiber) => {
          taken++
          return made.withdrawUnsafe(fiber)
        },
        takeUnsafe: (fiber) => {
          taken++
          made.takeUnsafe(fiber)
        },
        refusedUnsafe: () => void refused++
      }
      const target = server(10)
      const all = yield* simulated(calls(80).pipe(over([target], {}, { retryBudget })))
      assert.strictEqual(answered(all), 80)
      // Every request but the first of each call.
      assert.strictEqual(taken, target.requests.length - 80)
      assert.strictEqual(yield* made.amplification, target.requests.length / 80)
      // Calls that had to wait for it.
      assert.isAbove(refused, 10)
    })
  )

  it.effect("leave the queue when they are interrupted, so that later calls do not wait behind them", () =>
    Effect.gen(function* () {
      const retryBudget = yield* RetryBudget.make({ paidBy: "successes", burst: 1, inFlight: 0 })
      const refuses = Effect.fail(failure(new FailoverReason.RateLimit()))
      const target = played({ answers: [hello, refuses, refuses, refuses, refuses, hello] })
      const took = yield* simulated(
        Effect.gen(function* () {
          yield* ask()
          const waiting = yield* Effect.forkChild(calls(3))
          yield* Effect.delay(Fiber.interrupt(waiting), "500 millis")
          yield* Effect.sleep("10 seconds")
          return (yield* timed(ask())).took
        }).pipe(over([target], {}, { retryBudget }))
      )
      assert.deepStrictEqual([target.requests.length, took], [6, 1_000])
    })
  )

  it.effect("fail after 15 s when it answers no call at all", () =>
    Effect.gen(function* () {
      const retryBudget = yield* RetryBudget.make({ paidBy: "successes", burst: 0 })
      const all = yield* simulated(calls(20, 100).pipe(over([server(0)], {}, { retryBudget })))
      assert.strictEqual(answered(all), 0)
      assert.isAtMost(longest(all), 17_000)
    })
  )
})

describe("the retry budget", () => {
  it.effect("is not charged for waits that the server named", () =>
    Effect.gen(function* () {
      const retryBudget = yield* RetryBudget.make({ ratio: 0, burst: 1, refillEvery: "1 day" })
      const target = played({ answers: [Effect.fail(limited(2)), Effect.fail(limited(2)), hello] })
      yield* simulated(ask().pipe(over([target], {}, { retryBudget })))
      assert.deepStrictEqual(timesOf(target), [0, 2_000, 4_000])
      assert.isTrue(yield* retryBudget.withdraw)
    })
  )

  it.effect("is charged for each repeat when the server always names a wait of 0", () =>
    Effect.gen(function* () {
      const retryBudget = yield* RetryBudget.make({ ratio: 0, burst: 2, refillEvery: "1 day" })
      const target = played({ answers: [Effect.fail(limited(0))] })
      yield* simulated(calls(5).pipe(over([target], {}, { retryBudget })))
      assert.strictEqual(target.requests.length, 7)
    })
  )
})
