/**
 * How soon the first model is used again after it was out, and what the calls pay for looking at it meanwhile. Time is
 * virtual.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover } from "@outlast/agent"
import { failure, finish, policy, serverError } from "../support.ts"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"
import { ProviderFailure } from "#agent/failure/reasons/ProviderFailure"

type Way = "status" | "hang"

interface World {
  readonly way: Way
  readonly failure: ProviderFailure
  readonly outage: Duration.Input
  readonly every: Duration.Input
  /** Calls that begin together. Default 1. */
  readonly together?: number
  /** Every so many requests to the other model fail. Default: none. */
  readonly otherFails?: number
  /** Milliseconds after the begin of the outage from which the other model is out, too, and until when. */
  readonly otherOut?: readonly [from: number, to: number]
}

interface Seen {
  /** Milliseconds from the end of the outage to the first answer of the first model. */
  readonly back: number
  /** Smallest distance of two requests to it while it was out, behind the first minute. */
  readonly apart: number
  /** Longest call while it was out, behind the first minute. */
  readonly longest: number
}

const latency = Duration.millis(500)

/** One call after the other begins, for as long as the outage lasts and ten minutes more. */
const play = ({
  way,
  failure,
  outage,
  every,
  together = 1,
  otherFails = Infinity,
  otherOut = [0, 0]
}: World) =>
  Effect.gen(function* () {
    const start = yield* Clock.currentTimeMillis
    const from = start + 60_000
    const to = from + Duration.toMillis(outage)
    const requests: Array<number> = []
    const answers: Array<number> = []
    const calls: Array<{ readonly at: number; readonly took: number }> = []
    const answer = Effect.as(Effect.sleep(latency), [{ type: "text" as const, text: "yes" }, finish()])
    const spec = (name: string, ask: Effect.Effect<Effect.Success<typeof answer>, ProviderFailure>) => ({
      provider: name,
      model: name,
      endpoint: `https://${name}.example`,
      keys: [],
      build: Effect.succeed({ info: {}, generateText: () => ask, streamText: () => Stream.die("whole") })
    })
    const first = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (now >= from && now < to) {
        requests.push(now)
        return yield* way === "hang"
          ? Effect.never
          : Effect.andThen(Effect.sleep("100 millis"), Effect.fail(failure))
      }
      if (now >= to) answers.push(now)
      return yield* answer
    })
    let others = 0
    const second = Effect.gen(function* () {
      const at = (yield* Clock.currentTimeMillis) - from
      const isOut = at >= otherOut[0] && at < otherOut[1]
      return yield* isOut || ++others % otherFails === 0 ? Effect.fail(failure) : answer
    })
    const layer = Failover.layer([spec("first", first), spec("second", second)])
    yield* Effect.gen(function* () {
      const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
      const end = to + 600_000
      for (let at = start; at < end; at += Duration.toMillis(every)) {
        for (let call = 0; call < together; call++)
          fibers.push(
            yield* Effect.forkChild(
              Effect.gen(function* () {
                yield* Effect.exit(LanguageModel.generateText({ prompt: "yes?" }))
                calls.push({ at, took: (yield* Clock.currentTimeMillis) - at })
              })
            )
          )
        yield* TestClock.adjust(every)
        if (answers.length > 0) break
      }
      yield* TestClock.adjust("20 minutes")
      yield* Effect.forEach(fibers, Fiber.await)
    }).pipe(Effect.provide(layer))
    const late = requests.filter((at) => at > from + 60_000)
    const seen: Seen = {
      back: (answers[0] ?? Infinity) - to,
      apart: Math.min(Infinity, ...late.slice(1).map((at, i) => at - (late[i] ?? 0))),
      longest: Math.max(0, ...calls.filter(({ at }) => at > from + 60_000 && at < to).map(({ took }) => took))
    }
    return seen
  })

const overloaded = failure(new FailoverReason.Overloaded())
const reset = failure(new FailoverReason.Network())

describe("the first model is used again soon after it is back", () => {
  for (const [name, why] of [
    ["server errors", serverError],
    ["overload", overloaded],
    ["resets", reset]
  ] as const) {
    for (const minutes of [5, 15, 60])
      it.effect(`after ${minutes} minutes of ${name}, at one call every 5 seconds`, () =>
        Effect.gen(function* () {
          // The outage ends at another moment between two looks each time.
          for (const rest of [0, 3, 7, 11]) {
            const seen = yield* play({
              way: "status",
              failure: why,
              outage: 60_000 * minutes + 1_000 * rest,
              every: "5 seconds"
            })
            assert.isAtMost(seen.back, 15_000)
            assert.isAtLeast(seen.apart, 10_000)
            assert.isAtMost(seen.longest, 600)
          }
        })
      )

    it.effect(`after ${name} with a hundred calls at once, of which one looks at a time`, () =>
      Effect.gen(function* () {
        const seen = yield* play({
          way: "status",
          failure: why,
          outage: "5 minutes",
          every: "5 seconds",
          together: 100
        })
        assert.isAtMost(seen.back, 15_000)
        assert.isAtLeast(seen.apart, 10_000)
        assert.isAtMost(seen.longest, 600)
      })
    )

    it.effect(`after ${name}, while the other model fails now and then`, () =>
      Effect.gen(function* () {
        const seen = yield* play({
          way: "status",
          failure: why,
          outage: "15 minutes",
          every: "5 seconds",
          otherFails: 5
        })
        assert.isAtMost(seen.back, 35_000)
      })
    )

    it.effect(`with the next call, after ${name}, at one call a minute`, () =>
      Effect.gen(function* () {
        for (const minutes of [5, 15, 60]) {
          const seen = yield* play({
            way: "status",
            failure: why,
            outage: `${minutes} minutes`,
            every: "1 minute"
          })
          assert.strictEqual(seen.back, 0)
        }
      })
    )
  }

  for (const together of [1, 5, 30])
    it.effect(`after the other model was out meanwhile, with ${together} calls at once`, () =>
      Effect.gen(function* () {
        for (const begin of [120_000, 123_000, 127_000]) {
          const seen = yield* play({
            way: "status",
            failure: serverError,
            outage: "10 minutes",
            every: "5 seconds",
            together,
            otherOut: [begin, begin + 60_000]
          })
          assert.isAtMost(seen.back, 60_000)
        }
      })
    )

  it.effect("after errors that name a wait of a second, which is kept", () =>
    Effect.gen(function* () {
      const named = new ProviderFailure({ ...serverError, retryAfter: Duration.seconds(1) })
      const seen = yield* play({ way: "status", failure: named, outage: "15 minutes", every: "5 seconds" })
      assert.isAtMost(seen.back, 15_000)
      assert.isAtMost(seen.longest, 600)
    })
  )

  it.effect("and never before a wait that the server named", () =>
    Effect.gen(function* () {
      const named = new ProviderFailure({ ...serverError, retryAfter: Duration.minutes(2) })
      const seen = yield* play({ way: "status", failure: named, outage: "15 minutes", every: "5 seconds" })
      assert.isAtLeast(seen.apart, 120_000)
    })
  )
})

describe("a look that is planned", () => {
  /** Two models. The first fails until it `isBack`; the second answers each request as the program says. */
  const pair = (answers: ReadonlyArray<Effect.Effect<typeof yes, ProviderFailure>>) => {
    const world = { asked: [] as Array<string>, isBack: false }
    let next = 0
    const spec = (name: string, ask: Effect.Effect<typeof yes, ProviderFailure>) => ({
      provider: name,
      model: name,
      endpoint: `https://${name}.example`,
      keys: [],
      build: Effect.succeed({
        info: {},
        generateText: () =>
          Effect.andThen(
            Effect.sync(() => void world.asked.push(name)),
            ask
          ),
        streamText: () => Stream.die("whole")
      })
    })
    const first = spec(
      "first",
      Effect.suspend(() => (world.isBack ? Effect.succeed(yes) : Effect.fail(serverError)))
    )
    const second = spec(
      "second",
      Effect.suspend(() => answers[next++] ?? Effect.succeed(yes))
    )
    return {
      world,
      layer: Failover.layer([first, second], { policy: { ...policy, patience: Duration.zero } })
    }
  }
  const yes = [{ type: "text" as const, text: "yes" }, finish()]
  const late = Effect.andThen(Effect.sleep("20 seconds"), Effect.fail(serverError))
  const call = Effect.forkChild(Effect.exit(LanguageModel.generateText({ prompt: "yes?" })))
  /** A call fails late at the second model, when the cooldown of the first is over: it is to look there after a backoff. */
  const planned = Effect.gen(function* () {
    const fiber = yield* call
    yield* TestClock.adjust("100 millis")
    yield* call
    yield* TestClock.adjust("20 seconds")
    return fiber
  })

  it.effect("and is not sent lets another call look", () => {
    const { world, layer } = pair([late])
    return Effect.gen(function* () {
      const early = yield* planned
      for (let n = 0; n < 10 && early.pollUnsafe() === undefined; n++) {
        yield* call
        yield* TestClock.adjust("500 millis")
      }
      yield* TestClock.adjust("5 seconds")
      world.isBack = true
      world.asked = []
      yield* call
      yield* TestClock.adjust("30 seconds")
      yield* call
      yield* TestClock.adjust("1 second")
      assert.include(world.asked, "first")
    }).pipe(Effect.provide(layer))
  })

  it.effect("is taken away when another call finds the target out meanwhile", () => {
    const fails = Effect.fail(serverError)
    const { world, layer } = pair([late, Effect.never, fails, Effect.never, Effect.never])
    return Effect.gen(function* () {
      yield* planned
      world.asked = []
      // The look of the first call is reserved, so this one asks the second model first.
      yield* call
      yield* TestClock.adjust("10 millis")
      assert.deepStrictEqual(world.asked, ["second", "first"])
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(world.asked, ["second", "first", "second", "second"])
    }).pipe(Effect.provide(layer))
  })
})
