/**
 * A custom policy: the default with a few changes.
 *
 *     npm run own-policy -w examples
 *
 * A server error is retried once instead of twice, no wait exceeds ten seconds, and a cut stream fails instead of being
 * continued.
 */
import { Console, Duration, Effect, Fiber, Option } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Failover, Outlast, RecoveryPolicy } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"

const { interactive } = RecoveryPolicy

const policy: RecoveryPolicy.RecoveryPolicy = {
  ...interactive,
  deadline: Duration.seconds(10),
  midStream: "fail",
  rows: { ...interactive.rows, ServerError: { ...interactive.rows.ServerError, attempts: 2 } }
}

const main = Effect.gen(function* () {
  const model = yield* ScriptedModel.make({
    provider: "openai",
    model: "gpt-4.1",
    plan: {
      answers: [{ text: "never said" }],
      faults: [{ times: "always", fault: { type: "status", status: 500 } }]
    }
  })
  const fiber = yield* LanguageModel.generateText({ prompt: "?" }).pipe(
    Effect.provide(Failover.layer([model], { policy })),
    Effect.flip,
    Effect.forkChild
  )
  yield* TestClock.adjust("10 seconds")
  const failure = Option.getOrThrow(Outlast.failureOf(yield* Fiber.join(fiber)))
  yield* Console.log(failure.message)
  yield* Console.log(`attempts: ${(yield* model.requests).length}`)
})

await Effect.runPromise(main.pipe(Effect.provide(TestClock.layer())))
