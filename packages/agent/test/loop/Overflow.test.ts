/** Runs whose provider rejects the conversation as too long, whatever token count was estimated. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Stream } from "effect"
import { AiError, LanguageModel, Prompt } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Compaction, CompactionPolicy, Failover, FailoverReason } from "@outlast/agent"
import type { FaultPlan } from "@outlast/testing"
import { ScriptedModel } from "@outlast/testing"
import * as support from "../compaction/support.ts"
import type { Played } from "../support.ts"
import { answer, failure, finish, keepAlive, played, policy, say, text, textOf } from "../support.ts"
import { brokenPairs, Kit, looking, plain, recording, tokensOf, ways, windows } from "./compactingWorld.ts"

const goal = "GOAL-17: find the page about rivers."
/** About 41,000 tokens. Most of them may be cut. */
const long = Prompt.fromMessages([
  support.user(goal),
  ...Array.from({ length: 20 }, (_, i) => support.turn(`call_${i}`, support.lorem(1_500))).flat(),
  support.user("Go on.")
])

const refusal = (message: string): FaultPlan.Fault => ({
  type: "status",
  status: 400,
  body: { type: "error", error: { type: "invalid_request_error", message } }
})
const tooLong = refusal("prompt is too long")

const answers: FaultPlan.FaultPlan["answers"] = () => ({ text: "done", usage: { input: 0 } })
const refusing = (faults: ReadonlyArray<FaultPlan.Fault>, options: Partial<ScriptedModel.Options> = {}) =>
  ScriptedModel.make({
    provider: "anthropic",
    model: "m",
    plan: { answers, faults: faults.map((fault) => ({ fault })) },
    ...options
  })
const sizes = (model: ScriptedModel.ScriptedModel) =>
  Effect.map(model.requests, (requests) => requests.map(({ prompt }) => tokensOf(prompt)))

/** The rejection in the form of an effect/ai provider. */
const overflow = AiError.make({
  module: "Test",
  method: "generateText",
  reason: new AiError.InvalidRequestError({ description: "prompt is too long: 82000 tokens > 40000 maximum" })
})
const ok = [{ type: "text", text: "done" } as const, finish()]

describe.each(Object.entries(ways))("Agent.%s with a prompt that is rejected as too long", (_, run) => {
  it.effect("continues with a smaller prompt", () =>
    Effect.gen(function* () {
      const { layer, of, transitions } = recording()
      const model = yield* refusing([tooLong], { info: { contextWindow: 60_000 } })
      const outcome = yield* run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide([looking(10), Failover.layer([model], { policy }), Compaction.layer(), layer])
      )
      const [first = 0, second = 0, ...more] = yield* sizes(model)
      assert.strictEqual(first, tokensOf(long))
      assert.isAtMost(second, first * 0.6)
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(transitions(), ["compacted", "completed"])
      assert.deepStrictEqual(
        of("ContextCompacted").map(({ reactive }) => reactive),
        [true]
      )
      assert.strictEqual(outcome.compactions.times, 1)
      // The transcript continues from the prompt that was sent.
      const { content } = outcome.transcript.prompt
      assert.isBelow(tokensOf(outcome.transcript.prompt), first)
      assert.deepStrictEqual(content[0], long.content[0])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("fails after two smaller prompts, with the last as its transcript", () =>
    Effect.gen(function* () {
      const { layer, transitions } = recording()
      const model = yield* refusing(Array.from({ length: 9 }, () => tooLong))
      const failed = yield* run({ prompt: long, toolkit: Kit }).pipe(
        Effect.flip,
        Effect.provide([looking(10), Failover.layer([model], { policy }), Compaction.layer(), layer])
      )
      const seen = yield* sizes(model)
      assert.strictEqual(seen.length, 3)
      assert.isTrue(seen.every((tokens, i) => i === 0 || tokens < (seen[i - 1] ?? 0)))
      if (failed._tag !== "AgentFailed" || failed.reason._tag !== "ProviderFailure") assert.fail(failed._tag)
      assert.strictEqual(failed.reason.reason._tag, "ContextOverflow")
      assert.notInclude(failed.message, "run again with it")
      assert.deepStrictEqual(transitions(), ["compacted", "compacted", "context_exhausted"])
      assert.strictEqual(tokensOf(failed.transcript.prompt), seen[2])
      assert.deepStrictEqual(brokenPairs(failed.transcript.prompt), [])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("retries as often as the compaction policy allows in each turn", () =>
    Effect.gen(function* () {
      for (const [maxReactive, asked] of [
        [0, 1],
        [1, 2]
      ] as const) {
        const model = yield* refusing(Array.from({ length: 9 }, () => tooLong))
        const Fit = Compaction.layer({ policy: { ...CompactionPolicy.defaults, maxReactive } })
        yield* Effect.exit(
          run({ prompt: long, toolkit: Kit }).pipe(
            Effect.provide([looking(10), Failover.layer([model], { policy }), Fit])
          )
        )
        assert.strictEqual((yield* model.requests).length, asked)
      }
      // Two compactions in the first turn, one in the second.
      let calls = 0
      const { asked, model } = yield* plain((_, n) =>
        n === 2
          ? Effect.succeed([
              { type: "tool-call", id: `again_${calls++}`, name: "look", params: { page: 1 } },
              finish("tool-calls")
            ])
          : n < 4
            ? Effect.fail(overflow)
            : Effect.succeed(ok)
      )
      const outcome = yield* run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide([looking(10), Layer.succeed(LanguageModel.LanguageModel, model), Compaction.layer()])
      )
      assert.deepStrictEqual([outcome.turns, asked.length, outcome.compactions.times], [2, 5, 3])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("uses the sizes that the provider of any model states, also for later prompts", () =>
    Effect.gen(function* () {
      const named = "prompt is too long: 82000 tokens > 40000 maximum"
      const model = yield* refusing([refusal(named)])
      const { layer, of } = recording()
      yield* Effect.gen(function* () {
        yield* run({ prompt: long, toolkit: Kit })
        yield* run({ prompt: long, toolkit: Kit })
      }).pipe(Effect.provide([looking(10), Failover.layer([model], { policy }), Compaction.layer(), layer]))
      const [first = 0, second = 0, third = 0, ...more] = yield* sizes(model)
      assert.deepStrictEqual(more, [])
      // The provider counts twice as many tokens as the estimate.
      assert.isAtMost(2 * second, 36_000)
      assert.isBelow(third, first)
      assert.deepStrictEqual(
        of("ContextCompacted").map(({ reactive, window }) => [reactive, window]),
        [
          [true, 40_000],
          [false, 40_000]
        ]
      )
      // The window was known for the second run.
      assert.strictEqual(of("ContextWindowUnknown").length, 1)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("fails at once without compaction", () =>
    Effect.gen(function* () {
      const { layer, transitions } = recording()
      const { asked, model } = yield* plain(() => Effect.fail(overflow))
      const failed = yield* run({ prompt: long, toolkit: Kit }).pipe(
        Effect.flip,
        Effect.provide([looking(10), Layer.succeed(LanguageModel.LanguageModel, model), layer])
      )
      assert.isTrue(failed._tag === "AgentFailed" && failed.reason._tag === "ProviderFailure")
      assert.strictEqual(asked.length, 1)
      assert.deepStrictEqual(transitions(), ["context_exhausted"])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("fails with the sizes when nothing more may be cut", () =>
    Effect.gen(function* () {
      const { layer, transitions } = recording()
      const { asked, model } = yield* plain(() => Effect.fail(overflow))
      const failed = yield* run({ prompt: `${goal} ${support.lorem(60_000)}`, toolkit: Kit }).pipe(
        Effect.flip,
        Effect.provide([
          looking(10),
          Layer.succeed(LanguageModel.LanguageModel, model),
          Compaction.layer(),
          layer
        ])
      )
      if (failed._tag !== "AgentFailed" || failed.reason._tag !== "CannotFit") assert.fail(failed._tag)
      assert.deepInclude(failed.reason, { window: 40_000, tokens: 82_000 })
      assert.strictEqual(asked.length, 1)
      assert.deepStrictEqual(transitions(), ["context_exhausted"])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("leaves compaction to a chain that compacts by itself", () =>
    Effect.gen(function* () {
      const { layer, transitions } = recording()
      const model = yield* refusing(Array.from({ length: 9 }, () => tooLong))
      const compaction = yield* Compaction.make()
      const compact = Compaction.reactive(compaction, { window: 60_000 })
      const failed = yield* run({ prompt: long, toolkit: Kit }).pipe(
        Effect.flip,
        Effect.provide([
          looking(10),
          Failover.layer([model], { policy, compact }),
          Layer.succeed(Compaction.Compaction, compaction),
          layer
        ])
      )
      assert.strictEqual(failed._tag, "AgentFailed")
      assert.strictEqual((yield* model.requests).length, 3)
      assert.deepStrictEqual(transitions(), ["context_exhausted"])
    }).pipe(Effect.scoped, Effect.provide(windows()))
  )
})

describe("the window for compacting a rejected prompt", () => {
  const windowsOf = (chain: readonly [Played, ...Array<Played>]) =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      yield* Effect.exit(
        Agent.run({ prompt: long }).pipe(
          Effect.provide([Failover.layer(chain, { policy }), Compaction.layer(), layer])
        )
      )
      return of("ContextCompacted").map(({ window }) => Math.round(window / 1_000))
    }).pipe(Effect.provide(windows()))
  const refuses = (sizes: ConstructorParameters<typeof FailoverReason.ContextOverflow>[0]) =>
    Effect.fail(failure(new FailoverReason.ContextOverflow(sizes)))

  it.effect("is the size in the rejection if unknown, otherwise the estimated size of the prompt", () =>
    Effect.gen(function* () {
      const counted = Math.round(support.tokensOf(long) / 1_000)
      for (const [sizes, window] of [
        [{ limit: 90_000 }, 90],
        [{ requested: 100_000 }, 100],
        [{}, counted]
      ] as const) {
        assert.deepStrictEqual(yield* windowsOf([played({ answers: [refuses(sizes), answer("ok")] })]), [
          window
        ])
      }
    })
  )

  it.effect("is that of the target that rejected the prompt", () =>
    Effect.gen(function* () {
      // The first target rejects the prompt. So does the second, which has a larger window.
      const first = played({
        model: "first",
        info: { contextWindow: 50_000 },
        answers: [refuses({}), answer("ok")]
      })
      const second = played({
        model: "second",
        info: { contextWindow: 70_000 },
        answers: [refuses({})]
      })
      assert.deepStrictEqual(yield* windowsOf([first, second]), [70])
      assert.deepStrictEqual([first.requests.length, second.requests.length], [2, 1])
    })
  )
})

describe("Agent.stream", () => {
  it.effect("asks again if only a preamble was shown", () =>
    Effect.gen(function* () {
      let asked = 0
      const model = yield* LanguageModel.make({
        generateText: () => Effect.succeed([]),
        streamText: () =>
          asked++ === 0
            ? Stream.concat(Stream.make(keepAlive), Stream.fail(overflow))
            : Stream.fromIterable([...text.block("done"), finish()])
      })
      const parts = yield* Agent.stream({ prompt: long }).pipe(
        Stream.runCollect,
        Effect.provide([Layer.succeed(LanguageModel.LanguageModel, model), Compaction.layer()])
      )
      assert.strictEqual(textOf(parts), "done")
      assert.strictEqual(asked, 2)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("does not ask again after a part of the answer was shown", () =>
    Effect.gen(function* () {
      const late = failure(new FailoverReason.ContextOverflow({}))
      const model = played({
        streams: [
          say(text.start(), text.delta("The first half ")).pipe(Stream.concat(Stream.fail(late))),
          say(...text.block("again"), finish())
        ]
      })
      const shown: Array<string> = []
      const failed = yield* Agent.stream({ prompt: long, midStream: "fail" }).pipe(
        Stream.runForEach((part) =>
          Effect.sync(() => {
            if (part.type === "text-delta") shown.push(part.delta)
          })
        ),
        Effect.flip,
        Effect.provide([Failover.layer([model], { policy }), Compaction.layer()])
      )
      assert.strictEqual(failed._tag, "AgentFailed")
      assert.strictEqual(shown.join(""), "The first half ")
      assert.strictEqual(model.requests.length, 1)
    }).pipe(Effect.provide(windows()))
  )
})

describe("the learned token count", () => {
  it.effect("excludes an answer with more than one attempt", () =>
    Effect.gen(function* () {
      // Twice as many tokens as estimated. If learned, the second prompt would be compacted.
      const many = { input: 82_000 }
      const counting: FaultPlan.FaultPlan["answers"] = ({ messages }) =>
        messages.at(-1)?.role === "tool"
          ? { text: "done", usage: many }
          : { toolCalls: [{ name: "look", params: { page: 1 } }], usage: many }
      for (const [faults, times] of [
        [[], 1],
        [[{ fault: { type: "status", status: 500 } } as const], 0]
      ] as const) {
        const model = yield* ScriptedModel.make({
          provider: "anthropic",
          model: "m",
          info: { contextWindow: 80_000 },
          plan: { answers: counting, faults }
        })
        const outcome = yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
          Effect.provide([
            looking(10),
            Failover.layer([model], { policy: { ...policy } }),
            Compaction.layer()
          ]),
          Effect.forkChild,
          Effect.flatMap((fiber) => Effect.andThen(TestClock.adjust("1 minute"), Fiber.join(fiber)))
        )
        assert.strictEqual(outcome.compactions.times, times)
      }
    }).pipe(Effect.provide(windows()))
  )

  it.effect("excludes an answer for which the provider ran tools", () =>
    Effect.gen(function* () {
      for (const [searches, times] of [
        [false, 1],
        [true, 0]
      ] as const) {
        const search = {
          type: "tool-call",
          id: "s",
          name: "look",
          params: { page: 1 },
          providerExecuted: true
        } as const
        const found = {
          type: "tool-result",
          id: "s",
          name: "look",
          result: "rivers",
          isFailure: false,
          providerExecuted: true
        } as const
        const usage = {
          inputTokens: { uncached: 82_000, total: 82_000, cacheRead: undefined, cacheWrite: undefined },
          outputTokens: { total: 1, text: 1, reasoning: undefined }
        }
        const { model } = yield* plain((_, n) =>
          Effect.succeed([
            ...(searches ? [search, found] : []),
            { type: "text", text: "so" },
            { type: "finish", reason: n === 0 ? "pause" : "stop", usage }
          ])
        )
        const compaction = { window: 80_000 }
        const outcome = yield* Agent.run({ prompt: long, toolkit: Kit, compaction }).pipe(
          Effect.provide([looking(10), Layer.succeed(LanguageModel.LanguageModel, model), Compaction.layer()])
        )
        assert.strictEqual(outcome.compactions.times, times)
      }
    }).pipe(Effect.provide(windows()))
  )
})
