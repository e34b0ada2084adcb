/** Effect of reported usage on counts, and resistance to wrong reports. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Prompt, Tool } from "effect/ai"
import * as fc from "fast-check"
import { Compaction } from "@outlast/agent"
import { ContextWindows, TokenCounter } from "@outlast/agent/compaction"
import * as Calibration from "#agent/compaction/Calibration"
import { limits } from "#agent/compaction/Calibrations"
import type { Kind } from "#agent/compaction/Content"
import { kinds, nothing } from "#agent/compaction/Content"
import { conversation } from "./generated.ts"
import { assistant, lorem, talking, tokensOf, turn, user, working } from "./support.ts"

const window = 10_000_000

const tokensBy =
  (compaction: Compaction.Service, request: Partial<Compaction.Request> = {}) =>
  (prompt: Prompt.Prompt) =>
    Effect.map(compaction.fit(prompt, { window, ...request }), ({ report }) => report.tokensBefore)

const longer = (prompt: Prompt.Prompt, ...more: ReadonlyArray<Prompt.Message>) =>
  Prompt.fromMessages([...prompt.content, ...more])

describe("a reported prompt", () => {
  it.effect("counts as reported, and a longer prompt adds only an estimate of its new messages", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const tokens = tokensBy(compaction)
      const prompt = talking(20)
      assert.strictEqual(yield* tokens(prompt), tokensOf(prompt))
      const inputTokens = tokensOf(prompt) + 500
      yield* compaction.learn({ prompt, inputTokens })
      assert.strictEqual(yield* tokens(prompt), inputTokens)
      const next = yield* tokens(longer(prompt, assistant("Good."), user(lorem(200))))
      assert.approximately(next, inputTokens + 210, 60)
    }).pipe(Effect.scoped)
  )

  it.effect("is recognised after it was stored and decoded into new objects", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = working(10)
      yield* compaction.learn({ prompt, inputTokens: 2_345 })
      const codec = Schema.fromJsonString(Prompt.Prompt)
      const stored = yield* Schema.decodeEffect(codec)(yield* Schema.encodeEffect(codec)(prompt))
      assert.notStrictEqual(stored.content[3], prompt.content[3])
      assert.strictEqual(yield* tokensBy(compaction)(stored), 2_345)
    }).pipe(Effect.scoped)
  )

  it.effect("does not apply to an edited prompt, other tools or another model", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = talking(20)
      const inputTokens = tokensOf(prompt) + 1_000
      yield* compaction.learn({ prompt, inputTokens, model: "a" })
      yield* compaction.learn({ prompt: talking(3), inputTokens: tokensOf(talking(3)), model: "b" })
      const tokens = (request: Partial<Compaction.Request>, asked = prompt) =>
        tokensBy(compaction, request)(asked)
      assert.strictEqual(yield* tokens({ model: "a" }), inputTokens)
      assert.strictEqual(yield* tokens({ model: "b" }), tokensOf(prompt))
      assert.strictEqual(yield* tokens({}), tokensOf(prompt))
      const tool = Tool.make("search")
      assert.notStrictEqual(
        (yield* tokens({ model: "a", tools: [tool] })) - TokenCounter.estimate.for("a").tools([tool]),
        inputTokens
      )
      yield* compaction.learn({ prompt, inputTokens: inputTokens + 300, model: "a", tools: [tool] })
      assert.strictEqual(yield* tokens({ model: "a", tools: [tool] }), inputTokens + 300)
      assert.strictEqual(yield* tokens({ model: "a" }), inputTokens)
      const [first, , ...rest] = prompt.content
      assert.isDefined(first)
      if (first === undefined) return
      const edited = Prompt.fromMessages([first, assistant("Something shorter."), ...rest])
      assert.notStrictEqual(yield* tokens({ model: "a" }, edited), inputTokens)
    }).pipe(Effect.scoped)
  )

  it.effect("does not apply to a prompt with the same token count and other content", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const of = (said: string) =>
        Prompt.fromMessages([user("Read it."), ...turn("a", said.repeat(30_000 / said.length))])
      const [words, numbers] = [of("word next "), of("1234567890")]
      assert.strictEqual(tokensOf(words), tokensOf(numbers))
      yield* compaction.learn({ prompt: words, inputTokens: 6_500 })
      assert.strictEqual(yield* tokensBy(compaction)(words), 6_500)
      assert.isAbove(yield* tokensBy(compaction)(numbers), 9_000)
    }).pipe(Effect.scoped)
  )

  it.effect("decides when and how far the conversation is compacted", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = working(90)
      const request = { window: 20_000, model: "dense" }
      // Counted: 70 % of the window. Reported: 140 %.
      assert.isBelow(tokensOf(prompt), 16_000)
      assert.strictEqual((yield* compaction.fit(prompt, request)).report.tier, "none")
      yield* compaction.learn({ prompt, model: "dense", inputTokens: 2 * tokensOf(prompt) })
      const { prompt: after, report } = yield* compaction.fit(prompt, request)
      assert.strictEqual(report.tier, "strip")
      assert.approximately(report.tokensBefore, 2 * tokensOf(prompt), 2)
      assert.isAtMost(report.tokensAfter, 12_000)
      // The meter counts half of the real tokens. No more than necessary is cut.
      assert.approximately(tokensOf(after), 6_000, 600)
    }).pipe(Effect.scoped)
  )

  it.effect("teaches the sizes that a provider named in a rejection", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = talking(20)
      yield* compaction.shrink(prompt, { window: 100_000, model: "a" }, { requested: 4_100, output: 100 })
      assert.strictEqual(yield* tokensBy(compaction, { model: "a" })(prompt), 4_000)
    }).pipe(Effect.scoped)
  )

  it.effect("does not override the exact count of a counter", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const meter = TokenCounter.estimate.for(undefined)
      const counter: TokenCounter.Service = { for: () => ({ ...meter, exact: () => Effect.succeed(1_700) }) }
      const prompt = talking(20)
      yield* compaction.learn({ prompt, inputTokens: 1_900 })
      const { report } = yield* compaction
        .fit(prompt, { window: 2_000 })
        .pipe(Effect.provideService(TokenCounter.TokenCounter, counter))
      assert.strictEqual(report.tokensBefore, 1_700)
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["NaN", Number.NaN],
    ["0", 0],
    ["negative", -1],
    ["infinite", Infinity],
    // As of a counter that falls back on its estimate.
    ["the plain count", tokensOf(talking(40))]
  ] as const)("overrides a counter whose exact count is %s", ([, exact]) =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const meter = TokenCounter.estimate.for(undefined)
      const counter: TokenCounter.Service = { for: () => ({ ...meter, exact: () => Effect.succeed(exact) }) }
      const prompt = talking(40)
      const inputTokens = tokensOf(prompt) + 100
      yield* compaction.learn({ prompt, inputTokens })
      const { report } = yield* compaction
        .fit(prompt, { window: 2_000 })
        .pipe(Effect.provideService(TokenCounter.TokenCounter, counter))
      assert.strictEqual(report.tokensBefore, inputTokens)
      assert.notStrictEqual(report.tier, "none")
    }).pipe(Effect.scoped)
  )

  it.effect("is forgotten after 10,000 other prompts", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const first = talking(4)
      yield* compaction.learn({ prompt: first, inputTokens: 1_234 })
      assert.strictEqual(yield* tokensBy(compaction)(first), 1_234)
      const asked = Array.from({ length: 100 }, (_, i) => user("a".repeat(40 + 4 * i)))
      const answers = Array.from({ length: limits.anchors / 100 }, (_, i) =>
        assistant("a".repeat(40 + 4 * i))
      )
      for (const question of asked) {
        for (const answer of answers) {
          const prompt = Prompt.fromMessages([question, answer])
          yield* compaction.learn({ prompt, inputTokens: tokensOf(prompt) })
        }
      }
      assert.notStrictEqual(yield* tokensBy(compaction)(first), 1_234)
    }).pipe(Effect.scoped)
  )
})

describe("hidden tokens", () => {
  const tools = [Tool.make("search", { description: "Looks for it." })]
  /** As in a run: a provider named the sizes, and no table knew the window. */
  const refused = (prompt: Prompt.Prompt, limit: number, factor: number) =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const counted = tokensOf(prompt) + TokenCounter.estimate.for("m").tools(tools)
      const request = { window: limit, tools, model: "m", conversation: "c" }
      const requested = Math.floor(factor * counted)
      const fitted = yield* compaction.shrink(prompt, request, { limit, requested })
      return { compaction, request, fitted }
    }).pipe(Effect.provide(ContextWindows.layer(() => undefined)))

  it.effect.each([
    ["a talk of twice the tokens", talking(22), 1_500, 2],
    ["work of twice the tokens", working(16), 1_000, 2],
    ["work of nearly four times the tokens", working(16), 2_000, 3.9]
  ] as const)("leave room in a small window: %s", ([, prompt, limit, factor]) =>
    Effect.gen(function* () {
      const { compaction, request, fitted } = yield* refused(prompt, limit, factor)
      assert.isAtMost(fitted.report.tokensAfter, fitted.report.limit)
      // The next turn fits without a compaction.
      const again = yield* compaction.fit(fitted.prompt, request)
      assert.strictEqual(again.prompt, fitted.prompt)
    }).pipe(Effect.scoped)
  )

  it.effect("are learned in a large window and limited to a tenth of a small one", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const tokens = tokensBy(compaction, { window: 200_000 })
      for (const n of [2, 40, 10, 30, 4, 50, 20, 15]) {
        const prompt = talking(n)
        yield* compaction.learn({ prompt, inputTokens: tokensOf(prompt) + 1_500 })
      }
      const other = working(4)
      assert.approximately(yield* tokens(other), tokensOf(other) + 1_500, 250)
      // In a window of 4,000 the hidden tokens would be more than a third.
      const small = tokensBy(compaction, { window: 4_000 })
      assert.approximately(yield* small(other), tokensOf(other) + 400, 250)
    }).pipe(Effect.scoped)
  )
})

describe("a wrong report", () => {
  it("is ignored when it is impossible (zero, not a number, a fifth of the count)", () =>
    fc.assert(
      fc.asyncProperty(conversation, fc.constantFrom(0, -1, Number.NaN, Infinity, 1e9), (prompt, wrong) =>
        Effect.gen(function* () {
          const compaction = yield* Compaction.make()
          yield* compaction.learn({ prompt, inputTokens: wrong })
          yield* compaction.learn({ prompt, inputTokens: Math.floor(tokensOf(prompt) / 5) })
          assert.strictEqual(yield* tokensBy(compaction)(prompt), tokensOf(prompt))
        }).pipe(Effect.scoped, Effect.runPromise)
      )
    ))

  it.effect("without the cached tokens leaves the report before it in place", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = talking(20)
      const next = longer(prompt, ...turn("a", lorem(100)))
      yield* compaction.learn({ prompt, inputTokens: 3_000 })
      const expected = yield* tokensBy(compaction)(next)
      yield* compaction.learn({ prompt: next, inputTokens: 160 })
      assert.strictEqual(yield* tokensBy(compaction)(next), expected)
    }).pipe(Effect.scoped)
  )

  it.effect("without half of the cached tokens is discarded", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = talking(20)
      const next = longer(prompt, ...turn("a", lorem(100)))
      yield* compaction.learn({ prompt, inputTokens: 3_000 })
      yield* compaction.learn({ prompt: next, inputTokens: 1_500 })
      assert.isAbove(yield* tokensBy(compaction)(next), 2_400)
    }).pipe(Effect.scoped)
  )

  it.effect("that contradicts an earlier one discards both, and the next report counts", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const tokens = tokensBy(compaction)
      const prompt = talking(20)
      const next = longer(prompt, ...turn("a", lorem(100)))
      yield* compaction.learn({ prompt, inputTokens: 9_000 })
      yield* compaction.learn({ prompt: next, inputTokens: 2_600 })
      assert.isBelow(yield* tokens(next), 8_000)
      yield* compaction.learn({ prompt: next, inputTokens: 2_600 })
      assert.strictEqual(yield* tokens(next), 2_600)
    }).pipe(Effect.scoped)
  )
})

describe("a wrong first report", () => {
  const fresh = (i: number, n: number) =>
    Prompt.fromMessages([user("x".repeat(4 * i)), ...talking(n).content])

  it.effect.each([0.26, 3.9])("of %d times the tokens is forgotten after five correct ones", (factor) =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const wrong = fresh(1, 100)
      yield* compaction.learn({ prompt: wrong, inputTokens: Math.floor(factor * tokensOf(wrong)) })
      for (const [i, n] of [10, 17, 24, 31, 38].entries()) {
        const prompt = fresh(10 + i, n)
        yield* compaction.learn({ prompt, inputTokens: tokensOf(prompt) })
      }
      const other = fresh(2, 35)
      assert.approximately((yield* tokensBy(compaction)(other)) / tokensOf(other), 1, 0.1)
    }).pipe(Effect.scoped)
  )

  it.effect("without the cached tokens does not raise the estimate of later messages", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = talking(100)
      const next = longer(prompt, ...turn("a", lorem(100)))
      yield* compaction.learn({ prompt, inputTokens: Math.floor(0.26 * tokensOf(prompt)) })
      yield* compaction.learn({ prompt: next, inputTokens: tokensOf(next) })
      assert.strictEqual(yield* tokensBy(compaction)(next), tokensOf(next))
      assert.isBelow((yield* tokensBy(compaction)(working(30))) / tokensOf(working(30)), 1.2)
      assert.isAbove((yield* tokensBy(compaction)(prompt)) / tokensOf(prompt), 0.3)
    }).pipe(Effect.scoped)
  )
})

describe("the calibration", () => {
  const content = (of: ReadonlyArray<number>) => {
    const made: Record<Kind, number> = { ...nothing }
    for (const [i, kind] of kinds.entries()) made[kind] = of[i] ?? 0
    return made
  }
  const vector = fc.array(fc.integer({ min: 0, max: 20_000 }), {
    minLength: kinds.length,
    maxLength: kinds.length
  })
  const total = (of: ReadonlyArray<number>) => of.reduce((sum, value) => sum + value, 0)

  it("stays finite and within its bounds for any reports", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(vector, fc.double({ min: 0, max: 1e7, noNaN: true })), { maxLength: 60 }),
        vector,
        (reports, asked) => {
          let state = Calibration.initial
          for (const [of, real] of reports) state = Calibration.learn(state, total(of), content(of), real)
          const counted = total(asked)
          const estimate = Calibration.estimate(state, counted, content(asked), window)
          assert.isAtLeast(estimate, Calibration.bounds.min * counted)
          assert.isAtMost(estimate, Calibration.bounds.max * counted + Calibration.bounds.hidden)
        }
      )
    )
  })

  const truth = fc.array(fc.double({ min: 0.6, max: 1.8, noNaN: true }), {
    minLength: kinds.length,
    maxLength: kinds.length
  })
  const realOf = (of: ReadonlyArray<number>, weights: ReadonlyArray<number>) =>
    of.reduce((sum, value, i) => sum + value * (weights[i] ?? 1), 0)
  const many = fc.array(vector, { minLength: 40, maxLength: 40 })
  const taught = (reports: ReadonlyArray<ReadonlyArray<number>>, weights: ReadonlyArray<number>) =>
    reports.reduce(
      (state, of) => Calibration.learn(state, total(of), content(of), realOf(of, weights)),
      Calibration.initial
    )
  const errorOf = (
    state: Calibration.Calibration,
    of: ReadonlyArray<number>,
    weights: ReadonlyArray<number>
  ) => {
    const real = realOf(of, weights)
    return (
      Math.abs(Calibration.estimate(state, total(of), content(of), window) - real) / Math.max(1_000, real)
    )
  }

  it("learns the cost of each kind from mixed reports", () => {
    fc.assert(
      fc.property(truth, many, vector, (weights, reports, asked) => {
        assert.isBelow(errorOf(taught(reports, weights), asked, weights), 0.1)
      })
    )
  })

  it("does not become less certain of an unreported kind than at the start", () => {
    const [words, files] = [kinds.indexOf("words"), kinds.indexOf("files")]
    const only = (kind: number, tokens: number) => kinds.map((_, i) => (i === kind ? tokens : 0))
    const once = (state: Calibration.Calibration) => {
      const of = content(only(files, 1_000))
      return Calibration.estimate(Calibration.learn(state, 1_000, of, 4_000), 1_000, of, window)
    }
    let state = Calibration.initial
    for (let i = 0; i < 20_000; i++)
      state = Calibration.learn(state, 5_000, content(only(words, 5_000)), 5_500)
    assert.approximately(once(state), once(Calibration.initial), 10)
  })

  it("moves little after one report of four times or a quarter of the real tokens", () => {
    fc.assert(
      fc.property(
        truth,
        many,
        vector,
        fc.constantFrom(0.25, 4),
        vector,
        (weights, reports, wrong, factor, asked) => {
          const before = taught(reports, weights)
          const real = factor * realOf(wrong, weights)
          const after = Calibration.learn(before, total(wrong), content(wrong), real)
          const [was, is] = [before, after].map((state) =>
            Calibration.estimate(state, total(asked), content(asked), window)
          )
          assert.isBelow(Math.abs((is ?? 0) - (was ?? 0)), 0.15 * Math.max(1_000, total(asked)))
        }
      )
    )
  })
})
