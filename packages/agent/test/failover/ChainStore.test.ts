import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Failover, FailoverReason } from "@outlast/agent"
import * as ChainStore from "#agent/failover/chain/ChainStore"
import * as KeyValueChainStore from "#agent/failover/chain/KeyValueChainStore"
import { SqliteClient } from "@outlast/node/sqlite"
import { InvalidOption, StoreError } from "@outlast/resilience"
import { Context, Effect, FileSystem, Layer } from "effect"
import { KeyValueStore } from "effect/persistence"
import { LanguageModel } from "effect/ai"
import { answer, failure, key, played } from "../support.ts"
import { contract } from "./ChainStoreContract.ts"

const directory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped()).pipe(
  Effect.provide(NodeServices.layer)
)

contract(
  "ChainStore.memory",
  Effect.sync(() => {
    const store = ChainStore.memory()
    return [store, store]
  })
)

contract(
  "KeyValueChainStore in memory",
  Effect.map(Layer.build(KeyValueStore.layerMemory), (context) => {
    const shared = Layer.succeed(
      KeyValueStore.KeyValueStore,
      Context.get(context, KeyValueStore.KeyValueStore)
    )
    const make = () => KeyValueChainStore.make({ keyValueStore: shared })
    return [make(), make()]
  })
)

contract(
  "KeyValueChainStore in files",
  Effect.map(directory, (path) => {
    const files = KeyValueStore.layerFileSystem(path).pipe(Layer.provide(NodeServices.layer))
    const make = () => KeyValueChainStore.make({ keyValueStore: files })
    return [make(), make()]
  })
)

contract(
  "KeyValueChainStore in a SQLite file",
  Effect.map(directory, (path) => {
    // Each build opens its own connection.
    const database = KeyValueStore.layerSql().pipe(
      Layer.provide(SqliteClient.layer({ filename: `${path}/state.db` }))
    )
    const make = () => KeyValueChainStore.make({ keyValueStore: database })
    return [make(), make()]
  })
)

describe("KeyValueChainStore", () => {
  it.effect("reports a SQLite file that cannot be opened, and opens it once it exists", () =>
    Effect.gen(function* () {
      const folder = `${yield* directory}/later`
      const database = KeyValueStore.layerSql().pipe(
        Layer.provide(SqliteClient.layer({ filename: `${folder}/state.db` }))
      )
      const store = KeyValueChainStore.make({ keyValueStore: database })
      const error = yield* Effect.flip(Effect.scoped(store.open))
      assert.instanceOf(error.cause, StoreError.StoreError)
      assert.include(error.cause.message, `${folder}/state.db`)
      const fs = yield* FileSystem.FileSystem
      yield* fs.makeDirectory(folder)
      const { swap } = yield* store.open
      assert.isTrue(yield* swap("id", undefined, "1"))
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("does not touch other keys of the store, nor other prefixes", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(KeyValueStore.layerMemory)
      const values = Context.get(context, KeyValueStore.KeyValueStore)
      const shared = Layer.succeed(KeyValueStore.KeyValueStore, values)
      yield* values.set("theirs", "1")
      const one = yield* KeyValueChainStore.make({ keyValueStore: shared }).open
      const two = yield* KeyValueChainStore.make({ keyValueStore: shared, prefix: "other:" }).open
      yield* one.swap("id", undefined, "1")
      assert.strictEqual((yield* one.load).size, 1)
      assert.strictEqual((yield* two.load).size, 0)
      assert.deepStrictEqual(yield* values.keys, ["theirs", "outlast:chain:id"])
    })
  )

  it.effect("reads an empty file again, because another process may be writing it", () =>
    Effect.gen(function* () {
      const texts = new Map([["outlast:chain:id", "1"]])
      const reads = { written: 0, empty: 0 }
      const values = KeyValueStore.makeStringOnly({
        // One record is written at the third read, the other one never.
        get: (key) =>
          Effect.sync(() =>
            key.endsWith(":never") ? (++reads.empty, "") : ++reads.written < 3 ? "" : texts.get(key)
          ),
        set: (key, value) => Effect.sync(() => void texts.set(key, value)),
        remove: (key) => Effect.sync(() => void texts.delete(key)),
        clear: Effect.void,
        size: Effect.sync(() => texts.size),
        keys: Effect.succeed(["outlast:chain:id", "outlast:chain:never"])
      })
      const keyValueStore = Layer.succeed(KeyValueStore.KeyValueStore, values)
      const { load } = yield* KeyValueChainStore.make({ keyValueStore }).open
      assert.deepStrictEqual(
        [...(yield* load)],
        [
          ["id", "1"],
          ["never", ""]
        ]
      )
      assert.deepStrictEqual(reads, { written: 3, empty: 21 })
    })
  )

  it("rejects an empty prefix", () => {
    const keyValueStore = KeyValueStore.layerMemory
    assert.throws(() => KeyValueChainStore.make({ keyValueStore, prefix: "" }), InvalidOption)
  })
})

it.live("writes the name of a key to its files, and never the key", () =>
  Effect.gen(function* () {
    const path = yield* directory
    const files = KeyValueStore.layerFileSystem(path).pipe(Layer.provide(NodeServices.layer))
    const store = KeyValueChainStore.make({ keyValueStore: files })
    const refused = Effect.fail(failure(new FailoverReason.Auth({ permanent: true })))
    const first = played({ model: "m1", keys: [key("KEY_A")], answers: [refused] })
    const second = played({ model: "m2", keys: [key("KEY_B")], answers: [answer("hello")] })
    const fs = yield* FileSystem.FileSystem
    const read = Effect.gen(function* () {
      const names = yield* fs.readDirectory(path)
      const texts = yield* Effect.forEach(names, (name) => fs.readFileString(`${path}/${name}`))
      return [...names, ...texts].join("\n")
    })
    const written = Effect.filterOrFail(read, (said) => said.includes("{")).pipe(Effect.eventually)
    const said = yield* LanguageModel.generateText({ prompt: "x" }).pipe(
      Effect.andThen(written),
      Effect.provide(Failover.layer([first, second], { store }))
    )
    assert.include(said, "KEY_A")
    assert.notInclude(said, "secret-of")
  }).pipe(Effect.provide(NodeServices.layer))
)
