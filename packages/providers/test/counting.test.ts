/** Token counts of long conversations, corrected by the usage that a provider reports. */
import { assert, describe, it } from "@effect/vitest"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import { Tokenizers } from "@outlast/providers"
import { Effect } from "effect"
import { Prompt } from "effect/ai"
import type { Talk } from "./longTalks.ts"
import { talks } from "./longTalks.ts"
import type { Provider } from "./simulatedUsage.ts"
import { provider, tokenizers } from "./simulatedUsage.ts"

const { o200k } = tokenizers

interface Options {
  readonly window?: number
  readonly model?: string
  readonly isTold?: boolean
}

/** The largest relative errors of counts in turns 11 to 40, before and after compaction. */
const worstOf = (
  talk: Talk,
  count: Provider,
  { window = 10_000_000, model = "any", isTold = true }: Options = {}
) =>
  Effect.gen(function* () {
    const { tools } = talk
    const compaction = yield* Compaction.make({
      policy: { ...CompactionPolicy.defaults, thrash: { ...CompactionPolicy.defaults.thrash } }
    })
    let history: ReadonlyArray<Prompt.Message> = [talk.system]
    let [before, after, compactions] = [0, 0, 0]
    for (const [n, turn] of talk.turns.entries()) {
      const asked = Prompt.fromMessages([...history, ...turn.before])
      const { prompt, report } = yield* compaction.fit(asked, { window, tools, model })
      const inputTokens = count(prompt, tools)
      if (n >= 10) {
        const real = count(asked, tools)
        before = Math.max(before, Math.abs(report.tokensBefore - real) / real)
        after = Math.max(after, Math.abs(report.tokensAfter - inputTokens) / inputTokens)
      }
      if (report.tier !== "none") compactions++
      if (isTold) yield* compaction.learn({ prompt, tools, model, inputTokens })
      history = [...prompt.content, turn.answer]
    }
    return { before, after, compactions }
  }).pipe(Effect.scoped)

describe("the estimate, corrected by reported usage", () => {
  const cases = talks.flatMap((talk) =>
    Object.entries(tokenizers).map(([name, count]) => [talk.name, name, talk, count] as const)
  )
  it.effect.each(cases)("is within 3 %% after ten turns: %s, %s", ([, , talk, count]) =>
    Effect.gen(function* () {
      for (const hidden of [30, 1_500]) {
        const { before } = yield* worstOf(talk, provider(count, hidden))
        assert.isBelow(before, 0.03)
      }
    })
  )

  it.effect("is within 6 % where images cost more or less than they are counted", () =>
    Effect.gen(function* () {
      for (const talk of talks.filter(({ name }) => name.includes("images"))) {
        const count = provider(o200k, 30, () => 765)
        assert.isBelow((yield* worstOf(talk, count)).before, 0.06)
      }
    })
  )

  it.effect("is off by more than 20 % in half of the conversations without a report", () =>
    Effect.gen(function* () {
      const errors: Array<number> = []
      for (const [, , talk, count] of cases) {
        errors.push((yield* worstOf(talk, provider(count, 30), { isTold: false })).before)
      }
      assert.isAbove(errors.filter((error) => error > 0.2).length, errors.length / 2)
    })
  )

  it.effect.each(talks.map((talk) => [talk.name, talk] as const))(
    "is within 5 %% after a compaction: %s",
    ([, talk]) =>
      Effect.gen(function* () {
        const { before, after, compactions } = yield* worstOf(talk, provider(o200k, 500), { window: 20_000 })
        assert.isAbove(compactions, 0)
        assert.isBelow(before, 0.03)
        assert.isBelow(after, 0.05)
      })
  )

  it.effect("with the real tokenizer, misses only the provider's hidden tokens, and learns those", () =>
    Effect.gen(function* () {
      for (const talk of talks) {
        if (talk.name.includes("images")) continue
        const { before } = yield* worstOf(talk, provider(o200k, 1_500), { model: "gpt-4o" })
        assert.isBelow(before, 0.005)
      }
    }).pipe(Effect.provide(Tokenizers.layer()))
  )

  it.effect("counts only the new messages of a turn", () =>
    Effect.gen(function* () {
      const counted: Array<number> = []
      const text = (text: string) => {
        counted.push(text.length)
        return Math.ceil(text.length / 4)
      }
      const counter = TokenCounter.make({ text, json: text })
      const [talk] = talks
      assert.isDefined(talk)
      if (talk === undefined) return
      yield* worstOf(talk, provider(o200k, 0)).pipe(Effect.provideService(TokenCounter.TokenCounter, counter))
      // The system message and, of each turn, its messages and the answer: each once.
      assert.strictEqual(
        counted.length,
        1 + talk.turns.flatMap(({ before }) => before).length + talk.turns.length - 1
      )
    })
  )
})
