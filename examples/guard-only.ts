/**
 * Only the guard: hard limits around a program that uses nothing else of Outlast.
 *
 *     npm run guard-only -w examples
 *
 * The program is any Effect: here a loop of tools over a plain effect/ai `LanguageModel`. No code inside it can catch
 * the stop.
 */
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Chat, LanguageModel, Tool, Toolkit } from "effect/ai"
import { SafetyGuard } from "@outlast/agent"

const Kit = Toolkit.make(
  Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
)
const KitLive = Kit.toLayer({ search: ({ query }) => Effect.succeed(`Nothing found for ${query}.`) })

/** A model that never stops searching. */
const Restless = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: ({ prompt }) =>
      Effect.succeed([
        {
          type: "tool-call",
          id: `call_${prompt.content.length}`,
          name: "search",
          params: { query: `topic ${prompt.content.length}` }
        },
        {
          type: "finish",
          reason: "tool-calls",
          usage: {
            inputTokens: { uncached: 1, total: 1, cacheRead: 0, cacheWrite: 0 },
            outputTokens: { total: 1, text: 1, reasoning: 0 }
          }
        }
      ]),
    streamText: () => Stream.empty
  })
)

// It ignores every failure, and would never end.
const program = Effect.gen(function* () {
  const chat = yield* Chat.empty
  return yield* Effect.forever(Effect.ignore(chat.generateText({ prompt: "Search again.", toolkit: Kit })))
})

await Effect.runPromise(
  program.pipe(
    SafetyGuard.run({ toolCalls: 5 }),
    Effect.catchTag("SafetyStop", (stop) => Console.log(stop.message)),
    // A model from elsewhere is guarded when it surrounds the guard.
    Effect.provide([KitLive, Restless])
  )
)
