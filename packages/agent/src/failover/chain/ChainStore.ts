/**
 * Where cooldowns last longer than the process, or are shared by several: a small map of strings with
 * compare-and-set. What they mean is `ChainRecord`'s business, and `ChainSync` reads and writes them.
 *
 * - {@link memory}: shared by the layers of one process
 * - `KeyValueChainStore`: files, SQLite and whatever else `effect/persistence` has a `KeyValueStore` for
 * - `RedisChainStore`: shared by processes on several machines
 *
 * The last two are in `@outlast/agent/stores`, because they need modules of `effect` that are not stable.
 *
 * **What it does not do.** It holds no keys: ids are names with a fingerprint (see `ChainReplica`).
 */
import { Data, Effect, Stream } from "effect"
import type { Scope } from "effect"
import * as Kind from "../../options/Kind.ts"
import * as Redaction from "../../secrets/Redaction.ts"

/** A store could not be asked. It reaches no call: `ChainSync` reports it as an event. */
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

/** A connection to a store. Its effects can be interrupted. */
export interface Connection {
  /** All values by their ids. */
  readonly load: Effect.Effect<ReadonlyMap<string, string>, ChainStoreError>
  /**
   * Sets a value, if the present one is `expected`; `undefined` is no value. Gives whether it was. Ids are at most 80
   * letters, digits and `.`, `_`, `+`, `-`. No value is the empty string.
   */
  readonly swap: (
    id: string,
    expected: string | undefined,
    value: string | undefined
  ) => Effect.Effect<boolean, ChainStoreError>
  /** One element whenever somebody may have changed something. Hints only: the store is also read regularly. */
  readonly changes: Stream.Stream<unknown, unknown>
}

export interface ChainStore {
  /** A connection for as long as the scope. After a failure it is closed, and another one opened. */
  readonly open: Effect.Effect<Connection, ChainStoreError, Scope.Scope>
}

/** A store, for the options that take one. */
export const check = Kind.having("a ChainStore, for example ChainStore.memory()", "open")

/** In the memory of this process: what one layer learns, the others that have the same store know within a second. */
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
