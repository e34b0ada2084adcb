/**
 * Stores cooldowns beyond the life of a process, or shares them between processes: a small map of strings with
 * compare-and-set. `ChainRecord` defines the values, `ChainSync` reads and writes them.
 *
 * - {@link memory}: shared by the layers of one process
 * - `KeyValueChainStore`: files, SQLite and every other `KeyValueStore` of `effect/persistence`
 * - `RedisChainStore`: shared by processes on several machines
 *
 * The last two are in `@outlast/agent/stores`, because they need modules of `effect` that are not stable.
 *
 * **Limits.** A store holds no keys: ids are names with a fingerprint (see `ChainReplica`).
 */
import { Data, Effect, Stream } from "effect"
import type { Scope } from "effect"
import * as Kind from "../../options/Kind.ts"
import * as Redaction from "../../secrets/Redaction.ts"

/**
 * Fails with this when the store cannot be reached. Calls never see the error: `ChainSync` publishes it as an event.
 */
export class ChainStoreError extends Data.TaggedError("ChainStoreError")<{
  readonly operation: "open" | "load" | "swap"
  readonly cause: unknown
}> {
  override get message(): string {
    const why = typeof this.cause === "string" ? this.cause : messageOf(this.cause)
    return Redaction.scrub(`${this.operation}: ${why}`, 200)
  }
}

const messageOf = (cause: unknown): string => {
  const said = cause instanceof Error ? cause.message : ""
  return said === "" ? "it failed" : said
}

/** A connection to a store. All effects are interruptible. */
export interface Connection {
  /** All values by id. */
  readonly load: Effect.Effect<ReadonlyMap<string, string>, ChainStoreError>
  /**
   * Sets a value if the present one is `expected`. `undefined` means that there is no value. Returns false if the
   * present value is another one. Ids are at most 80 letters, digits and `.`, `_`, `+`, `-`. A value is never the
   * empty string.
   */
  readonly swap: (
    id: string,
    expected: string | undefined,
    value: string | undefined
  ) => Effect.Effect<boolean, ChainStoreError>
  /**
   * Emits an element when another process may have changed a value. These are only hints: the store is also read
   * regularly.
   */
  readonly changes: Stream.Stream<unknown, unknown>
}

export interface ChainStore {
  /** Opens a connection that lives as long as the scope. After a failure it is closed, and another one is opened. */
  readonly open: Effect.Effect<Connection, ChainStoreError, Scope.Scope>
}

/** A store, for the options that take one. */
export const check = Kind.having("a ChainStore, for example ChainStore.memory()", "open")

/** A store in the memory of this process. Layers that share it learn each other's changes within a second. */
export const memory = (): ChainStore => {
  const values = new Map<string, string>()
  return {
    open: Effect.succeed({
      load: Effect.sync(() => new Map(values)),
      swap: (id, expected, value) =>
        Effect.sync(() => {
          if (values.get(id) !== expected) return false
          if (value === undefined) values.delete(id)
          else values.set(id, value)
          return true
        }),
      changes: Stream.empty
    })
  }
}
