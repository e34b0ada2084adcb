/** The preset of learn-claude-code's s11 against its document. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Random, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, Outlast, Presets } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import {
  answer,
  failureOf,
  finish,
  inTime,
  played,
  rateLimited,
  recording,
  say,
  overflow,
  status,
  text,
  textOf,
  timed,
  toolCall
} from "../support.ts"
import { always, ask, compact, lastWords, model, over, times } from "./scenario.ts"

const { policy, withFallback, fromConfig } = Presets.s11

const overloaded = status(529)

describe("transient failures", () => {
  it.effect("are retried ten times, min(500 · 2^n, 32000) ms apart, on the same model", () =>
    Effect.gen(function* () {
      const opus = yield* model("anthropic", "opus", [always(status(429))])
      const sonnet = yield* model("anthropic", "sonnet", [])
      const failed = yield* inTime(failureOf(ask).pipe(over(policy, [opus, sonnet])))
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "RateLimit")
      const at = [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 95.5, 127.5, 159.5]
      assert.deepStrictEqual(
        yield* times(opus),
        at.map((seconds) => seconds * 1_000)
      )
      assert.deepStrictEqual(yield* times(sonnet), [])
    })
  )

  it.effect("wait up to a quarter longer than that, each by its own draw", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "opus", [always(status(429))])
      yield* inTime(
        failureOf(ask).pipe(Random.withSeed("outlast"), Effect.provide(Failover.layer([target], { policy })))
      )
      const all = yield* times(target)
      const shares = all.slice(1).map((time, n) => (time - (all[n] ?? 0)) / Math.min(500 * 2 ** n, 32_000))
      assert.lengthOf(shares, 10)
      for (const share of shares) assert.isTrue(share >= 1 && share <= 1.25, `${share}`)
      assert.isAbove(new Set(shares).size, 5)
    })
  )

  it.effect("wait exactly as long as a Retry-After, longer or shorter than the backoff", () =>
    Effect.gen(function* () {
      const waits = [7, 0.1, 100, 1]
      const target = yield* model(
        "anthropic",
        "opus",
        waits.map((seconds) => ({ fault: rateLimited(seconds) }))
      )
      yield* inTime(ask.pipe(Effect.provide(Failover.layer([target], { policy }))))
      assert.deepStrictEqual(yield* times(target), [0, 7_000, 7_100, 107_100, 108_100])
    })
  )

  it.effect("fail for a Retry-After beyond the deadline, without asking another model", () =>
    Effect.gen(function* () {
      const opus = yield* model("anthropic", "opus", [{ fault: rateLimited(1_801) }])
      const sonnet = yield* model("anthropic", "sonnet", [])
      const { value, took } = yield* timed(failureOf(ask)).pipe(over(policy, [opus, sonnet]))
      assert.deepStrictEqual([value._tag, took, yield* times(sonnet)], ["ProviderFailure", 0, []])
    })
  )

  it.effect("share the ten retries among all models", () =>
    Effect.gen(function* () {
      const opus = yield* model("anthropic", "opus", [always(overloaded)])
      const sonnet = yield* model("anthropic", "sonnet", [always(overloaded)])
      yield* inTime(failureOf(ask).pipe(over(withFallback("sonnet"), [opus, sonnet])))
      assert.deepStrictEqual([(yield* times(opus)).length, (yield* times(sonnet)).length], [3, 8])
    })
  )

  it.effect("share the retries between rate limits and overloads", () =>
    Effect.gen(function* () {
      const faults: ReadonlyArray<FaultPlan.Step> = [
        { times: 2, fault: overloaded },
        { times: 6, fault: status(429) },
        always(overloaded)
      ]
      const target = yield* model("anthropic", "opus", faults)
      yield* inTime(failureOf(ask).pipe(over(policy, [target])))
      assert.lengthOf(yield* times(target), 11)
    })
  )
})

describe("three consecutive overloads", () => {
  const asksOf = (
    policy: RecoveryPolicy.RecoveryPolicy<Presets.s11.Class>,
    faults: ReadonlyArray<FaultPlan.Step>,
    ofSonnet: ReadonlyArray<FaultPlan.Step> = []
  ) =>
    Effect.gen(function* () {
      const opus = yield* model("anthropic", "opus", faults)
      const haiku = yield* model("anthropic", "haiku", [])
      const sonnet = yield* model("anthropic", "sonnet", ofSonnet)
      const { layer, of } = recording()
      yield* inTime(ask.pipe(over(policy, [opus, sonnet, haiku]), Effect.provide(layer)))
      return {
        opus: yield* times(opus),
        sonnet: yield* times(sonnet),
        haiku: yield* times(haiku),
        notices: of("ModelChanged").map(({ message }) => message)
      }
    })

  it.effect("switch to the fallback model, and notify the user", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* asksOf(policy, [always(overloaded)]), {
        opus: [0, 500, 1_500],
        sonnet: [1_500],
        haiku: [],
        notices: ["Switched to sonnet due to high demand"]
      })
    })
  )

  it.effect("do not switch if another failure comes between", () =>
    Effect.gen(function* () {
      const faults = [overloaded, overloaded, status(429), overloaded, overloaded].map((fault) => ({ fault }))
      const { opus, sonnet } = yield* asksOf(policy, faults)
      assert.deepStrictEqual([opus.length, sonnet.length], [6, 0])
    })
  )

  it.effect("are counted again from 0 for the fallback model", () =>
    Effect.gen(function* () {
      const { opus, sonnet } = yield* asksOf(policy, [always(overloaded)], [{ times: 2, fault: overloaded }])
      assert.deepStrictEqual(
        [opus, sonnet],
        [
          [0, 500, 1_500],
          [1_500, 2_000, 3_000]
        ]
      )
    })
  )

  const configured = (values: Record<string, string>) =>
    Effect.provide(fromConfig, ConfigProvider.layer(ConfigProvider.fromUnknown(values)))

  it.effect("switch to the model that FALLBACK_MODEL_ID names", () =>
    Effect.gen(function* () {
      const named = yield* configured({ FALLBACK_MODEL_ID: "haiku" })
      const { opus, sonnet, haiku } = yield* asksOf(named, [always(overloaded)])
      assert.deepStrictEqual([opus, sonnet, haiku], [[0, 500, 1_500], [], [1_500]])
    })
  )

  const unconfigured = [
    ["FALLBACK_MODEL_ID", configured({})],
    ["a fallback model", Effect.succeed(withFallback())]
  ] as const
  for (const [what, none] of unconfigured) {
    it.effect(`continue to be retried without ${what}`, () =>
      Effect.gen(function* () {
        const { opus, sonnet, notices } = yield* asksOf(yield* none, [{ times: 5, fault: overloaded }])
        assert.deepStrictEqual([opus, sonnet, notices], [[0, 500, 1_500, 3_500, 7_500, 15_500], [], []])
      })
    )
  }

  it.effect("retract the partial output if the consumer supports it; otherwise it is continued", () =>
    Effect.gen(function* () {
      const error = { type: "overloaded_error", message: "Overloaded" }
      const plan = (faults: FaultPlan.FaultPlan["faults"] = []) => ({
        answers: [{ text: "The meeting is on Tuesday." }],
        faults
      })
      const broken = plan([always({ type: "stream-error", after: 2, error })])
      const chain = Effect.gen(function* () {
        return [
          yield* model("anthropic", "opus", [], { plan: broken }),
          yield* model("anthropic", "sonnet", [], { plan: plan() })
        ] as const
      })
      const seen = yield* inTime(
        Outlast.streamText({ prompt: "When?" }).pipe(
          Stream.map((part) => (part.type === "text-delta" ? part.delta : part.type)),
          Stream.filter((said) => !/^(text|response|reasoning)-|^finish$/.test(said)),
          Stream.runCollect,
          over(policy, yield* chain)
        )
      )
      const half = ["The", " meeting"]
      assert.deepStrictEqual(
        seen.join("|").replaceAll("rewind", "<"),
        [...half, "<", ...half, "<", ...half, "<", "notice", ...half, " is", " on", " Tuesday."].join("|")
      )

      const continued = yield* inTime(
        Stream.runCollect(LanguageModel.streamText({ prompt: "When?" })).pipe(over(policy, yield* chain))
      )
      assert.strictEqual(textOf(continued), "The meeting is on Tuesday.")
    })
  )
})

it.effect("a tool call of an abandoned attempt is not shown, even if it was complete", () =>
  Effect.gen(function* () {
    const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }
    const opus = played({
      model: "opus",
      streams: [say(...text.block("I search."), toolCall("1"), { type: "error", error })]
    })
    const sonnet = played({ model: "sonnet", streams: [say(...text.block("No need."), finish())] })
    const options = {
      prompt: "When?",
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    } as const
    const parts = yield* inTime(
      Stream.runCollect(Outlast.streamText(options)).pipe(over(policy, [opus, sonnet]))
    )
    const types: ReadonlyArray<string> = parts.map(({ type }) => type)
    assert.deepStrictEqual(
      [opus.requests.length, types.filter((type) => type === "rewind").length, types.includes("tool-call")],
      [3, 3, false]
    )
  })
)

describe("an answer that the output limit cut", () => {
  /** Answers of these numbers of tokens that are cut, and the requests to the model. */
  const limits = (gains: ReadonlyArray<number>, continuations = Presets.s11.truncation.continuations) =>
    Effect.gen(function* () {
      const target = played({ answers: gains.map((gain, n) => answer(`part ${n} `, "length", gain)) })
      const { layer, of } = recording()
      const ladder = { ...policy, truncation: { ...Presets.s11.truncation, continuations } }
      const { text } = yield* inTime(ask.pipe(over(ladder, [target]), Effect.provide(layer)))
      return {
        text,
        limits: target.requests.map(({ request }) => request.maxOutputTokens),
        raised: of("OutputLimitRaised").map(({ limit }) => limit),
        continued: of("AnswerContinued").length
      }
    })

  it.effect(
    "is repeated once with 64,000 tokens instead of 8,000, then continued three times, then delivered",
    () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* limits([8_000, 64_000, 64_000, 64_000, 64_000]), {
          // The first answer is dropped.
          text: "part 1 part 2 part 3 part 4 ",
          limits: [8_000, 64_000, 64_000, 64_000, 64_000],
          raised: [64_000],
          continued: 3
        })
      })
  )

  it.effect("is not continued after three consecutive gains of under 500 tokens", () =>
    Effect.gen(function* () {
      const counted = (...gains: ReadonlyArray<number>) =>
        Effect.map(limits([8_000, 64_000, ...gains], 5), ({ continued }) => continued)
      assert.strictEqual(yield* counted(499, 499, 499, 499, 499), 3)
      assert.strictEqual(yield* counted(499, 499, 500, 499, 499), 5)
      assert.strictEqual(yield* counted(500, 499, 499, 499, 499), 4)
    })
  )
})

it.effect("a conversation that is too long is compacted once, then the call fails", () =>
  Effect.gen(function* () {
    const { layer, of } = recording()
    const small = yield* model("anthropic", "opus", [always(overflow)], { info: { contextWindow: 1_000 } })
    const large = yield* model("anthropic", "sonnet", [], { info: { contextWindow: 2_000 } })
    const failed = yield* failureOf(ask).pipe(
      over(policy, [small, large], { compact }),
      Effect.provide(layer)
    )
    assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContextOverflow")
    assert.lengthOf(of("CallCompacting"), 1)
    assert.deepStrictEqual(yield* lastWords(small), ["What is the plan?", "the plan?"])
    assert.deepStrictEqual(yield* times(large), [])
  })
)
