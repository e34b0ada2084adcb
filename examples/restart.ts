/**
 * Streams to a consumer that can remove the text it has shown.
 *
 *     npm run restart -w examples
 *
 * The first model breaks off mid-stream each time. With `LanguageModel.streamText` the second model would continue the
 * partial answer. Here the second model starts again. The consumer gets a notice that another model answers, and a
 * rewind that invalidates the shown text.
 */
import { Console, Duration, Effect, Layer, Stream } from "effect"
import { Failover, Outlast, RecoveryPolicy } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"

const first = ScriptedModel.make({
  provider: "anthropic",
  model: "claude-sonnet-4-5",
  plan: {
    answers: [{ text: "The Nile flows north, through eleven countries." }],
    faults: [{ times: "always", fault: { type: "cut", after: 4 } }]
  }
})
const second = ScriptedModel.make({
  provider: "openai",
  model: "gpt-4.1",
  plan: { answers: [{ text: "The Nile ends in the Mediterranean Sea." }] }
})

const policy = { ...RecoveryPolicy.interactive, patience: Duration.zero }
const Model = Layer.unwrap(Effect.zipWith(first, second, (a, b) => Failover.layer([a, b], { policy })))

const main = Outlast.streamText({ prompt: "Where does the Nile end?", midStream: "restart" }).pipe(
  Stream.runFoldEffect(
    () => "",
    (shown, part) => {
      switch (part.type) {
        case "text-delta":
          return Effect.succeed(shown + part.delta)
        case "notice":
          return Effect.as(Console.log(part.message), shown)
        case "rewind":
          return Effect.as(Console.log(`Taken back: "${shown}"`), "")
        default:
          return Effect.succeed(shown)
      }
    }
  ),
  Effect.flatMap(Console.log),
  Effect.provide(Model)
)

await Effect.runPromise(main)
