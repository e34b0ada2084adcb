/**
 * The store in memory, for tests and for programs that accept that a restart loses the backlog. Same contract as
 * `SqlStore`. An instance is shared by all that use the layer. `insertIn` stores at the commit of the caller's
 * transaction.
 */
import { Duration, Effect, Layer, Option } from "effect"
import * as Options from "@outlast/resilience/Options"
import { SqlClient } from "effect/sql"
import * as Letter from "./DeadLetter.ts"
import type { DeadLetter, Filter, NewDeadLetter } from "./DeadLetter.ts"
import * as Event from "../Event.ts"
import type { Publisher } from "./Publisher.ts"
import { released } from "./Publisher.ts"
import type { DeadOptions, NewRow, Row, Service } from "./DeliveryStore.ts"
import { deadChecks, deadDefaults, deadLettersFull, DeliveryStore, replayPublisher } from "./DeliveryStore.ts"

interface Stored extends Row {
  readonly publisher: string
}

/** A store for the life of the layer. Throws an `InvalidOption` for an option that is not allowed. */
export const layer = (options: MemoryOptions = {}): Layer.Layer<DeliveryStore> =>
  Layer.effect(
    DeliveryStore,
    Effect.sync(() => make(options))
  )

interface MemoryOptions {
  /** How many dead letters are kept, and for how long. */
  readonly deadLetters?: DeadOptions | undefined
}

/** An empty store. */
const make = (options: MemoryOptions = {}): Service => {
  Options.fields("DeliveryStore", options, { deadLetters: Options.is.object(deadChecks) })
  const {
    cap = deadDefaults.cap,
    ttl: kept = deadDefaults.ttl,
    whenFull = deadDefaults.whenFull
  } = options.deadLetters ?? {}
  const ttl = Duration.toMillis(kept)
  /** Rows by `seq`, in the order of insertion, because `seq` only grows. */
  const rows = new Map<number, Stored>()
  const ids = new Set<string>()
  /** Sequences of a publisher's subject, in order. */
  const lanes = new Map<string, Map<string, Set<number>>>()
  const publishers = new Map<string, Publisher>()
  const letters = new Map<number, DeadLetter>()
  const keys = new Map<string, number>()
  let lastSeq = 0
  let lastNumber = 0

  /** A letter that was not replayed, and did not make room, is the only copy of its event. */
  const mustStay = ({ reason, state }: DeadLetter): boolean => state === "dead" && reason !== "shed"
  const room = Effect.suspend(() =>
    whenFull === "fail" && [...letters.values()].filter(mustStay).length >= cap
      ? Effect.fail(deadLettersFull(cap))
      : Effect.void
  )

  const insert = (publisher: string, all: ReadonlyArray<NewRow>): void => {
    for (const row of all) {
      if (ids.has(row.id)) continue
      const seq = ++lastSeq
      ids.add(row.id)
      // A copy: the caller may use its buffer again.
      rows.set(seq, { ...row, body: row.body.slice(), headers: { ...row.headers }, seq, publisher })
      let subjects = lanes.get(publisher)
      if (subjects === undefined) lanes.set(publisher, (subjects = new Map()))
      const lane = subjects.get(row.subject)
      if (lane === undefined) subjects.set(row.subject, new Set([seq]))
      else lane.add(seq)
    }
  }

  const remove = (seqs: ReadonlyArray<number>): void => {
    for (const seq of seqs) {
      const row = rows.get(seq)
      if (row === undefined) continue
      rows.delete(seq)
      ids.delete(row.id)
      const subjects = lanes.get(row.publisher)
      const lane = subjects?.get(row.subject)
      lane?.delete(seq)
      if (lane?.size === 0) subjects?.delete(row.subject)
      if (subjects?.size === 0) lanes.delete(row.publisher)
    }
  }

  const write = (letter: NewDeadLetter): void => {
    const before = keys.get(letter.key)
    const known = before === undefined ? undefined : letters.get(before)
    if (before !== undefined) letters.delete(before)
    const number = ++lastNumber
    const { key, source, reason, detail, attempts, at, id, subject, body, headers } = letter
    letters.set(number, {
      key,
      id,
      subject,
      body,
      headers,
      source,
      reason,
      detail,
      attempts,
      at,
      number,
      replays: known?.replays ?? 0,
      state: "dead",
      history: Letter.append(known?.history ?? [], { at, what: "died", reason, detail })
    })
    keys.set(key, number)
  }

  const drop = (letter: DeadLetter): void => {
    letters.delete(letter.number)
    keys.delete(letter.key)
  }

  const selected = (filter: Filter): Array<DeadLetter> =>
    [...letters.values()].filter((letter) => isMeant(filter, letter))

  return {
    probe: Effect.void,
    insert: (publisher, all) => Effect.sync(() => insert(publisher, all)),
    insertIn: (publisher, row, committed) =>
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        sql.afterCommit(
          Effect.andThen(
            Effect.sync(() => insert(publisher, [row])),
            committed
          )
        )
      ),
    inTransaction: Effect.succeed(false),
    head: (owned, subject, limit) =>
      Effect.sync(() => {
        const found: Array<Row> = []
        for (const publisher of owned) {
          let taken = 0
          for (const seq of lanes.get(publisher)?.get(subject) ?? []) {
            if (taken++ === limit) break
            const stored = rows.get(seq)
            if (stored === undefined) continue
            const { publisher: _, ...row } = stored
            found.push(row)
          }
        }
        return found.sort((a, b) => a.seq - b.seq).slice(0, limit)
      }),
    remove: (seqs) => Effect.sync(() => remove(seqs)),
    rejected: (seq, rejections, refusal) =>
      Effect.sync(() => {
        const row = rows.get(seq)
        if (row !== undefined) rows.set(seq, { ...row, rejections, refusal })
      }),
    bury: (which, { reason, detail, at }) =>
      Effect.gen(function* () {
        if (reason !== "shed") yield* room
        const seqs = "oldest" in which ? [...rows.keys()].slice(0, which.oldest) : which.seqs
        const found = seqs.flatMap((seq) => rows.get(seq) ?? [])
        for (const row of found) {
          const key = Letter.outboxKey(row.id)
          write({ ...row, key, source: "outbox", reason, detail, attempts: row.rejections, at })
        }
        remove(found.map(({ seq }) => seq))
        return {
          events: found.length,
          bytes: found.reduce((sum, { bytes }) => sum + bytes, 0),
          which: found.slice(0, 100).map(({ id, subject }) => ({ id, subject }))
        }
      }),
    subjects: (publisher, limit) =>
      Effect.sync(() => [...(lanes.get(publisher)?.keys() ?? [])].slice(0, limit)),
    totals: Effect.sync(() => {
      let bytes = 0
      for (const row of rows.values()) bytes += row.bytes
      let dead = 0
      for (const { state } of letters.values()) dead += state === "dead" ? 1 : 0
      return { events: rows.size, bytes, dead }
    }),
    oldest: Effect.sync(() => {
      const [first] = rows.values()
      return first === undefined ? Option.none() : Option.some(first.at)
    }),

    hold: (id, holder) => Effect.sync(() => void publishers.set(id, { id, holder, beat: 0 })),
    beat: (holder) =>
      Effect.sync(() => {
        const held = [...publishers.values()].filter((one) => one.holder === holder)
        for (const one of held) publishers.set(one.id, { ...one, beat: one.beat + 1 })
        return held.map(({ id }) => id)
      }),
    others: (holder) =>
      Effect.sync(() => {
        for (const id of lanes.keys()) {
          if (!publishers.has(id)) publishers.set(id, { id, holder: "", beat: released })
        }
        return [...publishers.values()]
          .filter((one) => one.holder !== holder)
          .sort((a, b) => (a.id < b.id ? -1 : 1))
      }),
    claim: (seen, holder) =>
      Effect.sync(() => {
        const now = publishers.get(seen.id)
        if (now === undefined || now.holder !== seen.holder || now.beat !== seen.beat) return false
        publishers.set(seen.id, { id: seen.id, holder, beat: 0 })
        return true
      }),
    release: (holder) =>
      Effect.sync(() => {
        for (const one of publishers.values()) {
          if (one.holder !== holder) continue
          if (one.id !== replayPublisher && !lanes.has(one.id)) publishers.delete(one.id)
          else publishers.set(one.id, { id: one.id, holder: "", beat: released })
        }
      }),
    forget: (id, holder) =>
      Effect.sync(() => {
        if (publishers.get(id)?.holder === holder && !lanes.has(id)) publishers.delete(id)
      }),

    writeDead: (letter) =>
      Effect.gen(function* () {
        if (keys.has(letter.key)) return false
        yield* room
        write(letter)
        return true
      }),
    listDead: (filter, { limit, below = Infinity }) =>
      Effect.sync(() =>
        selected(filter)
          .filter(({ number }) => number < below)
          .toReversed()
          .slice(0, limit)
      ),
    showDead: (id) => Effect.sync(() => Option.fromNullishOr(selected({ ids: [id], replayed: true }).at(-1))),
    replayDead: (filter, limit, { at, by }) =>
      Effect.sync(() => {
        const taken = selected(filter).slice(0, limit)
        const replayed = taken.map((letter) => {
          const { number, id, subject, body, headers } = letter
          const brokerId = Letter.replayId(letter)
          insert(replayPublisher, [
            {
              id,
              subject,
              body,
              headers,
              brokerId,
              bytes: Event.sizeOf(letter),
              at,
              rejections: 0,
              refusal: ""
            }
          ])
          letters.set(number, {
            ...letter,
            state: "replayed",
            replays: letter.replays + 1,
            history: Letter.append(letter.history, { at, what: "replayed", by, brokerId })
          })
          return { number, id, subject, brokerId }
        })
        if (!publishers.has(replayPublisher)) {
          publishers.set(replayPublisher, { id: replayPublisher, holder: "", beat: released })
        }
        return replayed
      }),
    purgeDead: (filter) =>
      Effect.sync(() => {
        const taken = selected(filter)
        for (const letter of taken) drop(letter)
        return taken.length
      }),
    countDead: (filter) => Effect.sync(() => selected(filter).length),
    trimDead: (now) =>
      Effect.sync(() => {
        const old = [...letters.values()].filter(({ at }) => at < now - ttl)
        for (const letter of old) drop(letter)
        const mayGo = [...letters.values()].filter((letter) => whenFull === "shedOldest" || !mustStay(letter))
        const excess = mayGo.slice(0, Math.max(0, letters.size - cap))
        for (const letter of excess) drop(letter)
        return old.length + excess.length
      })
  }
}

const isMeant = (filter: Filter, letter: DeadLetter): boolean => {
  const { ids, subject, reason, since, before, replayed } = filter
  return (
    (ids === undefined || ids.includes(letter.id) || ids.includes(String(letter.number))) &&
    (subject === undefined || Event.matches(subject, letter.subject)) &&
    (reason === undefined || reason === letter.reason) &&
    (since === undefined || letter.at >= since) &&
    (before === undefined || letter.at < before) &&
    (replayed === true || letter.state === "dead")
  )
}
