/**
 * Tests a program whose provider is rate limited for 40 seconds, in virtual time.
 *
 *     npm run virtual-time -w examples
 */
import { Console, Duration, Effect, Fiber } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, RecoveryPolicy } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"

const main = Effect.gen(function* () {
  const model = yield* ScriptedModel.make({
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    plan: {
      answers: [{ text: "Here I am again." }],
      faults: [{ fault: { type: "status", status: 429, headers: { "retry-after": "40" } } }]
    }
  })
  const Model = Failover.layer([model], { policy: RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive) })

  const fiber = yield* LanguageModel.generateText({ prompt: "Are you there?" }).pipe(
    Effect.provide(Model),
    Effect.forkChild
  )
  yield* TestClock.adjust("40 seconds")
  const response = yield* Fiber.join(fiber)

  const times = (yield* model.requests).map(({ time }) => Duration.format(Duration.millis(time)))
  yield* Console.log(`${response.text} The requests were sent at ${times.join(" and ")}.`)
})

await Effect.runPromise(main.pipe(Effect.provide(TestClock.layer())))
