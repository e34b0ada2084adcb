/** Prediction of the next model and its context window. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { LanguageModel, Model } from "effect/ai"
import { Agent, Compaction, Failover, Targets } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import { InvalidOption } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import { finish } from "../compaction/support.ts"
import { key, policy } from "../support.ts"
import {
  chain,
  Kit,
  long,
  looking,
  named,
  oneTurn,
  plain,
  recording,
  sizes,
  tokensOf,
  windows
} from "./compactingWorld.ts"

/** Tokens of the first prompt that a run sends, which begins with {@link long}. */
const first = <E, R>(
  model: Effect.Effect<ScriptedModel.ScriptedModel>,
  layerOf: (model: ScriptedModel.ScriptedModel) => Layer.Layer<LanguageModel.LanguageModel | R, E>,
  options: Partial<Agent.Options<typeof Kit.tools>> = {}
) =>
  Effect.gen(function* () {
    const scripted = yield* model
    yield* Agent.run({ prompt: long, toolkit: Kit, ...options }).pipe(
      Effect.provide([looking(10), layerOf(scripted), Compaction.layer()])
    )
    return (yield* sizes(scripted))[0] ?? 0
  })
describe("the window of a run", () => {
  it.effect("is that of the target; without a window, or with a large one, nothing is compacted", () =>
    Effect.gen(function* () {
      const whole = tokensOf(long)
      assert.isAbove(whole, 2_000)
      assert.isAtMost(yield* first(named("m", { contextWindow: 1_000 }), chain), 600)
      assert.strictEqual(yield* first(named("m", { contextWindow: 4_000 }), chain), whole)
      assert.strictEqual(yield* first(named("m"), chain), whole)
      const around = yield* named("m", { contextWindow: 1_000 })
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(Effect.provide([looking(10), chain(around)]))
      assert.deepStrictEqual((yield* sizes(around))[0], whole)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("comes from the options first, which need no layer", () =>
    Effect.gen(function* () {
      const small = { compaction: { window: 1_000, summarise: false } }
      assert.isAtMost(yield* first(named("m", { contextWindow: 4_000 }), chain, small), 600)
      const model = yield* named("m", { contextWindow: 4_000 })
      yield* Agent.run({ prompt: long, toolkit: Kit, ...small }).pipe(
        Effect.provide([looking(10), chain(model)])
      )
      assert.isAtMost((yield* sizes(model))[0] ?? 0, 600)
      const known = yield* named("m", { contextWindow: 1_000 })
      yield* Agent.run({ prompt: long, toolkit: Kit, compaction: { summarise: false } }).pipe(
        Effect.provide([looking(10), chain(known)])
      )
      assert.isAtMost((yield* sizes(known))[0] ?? 0, 600)
      // By default the run's own model summarises first, which is one more call.
      const own = yield* named("m", { contextWindow: 1_000 })
      const outcome = yield* Agent.run({ prompt: long, toolkit: Kit, compaction: {} }).pipe(
        Effect.provide([looking(10), chain(own)])
      )
      assert.isAbove((yield* sizes(own)).length, (yield* sizes(known)).length)
      assert.isAbove(outcome.compactions.summaries.calls, 0)
      for (const window of [0, -1, 1.5, Number.NaN]) {
        const wrong = { prompt: "x", compaction: { window } }
        assert.throws(() => Agent.run(wrong), InvalidOption, /Agent: compaction\.window/)
        assert.throws(() => Agent.stream(wrong), InvalidOption, /Agent: compaction\.window/)
      }
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is ignored with `compaction: false`", () =>
    Effect.gen(function* () {
      const off = { compaction: false } as const
      assert.strictEqual(yield* first(named("m", { contextWindow: 1_000 }), chain, off), tokensOf(long))
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is found by the name of the model if no chain states it", () =>
    Effect.gen(function* () {
      // A chain without `Targets`. Its answers name their target, so the window is known from the second call on.
      const hidden = yield* named("small-one")
      const Hidden = Layer.effect(LanguageModel.LanguageModel, Failover.make([hidden], { policy }))
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide([looking(10), Hidden, Compaction.layer()])
      )
      const [before = 0, after = 0] = yield* sizes(hidden)
      assert.strictEqual(before, tokensOf(long))
      assert.isAtMost(after, 600)
      // A named model of effect/ai.
      const { asked, model } = yield* plain(() => Effect.succeed([{ type: "text", text: "ok" }, finish()]))
      const layer = Model.make("house", "small-one", Layer.succeed(LanguageModel.LanguageModel, model))
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide([looking(10), layer, Compaction.layer()])
      )
      assert.isAtMost(tokensOf(asked[0] ?? long), 600)
      // A target whose chain knows nothing but its name.
      assert.isAtMost(yield* first(named("small-one"), chain), 600)
    }).pipe(Effect.provide(windows({ "small-one": 1_000 })))
  )

  it.effect("is reported once as unknown, and nothing is compacted", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const model = yield* named("m")
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide([looking(10), chain(model), Compaction.layer(), layer])
      )
      assert.deepStrictEqual(
        of("ContextWindowUnknown").map(({ turn, model }) => [turn, model]),
        [[1, "m"]]
      )
      const { model: nameless } = yield* plain(() => Effect.succeed([{ type: "text", text: "ok" }, finish()]))
      yield* Agent.run({ prompt: long }).pipe(
        Effect.provide([Layer.succeed(LanguageModel.LanguageModel, nameless), Compaction.layer(), layer])
      )
      assert.deepStrictEqual(
        of("ContextWindowUnknown").map(({ model }) => model),
        ["m", undefined]
      )
      assert.deepStrictEqual(of("ContextCompacted"), [])
    }).pipe(Effect.provide(windows()))
  )

  it.effect("leaves room for the answer: as much as OutputLimit states, otherwise the model's maximum", () =>
    Effect.gen(function* () {
      const whole = tokensOf(long)
      const info = { contextWindow: 3_000, maxOutputTokens: 1_400 }
      // 3,000 - 1,400 - 2 % is too small, 3,000 - 500 is not.
      assert.isBelow(yield* first(named("m", info), chain), whole)
      assert.strictEqual(yield* first(named("m", { contextWindow: 3_000 }), chain), whole)
      const limited = (limit: number | OutputLimit.Range) =>
        Effect.provideService(first(named("m", info), chain), OutputLimit.OutputLimit, limit)
      assert.strictEqual(yield* limited(500), whole)
      assert.strictEqual(yield* limited({ start: 500, max: 1_400 }), whole)
      assert.isBelow(yield* limited({ start: undefined, max: 1_400 }), whole)
      // A model that may answer as long as its window gets half of it.
      const endless = { contextWindow: 2_000, maxOutputTokens: 2_000 }
      assert.isBelow(yield* first(named("m", endless), chain), 960)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is at first that of the first available target", () =>
    Effect.gen(function* () {
      // The first target is out of credit, so the second one answers.
      const first = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "large",
        info: { contextWindow: 100_000 },
        keys: [key("A")],
        plan: { answers: [], faults: [{ times: "always", fault: { type: "status", status: 402 } }] }
      })
      const second = yield* named("small", { contextWindow: 1_000 })
      const run = Agent.run({ prompt: long, toolkit: Kit })
      yield* Effect.andThen(run, run).pipe(
        Effect.provide([looking(10), Failover.layer([first, second], { policy }), Compaction.layer()])
      )
      const [before = 0, ...after] = yield* sizes(second)
      assert.strictEqual(before, tokensOf(long))
      assert.strictEqual(after.length, 3)
      // Tokens as the provider counts them, which may be a little more than 60 %.
      for (const tokens of after) assert.isAtMost(tokens, 900)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is then that of the target that answered last, even when another one is available again", () =>
    Effect.gen(function* () {
      const first = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "large",
        info: { contextWindow: 100_000 },
        keys: [key("A")],
        plan: { answers: oneTurn, faults: [{ fault: { type: "status", status: 402 } }] }
      })
      const second = yield* named("small", { contextWindow: 1_000 })
      const Back = Kit.toLayer(
        Effect.map(Targets.Targets, ({ reset }) => ({ look: () => Effect.as(reset(), "It is back.") }))
      )
      const { layer, of } = recording()
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide(Back),
        Effect.provide([Failover.layer([first, second], { policy }), Compaction.layer(), layer])
      )
      assert.deepStrictEqual(
        of("ContextCompacted").map(({ window }) => window),
        [1_000]
      )
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is not that of the target that answered last if it is unavailable", () =>
    Effect.gen(function* () {
      const first = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "large",
        info: { contextWindow: 100_000 },
        keys: [key("A")],
        plan: { answers: oneTurn, faults: [{ skip: 1, fault: { type: "status", status: 402 } }] }
      })
      const second = yield* named("small", { contextWindow: 1_000 })
      // The tool also calls a model, which makes the target unavailable.
      const Asking = Kit.toLayer(
        Effect.map(LanguageModel.LanguageModel, (model) => ({
          look: () => Effect.as(Effect.exit(model.generateText({ prompt: "x" })), "Seen.")
        }))
      )
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide(Asking),
        Effect.provide([Failover.layer([first, second], { policy }), Compaction.layer()])
      )
      assert.deepStrictEqual((yield* sizes(first)).length, 2)
      assert.isAtMost((yield* sizes(second))[1] ?? Infinity, 600)
    }).pipe(Effect.provide(windows()))
  )

  it.effect("is no longer that of the chain after another model has answered", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const around = yield* named("small", { contextWindow: 1_000 })
      const { asked, model } = yield* plain((_, n) =>
        Effect.succeed(
          n === 0
            ? [{ type: "tool-call", id: "1", name: "look", params: { page: 1 } }, finish("tool-calls")]
            : [{ type: "text", text: "ok" }, finish()]
        )
      )
      yield* Agent.run({ prompt: long, toolkit: Kit }).pipe(
        Effect.provide(Layer.succeed(LanguageModel.LanguageModel, model)),
        Effect.provide([looking(10), chain(around), Compaction.layer(), layer])
      )
      assert.strictEqual(asked.length, 2)
      assert.deepStrictEqual(
        of("ContextWindowUnknown").map(({ turn, model }) => [turn, model]),
        [[2, undefined]]
      )
    }).pipe(Effect.provide(windows()))
  )
})
