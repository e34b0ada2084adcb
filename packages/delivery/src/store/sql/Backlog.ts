/** The stored events: written, read in order, removed, counted, and made dead letters. */
import { Context, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { Statement } from "effect/sql"
import * as Letter from "../DeadLetter.ts"
import type { Burial, Service } from "../DeliveryStore.ts"
import * as Letters from "./Letters.ts"
import { insertWith, maxRows, unpack, unpacking } from "./Insert.ts"
import type { DeadRecord, OutboxRecord } from "./Records.ts"
import { deadRecord, letterOf, maxDetail, rowOf } from "./Records.ts"
import type { Tables } from "./Tables.ts"
import { chunks, inChunks, nonEmpty } from "./Tables.ts"

type Backlog = Pick<
  Service,
  | "insert"
  | "insertIn"
  | "inTransaction"
  | "head"
  | "remove"
  | "rejected"
  | "bury"
  | "subjects"
  | "totals"
  | "oldest"
>

/** Publishers that one statement reads. SQLite takes 500 parts of a union. */
const lanesOfRead = 100

interface Born {
  readonly born: number | string | null
}

export const make = (tables: Tables, limits: Letters.Limits): Backlog => {
  const { atomic, dead, groups, outbox, run, sql } = tables

  const firstOf = (bornOfGroup: Statement.Fragment) =>
    sql<Born>`SELECT coalesce((SELECT born FROM ${outbox} ORDER BY seq LIMIT 1), ${bornOfGroup}) AS born`
  const first =
    groups === undefined
      ? firstOf(sql`NULL`)
      : firstOf(sql`(SELECT fields ->> '$[0][5]' FROM ${groups} ORDER BY seq LIMIT 1)`)

  /** The sum of a column of the packed groups. */
  const packedOf = (column: "events" | "bytes") =>
    groups === undefined ? sql`0` : sql`(SELECT coalesce(sum(${sql(column)}), 0) FROM ${groups})`

  /** The first rows of a subject. Each publisher is read from the index: a list of them would sort all rows. */
  const read = (owned: ReadonlyArray<string>, subject: string, limit: number) => {
    const lane = (publisher: string) =>
      sql`SELECT * FROM (SELECT * FROM ${outbox} WHERE publisher = ${publisher} AND subject = ${subject}
        ORDER BY seq LIMIT ${limit}) AS lane`
    const merged = (part: ReadonlyArray<string>) => {
      const [first = "", ...rest] = part
      const lanes = rest.reduce<Statement.Fragment>(
        (all, id) => sql`${all} UNION ALL ${lane(id)}`,
        lane(first)
      )
      return Effect.map(
        sql<OutboxRecord>`SELECT * FROM (${lanes}) AS lanes ORDER BY seq LIMIT ${limit}`,
        (records) => records.map(rowOf)
      )
    }
    if (owned.length <= lanesOfRead) return merged(owned)
    return Effect.map(Effect.forEach(inChunks(owned, lanesOfRead), merged), (parts) =>
      parts
        .flat()
        .sort((a, b) => a.seq - b.seq)
        .slice(0, limit)
    )
  }

  return {
    insert: (publisher, rows) =>
      rows.length === 0
        ? Effect.void
        : rows.length <= maxRows
          ? Effect.asVoid(run(insertWith(tables, sql, publisher, rows)))
          : Effect.asVoid(atomic(chunks(rows, (part) => insertWith(tables, sql, publisher, part)))),
    insertIn: (publisher, row, committed) =>
      Effect.flatMap(SqlClient.SqlClient, (client) => {
        const raw = client.withoutTransforms()
        const insert = Effect.andThen(
          insertWith(tables, raw, publisher, [row]),
          client.afterCommit(committed)
        )
        return run(
          Effect.flatMap(Effect.serviceOption(client.transactionService), (transaction) =>
            Option.isSome(transaction) ? insert : client.withTransaction(insert)
          )
        )
      }),
    inTransaction: Effect.withFiber((fiber) =>
      Effect.succeed(Option.isSome(Context.getOption(fiber.context, sql.transactionService)))
    ),
    head: (owned, subject, limit) =>
      run(
        Effect.gen(function* () {
          // Asked first: what is packed later is younger than all that is read now.
          const { isEmpty, some } = yield* unpacking(tables)
          const first = yield* read(owned, subject, limit)
          if (isEmpty || first.length === limit) return first
          while (true) {
            const isMoved = yield* some
            // One row may be among those that were moved; a longer read waits for all of them.
            if (isMoved && limit > 1) continue
            const rows = yield* read(owned, subject, limit)
            if (!isMoved || rows.length === limit) return rows
          }
        })
      ),
    remove: (seqs) =>
      Effect.asVoid(
        run(
          Effect.andThen(
            // A repetition of an event is dropped while the event is there.
            unpack(tables),
            chunks(seqs, (part) => sql`DELETE FROM ${outbox} WHERE ${sql.in("seq", part)}`)
          )
        )
      ),
    rejected: (seq, rejections, refusal) =>
      Effect.asVoid(
        run(
          sql`UPDATE ${outbox} SET rejections = ${rejections}, refusal = ${refusal.slice(0, maxDetail)}
          WHERE seq = ${seq}`
        )
      ),
    bury: (which, why) =>
      atomic(
        why.reason === "shed"
          ? bury(tables, which, why)
          : Effect.andThen(Letters.room(tables, limits), bury(tables, which, why))
      ),
    subjects: (publisher, limit) =>
      // Jumps from one subject to the next in the index: a plain DISTINCT would read every row.
      run(
        Effect.map(
          Effect.andThen(
            unpack(tables),
            sql<{ readonly subject: string }>`WITH RECURSIVE lanes(subject) AS (
            SELECT min(subject) FROM ${outbox} WHERE publisher = ${publisher}
            UNION ALL
            SELECT (SELECT min(subject) FROM ${outbox} WHERE publisher = ${publisher} AND subject > lanes.subject)
            FROM lanes WHERE lanes.subject IS NOT NULL
          ) SELECT subject FROM lanes WHERE subject IS NOT NULL LIMIT ${limit}`
          ),
          (rows) => rows.map(({ subject }) => subject)
        )
      ),
    totals: run(
      Effect.map(
        sql<Record<"events" | "bytes" | "packed" | "packed_bytes" | "dead", number | string>>`SELECT
          (SELECT count(*) FROM ${outbox}) AS events,
          (SELECT coalesce(sum(bytes), 0) FROM ${outbox}) AS bytes,
          ${packedOf("events")} AS packed, ${packedOf("bytes")} AS packed_bytes,
          (SELECT count(*) FROM ${dead} WHERE state = 'dead') AS dead`,
        ([row]) => ({
          events: Number(row?.events ?? 0) + Number(row?.packed ?? 0),
          bytes: Number(row?.bytes ?? 0) + Number(row?.packed_bytes ?? 0),
          dead: Number(row?.dead ?? 0)
        })
      )
    ),
    oldest: run(
      Effect.map(first, ([row]) =>
        row === undefined || row.born === null ? Option.none() : Option.some(Number(row.born))
      )
    )
  }
}

const bury = (
  tables: Tables,
  which: { readonly seqs: ReadonlyArray<number> } | { readonly oldest: number },
  why: Burial
) =>
  Effect.gen(function* () {
    const { dead, outbox, sql } = tables
    // A repetition of an event is dropped while the event is there.
    yield* unpack(tables)
    const found = yield* "oldest" in which
      ? sql<OutboxRecord>`SELECT * FROM ${outbox} ORDER BY seq LIMIT ${which.oldest}`
      : sql<OutboxRecord>`SELECT * FROM ${outbox} WHERE ${sql.in("seq", which.seqs)} ORDER BY seq`
    const rows = found.map(rowOf)
    yield* chunks(rows, (part) =>
      Effect.gen(function* () {
        const keys = part.map(({ id }) => Letter.outboxKey(id))
        const before = yield* sql<DeadRecord>`SELECT * FROM ${dead} WHERE ${sql.in("letter", keys)}`
        const known = new Map(before.map((record) => [record.letter, letterOf(record)]))
        if (known.size > 0) yield* sql`DELETE FROM ${dead} WHERE ${sql.in("letter", [...known.keys()])}`
        const letters = part.map((row) => {
          const key = Letter.outboxKey(row.id)
          return deadRecord(
            { ...row, ...why, key, source: "outbox", attempts: row.rejections },
            known.get(key)
          )
        })
        // A row and its dead letter change places in one transaction.
        yield* sql`INSERT INTO ${dead} ${sql.insert(nonEmpty(letters))}`
        yield* sql`DELETE FROM ${outbox} WHERE ${sql.in(
          "seq",
          part.map(({ seq }) => seq)
        )}`
      })
    )
    return {
      events: rows.length,
      bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
      which: rows.slice(0, 100).map(({ id, subject }) => ({ id, subject }))
    }
  })
