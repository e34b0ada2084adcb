/**
 * A stream whose consumer can take back what it has shown.
 *
 *     npm run restart -w examples
 *
 * The first model breaks off in mid-sentence, again and again. `LanguageModel.streamText` would have the second model
 * go on with the partial answer. Here the second model begins anew, and the consumer is told so: a notice says that
 * another model answers, a rewind that what was shown is void.
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
