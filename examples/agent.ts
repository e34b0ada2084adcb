/**
 * Runs an agent with a tool, and logs the events of its calls.
 *
 *     npm run agent -w examples
 */
import { Console, Effect, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Failover, KeySource } from "@outlast/agent"
import { Anthropic } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { FakeProvider } from "@outlast/testing"

const Clock = Toolkit.make(
  Tool.make("time_in", {
    description: "Tells the time in a city.",
    parameters: Schema.Struct({ city: Schema.String }),
    success: Schema.String
  })
)
const ClockLive = Clock.toLayer({ time_in: ({ city }) => Effect.succeed(`It is ten past nine in ${city}.`) })

const main = Effect.gen(function* () {
  const server = yield* FakeProvider.make({
    plan: {
      answers: [
        { toolCalls: [{ name: "time_in", params: { city: "Lisbon" } }] },
        { text: "In Lisbon it is ten past nine." }
      ],
      faults: [{ skip: 1, fault: { type: "status", status: 429, headers: { "retry-after": "1" } } }]
    }
  })
  const Model = Failover.layer([
    Anthropic.model("claude-sonnet-4-5", {
      baseUrl: server.baseUrl("anthropic"),
      keys: [KeySource.value("demo", Redacted.make("demo"))]
    })
  ])
  const Log = ResilienceEvents.layerHandler((event) => Console.log(`  ${event._tag}`))

  const outcome = yield* Agent.run({ prompt: "What time is it in Lisbon?", toolkit: Clock }).pipe(
    Effect.provide([ClockLive, Model, Log])
  )
  yield* Console.log(outcome.text)
  yield* Console.log(
    `${outcome.turns} turns, ${outcome.toolCalls} tool call, $${outcome.costUsd?.toFixed(6)}`
  )
})

await Effect.runPromise(Effect.scoped(main))
