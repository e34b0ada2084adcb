/** A second attempt for a call whose first token is late. Time is virtual. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Exit, Fiber, Redacted, Result, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Failover, FailoverReason, KeySource, Outlast, RecoveryPolicy, Targets } from "@outlast/agent"
import { Deadline } from "@outlast/resilience"
import type { ModelInfo } from "@outlast/agent"
import * as Sweeps from "../../../../test/sweeps.ts"
import type { Chain, Part, Played } from "../support.ts"
import {
  failure,
  finish,
  inTime,
  keepAlive,
  played,
  recording,
  say,
  serverError,
  text,
  textOf,
  timed,
  timesOf
} from "../support.ts"

const hedge = {
  after: Duration.seconds(10),
  afterLook: Duration.seconds(2),
  atMost: 0.05,
  reserve: 3
} satisfies RecoveryPolicy.Hedge

const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  hedge
}

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes } }))

const read = Stream.runCollect(LanguageModel.streamText({ prompt: "question" }))
const ask = LanguageModel.generateText({ prompt: "question" })

/** A stream that says one word after `wait` milliseconds, and another one a second later. */
const speaks = (word: string, wait: number) =>
  say(wait, text.start(), text.delta(`${word} `), 1_000, text.delta(word), text.end(), finish())

/** Reports how many streams of the target are open. */
const counted = (stream: Stream.Stream<Part, typeof serverError>) => {
  const count = { open: 0 }
  const acquired = Stream.unwrap(
    Effect.acquireRelease(
      Effect.sync(() => {
        count.open++
        return stream
      }),
      () => Effect.sync(() => count.open--)
    )
  )
  return { count, stream: acquired }
}

const slow = (wait: number, info: ModelInfo.ModelInfo = {}) =>
  played({ model: "slow", streams: [speaks("slow", wait)], info })
const quick = (wait = 500, info: ModelInfo.ModelInfo = {}) =>
  played({ model: "quick", streams: [speaks("quick", wait)], info })

describe("a stream whose first token is late", () => {
  it.effect("is answered by another model, and the late attempt is aborted", () =>
    Effect.gen(function* () {
      const late = counted(speaks("slow", 20_000))
      const first = played({ model: "slow", streams: [late.stream] })
      const second = quick()
      const { events, layer } = recording()
      const { took, value } = yield* inTime(timed(read).pipe(over([first, second]), Effect.provide(layer)))
      assert.strictEqual(textOf(value), "quick quick")
      assert.strictEqual(took, 11_500)
      assert.deepStrictEqual([timesOf(first), timesOf(second)], [[0], [10_000]])
      assert.strictEqual(late.count.open, 0)
      assert.deepStrictEqual(
        events.map((event) => [event._tag, "attempt" in event ? event.attempt : undefined]),
        [
          ["AttemptStarted", 1],
          ["CallHedged", 1],
          ["AttemptStarted", 2],
          ["AttemptOvertaken", 1],
          ["CooldownOpened", undefined],
          ["CallSucceeded", 2]
        ]
      )
      const overtaken = events.find((event) => event._tag === "AttemptOvertaken") ?? assert.fail()
      assert.deepInclude(overtaken, { late: true, elapsed: 10_500 })
    })
  )

  it.effect("is no news of another model: a later call tells that the late one is out", () =>
    Effect.gen(function* () {
      const told = (...pauses: ReadonlyArray<Duration.Input>) =>
        Effect.gen(function* () {
          const first = played({ model: "slow", streams: [speaks("slow", 20_000), speaks("slow", 500)] })
          const { layer, of } = recording()
          yield* inTime(
            Effect.andThen(
              read,
              Effect.forEach(pauses, (pause) => Effect.delay(read, pause))
            ).pipe(over([first, quick()]), Effect.provide(layer))
          )
          return of("ModelChanged").map(({ message }) => message)
        })
      assert.deepStrictEqual(yield* told("1 minute"), [])
      assert.deepStrictEqual(yield* told("1 second", "1 minute"), [
        "Switched to quick: slow did not answer in time.",
        "Back to slow."
      ])
    })
  )

  it.effect("keeps its target when that speaks before the other one", () =>
    Effect.gen(function* () {
      const other = counted(speaks("quick", 5_000))
      const first = slow(12_000)
      const second = played({ model: "quick", streams: [other.stream] })
      const { layer, of } = recording()
      const { took, value } = yield* inTime(timed(read).pipe(over([first, second]), Effect.provide(layer)))
      assert.deepStrictEqual([textOf(value), took, other.count.open], ["slow slow", 13_000, 0])
      assert.deepInclude(of("AttemptOvertaken")[0], { late: false, elapsed: 2_000, attempt: 2 })
      assert.lengthOf(of("ModelChanged"), 0)
    })
  )

  it.effect("goes on where it is when the other model fails", () =>
    Effect.gen(function* () {
      const second = played({ model: "quick", streams: [Stream.fail(serverError)] })
      const { layer, of } = recording()
      const { took, value } = yield* inTime(
        timed(read).pipe(over([slow(15_000), second]), Effect.provide(layer))
      )
      assert.deepStrictEqual([textOf(value), took], ["slow slow", 16_000])
      assert.deepInclude(of("AttemptFailed")[0], { attempt: 2, reason: "ServerError" })
      assert.deepInclude(of("CallSucceeded")[0], { recoveredFrom: "ServerError" })
    })
  )

  it.effect("goes on at the other model when the late attempt fails", () =>
    Effect.gen(function* () {
      const first = played({
        model: "slow",
        streams: [Stream.fromEffect(Effect.delay(Effect.fail(serverError), 11_000))]
      })
      const { layer, of } = recording()
      const { took, value } = yield* inTime(
        timed(read).pipe(over([first, quick(3_000)]), Effect.provide(layer))
      )
      assert.deepStrictEqual([textOf(value), took], ["quick quick", 14_000])
      assert.deepInclude(of("AttemptFailed")[0], { attempt: 1, reason: "ServerError" })
      assert.lengthOf(of("AttemptOvertaken"), 0)
    })
  )

  it.effect("asks a third model only after one of two attempts has failed", () =>
    Effect.gen(function* () {
      const silent = (model: string) => played({ model, streams: [Stream.never] })
      const chain = [silent("one"), silent("two"), quick()] as const
      const { value } = yield* inTime(timed(Effect.exit(read)).pipe(over(chain)))
      assert.isTrue(Exit.isSuccess(value))
      // The first attempt reaches its limit at 60 s, the second one at 70 s.
      assert.deepStrictEqual(chain.map(timesOf), [[0], [10_000], [70_000]])
    })
  )

  it.effect("fails as any call when both attempts fail", () =>
    Effect.gen(function* () {
      const fails = (model: string, wait: number) =>
        played({
          model,
          streams: [
            Stream.fromEffect(Effect.delay(Effect.fail(failure(new FailoverReason.ContentPolicy())), wait))
          ]
        })
      const error = yield* inTime(Effect.flip(read).pipe(over([fails("one", 12_000), fails("two", 5_000)])))
      assert.isTrue(Outlast.failureOf(error)._tag === "Some")
    })
  )

  it.effect("leaves nothing open when the program stops waiting", () =>
    Effect.gen(function* () {
      const [late, other] = [counted(Stream.never), counted(Stream.never)]
      const chain: Chain = [
        played({ model: "slow", streams: [late.stream] }),
        played({ model: "quick", streams: [other.stream] })
      ]
      const { layer, tags } = recording()
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(read)
        yield* TestClock.adjust("12 seconds")
        assert.deepStrictEqual([late.count.open, other.count.open], [1, 1])
        yield* Fiber.interrupt(fiber)
      }).pipe(over(chain), Effect.provide(layer))
      assert.deepStrictEqual([late.count.open, other.count.open], [0, 0])
      assert.strictEqual(tags().at(-1), "CallAbandoned")
    })
  )

  it.effect("does not take a refusal or nothing at all for an answer of the other model", () =>
    Effect.gen(function* () {
      for (const none of [say(500, finish("content-filter")), say(500, finish("stop", 0)), say(500)]) {
        const second = played({ model: "quick", streams: [none] })
        const { layer, of } = recording()
        const { took, value } = yield* inTime(
          timed(read).pipe(over([slow(12_000), second]), Effect.provide(layer))
        )
        assert.deepStrictEqual([textOf(value), took], ["slow slow", 13_000])
        assert.lengthOf(of("AttemptFailed"), 1)
      }
    })
  )

  it.effect("has its time limits whatever keep-alives come, before, in and behind a race", () =>
    Effect.gen(function* () {
      const alive = Stream.forever(say(7_000, keepAlive))
      const limits = { ...policy.limits, firstToken: Duration.seconds(30) }
      for (const [seconds, changes] of [
        [30, { hedge: false }],
        [30, { hedge: { ...hedge, reserve: 0 } }],
        [40, {}]
      ] as const) {
        const chain: Chain = [
          played({ model: "one", streams: [alive] }),
          played({ model: "two", streams: [alive] })
        ]
        const rest = { limits, maxAttempts: "hedge" in changes ? 1 : 2, ...changes }
        const { took, value } = yield* inTime(timed(Effect.exit(read)).pipe(over(chain, rest)))
        assert.isTrue(Exit.isFailure(value))
        assert.strictEqual(took, seconds * 1_000)
      }
    })
  )

  it.effect("gets its other attempt although keep-alives come during a health check", () =>
    Effect.gen(function* () {
      const first = played({
        model: "slow",
        streams: [Stream.merge(Stream.forever(say(1_000, keepAlive)), speaks("slow", 30_000))]
      })
      const isHealthy = ({ model }: { readonly model: string }) =>
        model === "quick" ? Effect.delay(Effect.succeed(true), "1500 millis") : Effect.succeed(true)
      const layer = Failover.layer([first, quick()], { policy, isHealthy })
      const { took, value } = yield* inTime(timed(read).pipe(Effect.provide(layer)))
      assert.deepStrictEqual([textOf(value), took], ["quick quick", 13_000])
    })
  )

  it.effect("asks a third model when the second one is refused, and takes the share once", () =>
    Effect.gen(function* () {
      const third = { ...quick(), model: "third" }
      const isHealthy = ({ model }: { readonly model: string }) => Effect.succeed(model !== "two")
      const layer = Failover.layer([slow(20_000), played({ model: "two" }), third], {
        policy: { ...policy, hedge: { ...hedge, reserve: 1, atMost: 0 } },
        isHealthy
      })
      const { took, value } = yield* inTime(timed(read).pipe(Effect.provide(layer)))
      assert.deepStrictEqual([textOf(value), took], ["quick quick", 11_500])
    })
  )

  it.effect("leaves the share to the next call when its hedge is not sent", () =>
    Effect.gen(function* () {
      let isHealthyNow = false
      const isHealthy = ({ model }: { readonly model: string }) =>
        Effect.sync(() => model === "slow" || isHealthyNow)
      const layer = Failover.layer([slow(20_000), quick()], {
        policy: { ...policy, hedge: { ...hedge, reserve: 1, atMost: 0 } },
        isHealthy
      })
      const taken = yield* inTime(
        Effect.gen(function* () {
          const one = yield* timed(read)
          isHealthyNow = true
          // The first answer took 20 s, which is usual from now on: only a longer wait is late.
          return [one, yield* timed(read)]
        }).pipe(Effect.provide(layer))
      )
      assert.deepStrictEqual(
        taken.map(({ took }) => took),
        [21_000, 21_000]
      )
    })
  )

  it.effect("renews a refused key of either attempt, if the other one fails, too", () =>
    Effect.gen(function* () {
      const unauthorized = Effect.fail(failure(new FailoverReason.Auth({ permanent: false })))
      let n = 0
      const keys = [
        KeySource.refreshing("key", {
          load: Effect.sync(() => ({ value: Redacted.make(`token-${++n}-abcdefgh`) }))
        })
      ]
      const refused = Stream.fromEffect(Effect.delay(unauthorized, 12_000))
      const first = played({ model: "one", streams: [refused, speaks("one", 500)], keys })
      const second = played({
        model: "two",
        streams: [Stream.fromEffect(Effect.delay(Effect.fail(serverError), 3_000))]
      })
      const { took, value } = yield* inTime(timed(read).pipe(over([first, second])))
      assert.deepStrictEqual([textOf(value), took], ["one one", 14_500])
    })
  )

  it.effect("ends at the deadline of the program when both attempts are silent", () =>
    Effect.gen(function* () {
      const silent = (model: string) => played({ model, streams: [Stream.never] })
      const { took } = yield* inTime(
        Effect.flatMap(
          Effect.clockWith((clock) => Effect.sync(() => clock.monotonicTimeNanosUnsafe())),
          (now) =>
            timed(Effect.exit(read)).pipe(
              Effect.provideService(Deadline.Deadline, now + 12_000_000_000n),
              over([silent("one"), silent("two")])
            )
        )
      )
      assert.strictEqual(took, 60_000)
    })
  )

  it.effect("does not put out a target that an operator has brought back meanwhile", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      yield* inTime(
        Effect.gen(function* () {
          const targets = yield* Targets.Targets
          const fiber = yield* Effect.forkChild(read)
          yield* Effect.sleep("5 seconds")
          yield* targets.reset()
          yield* Fiber.join(fiber)
        }).pipe(over([slow(20_000), quick()]), Effect.provide(layer))
      )
      assert.lengthOf(of("CooldownOpened"), 0)
    })
  )

  it.effect("does not wait for a health check of the other model once it speaks", () =>
    Effect.gen(function* () {
      const second = quick()
      const isHealthy = ({ model }: { readonly model: string }) =>
        model === "quick" ? Effect.delay(Effect.succeed(true), "5 seconds") : Effect.succeed(true)
      const layer = Failover.layer([slow(11_000), second], { policy, isHealthy })
      const { took, value } = yield* inTime(timed(read).pipe(Effect.provide(layer)))
      assert.deepStrictEqual([textOf(value), took, timesOf(second)], ["slow slow", 12_000, []])
    })
  )
})

describe("a whole answer that is late", () => {
  const after = (wait: number, model: string) =>
    Effect.as(Effect.sleep(wait), [{ type: "text" as const, text: `${model} ${model}` }, finish()])

  /** Requested whole, an answer is late only where an earlier one is known: that takes a second. */
  const answers = (model: string, wait: number, streams: boolean) =>
    streams
      ? played({ model, streams: [speaks(model, wait)], info: { wholeAnswers: "stream" } })
      : played({ model, answers: [after(1_000, model), after(wait, model)] })

  for (const streams of [true, false]) {
    const way = streams ? "asked for as a stream" : "requested whole"
    const known = streams ? Effect.void : ask
    const last = Effect.andThen(known, timed(ask))

    it.effect(`and ${way} comes from another model`, () =>
      Effect.gen(function* () {
        const first = answers("slow", 30_000, streams)
        const second = streams
          ? answers("quick", 500, true)
          : played({ model: "quick", answers: [after(500, "quick")] })
        const { took, value } = yield* inTime(last.pipe(over([first, second])))
        assert.deepStrictEqual([value.text, took], ["quick quick", streams ? 11_500 : 10_500])
        assert.deepStrictEqual(timesOf(second), [(timesOf(first).at(-1) ?? 0) + 10_000])
      })
    )

    it.effect(`and ${way} comes from its target when that is faster`, () =>
      Effect.gen(function* () {
        const second = streams
          ? answers("quick", 5_000, true)
          : played({ model: "quick", answers: [after(5_000, "quick")] })
        const { took, value } = yield* inTime(last.pipe(over([answers("slow", 11_000, streams), second])))
        assert.deepStrictEqual([value.text, took], ["slow slow", streams ? 12_000 : 11_000])
      })
    )

    it.effect(`and ${way} comes from its target when the other model fails`, () =>
      Effect.gen(function* () {
        const second = played({ model: "quick" })
        const { took, value } = yield* inTime(last.pipe(over([answers("slow", 15_000, streams), second])))
        assert.deepStrictEqual([value.text, took], ["slow slow", streams ? 16_000 : 15_000])
        assert.lengthOf(second.requests, 1)
      })
    )
  }

  it.effect("and requested whole is waited for in the end, where its model always takes long", () =>
    Effect.gen(function* () {
      const first = played({ model: "slow", answers: [after(25_000, "slow")] })
      const second = played({ model: "quick", answers: [after(5_000, "quick")] })
      const call = Effect.map(
        Effect.tap(ask, () => Effect.sleep("2 minutes")),
        ({ text }) => text.split(" ")[0]
      )
      const all = yield* inTime(
        Effect.forEach(Array.from({ length: 10 }), () => call).pipe(over([first, second]))
      )
      assert.deepStrictEqual(
        all.slice(-5),
        Array.from({ length: 5 }, () => "slow")
      )
    })
  )
})

describe("a model that always begins late", () => {
  it.effect("is found to answer once the share of hedges is used up", () =>
    Effect.gen(function* () {
      const call = Effect.map(
        Effect.tap(read, () => Effect.sleep("2 minutes")),
        (parts) => textOf(parts).split(" ")[0]
      )
      const all = yield* inTime(
        Effect.forEach(Array.from({ length: 10 }), () => call).pipe(over([slow(15_000), quick()]))
      )
      assert.deepStrictEqual(
        all.slice(-5),
        Array.from({ length: 5 }, () => "slow")
      )
    })
  )
})

describe("a call is not hedged", () => {
  const tools = Toolkit.make(
    Tool.providerDefined({
      id: "vendor.search",
      customName: "Search",
      providerName: "search",
      args: Schema.Void,
      success: Schema.Void,
      requiresHandler: false
    })()
  )

  const cases: ReadonlyArray<
    readonly [
      string,
      (first: Played, second: Played) => Effect.Effect<unknown, unknown>,
      ModelInfo.ModelInfo?
    ]
  > = [
    ["in a chain of one model", (first) => read.pipe(over([first]))],
    ["when the policy says so", (first, second) => read.pipe(over([first, second], { hedge: false }))],
    ["at a model that thinks", (first, second) => read.pipe(over([first, second])), { reasoning: true }],
    [
      "with a tool that the provider runs",
      (first, second) =>
        Stream.runCollect(LanguageModel.streamText({ prompt: "question", toolkit: tools })).pipe(
          over([first, second])
        )
    ],
    [
      "when two prompts would cost more than the call may",
      (first, second) => read.pipe(over([first, second], { maxCost: 3 })),
      { price: { input: 1_000_000, output: 0 } }
    ],
    [
      "when the share is used up",
      (first, second) => read.pipe(over([first, second], { hedge: { ...hedge, reserve: 0 } }))
    ],
    ["beyond its attempts", (first, second) => read.pipe(over([first, second], { maxAttempts: 1 }))]
  ]

  for (const [when, run, info = {}] of cases) {
    it.effect(when, () =>
      Effect.gen(function* () {
        const first = slow(20_000, info)
        const second = quick(500, info)
        const { took } = yield* inTime(timed(run(first, second)))
        assert.deepStrictEqual([took, timesOf(second)], [21_000, []])
      })
    )
  }

  it.effect("at another key of the same model", () =>
    Effect.gen(function* () {
      const second = { ...slow(500), requests: [] }
      const first = slow(20_000)
      const { took } = yield* inTime(timed(read).pipe(over([first, second])))
      assert.strictEqual(took, 21_000)
    })
  )

  it.effect("but at a model that thinks, where the policy asks for it", () =>
    Effect.gen(function* () {
      const first = slow(20_000, { reasoning: true })
      const { took } = yield* inTime(
        timed(read).pipe(over([first, quick()], { hedge: { ...hedge, thinking: true } }))
      )
      assert.strictEqual(took, 11_500)
    })
  )

  it.effect("before its target's usual time is over", () =>
    Effect.gen(function* () {
      const first = played({ model: "slow", streams: [speaks("slow", 9_000), speaks("slow", 15_000)] })
      const second = quick()
      const twice = Effect.forEach([1, 2], () => timed(read))
      const taken = yield* inTime(twice.pipe(over([first, second])))
      assert.deepStrictEqual(
        taken.map(({ took }) => took),
        [10_000, 16_000]
      )
      assert.lengthOf(second.requests, 0)
    })
  )
})

describe("the share of hedges", () => {
  /** Every `every`-th answer of the first model is late. */
  const sometimes = (every: number) => {
    let n = 0
    const next = Stream.unwrap(Effect.sync(() => speaks("slow", ++n % every === 0 ? 30_000 : 500)))
    return played({ model: "slow", streams: [next], info: { price: { input: 10, output: 10 } } })
  }

  it.effect("is never exceeded, and neither is the cost of a call", () =>
    Effect.gen(function* () {
      const calls = 400
      const first = sometimes(4)
      const second = quick(500, { price: { input: 10, output: 10 } })
      const maxCost = 0.01
      const { of, layer } = recording()
      yield* inTime(
        Effect.forEach(Array.from({ length: calls }), () => read, { discard: true }).pipe(
          over([first, second], { maxCost }),
          Effect.provide(layer)
        )
      )
      const hedged = of("CallHedged").length
      assert.strictEqual(hedged, second.requests.length)
      assert.isAtLeast(hedged, 10)
      assert.isAtMost(hedged, hedge.reserve + hedge.atMost * calls)
      const costs = of("CallSucceeded").map(({ costUsd }) => costUsd ?? 0)
      assert.isAtMost(Math.max(...costs), maxCost)
      // The prompt that the aborted attempt has read is paid for.
      const of2 = of("CallSucceeded").filter(({ attempt }) => attempt === 2)
      const of1 = of("CallSucceeded").filter(({ attempt }) => attempt === 1)
      assert.isAbove(of2[0]?.costUsd ?? 0, of1[0]?.costUsd ?? 0)
    })
  )
})

describe("a target that has sent nothing since it was late", () => {
  const health = Effect.gen(function* () {
    const targets = yield* Targets.Targets
    return (yield* targets.providers).map(({ status }) => status)
  })

  it.effect("is slow and not failed, is left, and looked at by calls that wait two seconds for it", () =>
    Effect.gen(function* () {
      // The target answers once, and is silent for four requests.
      const silent = Stream.never
      const first = played({
        model: "slow",
        streams: [speaks("slow", 500), silent, silent, silent, silent, speaks("slow", 500)]
      })
      const second = { ...quick(), provider: "other" }
      const { layer, of } = recording()
      const seen = yield* inTime(
        Effect.gen(function* () {
          const call = Effect.gen(function* () {
            const from = yield* Clock.currentTimeMillis
            const parts = yield* read
            const took = (yield* Clock.currentTimeMillis) - from
            yield* Effect.sleep(60_000 - took)
            return [textOf(parts).split(" ")[0], took, (yield* health)[0]]
          })
          return yield* Effect.forEach([1, 2, 3, 4, 5, 6], () => call)
        }).pipe(over([first, second]), Effect.provide(layer))
      )
      assert.deepStrictEqual(seen, [
        ["slow", 1_500, "healthy"],
        ["quick", 11_500, "slow"],
        ["quick", 3_500, "slow"],
        ["quick", 3_500, "slow"],
        ["quick", 3_500, "slow"],
        ["slow", 1_500, "healthy"]
      ])
      assert.lengthOf(of("AttemptFailed"), 0)
      assert.lengthOf(of("CooldownOpened"), 4)
    })
  )
})

describe("for every two models", () => {
  const ending = fc.constantFrom("answers", "fails", "is silent")
  const model = fc.record({
    ending,
    first: fc.integer({ min: 0, max: 40 }),
    next: fc.integer({ min: 0, max: 10 })
  })

  const streamOf = (
    name: string,
    { ending, first, next }: typeof model extends fc.Arbitrary<infer T> ? T : never
  ) => {
    const wait = first * 1_000
    if (ending === "is silent") return Stream.never
    if (ending === "fails") return Stream.fromEffect(Effect.delay(Effect.fail(serverError), wait))
    return say(
      wait,
      text.start(),
      text.delta(`${name} `),
      next * 1_000,
      text.delta(name),
      text.end(),
      finish()
    )
  }

  it.effect("the answer is that of one of them, whole and in time, and nothing stays open", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(model, model, async (one, two) => {
          const [a, b] = [counted(streamOf("one", one)), counted(streamOf("two", two))]
          const chain: Chain = [
            played({ model: "one", streams: [a.stream] }),
            played({ model: "two", streams: [b.stream] })
          ]
          const mayAnswer = one.ending === "answers" || two.ending === "answers"
          const program = inTime(
            timed(Effect.result(read)).pipe(over(chain, { deadline: Duration.minutes(1) }))
          )
          const { took, value } = await Effect.runPromise(Effect.provide(program, TestClock.layer()))
          if (mayAnswer) {
            const said = Result.isSuccess(value) ? textOf(value.success) : "failed"
            assert.include(["one one", "two two"], said)
            const last = said === "one one" ? one : two
            // The other one may have failed, or may have been asked after ten seconds, and a repeat waits its backoff.
            assert.isAtMost(took, 75_000 + last.next * 1_000)
          } else assert.isTrue(Result.isFailure(value))
          assert.deepStrictEqual([a.count.open, b.count.open], [0, 0])
        }),
        { seed: Sweeps.seed, numRuns: Sweeps.runs(400) }
      )
    )
  )
})
