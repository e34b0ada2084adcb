/** Cost of a new turn, and independence of the cache between conversations. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Prompt, Tool } from "effect/ai"
import * as fc from "fast-check"
import { Compaction } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import { conversation } from "./generated.ts"
import { assistant, talking, tokensOf, user } from "./support.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const window = 10_000_000

/** A counter that records the messages it counts. */
const listening = () => {
  const asked: Array<Prompt.Message> = []
  const meter = TokenCounter.estimate.for(undefined)
  const listening: TokenCounter.Meter = {
    ...meter,
    message: (message) => {
      asked.push(message)
      return meter.message(message)
    }
  }
  return { asked, service: { for: () => listening } }
}

const longer = ({ content }: Prompt.Prompt, ...more: ReadonlyArray<Prompt.Message>) =>
  Prompt.fromMessages([...content, ...more])

describe("counting a turn", () => {
  it.effect.each([true, false])("counts only the messages of the turn; usage reported: %s", (isTold) =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const { asked, service } = listening()
      const turn = (prompt: Prompt.Prompt) =>
        Effect.gen(function* () {
          asked.length = 0
          const { report } = yield* compaction.fit(prompt, { window })
          if (isTold) yield* compaction.learn({ prompt, inputTokens: report.tokensBefore + 5 })
          return asked.length
        }).pipe(Effect.provideService(TokenCounter.TokenCounter, service))
      const long = talking(1_000)
      assert.strictEqual(yield* turn(long), long.content.length)
      const next = longer(long, assistant("Yes."), user("And?"))
      assert.strictEqual(yield* turn(next), 2)
      assert.strictEqual(yield* turn(longer(next, assistant("No."))), 1)
      // The conversation forks here: the fork is counted whole once, then turn by turn.
      const other = longer(next, assistant("Perhaps."))
      assert.strictEqual(yield* turn(other), other.content.length)
      assert.strictEqual(yield* turn(longer(other, user("Why?"))), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("returns the same count as without a cache, for any earlier conversations", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(
          conversation,
          fc.array(fc.record({ keep: fc.nat(40), skip: fc.nat(3), tools: fc.nat(2), more: fc.nat(3) }), {
            minLength: 1,
            maxLength: 8
          }),
          (first, turns) =>
            Effect.gen(function* () {
              const compaction = yield* Compaction.make()
              const meter = TokenCounter.estimate.for(undefined)
              let { content } = first
              for (const { keep, skip, tools: n, more } of turns) {
                const tools = Array.from({ length: n }, (_, i) => Tool.make(`tool_${i}`))
                const prompt = Prompt.fromMessages(content)
                const { report } = yield* compaction.fit(prompt, { window, tools })
                assert.strictEqual(report.tokensBefore, tokensOf(prompt) + meter.tools(tools))
                // The same objects in another order and number, followed by new ones.
                const said = Array.from({ length: more }, (_, i) => user("a".repeat(i * 8)))
                content = [...content.slice(skip, skip + keep), ...content.slice(0, skip), ...said]
              }
            }).pipe(Effect.scoped, Effect.runPromise)
        ),
        { numRuns: Sweeps.runs(100) }
      )
    )
  )

  it.effect("counts again when another counter is provided", () =>
    Effect.gen(function* () {
      const compaction = yield* Compaction.make()
      const prompt = talking(10)
      const tokens = (counter: TokenCounter.Service) =>
        Effect.map(compaction.fit(prompt, { window }), ({ report }) => report.tokensBefore).pipe(
          Effect.provideService(TokenCounter.TokenCounter, counter)
        )
      assert.strictEqual(yield* tokens(TokenCounter.estimate), tokensOf(prompt))
      const ones = TokenCounter.make({ text: () => 1, overhead: 0 })
      assert.strictEqual(yield* tokens(ones), prompt.content.length)
    }).pipe(Effect.scoped)
  )
})
