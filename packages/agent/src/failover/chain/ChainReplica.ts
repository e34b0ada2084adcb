/**
 * What a chain knows of its cooldowns in a form that a `ChainStore` can hold: one `ChainRecord` for each scope, and
 * the local cooldowns that follow them. Synchronous, so that no call comes between: `ChainSync` does the waiting.
 *
 * `note` takes down what was done here; `meet` joins it with what the store has, does to the local cooldowns what
 * others did, and gives what the store has to be told.
 *
 * **Ids** in the store are the scopes' names, cut, and the first 8 hexadecimal digits of the SHA-256 of a fixed text,
 * the whole names and, for a scope of a key, its value: a new key under an old name is another key. From 32 bits
 * nobody gets a long random key back.
 */
import type { ResilienceEvents } from "@outlast/resilience"
import { Effect, MutableRef, Redacted } from "effect"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { ChainRecord, Now } from "./ChainRecord.ts"
import * as Record from "./ChainRecord.ts"
import type { ChainStoreEvent } from "./ChainStoreEvent.ts"
import type { Cooldowns, Entry } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"
import type { Scope } from "../decide/RecoveryPolicy.ts"

/** A target with the value of its key, which is not kept. */
export interface KeyedTarget {
  readonly ref: TargetRef
  readonly key: Redacted.Redacted | undefined
}

// -----------------------------------------------------------------------------
// Scopes
// -----------------------------------------------------------------------------

/** What a cooldown of this chain can cover. */
export interface OwnScope {
  readonly scope: Scope
  /** One of the targets that it covers. */
  readonly target: TargetRef
}

/** The scopes of a chain and the ids that they have in a store. */
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
      // Short and plain enough for the name of a file.
      return `${names.replace(/[^A-Za-z0-9.+-]+/g, "_").slice(1, 65)}-${print.join("")}`
    }
  )

// -----------------------------------------------------------------------------
// What is known here
// -----------------------------------------------------------------------------

/** One compare-and-set. */
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
  /** Bounded by the scopes of the chain. */
  readonly #records = new Map<string, ChainRecord>()
  /** What the store had in the last round: a value that has not changed is not decoded again. */
  #last: ReadonlyMap<string, Read> = new Map()

  constructor(own: OwnScopes, cooldowns: MutableRef.MutableRef<Cooldowns>) {
    this.#own = own
    this.#cooldowns = cooldowns
  }

  /** Takes down what was opened and cleared here. Gives whether that was anything. */
  note(before: Cooldowns, after: Cooldowns, startedAt: number | undefined, now: Now): boolean {
    let isNews = false
    const take = ({ scope, target }: Entry, change: (known: ChainRecord) => ChainRecord): void => {
      const id = this.#own.idOf(scope, target)
      if (id === undefined) return
      this.#records.set(id, change(this.#records.get(id) ?? Record.empty))
      isNews = true
    }
    for (const [id, entry] of after) {
      const was = before.get(id)
      // A probe changes neither, and concerns nobody else.
      if (was?.since === entry.since && was.until === entry.until) continue
      take(entry, (known) => Record.opened(known, entry, now))
    }
    for (const [id, entry] of before) {
      if (!after.has(id)) take(entry, (known) => Record.cleared(known, startedAt ?? entry.since, now))
    }
    return isNews
  }

  /** Joins what the store has with what is known here: what is new here, and what the store has to be told. */
  meet(stored: ReadonlyMap<string, string>, now: Now) {
    const news: Array<ResilienceEvents.NoTime<ChainStoreEvent>> = []
    const writes: Array<Write> = []
    const read = this.#decode(stored, news)
    for (const [id, own] of this.#own.byId) {
      const { value: expected, record: theirs } = read.get(id) ?? { value: undefined, record: "none" }
      // It may say more than this version understands.
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

  /** Does to the local cooldowns what was done to the record. */
  #follow(
    { scope, target }: OwnScope,
    known: Record.Stored | undefined,
    cooldown: Record.Stored | undefined,
    now: Now
  ): ReadonlyArray<ResilienceEvents.NoTime<ChainStoreEvent>> {
    if (Record.isSameCooldown(known, cooldown)) return []
    const before = MutableRef.get(this.#cooldowns)
    const local = before.get(Cool.idOf(scope, target))
    if (cooldown === undefined) {
      MutableRef.set(
        this.#cooldowns,
        Cool.reset(before, (entry) => entry === local)
      )
      return local !== undefined && local.until > now.monotonic
        ? [{ _tag: "CooldownLifted", scope, target }]
        : []
    }
    const { streak, named, failure } = cooldown
    const times = Record.timesOf(cooldown, now)
    MutableRef.set(
      this.#cooldowns,
      Cool.adopt(before, { scope, target, streak, named, failure, probe: "none", ...times })
    )
    if (times.until <= now.monotonic) return []
    const left = times.until === Infinity ? undefined : times.until - now.monotonic
    return [{ _tag: "CooldownLearned", scope, target, reason: failure.reason._tag, length: left }]
  }
}
