/**
 * Cooldowns that outlive the process, in a SQLite file.
 *
 *     npm run sqlite -w examples
 *
 * The first of two keys is out of money. The first process finds out and ends; the second one knows it from the file and
 * never asks that key. The database runs in a worker thread, and calls read only memory: a slow disk delays no call.
 *
 * A `KeyValueStore` cannot compare and set across processes. Where two processes write the same cooldown in the same
 * moment, one write may be lost until the next round, half a second later.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Console, Duration, Effect, Layer, Redacted } from "effect"
import { LanguageModel } from "effect/ai"
import { KeyValueStore } from "effect/persistence"
import { Failover, KeySource, Targets } from "@outlast/agent"
import { KeyValueChainStore } from "@outlast/agent/stores"
import { SqliteClient } from "@outlast/node"
import { ScriptedModel } from "@outlast/testing"

const key = (name: string) => KeySource.value(name, Redacted.make(`sk-${name}-not-a-real-key`))

const program = (filename: string) =>
  Effect.gen(function* () {
    const model = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "claude-sonnet-4-5",
      keys: [key("FIRST"), key("SECOND")],
      plan: {
        answers: [{ text: "Yes." }],
        faults: [
          {
            times: "always",
            when: { key: "sk-FIRST-not-a-real-key" },
            fault: { type: "status", status: 402 }
          }
        ]
      }
    })
    const store = KeyValueChainStore.make({
      keyValueStore: KeyValueStore.layerSql().pipe(
        Layer.provide(SqliteClient.layer({ filename, store: "cooldowns" }))
      )
    })
    const main = Effect.gen(function* () {
      const targets = yield* Targets.Targets
      for (const { availableIn, target } of yield* targets.list) {
        if (availableIn === undefined) continue
        yield* Console.log(
          `  ${target.key} is out for another ${Math.round(Duration.toMinutes(availableIn))} min`
        )
      }
      yield* LanguageModel.generateText({ prompt: "Are you there?" })
    })
    yield* Effect.provide(main, Failover.layer([model], { store }))
    const asked = (yield* model.requests).map(({ key }) => key?.split("-")[1])
    yield* Console.log(`  asked: ${asked.join(", ")}`)
  })

const [filename] = process.argv.slice(2)
if (filename === undefined) {
  const folder = mkdtempSync(join(tmpdir(), "outlast-example-"))
  for (const name of ["first process", "second process"]) {
    console.log(name)
    await once(fork(import.meta.filename, [join(folder, "state.db")]), "exit")
  }
  rmSync(folder, { recursive: true })
} else {
  await Effect.runPromise(program(filename))
}
