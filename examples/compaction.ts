/**
 * Runs an agent that reads a book of 120 pages with a context window of about 40 pages.
 *
 *     npm run compaction -w examples
 *
 * The program is a normal `Agent.run`. `Compaction.layer` makes the conversation fit before each call. It cuts tool
 * results first, oldest first. Only then does a cheap model summarise.
 */
import { Console, Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Compaction, Failover } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"

const pages = 120
const Book = Toolkit.make(
  Tool.make("read", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
)
const BookLive = Book.toLayer({
  read: ({ page }) => Effect.succeed(`Page ${page} of ${pages}. ${"It was raining all day. ".repeat(40)}`)
})

const main = Effect.gen(function* () {
  const reader = yield* ScriptedModel.make({
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    info: { contextWindow: 16_000 },
    plan: {
      // One page after the other. The last result tells the current page.
      answers: ({ messages }) => {
        const page = Number(/Page (\d+) of/.exec(messages.at(-1)?.text ?? "")?.[1] ?? 0)
        if (page === pages) return { text: "It rains on every page." }
        const note = `Page ${page}: ${"rain, and nothing but rain. ".repeat(15)}`
        return { text: note, toolCalls: [{ name: "read", params: { page: page + 1 } }] }
      }
    }
  })
  const cheap = yield* ScriptedModel.make({
    provider: "anthropic",
    model: "claude-haiku-4-5",
    plan: { answers: () => ({ text: "So far it has rained on every page." }) }
  })

  const Fit = Compaction.layer({ summariser: { model: yield* Failover.make([cheap]) } })
  const Log = ResilienceEvents.layerHandler((event) =>
    "tier" in event && "tokens" in event && "tokensAfter" in event
      ? Console.log(`  ${event.tier}: ${event.tokens} tokens become ${event.tokensAfter}`)
      : Effect.void
  )

  const prompt = "What is the weather in this book?"
  const outcome = yield* Agent.run({ prompt, toolkit: Book, maxTurns: 200 }).pipe(
    Effect.provide([BookLive, Failover.layer([reader]), Fit, Log])
  )
  yield* Console.log(outcome.text)
  const { times, summaries } = outcome.compactions
  yield* Console.log(
    `${outcome.turns} turns, made to fit ${times} times, with ${summaries.calls} calls for summaries`
  )
  const asked = (yield* reader.requests).map(({ prompt }) => JSON.stringify(prompt))
  yield* Console.log(
    `The model was told the task in ${asked.filter((said) => said.includes(prompt)).length} calls of ${asked.length}`
  )
})

await Effect.runPromise(Effect.scoped(main))
