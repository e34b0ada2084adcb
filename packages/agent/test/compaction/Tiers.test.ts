/** Choice of the tier, messages kept by the last tier, and reports of results that were cut more than once. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric, Option } from "effect"
import { Prompt } from "effect/ai"
import * as fc from "fast-check"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { CompactionEvent, RecallStore } from "@outlast/agent/compaction"
import { Dialect, Portable } from "@outlast/agent/conversation"
import { conversation } from "./generated.ts"
import {
  assistant,
  lorem,
  scripted,
  talking,
  terse,
  textOf,
  tokensOf,
  turn,
  user,
  window,
  working
} from "./support.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const policy = CompactionPolicy.defaults

/** Turns with results that `strip` can cut, and `talk` tokens that only the last tier can remove. */
const mixed = (turns: number, talk: number, result = 100) =>
  Prompt.fromMessages([
    user("Build it."),
    ...Array.from({ length: turns }, (_, i) => turn(`call_${i}`, lorem(result))).flat(),
    assistant(lorem(talk)),
    ...working(0).content.slice(2),
    assistant("Good."),
    user("And?")
  ])

const tiersOf = ({ tried }: { readonly tried: ReadonlyArray<{ readonly tier: string }> }) =>
  tried.map(({ tier }) => tier)

describe("choice of the tier", () => {
  it.effect("removes no message when cutting results reaches the limit", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const before = mixed(12, 900)
      const { prompt: after, report } = yield* compaction.fit(before, { window })
      assert.strictEqual(report.tier, "strip")
      assert.isAbove(report.tokensAfter, report.downTo)
      assert.isAtMost(report.tokensAfter, report.limit)
      assert.lengthOf(after.content, before.content.length)
      assert.notInclude(tiersOf(report), "plain")
    }).pipe(Effect.scoped)
  )

  it.effect("skips a tier whose poor gain would not last", () =>
    Effect.gen(function* () {
      // `strip` can cut 7 % of the limit.
      const before = mixed(2, 1_670, 60)
      const { report } = yield* (yield* Compaction.make()).fit(before, { window })
      assert.strictEqual(report.tier, "plain")
      const stripped = report.tried.find(({ tier }) => tier === "strip")?.tokens ?? Infinity
      assert.isAtMost(stripped, report.limit)
      // The policy sets the size of a poor gain.
      const thrash = { ...policy.thrash, poorGain: 0.01 }
      const content = yield* Compaction.make({ policy: { ...policy, thrash } })
      assert.strictEqual((yield* content.fit(before, { window })).report.tier, "strip")
    }).pipe(Effect.scoped)
  )

  it.effect.each(["strip", "chunks", "half", "plain"] as const)(
    "%s gives a conversation that is legal where roles must alternate, with goal and summary in one message",
    (tier) =>
      Effect.gen(function* () {
        const { options } = yield* terse({ window: 50_000 })
        const compaction = yield* Compaction.make({
          summariser: options,
          policy: { ...policy, tiers: [tier] }
        })
        const { prompt, report } = yield* compaction.fit(working(20), { window })
        assert.strictEqual(report.tier, tier)
        const roles = ({ content }: Prompt.Prompt) => content.map(({ role }) => role).join()
        const ref = { id: "local/qwen", provider: "local", model: "qwen", endpoint: "", key: "" }
        const adapted = Portable.adapt(prompt, { ref, dialect: Dialect.defaults })
        assert.notInclude(roles(adapted), "user,user")
        if (tier === "strip") return
        assert.include(roles(prompt), "user,user")
        const first = adapted.content.find(({ role }) => role === "user")
        assert.include(textOf(first), "Build it.")
        assert.include(textOf(first), tier === "plain" ? "earlier messages" : "SUMMARY")
      }).pipe(Effect.scoped)
  )

  it.effect("uses a stronger tier after a recent refill", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const tiers: Array<string> = []
      const fit = (prompt: Prompt.Prompt) =>
        Effect.map(compaction.fit(prompt, { window, conversation: "c" }), ({ report }) => report.tier)
      const full = mixed(12, 900)
      for (let i = 0; i < 2; i++) tiers.push(yield* fit(full))
      // After some turns in which it fits, the first tier is used again.
      for (let i = 0; i < 4; i++) yield* fit(working(2))
      tiers.push(yield* fit(full))
      assert.deepStrictEqual(tiers, ["strip", "plain", "strip"])
    }).pipe(Effect.scoped)
  )

  it.effect("keeps a summary under the limit instead of replacing it with a few lines", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* scripted(() => lorem(300), { window: 50_000 })
      const compaction = yield* Compaction.make({ summariser: options })
      const before = Prompt.fromMessages([user(lorem(900)), ...talking(15, 80).content.slice(1)])
      const { report } = yield* compaction.fit(before, { window })
      assert.strictEqual(report.tier, "chunks")
      assert.isAbove(report.tokensAfter, report.downTo)
      assert.deepStrictEqual(tiersOf(report), ["cap", "strip", "chunks"])
      assert.lengthOf(asked, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("prefers a summary over stripping only when it frees much more", () =>
    Effect.gen(function* () {
      const { options } = yield* scripted(() => lorem(500), { window: 50_000 })
      const run = (poorGain: number) =>
        Effect.gen(function* () {
          const thrash = { ...policy.thrash, poorGain }
          const compaction = yield* Compaction.make({ summariser: options, policy: { ...policy, thrash } })
          const before = Prompt.fromMessages([user(lorem(700)), ...mixed(12, 600).content.slice(1)])
          return (yield* compaction.fit(before, { window })).report
        })
      const report = yield* run(0.3)
      assert.deepStrictEqual([report.tier, tiersOf(report)], ["strip", ["cap", "strip", "chunks"]])
      assert.strictEqual((yield* run(0.1)).tier, "chunks")
    }).pipe(Effect.scoped)
  )
})

describe("without a model", () => {
  const fit = (
    before: Prompt.Prompt,
    window: number,
    rules: Partial<CompactionPolicy.CompactionPolicy> = {}
  ) =>
    Effect.flatMap(Compaction.make({ policy: { ...policy, ...rules } }), (made) =>
      made.fit(before, { window })
    )

  it.effect("keeps as many of the newest messages unchanged as fit", () =>
    Effect.gen(function* () {
      const before = talking(400)
      const { prompt: after, report } = yield* fit(before, 20_000)
      assert.strictEqual(report.tier, "plain")
      const kept = after.content.slice(2)
      assert.deepStrictEqual(kept, before.content.slice(-kept.length))
      // The free room is smaller than one more message.
      assert.isAtMost(report.tokensAfter, 12_000)
      assert.isAbove(report.tokensAfter, 12_000 - 110)
      assert.include(textOf(after.content[1]), `${400 + 2 - kept.length} earlier messages left out`)
      const without = { plain: { ...policy.plain, fill: false } }
      assert.lengthOf((yield* fit(before, 20_000, without)).prompt.content, 6)
    }).pipe(Effect.scoped)
  )

  it.effect("uses the target size instead of cutting a million tokens down to a thousand", () =>
    Effect.gen(function* () {
      const before = Prompt.fromMessages([...working(8_000, 60).content, ...talking(1_600, 300).content])
      assert.isAbove(tokensOf(before), 1_000_000)
      const { report } = yield* fit(before, 200_000)
      assert.isAbove(report.tokensAfter, 119_000)
    }).pipe(Effect.scoped)
  )

  it.effect("keeps calls with their results, at any size of the window", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(conversation, fc.integer({ min: 30, max: 150 }), (before, percent) =>
          Effect.gen(function* () {
            const window = Math.max(300, Math.round((tokensOf(before) * percent) / 100))
            const fitted = yield* Effect.result(fit(before, window, { tiers: ["plain"] }))
            if (fitted._tag === "Failure" || fitted.success.report.tier === "none") return
            const { prompt: after, report } = fitted.success
            const { content } = after
            for (const [i, message] of content.entries()) {
              if (message.role !== "tool") continue
              const from = before.content.indexOf(message)
              assert.strictEqual(content[i - 1], before.content[from - 1])
            }
            // Every removed message is older than the remaining ones, except the protected ones.
            const bare = yield* fit(before, window, {
              tiers: ["plain"],
              plain: { ...policy.plain, fill: false }
            })
            const must = new Set(bare.prompt.content)
            const gone = new Set(report.dropped.map(({ at }) => at))
            const oldest = before.content.findIndex((message, at) => !must.has(message) && !gone.has(at))
            if (oldest >= 0) assert.isAbove(oldest, Math.max(...gone))
            assert.isAtLeast(content.length, bare.prompt.content.length)
          }).pipe(Effect.scoped, Effect.runPromise)
        ),
        { numRuns: Sweeps.runs(200) }
      )
    )
  )

  it.effect("writes fewer lines when there is little room", () =>
    Effect.gen(function* () {
      const before = Prompt.fromMessages([
        ...talking(60, 60).content,
        ...Array.from({ length: 4 }, () => user(lorem(180)))
      ])
      const { prompt: after, report } = yield* fit(before, 1_000)
      assert.strictEqual(report.tier, "plain")
      assert.notInclude(textOf(after.content[1]), "The user asked")
      const roomy = yield* fit(before, 3_000)
      assert.include(textOf(roomy.prompt.content[1]), "The user asked")
    }).pipe(Effect.scoped)
  )

  it.effect("keeps as little as the imitated systems by preset: s11 five messages, codebuddy four", () =>
    Effect.gen(function* () {
      const before = talking(400)
      const kept = (policy: CompactionPolicy.CompactionPolicy) =>
        Effect.map(fit(before, 20_000, policy), ({ prompt, report }) => [
          report.tier,
          prompt.content.length - 2
        ])
      assert.deepStrictEqual(yield* kept(CompactionPolicy.s11), ["plain", 5])
      assert.deepStrictEqual(yield* kept(CompactionPolicy.codebuddy), ["plain", 4])
      assert.strictEqual((yield* Effect.flip(fit(before, 20_000, CompactionPolicy.claw0)))._tag, "CannotFit")
    }).pipe(Effect.scoped)
  )
})

describe("a result that is cut twice", () => {
  const large = `BEGIN ${lorem(3_000)} END`
  const before = Prompt.fromMessages([
    user("Go."),
    ...turn("large", large),
    ...working(14, 100).content.slice(2)
  ])

  it.effect("is reported once, with all its characters", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const { prompt: after, report } = yield* compaction.fit(before, { window })
      assert.strictEqual(report.tier, "strip")
      const cuts = report.dropped.filter(({ call }) => call === "large")
      assert.deepStrictEqual(cuts, [
        { what: "result", at: 2, role: "tool", tool: "search", call: "large", characters: large.length }
      ])
      const said = large.length.toLocaleString("en-US")
      assert.include(textOf(after.content[2]), `[Result of search left out: ${said} characters.]`)
    }).pipe(Effect.scoped)
  )

  it.effect("reports only the removed middle of a capped result, and the store has the whole text", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      const compaction = yield* Compaction.make({ store })
      const alone = Prompt.fromMessages([user("Go."), ...turn("large", large), user("And?")])
      const { prompt: after, report } = yield* compaction.fit(alone, { window })
      const [cut, ...others] = report.dropped
      assert.isEmpty(others)
      assert.isBelow(cut?.characters ?? Infinity, large.length)
      const said = /\[([\d,]+) characters in the middle/.exec(textOf(after.content[2]))?.[1]
      assert.strictEqual(said, cut?.characters?.toLocaleString("en-US"))
      assert.deepStrictEqual(yield* store.get(cut?.recall ?? ""), Option.some(large))
    }).pipe(Effect.scoped)
  )

  it.effect("keeps its original size and text over a later compaction and after storing", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      const compaction = yield* Compaction.make({ store })
      const [goal, call, result, ...rest] = before.content
      const admitted = yield* compaction.admit(Prompt.fromMessages([goal!, call!, result!]), { window })
      const stored = Prompt.make(JSON.parse(JSON.stringify(admitted.content)))
      const { prompt: after, report } = yield* compaction.fit(
        Prompt.fromMessages([...stored.content, ...rest]),
        { window }
      )
      const [cut, ...others] = report.dropped.filter(({ call }) => call === "large")
      assert.isEmpty(others)
      assert.strictEqual(cut?.characters, large.length)
      assert.include(textOf(after.content[2]), `left out: ${large.length.toLocaleString("en-US")} characters`)
      assert.include(textOf(after.content[2]), cut?.recall ?? "no id")
      assert.deepStrictEqual(yield* store.get(cut?.recall ?? ""), Option.some(large))
    }).pipe(Effect.scoped)
  )

  it.effect("is stored whole when both cuts happen in one compaction", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      const compaction = yield* Compaction.make({ store })
      const { report } = yield* compaction.fit(before, { window })
      const cut = report.dropped.find(({ call }) => call === "large")
      assert.strictEqual(cut?.characters, large.length)
      assert.deepStrictEqual(yield* store.get(cut?.recall ?? ""), Option.some(large))
    }).pipe(Effect.scoped)
  )

  it.effect("names all removed characters when its middle was cut twice", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const came = Prompt.fromMessages(turn("large", large))
      const once = yield* compaction.admit(came, { window })
      const twice = yield* compaction.admit(once, { window: 1_000 })
      const said = textOf(twice.content[1])
      const [, gone, ...more] = said.split(/\[([\d,]+) characters in the middle left out\.\]/)
      assert.lengthOf(more, 1)
      const left = large.length - Number(gone?.replaceAll(",", ""))
      assert.isAtMost(left, 1_000)
      assert.isAbove(left, 700)
      assert.match(said, /BEGIN .* END/)
    }).pipe(Effect.scoped)
  )
})

describe("a result with images", () => {
  const image = Prompt.makePart("file", {
    mediaType: "image/png",
    data: new URL("https://example.com/a.png")
  })
  const shown = (tokens: number) => {
    const [call, result] = turn("shown", "")
    assert(result?.role === "tool")
    const modelOutput = [Prompt.makePart("text", { text: lorem(tokens) }), image]
    const content = result.content.map((part) =>
      part.type === "tool-result" ? { ...part, modelOutput } : part
    )
    return Prompt.fromMessages([user("Go."), call!, { ...result, content }])
  }

  it.effect("keeps its text when the images alone exceed the cap", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const before = shown(400)
      // The image has 1,600 tokens, the cap is 1,500.
      assert.strictEqual(yield* compaction.admit(before, { window: 5_000 }), before)
    }).pipe(Effect.scoped)
  )

  it.effect("loses only as much text as the images require", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const after = yield* compaction.admit(shown(4_000), { window: 8_000 })
      const tokens = tokensOf(Prompt.fromMessages(after.content.slice(2)))
      assert.isAtMost(tokens, 2_400)
      assert.isAbove(tokens, 2_200)
      assert.include(textOf(after.content[2]), "image/png")
    }).pipe(Effect.scoped)
  )
})

describe("metrics", () => {
  it.effect("count compactions and freed tokens, by tier", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const first = yield* compaction.fit(working(20), { window })
      const second = yield* compaction.fit(working(20), { window, conversation: "another" })
      const third = yield* compaction.fit(talking(20), { window })
      yield* compaction.fit(talking(2), { window })
      const of = (tier: CompactionPolicy.Tier) =>
        Effect.all(
          [CompactionEvent.compactions, CompactionEvent.tokensFreed].map((metric) =>
            Effect.map(Metric.value(Metric.withAttributes(metric, { tier })), ({ count }) => count)
          )
        )
      const freed = ({ report }: typeof first) => report.tokensBefore - report.tokensAfter
      assert.deepStrictEqual(yield* of("strip"), [2, freed(first) + freed(second)])
      assert.deepStrictEqual(yield* of("plain"), [1, freed(third)])
      assert.deepStrictEqual(yield* of("cap"), [0, 0])
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()), Effect.scoped)
  )
})
