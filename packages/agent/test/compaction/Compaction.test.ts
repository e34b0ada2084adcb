/** A single compaction: thresholds, tiers, and the protected messages. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { Prompt, Tool } from "effect/ai"
import { InvalidOption } from "@outlast/resilience"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { ContextWindows, Marks, RecallStore, Report } from "@outlast/agent/compaction"
import type { CompactionWording } from "@outlast/agent/compaction"
import {
  assistant,
  lorem,
  recording,
  scripted,
  system,
  talking,
  terse,
  textOf,
  thinking,
  tokensOf,
  turn,
  user,
  window,
  working
} from "./support.ts"

const policy = CompactionPolicy.defaults
const withTiers = (...tiers: ReadonlyArray<CompactionPolicy.Tier>): CompactionPolicy.CompactionPolicy => ({
  ...policy,
  tiers
})

describe("thresholds", () => {
  it.effect("returns a conversation that fits as the same object, with its size", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = working(3)
      const { prompt: after, report } = yield* compaction.fit(prompt, { window })
      assert.strictEqual(after, prompt)
      assert.deepInclude(report, {
        tier: "none",
        tokensBefore: tokensOf(prompt),
        limit: 1_800,
        downTo: 1_200,
        dropped: []
      })
      assert.strictEqual(Report.numberOf[report.tier], 0)
    })
  )

  it.effect("compacts above 90 % of the window, down to 60 %", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = working(20)
      const { prompt: after, report } = yield* compaction.fit(prompt, { window })
      assert.strictEqual(report.tier, "strip")
      assert.isAtMost(tokensOf(after), 1_200)
      // No more than necessary is cut: the newest results are still there.
      assert.isAbove(tokensOf(after), 1_000)
      assert.include(textOf(after.content.at(-5)), "word word")
    })
  )

  it.effect("compacts earlier when the answer needs room: window - output limit - 2 %", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const { report } = yield* compaction.fit(working(9), {
        window,
        outputLimit: 1_000,
        modelWindow: true
      })
      assert.deepInclude(report, {
        tier: "strip",
        limit: 960,
        downTo: 640,
        arithmetic: "the window of 2,000, less 1,000 for the answer and 40 in reserve"
      })
    })
  )

  it.effect("keeps at most 20 % of a window given by hand for the answer", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const boundsOf = (request: Omit<Compaction.Request, "window">) =>
        Effect.map(
          compaction.fit(working(2), { window: 30_000, outputLimit: 16_000, ...request }),
          ({ report: { limit, arithmetic } }) => [limit, arithmetic]
        )
      const given = [23_400, "the window of 30,000, less 6,000 for the answer and 600 in reserve"]
      const own = [13_400, "the window of 30,000, less 16,000 for the answer and 600 in reserve"]
      const known = ContextWindows.layer((model) => (model === "small" ? 30_000 : 200_000))
      assert.deepStrictEqual(yield* boundsOf({}), given)
      assert.deepStrictEqual(yield* boundsOf({ modelWindow: true }), own)
      assert.deepStrictEqual(
        yield* boundsOf({ model: "large", outputLimit: 4_000 }).pipe(Effect.provide(known)),
        [25_400, "the window of 30,000, less 4,000 for the answer and 600 in reserve"]
      )
      assert.deepStrictEqual(yield* boundsOf({ model: "large" }).pipe(Effect.provide(known)), given)
      assert.deepStrictEqual(yield* boundsOf({ model: "small" }).pipe(Effect.provide(known)), own)
      const half = yield* Compaction.make({ policy: { ...policy, maxAnswer: 0.5 } })
      const { report } = yield* half.fit(working(2), { window: 30_000, outputLimit: 16_000 })
      assert.strictEqual(report.limit, 14_400)
    })
  )

  it.effect("counts the schemas of tools (langchain-ai/langchain#34664)", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const tools = [Tool.make("search", { description: lorem(400) })]
      const { report } = yield* compaction.fit(working(10), { window, tools })
      assert.strictEqual(report.tier, "strip")
      assert.isAtMost(report.tokensAfter, 1_200)
    })
  )

  it.effect("publishes ContextFilling once from 80 % on, with an exact count", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      const compaction = yield* Compaction.make()
      const fit = (messages: number) =>
        compaction.fit(talking(messages), { window, conversation: "c" }).pipe(Effect.provide(layer))
      for (const messages of [3, 15, 16]) yield* fit(messages)
      assert.deepStrictEqual(events, [
        {
          _tag: "ContextFilling",
          at: 0,
          conversation: "c",
          tokens: tokensOf(talking(15)),
          window,
          preparing: false
        }
      ])
    })
  )

  it.effect("takes the thresholds from the policy", () =>
    Effect.gen(function* () {
      const eager = yield* Compaction.make({
        policy: { ...policy, act: 0.5, downTo: 0.4, warn: 0.3, reserve: 0.1 }
      })
      const { report } = yield* eager.fit(working(9), { window })
      assert.deepInclude(report, { tier: "strip", limit: 1_000, downTo: 800 })
      const { report: second } = yield* eager.fit(working(7), {
        window,
        outputLimit: 1_200,
        modelWindow: true
      })
      assert.deepInclude(second, { limit: 600 })
      const { events, layer } = recording()
      yield* eager.fit(working(6), { window }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["ContextFilling"]
      )
    })
  )

  it("rejects impossible options", () => {
    for (const wrong of [
      { ...policy, act: 1.2 },
      { ...policy, downTo: 0.95 },
      { ...policy, tail: { messages: 0 } },
      { ...policy, tail: { tokens: 0 } },
      { ...policy, chunks: { ...policy.chunks, overlap: 0.9 } },
      { ...policy, tiers: ["magic" as CompactionPolicy.Tier] },
      { ...policy, thrash: { ...policy.thrash, poorGains: 0 } },
      { ...policy, maxAnswer: 0 }
    ]) {
      assert.throws(() => Effect.runSync(Effect.scoped(Compaction.make({ policy: wrong }))), InvalidOption)
    }
    assert.throws(
      () => Effect.runSync(Effect.scoped(Compaction.make({ maxConversations: 0 }))),
      InvalidOption
    )
    const fit = (request: Compaction.Request) =>
      Effect.runSync(
        Effect.scoped(Effect.flatMap(Compaction.make(), (made) => made.fit(working(1), request)))
      )
    assert.throws(() => fit({ window: 0 }), /window must be an integer of at least 1/)
    const hard = { window, outputLimit: 2_000, modelWindow: true }
    assert.throws(() => fit(hard), /outputLimit must be below the window/)
    assert.throws(() => fit({ window: 1, outputLimit: 1 }), /window must be large enough/)
  })
})

describe("tier 1", () => {
  it.effect("cuts large results, oldest first, names them, and keeps small ones", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make({ policy: withTiers("strip") })
      const prompt = Prompt.fromMessages([
        user("Go."),
        ...turn("small", "ok"),
        ...working(20).content.slice(2)
      ])
      const { prompt: after, report } = yield* compaction.fit(prompt, { window })
      assert.include(textOf(after.content[2]), `"ok"`)
      assert.include(textOf(after.content[4]), "[Result of search left out: 400 characters.]")
      assert.deepStrictEqual(report.dropped[0], {
        what: "result",
        at: 4,
        role: "tool",
        tool: "search",
        call: "call_0",
        characters: 400
      })
    })
  )

  it.effect("cuts long arguments and keeps short ones; a signed call keeps all", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make({ policy: withTiers("strip") })
      const write = { path: "src/a.ts", content: lorem(500) }
      const prompt = Prompt.fromMessages([
        user("Go."),
        ...turn("a", "ok", write),
        ...turn("b", "ok", write, { google: { thoughtSignature: "x" } }),
        ...turn("c", "ok", write, { anthropic: { cacheControl: { type: "ephemeral" } } }),
        assistant("Done."),
        user("Next."),
        assistant("Yes."),
        user("Next.")
      ])
      const { prompt: after, report } = yield* compaction.fit(prompt, { window: 1_700 })
      const params = after.content.flatMap((message) =>
        message.role === "assistant"
          ? message.content.flatMap((part) => (part.type === "tool-call" ? [part.params] : []))
          : []
      )
      const cut = { path: "src/a.ts", content: "[2,000 characters left out.]" }
      assert.deepStrictEqual(params, [cut, write, cut])
      assert.deepStrictEqual(
        report.dropped.map(({ what, call }) => [what, call]),
        [
          ["arguments", "a"],
          ["arguments", "c"]
        ]
      )
    })
  )

  it.effect("cuts no result twice, even with a long replacement text, and no signed result", () =>
    Effect.gen(function* () {
      const wording = {
        ...policy.wording,
        result: (cut: CompactionWording.CutAway) => "LEFT OUT ".repeat(30) + cut.characters
      }
      const compaction = yield* Compaction.make({ policy: { ...withTiers("strip"), wording } })
      const [call, result] = turn("signed", lorem(100))
      assert(result?.role === "tool")
      const options = { messages: { encrypted: "x" } }
      const signed = { ...result, content: result.content.map((part) => ({ ...part, options })) }
      const prompt = Prompt.fromMessages([user("Go."), call!, signed, ...working(8, 400).content.slice(2)])
      const once = yield* compaction.fit(prompt, { window: 3_000 })
      assert.include(once.prompt.content, signed)
      assert.include(textOf(once.prompt.content[4]), "LEFT OUT")
      const longer = Prompt.fromMessages([...once.prompt.content, ...working(4, 400).content.slice(2)])
      const twice = yield* compaction.fit(longer, { window: 3_000 })
      assert.strictEqual(twice.report.tier, "strip")
      assert.strictEqual(twice.prompt.content[4], once.prompt.content[4])
    })
  )

  it.effect("takes the size of a large result from the policy", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make({ policy: { ...withTiers("strip"), large: 500 } })
      const failed = yield* Effect.flip(compaction.fit(working(20), { window }))
      assert.strictEqual(failed._tag, "CannotFit")
    })
  )

  it.effect("cuts the middle out of a result larger than 30 % of the window, even in the tail", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const large = `BEGIN ${lorem(1_500)} END`
      const prompt = Prompt.fromMessages([user("Go."), ...turn("a", large)])
      const { prompt: after, report } = yield* compaction.fit(prompt, { window: 1_600 })
      const said = textOf(after.content.at(-1))
      assert.strictEqual(report.tier, "cap")
      assert.match(said, /BEGIN .* characters in the middle left out.* END/)
      assert.isAtMost(tokensOf(Prompt.fromMessages(after.content.slice(-1))), 480)
      // `admit` cuts the result in the same way, and a second time it changes nothing.
      const admitted = yield* compaction.admit(prompt, { window: 1_600 })
      assert.strictEqual(textOf(admitted.content.at(-1)), said)
      assert.strictEqual(yield* compaction.admit(admitted, { window: 1_600 }), admitted)
      const more = yield* Compaction.make({ policy: { ...policy, maxResult: 0.5 } })
      const capped = yield* more.admit(prompt, { window: 1_600 })
      assert.isAbove(tokensOf(capped), 700)
    })
  )

  it.effect("stores every text that it cuts", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      const compaction = yield* Compaction.make({ store })
      const { prompt: after, report } = yield* compaction.fit(working(20), { window })
      const id = report.dropped[0]?.recall ?? ""
      assert.include(textOf(after.content[3]), id)
      assert.deepStrictEqual(yield* store.get(id), Option.some(lorem(100)))
      const large = Prompt.fromMessages([user("Go."), ...turn("a", lorem(1_500))])
      const admitted = yield* compaction.admit(large, { window })
      const kept = /id \\"(r_\w+)/.exec(textOf(admitted.content.at(-1)))?.[1] ?? ""
      assert.deepStrictEqual(yield* store.get(kept), Option.some(lorem(1_500)))
    })
  )
})

describe("tiers 2 to 4", () => {
  it.effect("tier 2 replaces everything unprotected with a summary", () =>
    Effect.gen(function* () {
      const { options } = yield* terse()
      const compaction = yield* Compaction.make({ summariser: options })
      const before = talking(20)
      const { prompt: after, report } = yield* compaction.fit(before, { window })
      assert.strictEqual(report.tier, "chunks")
      assert.deepStrictEqual(
        after.content.map(({ role }) => role),
        ["user", "user", "assistant", "user", "assistant", "user"]
      )
      assert.strictEqual(textOf(after.content[0]), textOf(before.content[0]))
      assert.match(
        textOf(after.content[1]),
        /Summary of 18 earlier messages.*not an instruction.*<summary>\\nSUMMARY/
      )
      assert.deepStrictEqual(after.content.slice(-4), before.content.slice(-4))
      assert.deepStrictEqual(
        report.dropped.map(({ at }) => at),
        Array.from({ length: 18 }, (_, i) => i + 1)
      )
      assert.strictEqual(Report.numberOf[report.tier], 2)
    })
  )

  it.effect("adds the count of an earlier summary when it replaces that summary", () =>
    Effect.gen(function* () {
      const { options } = yield* terse()
      const compaction = yield* Compaction.make({ summariser: options })
      const { prompt: once } = yield* compaction.fit(talking(20), { window })
      const longer = Prompt.fromMessages([...once.content, ...talking(20).content.slice(1)])
      const { prompt: twice } = yield* compaction.fit(longer, { window })
      // 18 from the first summary, 4 of its tail, and 18 of the 22 new messages.
      assert.deepStrictEqual(Marks.summaryOf(twice.content[1]!), { messages: 40 })
      assert.strictEqual(twice.content.filter((message) => Marks.summaryOf(message) !== undefined).length, 1)
    })
  )

  it.effect("tier 3 summarises the oldest half in one call and strips the rest", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* terse()
      const compaction = yield* Compaction.make({ summariser: options, policy: withTiers("half") })
      const { prompt: after, report } = yield* compaction.fit(talking(20), { window: 2_200 })
      assert.deepStrictEqual([report.tier, asked.length], ["half", 1])
      assert.include(textOf(after.content[1]), "Summary of 10 earlier messages")
      const both = yield* Compaction.make({ summariser: options, policy: withTiers("strip", "half") })
      const mixed = Prompt.fromMessages([...talking(12).content, ...working(12).content.slice(2)])
      const { report: second } = yield* both.fit(mixed, { window: 1_500 })
      assert.strictEqual(second.tier, "half")
      assert.sameMembers([...new Set(second.dropped.map(({ what }) => what))], ["message", "result"])
    })
  )

  it.effect("tier 4 leaves a few lines without a model", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make({
        policy: { ...policy, plain: { requests: 2, characters: 11, earlier: 10, fill: false } }
      })
      const prompt = Prompt.fromMessages([...working(3).content, ...talking(20).content])
      const { prompt: after, report } = yield* compaction.fit(prompt, { window })
      const said = textOf(after.content[2])
      assert.strictEqual(report.tier, "plain")
      assert.include(said, "27 earlier messages left out")
      assert.include(said, "- Go on.\\n- Build it.\\nTools called: search (3)")
      // The next one keeps these lines up to a bound.
      const longer = Prompt.fromMessages([...after.content, ...talking(20).content.slice(1)])
      const { prompt: twice } = yield* compaction.fit(longer, { window })
      assert.include(textOf(twice.content[2]), "Before that:\\n[27 earlie…\\n")
      assert.include(textOf(twice.content[2]), "- Question 19…\\n- Go on.")
      assert.notInclude(textOf(twice.content[2]), "Question 5")
      const forgetting = yield* Compaction.make({
        policy: { ...policy, plain: { ...policy.plain, earlier: 0 } }
      })
      const { prompt: without } = yield* forgetting.fit(longer, { window })
      assert.notInclude(textOf(without.content[2]), "Before that")
    })
  )

  it.effect("uses the cheapest sufficient tier, in the order of the policy", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* terse()
      const strip = yield* Compaction.make({ summariser: options })
      assert.strictEqual((yield* strip.fit(working(20), { window })).report.tier, "strip")
      assert.lengthOf(asked, 0)
      const plainFirst = yield* Compaction.make({
        summariser: options,
        policy: withTiers("plain", "chunks", "strip")
      })
      assert.strictEqual((yield* plainFirst.fit(working(20), { window })).report.tier, "plain")
    })
  )

  it.effect("uses a tier that reaches the limit even when it frees little", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = Prompt.fromMessages([
        user(lorem(1_650)),
        ...turn("a", lorem(60)),
        user(lorem(100)),
        ...["a", "b", "c", "d"].map((said) => user(said))
      ])
      const { report } = yield* compaction.fit(prompt, { window })
      assert.strictEqual(report.tier, "plain")
      const stripped = report.tried.find(({ tier }) => tier === "strip")?.tokens ?? 0
      assert.isAbove(stripped, report.limit)
      assert.isBelow(stripped - report.tokensAfter, 100)
    })
  )

  it.effect("continues with the next tier after a failure and reports the failure", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      const { options, asked } = yield* scripted(() => Effect.die("gone"))
      const compaction = yield* Compaction.make({ summariser: options })
      const { report } = yield* compaction.fit(talking(20), { window }).pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        report.tried.map(({ tier, outcome, why }) => [tier, outcome, why]),
        [
          ["cap", "too_little", undefined],
          ["strip", "too_little", undefined],
          ["chunks", "failed", "the summariser failed"],
          ["half", "failed", "the summariser failed"],
          ["plain", "enough", undefined]
        ]
      )
      assert.isAbove(asked.length, 1)
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["CompactionTierFailed", "CompactionTierFailed", "ContextCompacted"]
      )
    })
  )

  it.effect("does not summarise fewer than 6 messages", () =>
    Effect.gen(function* () {
      const { options, asked } = yield* terse()
      const short = Prompt.fromMessages([user("a"), user(lorem(2_000)), user("c"), user("d"), user("e")])
      const tail = { messages: 2 }
      const compaction = yield* Compaction.make({ summariser: options, policy: { ...policy, tail } })
      assert.strictEqual((yield* compaction.fit(short, { window })).report.tier, "plain")
      assert.lengthOf(asked, 0)
      const eager = yield* Compaction.make({
        summariser: options,
        policy: { ...policy, tail, minMessages: 5 }
      })
      assert.strictEqual((yield* eager.fit(short, { window })).report.tier, "chunks")
    })
  )

  it.effect("keeps the newest tokens with a tail in tokens, at most half of the target size", () =>
    Effect.gen(function* () {
      const keep = (tokens: number) =>
        Effect.flatMap(
          Compaction.make({
            policy: {
              ...CompactionPolicy.tokenTail(tokens),
              tiers: ["plain"],
              plain: { ...policy.plain, fill: false }
            }
          }),
          (made) => Effect.map(made.fit(talking(20), { window }), ({ prompt }) => prompt.content.length - 2)
        )
      // Messages of about 106 tokens, and two short ones at the end.
      assert.deepStrictEqual([yield* keep(1), yield* keep(250), yield* keep(100_000)], [1, 4, 7])
    })
  )

  it.effect("keeps the same messages as the imitated systems, by preset", () =>
    Effect.gen(function* () {
      const { options } = yield* terse()
      const run = (policy: CompactionPolicy.CompactionPolicy) =>
        Effect.flatMap(Compaction.make({ policy, summariser: options }), (made) =>
          made.fit(talking(20), { window: 2_200 })
        )
      const s11 = yield* run(CompactionPolicy.s11)
      assert.strictEqual(s11.report.tier, "plain")
      assert.lengthOf(s11.prompt.content, 7)
      assert.include(textOf(s11.prompt.content[1]), "[Reactive compact]")
      assert.deepStrictEqual(
        (yield* run(CompactionPolicy.claw0)).report.tried.map(({ tier }) => tier),
        ["cap", "half"]
      )
      const codebuddy = yield* run(CompactionPolicy.codebuddy)
      assert.deepInclude(codebuddy.report, { tier: "chunks", downTo: 1_980 })
    })
  )
})

describe("protected messages", () => {
  it.effect("keeps pinned messages with their calls, by mark or by predicate", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const base = talking(20).content
      // Larger than 30 % of the window.
      const [call, result] = turn("pinned", lorem(500))
      const prompt = Prompt.fromMessages([
        ...base.slice(0, 5),
        Marks.pin(user("FACT 1")),
        call!,
        Marks.pin(result!),
        user("FACT 2"),
        ...base.slice(5)
      ])
      const pinned = (message: Prompt.Message) => textOf(message).includes("FACT 2")
      const { prompt: after } = yield* compaction.fit(prompt, { window, pinned })
      for (const message of prompt.content.slice(5, 9)) assert.include(after.content, message)
    })
  )

  it.effect("separates two assistant messages when everything between them is removed", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const base = talking(22).content
      const prompt = Prompt.fromMessages([
        ...base.slice(0, 5),
        Marks.pin(assistant("A")),
        user(lorem(20)),
        Marks.pin(assistant("B")),
        ...base.slice(5)
      ])
      const { prompt: after } = yield* compaction.fit(prompt, { window })
      assert.deepStrictEqual(
        after.content
          .slice(1, 5)
          .map((message) => [message.role, textOf(message).includes("Messages left out here")]),
        [
          ["user", false],
          ["assistant", false],
          ["user", true],
          ["assistant", false]
        ]
      )
    })
  )

  it.effect("keeps thinking, or drops and reports it after the edit when the model binds it", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = Prompt.fromMessages([
        user("Go."),
        thinking("first"),
        ...working(20).content.slice(2),
        thinking("last"),
        user("And?")
      ])
      const thoughts = (prompt: Prompt.Prompt) =>
        prompt.content.filter((message) => textOf(message).includes('"reasoning"')).length
      const free = yield* compaction.fit(prompt, { window })
      assert.strictEqual(thoughts(free.prompt), 2)
      const bound = yield* compaction.fit(prompt, { window, bindsThinking: true, conversation: "another" })
      assert.strictEqual(thoughts(bound.prompt), 1)
      assert.include(textOf(bound.prompt.content[1]), '"reasoning"')
      assert.deepStrictEqual(
        bound.report.dropped.filter(({ what }) => what === "thinking"),
        [{ what: "thinking", at: prompt.content.length - 2, role: "assistant" }]
      )
    })
  )

  it.effect("keeps an open call at the end without inventing a result", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const [call] = turn("open", "")
      const prompt = Prompt.fromMessages([...talking(20).content.slice(0, -1), call!])
      const { prompt: after } = yield* compaction.fit(prompt, { window })
      assert.strictEqual(after.content.at(-1), call)
    })
  )

  it.effect("names the parts that cannot be cut, with their tokens (langchain-ai/langchain#37533)", () =>
    Effect.gen(function* () {
      const { events, layer } = recording()
      const compaction = yield* Compaction.make()
      const prompt = Prompt.fromMessages([
        system(lorem(500)),
        user(lorem(1_000)),
        assistant("a"),
        user("b"),
        Marks.pin(assistant(lorem(400))),
        user("c")
      ])
      const tools = [Tool.make("search", { description: lorem(50) })]
      const error = yield* Effect.flip(compaction.fit(prompt, { window, tools }).pipe(Effect.provide(layer)))
      assert(error._tag === "CannotFit")
      assert.deepStrictEqual(
        error.uncuttable.map(({ what }) => what),
        ["goal", "system", "pinned", "tools", "tail"]
      )
      assert.match(
        error.message,
        /must not have more than 1,800: 90 % of the window of 2,000\. [^]*the first message of the user \(1,004 tokens\), the system messages/
      )
      assert.isFalse(error.isRetryable)
      assert.deepInclude(events.at(-1), { _tag: "CompactionGaveUp", reason: "cannot_fit" })
    })
  )
})
