/**
 * Keeps the state of a chain's keys across restarts, and lets an operator reset a key.
 *
 *     npm run targets -w examples
 *
 * The first of two keys is out of money. The chain finds out once, and its store keeps that across a restart. Then an
 * operator tops up the account and resets the key. `ChainStore.memory` stands in for a durable store:
 * `KeyValueChainStore` over SQLite (see `sqlite.ts`) or files, or `RedisChainStore`.
 */
import { Console, Duration, Effect, Layer, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { ChainStore, Failover, KeySource, Targets } from "@outlast/agent"
import { ScriptedModel } from "@outlast/testing"

const key = (name: string) => KeySource.value(name, Redacted.make(`sk-${name}-not-a-real-key`))

const main = Effect.gen(function* () {
  const model = yield* ScriptedModel.make({
    provider: "anthropic",
    model: "claude-sonnet-4-5",
    keys: [key("FIRST"), key("SECOND")],
    plan: { answers: [{ text: "Yes." }], faults: [{ fault: { type: "status", status: 402 } }] }
  })
  const store = ChainStore.memory()
  /** One run of the program, from start to exit. */
  const life = <A, E>(program: Effect.Effect<A, E, LanguageModel.LanguageModel | Targets.Targets>) =>
    Effect.provide(program, Layer.fresh(Failover.layer([model], { store })))

  const ask = LanguageModel.generateText({ prompt: "Are you there?" })
  const list = Effect.gen(function* () {
    const targets = yield* Targets.Targets
    for (const { target, state, availableIn, message } of yield* targets.list) {
      const minutes = availableIn === undefined ? 0 : Math.round(Duration.toMinutes(availableIn))
      yield* Console.log(
        `  ${target.key}: ${state}${minutes === 0 ? "" : `, ${message}; back in ${minutes} min`}`
      )
    }
  })

  yield* Console.log("first life")
  yield* life(Effect.andThen(ask, list))
  yield* Console.log("second life")
  yield* life(
    Effect.gen(function* () {
      yield* ask
      yield* list
      const targets = yield* Targets.Targets
      yield* targets.reset({ key: "FIRST" })
      yield* Console.log("after the reset")
      yield* ask
      yield* list
    })
  )
  const asked = (yield* model.requests).map(({ key }) => key?.split("-")[1])
  yield* Console.log(`asked: ${asked.join(", ")}`)
})

await Effect.runPromise(main)
