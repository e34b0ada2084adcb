/** The table of publishers: the holder and the beat of each backlog. `outbox/Claims.ts` explains beats. */
import { Effect } from "effect"
import type { Publisher } from "../Publisher.ts"
import { released } from "../Publisher.ts"
import type { Statement } from "effect/sql"
import type { Service } from "../DeliveryStore.ts"
import { replayPublisher } from "../DeliveryStore.ts"
import type { Tables } from "./Tables.ts"
import { nonEmpty } from "./Tables.ts"

/** Publishers that are looked at, at most. */
const maxPublishers = 1_000

export const make = (
  tables: Tables
): Pick<Service, "hold" | "beat" | "others" | "claim" | "release" | "forget"> => {
  const { atomic, groups, outbox, publishers, run, sql } = tables
  /** True in SQL where events of a publisher are stored. */
  const hasEvents = (publisher: string | Statement.Fragment) => {
    const stored = sql`EXISTS (SELECT 1 FROM ${outbox} WHERE publisher = ${publisher})`
    return groups === undefined
      ? stored
      : sql`(${stored} OR EXISTS (SELECT 1 FROM ${groups} WHERE publisher = ${publisher}))`
  }
  const ofGroups = groups === undefined ? sql`` : sql`UNION SELECT publisher FROM ${groups}`
  return {
    hold: (publisher, holder) =>
      Effect.asVoid(
        run(
          sql`INSERT INTO ${publishers} (id, holder, beat) VALUES (${publisher}, ${holder}, 0)
          ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, beat = 0`
        )
      ),
    beat: (holder) =>
      run(
        Effect.map(
          sql<{
            readonly id: string
          }>`UPDATE ${publishers} SET beat = beat + 1 WHERE holder = ${holder} RETURNING id`,
          (rows) => rows.map(({ id }) => id)
        )
      ),
    others: (holder) =>
      run(
        Effect.gen(function* () {
          // Events whose publisher is not known: its row went while it still wrote.
          const orphans = yield* sql<{ readonly publisher: string }>`WITH RECURSIVE seen(publisher) AS (
          SELECT min(publisher) FROM ${outbox}
          UNION ALL
          SELECT (SELECT min(publisher) FROM ${outbox} WHERE publisher > seen.publisher)
          FROM seen WHERE seen.publisher IS NOT NULL
        ) SELECT publisher FROM (SELECT publisher FROM seen ${ofGroups}) AS all_seen
          WHERE publisher IS NOT NULL AND publisher NOT IN (SELECT id FROM ${publishers}) LIMIT ${maxPublishers}`
          if (orphans.length > 0) {
            yield* sql`INSERT INTO ${publishers} ${sql.insert(
              nonEmpty(orphans.map(({ publisher }) => ({ id: publisher, holder: "", beat: released })))
            )} ON CONFLICT (id) DO NOTHING`
          }
          const rows = yield* sql<{
            readonly id: string
            readonly holder: string
            readonly beat: number | string
          }>`SELECT id, holder, beat FROM ${publishers} WHERE holder <> ${holder} ORDER BY id LIMIT ${maxPublishers}`
          return rows.map((row): Publisher => ({ id: row.id, holder: row.holder, beat: Number(row.beat) }))
        })
      ),
    claim: (seen, holder) =>
      run(
        Effect.map(
          sql`UPDATE ${publishers} SET holder = ${holder}, beat = 0
          WHERE id = ${seen.id} AND holder = ${seen.holder} AND beat = ${seen.beat} RETURNING id`,
          (rows) => rows.length > 0
        )
      ),
    release: (holder) =>
      atomic(
        Effect.asVoid(
          Effect.andThen(
            sql`DELETE FROM ${publishers} WHERE holder = ${holder} AND id <> ${replayPublisher}
            AND NOT ${hasEvents(sql`${publishers}.id`)}`,
            sql`UPDATE ${publishers} SET holder = '', beat = ${released} WHERE holder = ${holder}`
          )
        )
      ),
    forget: (publisher, holder) =>
      Effect.asVoid(
        run(
          sql`DELETE FROM ${publishers} WHERE id = ${publisher} AND holder = ${holder}
          AND NOT ${hasEvents(publisher)}`
        )
      )
  }
}
