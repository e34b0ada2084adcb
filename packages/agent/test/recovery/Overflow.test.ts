/** Conversations that do not fit: a lower output limit, then compaction, then a larger window, then failure. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import { Failover, FailoverReason } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import type { Chain } from "../support.ts"
import {
  answer,
  failure,
  failureOf,
  finish,
  inTime,
  key,
  played,
  policy,
  recording,
  say,
  text,
  textOf
} from "../support.ts"

const sentences = Array.from({ length: 8 }, (_, i) => `This is sentence number ${i}.`)
const ask = LanguageModel.generateText({ prompt: sentences.join(" ") })

/** Anthropic's error for an input that does not fit together with the reserved output. */
const tooMuch = (input: number, output: number, window: number): FaultPlan.Fault => ({
  type: "status",
  status: 400,
  body: {
    type: "error",
    error: {
      type: "invalid_request_error",
      message: `input length and \`max_tokens\` exceed context limit: ${input} + ${output} > ${window}, decrease input length or \`max_tokens\` and try again`
    }
  }
})
const tooLong: FaultPlan.Fault = {
  type: "status",
  status: 400,
  body: {
    type: "error",
    error: { type: "invalid_request_error", message: "prompt is too long: 208310 tokens > 200000 maximum" }
  }
}

const model = (
  name: string,
  faults: ReadonlyArray<FaultPlan.Fault>,
  options: Partial<ScriptedModel.Options> = {}
) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: name,
    plan: { answers: [{ text: "hello there" }], faults: faults.map((fault) => ({ fault })) },
    ...options
  })

const limitsOf = (target: ScriptedModel.ScriptedModel) =>
  Effect.map(target.requests, (requests) => requests.map(({ options }) => options.maxOutputTokens))

/** Removes one sentence from the conversation each time, and counts the calls. */
const shortening = () => {
  let made = 0
  return {
    count: () => made,
    compact: () => Effect.sync(() => Prompt.make(sentences.slice(++made).join(" ")))
  }
}

const over = (chain: Chain, options: Failover.Options<RecoveryPolicy.DefaultClass> = {}) =>
  Effect.provide(Failover.layer(chain, { policy, ...options }))

describe("an input that fits only with a lower output limit", () => {
  const limited = Effect.provideService(OutputLimit.OutputLimit, 21_333)

  it.effect("is sent again with the remaining tokens, without compaction (188240 + 21333 > 200000)", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [tooMuch(188_240, 21_333, 200_000)])
      const { layer, of } = recording()
      const { count, compact } = shortening()
      const response = yield* ask.pipe(limited, over([target], { compact }), Effect.provide(layer))
      assert.strictEqual(response.text, "hello there")
      // A thousand tokens stay free between both.
      assert.deepStrictEqual(yield* limitsOf(target), [21_333, 10_760])
      assert.deepStrictEqual(
        of("OutputLimitLowered").map(({ limit }) => limit),
        [10_760]
      )
      assert.strictEqual(count(), 0)
    })
  )

  it.effect("is compacted when too little would be left for an answer", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [tooMuch(196_001, 21_333, 200_000)])
      const { count, compact } = shortening()
      yield* ask.pipe(limited, over([target], { compact }))
      assert.deepStrictEqual([count(), yield* limitsOf(target)], [1, [21_333, 21_333]])
    })
  )

  it.effect("is compacted when lowering the limit did not help", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [tooMuch(188_240, 21_333, 200_000), tooMuch(195_000, 10_760, 200_000)])
      const { count, compact } = shortening()
      yield* ask.pipe(limited, over([target], { compact }))
      assert.deepStrictEqual([count(), (yield* limitsOf(target)).length], [1, 3])
    })
  )

  it.effect("is continued, not raised to the rejected limit, when the lowered limit cuts the answer", () =>
    Effect.gen(function* () {
      const target = played({
        answers: [
          Effect.fail(
            failure(
              new FailoverReason.ContextOverflow({ limit: 200_000, requested: 209_573, output: 21_333 })
            )
          ),
          answer("One, ", "length", 10_760),
          answer("two.")
        ]
      })
      const response = yield* ask.pipe(limited, over([target]))
      assert.strictEqual(response.text, "One, two.")
      assert.deepStrictEqual(
        target.requests.map(({ request }) => request.maxOutputTokens),
        [21_333, 10_760, 10_760]
      )
    })
  )

  it.effect("keeps the lowered limit for the other keys of the model", () =>
    Effect.gen(function* () {
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        info: { contextWindow: 200_000 },
        keys: [key("A"), key("B")],
        plan: {
          answers: [{ text: "hello there" }],
          faults: [{ fault: tooMuch(188_240, 21_333, 200_000) }, { fault: { type: "status", status: 402 } }]
        }
      })
      yield* ask.pipe(limited, over([target]))
      assert.deepStrictEqual(yield* limitsOf(target), [21_333, 10_760, 10_760])
      assert.strictEqual((yield* target.requests).at(-1)?.key, "secret-of-B")
    })
  )

  it.effect("keeps the text of a continuation after lowering its limit", () =>
    Effect.gen(function* () {
      const overflow = failure(
        new FailoverReason.ContextOverflow({ limit: 200_000, requested: 209_573, output: 21_333 })
      )
      const target = played({
        streams: [
          say(text.start(), text.delta("One, ")),
          Stream.fail(overflow),
          say(...text.block("two."), finish())
        ]
      })
      const parts = yield* inTime(
        Stream.runCollect(LanguageModel.streamText({ prompt: "Count." })).pipe(limited, over([target]))
      )
      assert.strictEqual(textOf(parts), "One, two.")
      const [, lowered] = target.requests.slice(1)
      assert.strictEqual(lowered?.request.maxOutputTokens, 10_760)
      assert.include(JSON.stringify(lowered?.request.prompt), "One, ")
    })
  )
})

describe("a conversation that does not fit", () => {
  it.effect("is compacted at most twice, and then fails", () =>
    Effect.gen(function* () {
      const target = yield* model(
        "m",
        Array.from({ length: 9 }, () => tooLong)
      )
      const { layer, tags } = recording()
      const { count, compact } = shortening()
      const failed = yield* failureOf(ask).pipe(over([target], { compact }), Effect.provide(layer))
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContextOverflow")
      assert.strictEqual(count(), 2)
      assert.deepStrictEqual(
        (yield* target.requests).map(({ prompt }) => JSON.stringify(prompt).includes("number 1")),
        [true, true, false]
      )
      assert.strictEqual(tags().filter((tag) => tag === "CallCompacting").length, 2)
    })
  )

  it.effect("is compacted as often as the policy allows, and not without a compactor", () =>
    Effect.gen(function* () {
      for (const maxCompactions of [0, 1, 3]) {
        const target = yield* model(
          "m",
          Array.from({ length: 9 }, () => tooLong)
        )
        const { count, compact } = shortening()
        yield* Effect.exit(ask.pipe(over([target], { compact, policy: { ...policy, maxCompactions } })))
        assert.deepStrictEqual(
          [count(), (yield* target.requests).length],
          [maxCompactions, maxCompactions + 1]
        )
      }
      const target = yield* model("m", [tooLong])
      yield* Effect.exit(ask.pipe(over([target])))
      assert.strictEqual((yield* target.requests).length, 1)
    })
  )

  it.effect("is compacted as often again at the next target, if the policy counts per target", () =>
    Effect.gen(function* () {
      for (const compactionsPer of ["call", "target"] as const) {
        const faults = Array.from({ length: 9 }, () => tooLong)
        const small = yield* model("small", faults, { info: { contextWindow: 1_000 } })
        const large = yield* model("large", faults, { info: { contextWindow: 2_000 } })
        const { count, compact } = shortening()
        const own = { ...policy, maxCompactions: 2, compactionsPer }
        yield* Effect.exit(ask.pipe(over([small, large], { compact, policy: own })))
        const both = [(yield* small.requests).length, (yield* large.requests).length]
        assert.deepStrictEqual([count(), both], compactionsPer === "call" ? [2, [3, 1]] : [4, [3, 3]])
      }
    })
  )

  it.effect(
    "moves to a larger window when compaction fails, dies, or frees nothing (openai/codex#31351)",
    () =>
      Effect.gen(function* () {
        const same = () => Effect.succeed(Prompt.make(sentences.join(" ")))
        for (const compact of [() => Effect.fail("no"), () => Effect.die("bug"), same]) {
          const small = yield* model(
            "m1",
            Array.from({ length: 9 }, () => tooLong),
            {
              info: { contextWindow: 200_000 }
            }
          )
          const large = yield* model("m2", [], { info: { contextWindow: 1_000_000 } })
          const response = yield* ask.pipe(over([small, large], { compact }))
          assert.strictEqual(response.text, "hello there")
          assert.deepStrictEqual([(yield* small.requests).length, (yield* large.requests).length], [1, 1])
        }
      })
  )

  it.effect("is sent to the next target in its shorter form", () =>
    Effect.gen(function* () {
      const first = played({
        keys: [key("A")],
        answers: [
          Effect.fail(failure(new FailoverReason.ContextOverflow({}))),
          Effect.fail(failure(new FailoverReason.Billing()))
        ]
      })
      const second = played({ model: "m2", answers: [answer("hello")] })
      const { compact } = shortening()
      yield* ask.pipe(over([first, second], { compact }))
      assert.notInclude(JSON.stringify(second.requests[0]?.request.prompt), "number 0")
    })
  )

  it.effect("can be interrupted during compaction", () =>
    Effect.gen(function* () {
      const target = yield* model("m", [tooLong])
      const exit = yield* ask.pipe(over([target], { compact: () => Effect.interrupt }), Effect.exit)
      assert.strictEqual(exit._tag, "Failure")
      assert.strictEqual((yield* target.requests).length, 1)
    })
  )
})
