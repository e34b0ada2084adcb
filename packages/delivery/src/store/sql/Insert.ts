/** How a group of events is written: one statement for any number of rows. */
import type { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { NewRow } from "../DeliveryStore.ts"
import { recordOf } from "./Records.ts"
import type { Tables } from "./Tables.ts"
import { nonEmpty } from "./Tables.ts"

/** Rows in one insert, at most: each has nine parameters. */
export const maxRows = 3_000

export const insertWith = (
  { outbox }: Pick<Tables, "outbox">,
  client: SqlClient.SqlClient,
  publisher: string,
  rows: ReadonlyArray<NewRow>
): Effect.Effect<unknown, SqlError.SqlError> =>
  client.onDialectOrElse({
    sqlite: () => insertPacked(outbox, client, publisher, rows),
    orElse: () =>
      client`INSERT INTO ${outbox} ${client.insert(
        nonEmpty(rows.map((row) => recordOf(publisher, row)))
      )} ON CONFLICT (id) DO NOTHING`
  })

/**
 * One statement for any number of rows: their fields as one JSON text, their bodies as one blob. Nine parameters for
 * each row would have to be compiled, copied to SQLite's thread and prepared again for each size of a group.
 */
const insertPacked = (
  outbox: Tables["outbox"],
  client: SqlClient.SqlClient,
  publisher: string,
  rows: ReadonlyArray<NewRow>
) => {
  // One byte more than needed: Node binds an empty array as NULL.
  const bodies = new Uint8Array(rows.reduce((sum, { body }) => sum + body.byteLength, 1))
  let start = 0
  const fields = rows.map((row) => {
    const { byteLength } = row.body
    bodies.set(row.body, start)
    // SQLite counts from one.
    const at = start + 1
    start += byteLength
    const headers = JSON.stringify(row.headers)
    return [row.id, row.subject, headers, row.brokerId, row.bytes, row.at, row.rejections, at, byteLength]
  })
  return client`INSERT INTO ${outbox}
      (id, publisher, subject, body, headers, broker_id, bytes, born, rejections)
    SELECT value ->> 0, ${publisher}, value ->> 1, substr(${bodies}, value ->> 7, value ->> 8), value ->> 2,
      value ->> 3, value ->> 4, value ->> 5, value ->> 6
    FROM json_each(${JSON.stringify(fields)}) WHERE true ORDER BY key
    ON CONFLICT (id) DO NOTHING`
}
