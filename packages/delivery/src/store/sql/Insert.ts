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
import { recordOf } from "./Records.ts"
import type { Tables } from "./Tables.ts"
import { nonEmpty } from "./Tables.ts"

/** Rows in one insert, at most: PostgreSQL takes 65,535 parameters, and each row has nine. */
export const maxRows = 3_000

/** Events in a row of `groups`, at most. Each event copies the bodies of its group when it is unpacked. */
const groupEvents = 64

/** Events that are unpacked in one transaction. Commits wait for it. */
const pageEvents = 1_000

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
  for (let from = 0; from < rows.length; from += groupEvents) {
    const part = rows.slice(from, from + groupEvents)
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
      return [row.id, row.subject, headers, row.brokerId, row.bytes, row.at, row.rejections, at, byteLength]
    })
    groups.push({ publisher, events: part.length, fields: JSON.stringify(fields), bodies })
  }
  return groups
}

interface GroupRecord {
  readonly seq: number
  readonly events: number
}

/** Moves the events of all groups that are there now to the outbox table. Several fibers and processes may do it at once. */
export const unpack = ({ groups, outbox, sql }: Tables): Effect.Effect<void, SqlError.SqlError> => {
  if (groups === undefined) return Effect.void
  const page = (after: number) =>
    sql<GroupRecord>`SELECT seq, events FROM ${groups} WHERE seq > ${after} ORDER BY seq LIMIT ${pageEvents}`
  const move = (last: number) =>
    sql.withTransaction(
      Effect.andThen(
        sql`INSERT INTO ${outbox} (id, publisher, subject, body, headers, broker_id, bytes, born, rejections)
          SELECT value ->> 0, publisher, value ->> 1, substr(bodies, value ->> 7, value ->> 8), value ->> 2,
            value ->> 3, value ->> 4, value ->> 5, value ->> 6
          FROM ${groups} CROSS JOIN json_each(fields) WHERE seq <= ${last} ORDER BY seq, key
          ON CONFLICT (id) DO NOTHING`,
        sql`DELETE FROM ${groups} WHERE seq <= ${last}`
      )
    )
  return Effect.gen(function* () {
    let first = yield* page(0)
    if (first.length === 0) return
    const [newest] = yield* sql<{ readonly seq: number }>`SELECT max(seq) AS seq FROM ${groups}`
    const end = newest?.seq ?? 0
    while (first.length > 0) {
      let last = 0
      let events = 0
      for (const group of first) {
        if (group.seq > end || (events > 0 && events + group.events > pageEvents)) break
        events += group.events
        last = group.seq
      }
      if (last === 0) break
      yield* move(last)
      first = yield* page(last)
    }
  })
}
