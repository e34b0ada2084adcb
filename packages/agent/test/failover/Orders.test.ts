/**
 * The effect of a chain's order on its calls. `Order.test.ts` tests the orders themselves.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Answered, Failover, FailoverReason, Order } from "@outlast/agent"
import type { ModelInfo } from "@outlast/agent"
import type { Chain } from "../support.ts"
import { answer, failure, finish, inTime, key, played, policy, say, text } from "../support.ts"

const takes = (milliseconds: number) => Effect.delay(answer("hello"), milliseconds)
const gone = Effect.fail(failure(new FailoverReason.ModelNotFound()))

/** Asks and returns the name of the model that answers. */
const ask = (prompt = "What is the plan?") =>
  Effect.map(LanguageModel.generateText({ prompt }), ({ content }) => modelOf(content))

const modelOf = (parts: Parameters<typeof Answered.answeredBy>[0]) => {
  const answered = Answered.answeredBy(parts)
  return answered._tag === "Some" ? answered.value.target.replace("vendor/", "") : undefined
}

const inOrderOf = (chain: Chain, order: Order.Order) =>
  Effect.provide(Failover.layer(chain, { policy, order }))

describe("calls go to", () => {
  it.effect("the target that answered last: sticky", () =>
    Effect.gen(function* () {
      const first = played({ model: "first", answers: [gone, answer("hello")] })
      const second = played({ model: "second", answers: [answer("hello")] })
      const asked = yield* Effect.gen(function* () {
        const one = yield* ask()
        // The cooldown of the first target is long over.
        yield* TestClock.adjust("2 days")
        return [one, yield* ask()]
      }).pipe(inOrderOf([first, second], Order.sticky))
      assert.deepStrictEqual(asked, ["second", "second"])
    })
  )

  it.effect("each key in turn: round robin", () =>
    Effect.gen(function* () {
      const target = played({ model: "m", keys: [key("A"), key("B")], answers: [answer("hello")] })
      const asked = yield* Effect.replicateEffect(ask(), 4).pipe(inOrderOf([target], Order.roundRobin))
      assert.deepStrictEqual(asked.toSorted(), ["m#A", "m#A", "m#B", "m#B"])
    })
  )

  it.effect("the lowest price: cheapest", () =>
    Effect.gen(function* () {
      const priced = (model: string, input: number) => {
        const info: ModelInfo.ModelInfo = { price: { input, output: input } }
        return played({ model, info, answers: [answer("hello")] })
      }
      const asked = yield* ask().pipe(inOrderOf([priced("dear", 2), priced("cheap", 1)], Order.cheapest()))
      assert.strictEqual(asked, "cheap")
    })
  )

  it.effect("the target with the conversation's warm cache: affinity", () =>
    Effect.gen(function* () {
      const first = played({ model: "first", answers: [gone, answer("hello")] })
      const second = played({ model: "second", answers: [answer("hello")] })
      const order = Order.withAffinity(Order.inOrder, { timeToLive: "5 hours" })
      const asked = yield* Effect.gen(function* () {
        const one = yield* ask("this one")
        yield* TestClock.adjust("2 hours")
        return [one, yield* ask("another one"), yield* ask("this one")]
      }).pipe(inOrderOf([first, second], order))
      assert.deepStrictEqual(asked, ["second", "first", "second"])
    })
  )
})

describe("the fastest order in calls", () => {
  const order = Order.fastest({ exploration: 0 })

  it.effect("measures whole answers to their end", () =>
    Effect.gen(function* () {
      const slow = played({ model: "slow", answers: [takes(20)] })
      const fast = played({ model: "fast", answers: [takes(10)] })
      const asked = yield* Effect.replicateEffect(ask(), 7).pipe(inOrderOf([slow, fast], order), inTime)
      assert.deepStrictEqual(asked, ["slow", "slow", "slow", "fast", "fast", "fast", "fast"])
    })
  )

  const streamed = (model: string, first: number, rest: number) =>
    played({
      model,
      info: { wholeAnswers: "stream" },
      streams: [say(first, text.start(), text.delta("hello"), rest, text.end(), finish())]
    })

  it.effect("measures whole answers that are streamed internally to their end too", () =>
    Effect.gen(function* () {
      const late = streamed("late", 20, 0)
      const early = streamed("early", 10, 100)
      const asked = yield* Effect.replicateEffect(ask(), 7).pipe(inOrderOf([early, late], order), inTime)
      assert.deepStrictEqual(asked, ["early", "early", "early", "late", "late", "late", "late"])
    })
  )

  it.effect("measures streams to their first token when headers come before it", () =>
    Effect.gen(function* () {
      const heard = (target: ReturnType<typeof streamed>) => ({
        ...target,
        build: Effect.map(target.build, (model) => ({
          ...model,
          streamText: (request: Parameters<typeof model.streamText>[0]) =>
            Stream.suspend(() => {
              request.heard?.({})
              return model.streamText(request)
            })
        }))
      })
      const chain = [heard(streamed("late", 20, 0)), heard(streamed("early", 10, 100))] as const
      const call = Effect.map(Stream.runCollect(LanguageModel.streamText({ prompt: "?" })), modelOf)
      const asked = yield* Effect.replicateEffect(call, 7).pipe(inOrderOf(chain, order), inTime)
      assert.deepStrictEqual(asked.slice(3), ["early", "early", "early", "early"])
    })
  )

  it.effect("measures streams to their first token", () =>
    Effect.gen(function* () {
      const late = streamed("late", 20, 0)
      const early = streamed("early", 10, 100)
      const call = Effect.map(Stream.runCollect(LanguageModel.streamText({ prompt: "?" })), modelOf)
      const asked = yield* Effect.replicateEffect(call, 7).pipe(inOrderOf([late, early], order), inTime)
      assert.deepStrictEqual(asked, ["late", "late", "late", "early", "early", "early", "early"])
    })
  )

  it.effect("does not count a failure for a conversation that is too long", () =>
    Effect.gen(function* () {
      const overflow = Effect.fail(failure(new FailoverReason.ContextOverflow()))
      const answers = [...Array.from({ length: 3 }, () => takes(10)), overflow, takes(10)]
      const small = played({ model: "small", info: { contextWindow: 1_000 }, answers })
      const large = played({ model: "large", info: { contextWindow: 9_000 }, answers: [takes(20)] })
      const asked = yield* Effect.replicateEffect(ask(), 9).pipe(inOrderOf([small, large], order), inTime)
      // The conversation of the seventh call was too long.
      assert.deepStrictEqual(asked.slice(3), ["large", "large", "large", "large", "small", "small"])
    })
  )
})
