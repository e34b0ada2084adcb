/**
 * Writes events to the store.
 *
 * PostgreSQL takes the rows in one statement. On SQLite the events of a commit are packed into a few rows of the table
 * `groups`, without an index: with many subjects, a row for each event would change one page of each index for each
 * event. {@link unpack} moves them to the outbox table, in order, before anything reads it. So the groups are always
 * younger than the outbox table.
 */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { NewRow } from "../DeliveryStore.ts"
import { maxDetail, recordOf } from "./Records.ts"
import type { Tables } from "./Tables.ts"
import { nonEmpty } from "./Tables.ts"

/** Rows in one insert, at most: PostgreSQL takes 65,535 parameters, and each row has ten. */
export const maxRows = 3_000

/** A row of `groups`, at most, unless one event is larger. Each event copies its group's bodies when it is unpacked. */
const group = { events: 64, bytes: 65_536 }

/** Limits of one unpacking transaction, which may exceed them by one group. Commits wait for it, and it takes space on the disk. */
const page = { events: 1_000, bytes: 1_048_576 }

/** Stores at most {@link maxRows} events with one statement. A known id is skipped, on SQLite when it is unpacked. */
export const insertWith = (
  { groups, outbox }: Tables,
  client: SqlClient.SqlClient,
  publisher: string,
  rows: ReadonlyArray<NewRow>
): Effect.Effect<unknown, SqlError.SqlError> =>
  groups === undefined
    ? client`INSERT INTO ${outbox} ${client.insert(
        nonEmpty(rows.map((row) => recordOf(publisher, row)))
      )} ON CONFLICT (id) DO NOTHING`
    : client`INSERT INTO ${groups} ${client.insert(nonEmpty(packed(publisher, rows)))}`

/** Fields as one JSON text, bodies as one blob. */
const packed = (publisher: string, rows: ReadonlyArray<NewRow>) => {
  const groups = []
  for (const part of parts(rows)) {
    // One byte more than needed: Node binds an empty array as NULL.
    const bodies = new Uint8Array(part.reduce((sum, { body }) => sum + body.byteLength, 1))
    let start = 0
    const fields = part.map((row) => {
      const { byteLength } = row.body
      bodies.set(row.body, start)
      // SQLite counts from one.
      const at = start + 1
      start += byteLength
      const headers = JSON.stringify(row.headers)
      const { brokerId, bytes, id, rejections, subject } = row
      const refusal = row.refusal.slice(0, maxDetail)
      return [id, subject, headers, brokerId, bytes, row.at, rejections, at, byteLength, refusal]
    })
    const bytes = part.reduce((sum, row) => sum + row.bytes, 0)
    groups.push({ publisher, events: part.length, bytes, fields: JSON.stringify(fields), bodies })
  }
  return groups
}

const parts = (rows: ReadonlyArray<NewRow>): ReadonlyArray<ReadonlyArray<NewRow>> => {
  const all: Array<ReadonlyArray<NewRow>> = []
  let from = 0
  let bytes = 0
  for (const [index, row] of rows.entries()) {
    bytes += row.bytes
    if (index > from && (index - from === group.events || bytes > group.bytes)) {
      all.push(rows.slice(from, index))
      from = index
      bytes = row.bytes
    }
  }
  all.push(rows.slice(from))
  return all
}

interface GroupRecord {
  readonly seq: number
  readonly events: number
  readonly bytes: number
}

/** Moves packed events in order, up to the last one that was there when it was made. */
export interface Unpacking {
  /** True when nothing was packed. */
  readonly isEmpty: boolean
  /** Moves the next events; false when none is left. Others may move the same events at the same time. */
  readonly some: Effect.Effect<boolean, SqlError.SqlError>
}

export const unpacking = ({ groups, outbox, sql }: Tables): Effect.Effect<Unpacking, SqlError.SqlError> => {
  if (groups === undefined) return Effect.succeed({ isEmpty: true, some: Effect.succeed(false) })
  // Numbers begin again when all groups are gone. So a move takes all groups up to a number, and never those between
  // two numbers: older ones would stay behind.
  const move = (last: number) =>
    sql.withTransaction(
      Effect.andThen(
        sql`INSERT INTO ${outbox} (id, publisher, subject, body, headers, broker_id, bytes, born, rejections, refusal)
          SELECT value ->> 0, publisher, value ->> 1, substr(bodies, value ->> 7, value ->> 8), value ->> 2,
            value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 9
          FROM ${groups} CROSS JOIN json_each(fields) WHERE seq <= ${last} ORDER BY seq, key
          ON CONFLICT (id) DO NOTHING`,
        sql`DELETE FROM ${groups} WHERE seq <= ${last}`
      )
    )
  return Effect.map(
    sql<{ readonly seq: number | null }>`SELECT max(seq) AS seq FROM ${groups}`,
    ([newest]): Unpacking => {
      const end = newest?.seq ?? 0
      let done = 0
      return {
        isEmpty: end === 0,
        some: Effect.gen(function* () {
          if (done >= end) return false
          const found = yield* sql<GroupRecord>`SELECT seq, events, bytes FROM ${groups}
            WHERE seq > ${done} AND seq <= ${end} ORDER BY seq LIMIT ${page.events}`
          let events = 0
          let bytes = 0
          for (const one of found) {
            if (events >= page.events || bytes >= page.bytes) break
            events += one.events
            bytes += one.bytes
            done = one.seq
          }
          if (events === 0) return false
          yield* move(done)
          return true
        })
      }
    }
  )
}

/** Moves the events of all groups that are there now to the outbox table. */
export const unpack = (tables: Tables): Effect.Effect<void, SqlError.SqlError> =>
  Effect.gen(function* () {
    const { some } = yield* unpacking(tables)
    while (yield* some);
  })
