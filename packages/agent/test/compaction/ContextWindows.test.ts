/** Known windows, and limits learned from rejections. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { LanguageModel } from "effect/ai"
import { Compaction, Failover } from "@outlast/agent"
import { ContextWindows } from "@outlast/agent/compaction"
import { ScriptedModel } from "@outlast/testing"
import * as support from "../support.ts"
import { talking, tokensOf, working } from "./support.ts"

describe("an impossible limit", () => {
  it.effect.each([128, 1, 0, -5, 2_500.5, Number.NaN, Infinity])(
    "is ignored and does not end the run (%d, as from `128k`)",
    (limit) =>
      Effect.gen(function* () {
        const request = { window: 4_000, model: "m", conversation: "c" }
        const shrunk = (overflow: Compaction.Overflow) =>
          Effect.flatMap(Compaction.make(), (compaction) =>
            compaction.shrink(working(40), request, overflow)
          ).pipe(Effect.provide(ContextWindows.layer(() => undefined)))
        const { prompt, report } = yield* shrunk({ limit })
        const without = yield* shrunk({})
        assert.deepStrictEqual([prompt, report], [without.prompt, without.report])
      }).pipe(Effect.scoped)
  )
})

describe("ContextWindows", () => {
  const table = (model: string) => (model === "known" ? 10_000 : undefined)

  it.effect("returns the table or the last learned limit, but never more than the table", () =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows.make(table)
      const all = (model: string) => Effect.all([windows.of(model), windows.learned(model)])
      assert.deepStrictEqual(yield* all("known"), [10_000, undefined])
      assert.deepStrictEqual(yield* all("other"), [undefined, undefined])
      yield* windows.learn("known", 8_000)
      yield* windows.learn("other", 8_000)
      assert.deepStrictEqual(yield* all("known"), [8_000, 8_000])
      assert.deepStrictEqual(yield* all("other"), [8_000, 8_000])
      yield* windows.learn("known", 12_000)
      yield* windows.learn("other", 12_000)
      assert.deepStrictEqual(yield* all("known"), [10_000, 10_000])
      assert.deepStrictEqual(yield* all("other"), [12_000, 12_000])
    })
  )

  it.effect("ignores a limit that cannot be a window", () =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows.make(table)
      for (const limit of [0, -1, 1, 1_023, 2_000.5, Number.NaN, Infinity]) yield* windows.learn("m", limit)
      assert.isUndefined(yield* windows.of("m"))
      yield* windows.learn("m", 1_024)
      assert.strictEqual(yield* windows.of("m"), 1_024)
    })
  )

  it.effect("evicts the model that was learned longest ago", () =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows.make(table)
      const { models } = ContextWindows.limits
      for (let i = 0; i < models; i++) yield* windows.learn(`m${i}`, 2_000)
      yield* windows.learn("m0", 2_000)
      yield* windows.learn(`m${models}`, 2_000)
      assert.deepStrictEqual(
        yield* Effect.all([windows.of("m0"), windows.of("m1"), windows.of("m2"), windows.of(`m${models}`)]),
        [2_000, undefined, 2_000, 2_000]
      )
    })
  )

  it.effect("remembers learned limits without a layer", () =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows.ContextWindows
      yield* windows.learn("ContextWindows.test", 4_096)
      assert.strictEqual(yield* (yield* ContextWindows.ContextWindows).of("ContextWindows.test"), 4_096)
    })
  )
})

describe("a limit that a provider named in a rejection", () => {
  const fresh = ContextWindows.layer(() => undefined)
  const prompt = talking(30)

  it.effect("is the window of later calls of that model", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const fit = (model: string | undefined, outputLimit?: number) =>
        Effect.map(
          compaction.fit(prompt, {
            window: 100_000,
            model,
            outputLimit,
            conversation: `${model} ${outputLimit}`
          }),
          ({ report }) => report
        )
      assert.strictEqual((yield* fit("a")).tier, "none")
      yield* compaction.shrink(
        prompt,
        { window: 100_000, model: "a" },
        { limit: 2_000, requested: tokensOf(prompt) }
      )
      const after = yield* fit("a")
      assert.deepInclude(after, { window: 2_000, limit: 1_800 })
      assert.isAtMost(after.tokensAfter, 1_200)
      // The output limit of the large window does not apply to the small one.
      assert.deepInclude(yield* fit("a", 16_000), { window: 2_000, limit: 960 })
      for (const other of ["b", undefined])
        assert.deepInclude(yield* fit(other), { tier: "none", window: 100_000 })
    }).pipe(Effect.provide(fresh))
  )

  it.effect("neither enlarges a window nor applies without the name of a model", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      yield* compaction.shrink(prompt, { window: 3_000, model: "a" }, { limit: 50_000 })
      yield* compaction.shrink(prompt, { window: 3_000, conversation: "other" }, { limit: 2_000 })
      const { report } = yield* compaction.fit(prompt, { window: 3_000, model: "a", conversation: "third" })
      assert.strictEqual(report.window, 3_000)
    }).pipe(Effect.provide(fresh))
  )

  it.effect("is stored for the model that rejected the prompt when the request names none", () =>
    Effect.gen(function* () {
      const message = "prompt is too long: 2083 tokens > 2000 maximum"
      const target = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "refusing",
        plan: {
          answers: () => ({ text: "hello" }),
          faults: [
            {
              fault: {
                type: "status",
                status: 400,
                body: { type: "error", error: { type: "invalid_request_error", message } }
              }
            }
          ]
        }
      })
      const compaction = yield* Compaction.make()
      const compact = Compaction.reactive(compaction, { window: 200_000 })
      yield* LanguageModel.generateText({ prompt }).pipe(
        Effect.provide(Failover.layer([target], { compact, policy: support.policy }))
      )
      assert.strictEqual(yield* (yield* ContextWindows.ContextWindows).of("refusing"), 2_000)
    }).pipe(Effect.provide(fresh))
  )

  it.effect("applies to results that enter the conversation, too", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const large = working(1, 3_000)
      const request = { window: 100_000, model: "a" }
      assert.strictEqual(yield* compaction.admit(large, request), large)
      yield* (yield* ContextWindows.ContextWindows).learn("a", 2_000)
      assert.isBelow(tokensOf(yield* compaction.admit(large, request)), 1_000)
    }).pipe(Effect.provide(fresh))
  )
})
