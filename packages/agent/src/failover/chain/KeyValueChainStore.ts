/**
 * A `ChainStore` in any `KeyValueStore` of `effect/persistence`: files, SQLite or another database, a browser's
 * storage. One key for each scope.
 *
 * A restarted process finds its cooldowns again. Processes that share the store learn each other's cooldowns within a
 * second.
 *
 * **Limits.** A `KeyValueStore` has no atomic compare-and-set. Writes of one process run one after the other. When
 * two processes write the same scope at the same moment, one write may be lost until its process notices in the next
 * round and repeats it.
 *
 * **Example** (SQLite, by `SqliteClient` of `@outlast/node`; files)
 *
 * ```ts
 * const store = KeyValueChainStore.make({
 *   keyValueStore: KeyValueStore.layerSql().pipe(Layer.provide(SqliteClient.layer({ filename: "state.db" })))
 * })
 * const inFiles = KeyValueChainStore.make({
 *   keyValueStore: KeyValueStore.layerFileSystem("state").pipe(Layer.provide(NodeServices.layer))
 * })
 * ```
 */
import { Context, Effect, Layer, Semaphore, Stream } from "effect"
import { KeyValueStore } from "effect/persistence"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../../options/Kind.ts"
import type { ChainStore, Connection } from "./ChainStore.ts"
import { ChainStoreError } from "./ChainStore.ts"

export interface Options<E> {
  /** Layer of the store, built in the background and again after a failure. */
  readonly keyValueStore: Layer.Layer<KeyValueStore.KeyValueStore, E>
  /** Prefix of all keys. Use one for each set of chains. Default "outlast:chain:". */
  readonly prefix?: string | undefined
}

export const defaults = { prefix: "outlast:chain:" } as const

/** Number of reads of an empty record before it counts as empty. */
const mostReads = 20

const checks: Check.Checks<Options<unknown>> = {
  keyValueStore: Check.is.required(Kind.layer("a Layer of a KeyValueStore")),
  prefix: Kind.name
}

/**
 * Throws an `InvalidOption` (a `RangeError`) for a value that is not a Layer, an empty prefix and an unknown option.
 */
export const make = <E>(options: Options<E>): ChainStore => {
  Check.fields("KeyValueChainStore", options, checks)
  const { keyValueStore, prefix = defaults.prefix } = options
  // One semaphore per store, not per connection: several layers may have opened the store.
  const oneAtATime = Semaphore.makeUnsafe(1)
  return {
    open: Layer.build(keyValueStore).pipe(
      Effect.mapError((cause) => new ChainStoreError({ operation: "open", cause })),
      Effect.map((context): Connection => {
        const values = KeyValueStore.prefix(Context.get(context, KeyValueStore.KeyValueStore), prefix)
        const failed = (operation: "load" | "swap") => (cause: unknown) =>
          new ChainStoreError({ operation, cause })
        return {
          load: Effect.gen(function* () {
            const all = new Map<string, string>()
            for (const id of yield* values.keys) {
              let value = yield* values.get(id)
              // A record is never empty, but its file is empty while another process writes it.
              for (let again = 0; value === "" && again < mostReads; again++) value = yield* values.get(id)
              if (value !== undefined) all.set(id, value)
            }
            return all
          }).pipe(Effect.mapError(failed("load"))),
          swap: (id, expected, value) =>
            Effect.gen(function* () {
              if ((yield* values.get(id)) !== expected) return false
              yield* value === undefined ? values.remove(id) : values.set(id, value)
              return true
            }).pipe(Effect.mapError(failed("swap")), oneAtATime.withPermits(1)),
          changes: Stream.empty
        }
      })
    )
  }
}
