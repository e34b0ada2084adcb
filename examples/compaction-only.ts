/**
 * Only compaction: a long history that fits again, without a model, a chain or an agent.
 *
 *     npm run compaction-only -w examples
 *
 * `Compaction.fit` takes any effect/ai `Prompt`. Without a summariser, only the tiers that need no model run.
 */
import { Console, Effect } from "effect"
import { Prompt } from "effect/ai"
import { Compaction } from "@outlast/agent"

/** Forty turns of a tool with long results. */
const history = Prompt.fromMessages([
  Prompt.makeMessage("user", {
    content: [Prompt.makePart("text", { text: "Find the error in the logs. The ticket is ABC-123." })]
  }),
  ...Array.from({ length: 40 }, (_, i) => [
    Prompt.makeMessage("assistant", {
      content: [
        Prompt.makePart("tool-call", {
          id: `call_${i}`,
          name: "read_log",
          params: { page: i },
          providerExecuted: false
        })
      ]
    }),
    Prompt.makeMessage("tool", {
      content: [
        Prompt.makePart("tool-result", {
          id: `call_${i}`,
          name: "read_log",
          result: `Page ${i}. ${"12:00 all is well. ".repeat(100)}`,
          isFailure: false,
          providerExecuted: false
        })
      ]
    })
  ]).flat()
])

const main = Effect.gen(function* () {
  const { prompt, report } = yield* Compaction.fit(history, { window: 16_000, outputLimit: 8_000 })
  yield* Console.log(`limit: ${report.limit} tokens, ${report.arithmetic}`)
  yield* Console.log(`${report.tokensBefore} tokens become ${report.tokensAfter}, by ${report.tier}`)
  yield* Console.log(`messages: ${history.content.length} before, ${prompt.content.length} after`)
  yield* Console.log(`the task is still there: ${JSON.stringify(prompt).includes("ABC-123")}`)
})

await Effect.runPromise(main.pipe(Effect.provide(Compaction.layer())))
