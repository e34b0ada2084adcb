/**
 * Property-tests the waits of a custom policy: in a hundred generated worlds of failing providers, in virtual time.
 *
 *     npm run property-timing -w examples
 *
 * In a test file the property is one `it.effect.prop`. Here it is a program, which also shows what a wrong policy gives.
 */
import { Arbitrary, Console, Duration, Effect, Logger } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, RecoveryPolicy } from "@outlast/agent"
import { Arbitraries, Timeline, Timing } from "@outlast/testing"

const { interactive } = RecoveryPolicy

const patient: RecoveryPolicy.RecoveryPolicy = { ...interactive, maxWait: Duration.seconds(30) }

const { RateLimit } = interactive.rows
const hasty: RecoveryPolicy.RecoveryPolicy = {
  ...interactive,
  rows: { ...interactive.rows, RateLimit: { ...RateLimit, retryAfter: "ignored", cooldown: undefined } }
}

/** No wait is longer than the deadline, all of them fit into it, and no target is asked before it wants to be. */
const waitsWell = (policy: RecoveryPolicy.RecoveryPolicy) => (world: Arbitraries.World) =>
  Effect.gen(function* () {
    const models = yield* Arbitraries.models(world)
    const call = LanguageModel.generateText({ prompt: "?" }).pipe(
      Effect.provide(Failover.layer(models, { policy }))
    )
    yield* Timing.holds(yield* Timeline.record(call), [
      Timing.neverMoreThan(policy.deadline),
      Timing.inAllAtMost(policy.deadline),
      Timing.atLeastRetryAfter
    ])
    return true
  })

const main = Effect.gen(function* () {
  for (const [name, policy] of Object.entries({ patient, hasty })) {
    const result = yield* Arbitrary.checkEffect(Arbitrary.schema(Arbitraries.World), waitsWell(policy), {
      runs: 100,
      seed: 7
    })
    if (result._tag === "Passed") yield* Console.log(`${name}: holds in ${result.runs} worlds`)
    else if (result._tag === "Falsified" && result.failure._tag === "PropertyError") {
      yield* Console.log(`${name}: ${String(result.failure.error)}`)
    } else yield* Console.log(`${name}: ${Arbitrary.formatCheckFailure(result)}`)
  }
})

await Effect.runPromise(main.pipe(Effect.provide(Logger.layer([]))))
