/**
 * Makes an existing effect/ai program resilient with one layer.
 *
 *     npm run failover -w examples
 *
 * The providers are fakes on this machine. The first key is wrong, the second is rate limited, and another provider
 * answers. With real keys only `targets` changes: leave out `baseUrl`, and name the variables in `keys`.
 */
import { Console, Effect, Option, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, KeySource, Outlast } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"
import { FakeProvider } from "@outlast/testing"

// The program, which uses only effect/ai.
const program = LanguageModel.generateText({ prompt: "Name a river that flows north." })

const main = Effect.gen(function* () {
  const server = yield* FakeProvider.make({
    plan: {
      answers: [{ text: "The Nile." }],
      faults: [
        { when: { key: "revoked" }, times: "always", fault: { type: "status", status: 401 } },
        { when: { key: "busy" }, fault: { type: "status", status: 429, headers: { "retry-after": "30" } } }
      ]
    }
  })
  const key = (name: string) => KeySource.value(name, Redacted.make(name))

  const Model = Failover.layer([
    Anthropic.model("claude-sonnet-4-5", {
      baseUrl: server.baseUrl("anthropic"),
      keys: [key("revoked"), key("busy")]
    }),
    OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: [key("good")] })
  ])

  const response = yield* program.pipe(Effect.provide(Model))
  yield* Console.log(response.text)
  yield* Option.match(Outlast.answeredBy(response.content), {
    onNone: () => Console.log("answered by a model that is not ours"),
    onSome: (by) =>
      Console.log(`${by.target} answered in attempt ${by.attempts}, for $${by.costUsd?.toFixed(6)}`)
  })
})

await Effect.runPromise(Effect.scoped(main))
