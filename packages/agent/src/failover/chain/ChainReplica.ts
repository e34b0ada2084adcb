/**
 * The cooldowns of a chain as records of a `ChainStore`: one `ChainRecord` per scope, and the local cooldowns that
 * follow them. Synchronous, so that no call runs in between. `ChainSync` does the asynchronous part.
 *
 * `note` records local changes. `meet` merges them with the store, applies the changes of other processes to the
 * local cooldowns, and returns the writes that the store needs.
 *
 * **Ids** in the store are the names of a scope, shortened, and a fingerprint: the first 8 hexadecimal digits of a
 * SHA-256. The hash covers a fixed text, the full names and, for a scope of a key, the key's value. A new key under
 * an old name therefore has another id. These 32 bits do not reveal a long random key.
 */
import type { ResilienceEvents } from "@outlast/resilience"
import { Effect, HashMap, MutableRef, Redacted } from "effect"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { ChainRecord, Now } from "./ChainRecord.ts"
import * as Record from "./ChainRecord.ts"
import type { ChainStoreEvent } from "./ChainStoreEvent.ts"
import type { Cooldowns, Entry } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"

/** A target with the value of its key. The value is used for the fingerprint and not kept. */
export interface KeyedTarget {
  readonly ref: TargetRef
  readonly key: Redacted.Redacted | undefined
}

// -----------------------------------------------------------------------------
// Scopes
// -----------------------------------------------------------------------------

/** A scope that a cooldown of this chain can cover. */
export interface OwnScope {
  readonly scope: Scope
  /** One of the targets in the scope. */
  readonly target: TargetRef
}

/** The scopes of a chain and their ids in a store. */
export interface OwnScopes {
  readonly byId: ReadonlyMap<string, OwnScope>
  readonly idOf: (scope: Scope, target: TargetRef) => string | undefined
}

export const ownScopes = (targets: ReadonlyArray<KeyedTarget>): Effect.Effect<OwnScopes> =>
  Effect.gen(function* () {
    const byId = new Map<string, OwnScope>()
    const ids = new Map<string, string>()
    for (const { ref, key } of targets) {
      for (const scope of Cool.scopes) {
        const ofKey = scope === "key" || scope === "key+model"
        const id = yield* storeId(Cool.idOf(scope, ref), ofKey ? key : undefined)
        ids.set(`${scope} ${ref.id}`, id)
        if (!byId.has(id)) byId.set(id, { scope, target: ref })
      }
    }
    return { byId, idOf: (scope, { id }) => ids.get(`${scope} ${id}`) }
  })

const storeId = (names: string, key: Redacted.Redacted | undefined): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => {
      const text = JSON.stringify([
        "outlast/chain-store",
        names,
        key === undefined ? "" : Redacted.value(key)
      ])
      return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))
    }),
    (digest) => {
      const print = Array.from(new Uint8Array(digest, 0, 4), (byte) => byte.toString(16).padStart(2, "0"))
      // The id is short and plain enough for a file name.
      return `${names.replace(/[^A-Za-z0-9.+-]+/g, "_").slice(1, 65)}-${print.join("")}`
    }
  )

// -----------------------------------------------------------------------------
// Replica
// -----------------------------------------------------------------------------

/** One compare-and-set of the store. */
interface Write {
  readonly id: string
  readonly expected: string | undefined
  readonly value: string | undefined
}

interface Read {
  readonly value: string
  readonly record: ReturnType<typeof Record.decode>
}

export class Replica {
  readonly #own: OwnScopes
  readonly #cooldowns: MutableRef.MutableRef<Cooldowns>
  /** Records by id. Bounded by the number of scopes of the chain. */
  readonly #records = new Map<string, ChainRecord>()
  /** Values that the store had in the last round. An unchanged value is not decoded again. */
  #last: ReadonlyMap<string, Read> = new Map()

  constructor(own: OwnScopes, cooldowns: MutableRef.MutableRef<Cooldowns>) {
    this.#own = own
    this.#cooldowns = cooldowns
  }

  /** Records cooldowns that were opened or cleared here. Returns false when nothing changed. */
  note(before: Cooldowns, after: Cooldowns, startedAt: number | undefined, now: Now): boolean {
    let isNews = false
    const take = ({ scope, target }: Entry, change: (known: ChainRecord) => ChainRecord): void => {
      const id = this.#own.idOf(scope, target)
      if (id === undefined) return
      this.#records.set(id, change(this.#records.get(id) ?? Record.empty))
      isNews = true
    }
    for (const [id, entry] of HashMap.entries(after)) {
      const was = Cool.entryOf(before, id)
      // A probe of a target changes neither the start nor the end of its cooldown: other processes need not know.
      if (was?.since === entry.since && was.until === entry.until) continue
      take(entry, (known) => Record.opened(known, entry, now))
    }
    for (const [id, entry] of HashMap.entries(before)) {
      if (!HashMap.has(after, id))
        take(entry, (known) => Record.cleared(known, startedAt ?? entry.since, now))
    }
    return isNews
  }

  /**
   * Merges the store's records with the local ones. Returns events about the changes, and the writes that the store
   * needs.
   */
  meet(stored: ReadonlyMap<string, string>, now: Now) {
    const news: Array<ResilienceEvents.NoTime<ChainStoreEvent>> = []
    const writes: Array<Write> = []
    const read = this.#decode(stored, news)
    for (const [id, own] of this.#own.byId) {
      const { value: expected, record: theirs } = read.get(id) ?? { value: undefined, record: "none" }
      // A newer record may hold more than this version understands, so it is never overwritten.
      if (theirs === "newer") continue
      const known = this.#records.get(id)
      if (known === undefined && typeof theirs === "string") continue
      const joined = Record.join(known ?? Record.empty, typeof theirs === "string" ? Record.empty : theirs)
      if (Record.isForgotten(joined, now.wall)) {
        this.#records.delete(id)
        if (expected !== undefined) writes.push({ id, expected, value: undefined })
        continue
      }
      this.#records.set(id, joined)
      news.push(...this.#follow(own, known?.cooldown, joined.cooldown, now))
      if (typeof theirs === "string" || !Record.isSame(joined, theirs))
        writes.push({ id, expected, value: Record.encode(joined) })
    }
    for (const [id, { value, record }] of read) {
      const isForeign = typeof record !== "string" && !this.#own.byId.has(id)
      if (isForeign && Record.isForgotten(record, now.wall))
        writes.push({ id, expected: value, value: undefined })
    }
    return { news, writes }
  }

  #decode(stored: ReadonlyMap<string, string>, news: Array<ResilienceEvents.NoTime<ChainStoreEvent>>) {
    const all = new Map<string, Read>()
    for (const [id, value] of stored) {
      const last = this.#last.get(id)
      const read = last?.value === value ? last : { value, record: Record.decode(value) }
      if (read !== last && typeof read.record === "string")
        news.push({ _tag: "ChainRecordIgnored", record: id.slice(0, 200), reason: read.record })
      all.set(id, read)
    }
    this.#last = all
    return all
  }

  /** Applies a change of a record to the local cooldowns. */
  #follow(
    { scope, target }: OwnScope,
    known: Record.Stored | undefined,
    cooldown: Record.Stored | undefined,
    now: Now
  ): ReadonlyArray<ResilienceEvents.NoTime<ChainStoreEvent>> {
    if (Record.isSameCooldown(known, cooldown)) return []
    const before = MutableRef.get(this.#cooldowns)
    const local = Cool.entryOf(before, Cool.idOf(scope, target))
    if (cooldown === undefined) {
      MutableRef.set(
        this.#cooldowns,
        Cool.reset(before, (entry) => entry === local)
      )
      return local !== undefined && local.until > now.monotonic
        ? [{ _tag: "CooldownLifted", scope, target }]
        : []
    }
    const { streak, named, looks, failure } = cooldown
    const times = Record.timesOf(cooldown, now)
    MutableRef.set(
      this.#cooldowns,
      Cool.adopt(before, { scope, target, streak, named, looks, failure, probe: "none", ...times })
    )
    if (times.until <= now.monotonic) return []
    const left = times.until === Infinity ? undefined : times.until - now.monotonic
    return [{ _tag: "CooldownLearned", scope, target, reason: failure.reason._tag, length: left }]
  }
}
