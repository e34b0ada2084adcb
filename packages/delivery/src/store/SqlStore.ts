/**
 * The store over a `SqlClient` of `effect/sql`: SQLite or PostgreSQL.
 *
 * Three tables, made when the layer is built: `<prefix>_outbox`, `<prefix>_publishers` and `<prefix>_dead_letters`. All
 * statements run outside of the caller's transaction, except that of `insertIn`. Several processes may share the
 * tables. Reads of a backlog go by index and page, so they cost the same with a thousand and a million events; only
 * `totals` and `countDead` count rows.
 *
 * **Limits.** Other dialects are refused. `seq` is given when a row is written, not when it is committed: a row of a
 * transaction may become visible behind one with a larger number. So a read always begins at the first row that is
 * there, and never at the last one that was seen.
 */
import type { Array as Arr } from "effect"
import { Context, Duration, Effect, Layer, Option, Schedule } from "effect"
import { StoreError } from "@outlast/resilience"
import * as Options from "@outlast/resilience/Options"
import { SqlClient } from "effect/sql"
import type { SqlError, Statement } from "effect/sql"
import * as Letter from "../dead/DeadLetter.ts"
import type { DeadLetter, Filter, NewDeadLetter } from "../dead/DeadLetter.ts"
import * as Event from "../Event.ts"
import type { Publisher } from "../outbox/Claims.ts"
import { released } from "../outbox/Claims.ts"
import type { Burial, DeadOptions, NewRow, Row, Service } from "./DeliveryStore.ts"
import { deadChecks, deadDefaults, DeliveryStore, replayPublisher } from "./DeliveryStore.ts"

export interface SqlOptions {
  /** First part of the names of the tables: letters, digits and `_`. Default `outlast`. */
  readonly prefix?: string | undefined
  /** The store's name in errors. Default `outbox`. */
  readonly name?: string | undefined
  /** Its file or address in errors; credentials in it are not shown. */
  readonly file?: string | undefined
  /** How many dead letters are kept, and for how long. */
  readonly deadLetters?: DeadOptions | undefined
  /** Makes the tables where they are missing. False: it fails where there are none. Default true. */
  readonly create?: boolean | undefined
}

export const defaults = {
  prefix: "outlast",
  name: "outbox",
  deadLetters: deadDefaults,
  create: true
} as const satisfies SqlOptions

/** Rows named in one statement, at most. SQLite takes 32,766 parameters, PostgreSQL 65,535. */
const chunk = 1_000

/** Rows in one insert, at most: each has nine parameters. */
const maxRows = 3_000

/** Publishers that are looked at, at most. */
const maxPublishers = 1_000

const module = "DeliveryStore"

/** The layer of {@link make}. Throws an `InvalidOption` for an option that is not allowed. */
export const layer = (
  options: SqlOptions = {}
): Layer.Layer<DeliveryStore, StoreError.StoreError, SqlClient.SqlClient> =>
  Layer.effect(DeliveryStore, make(options))

/** Makes the tables where they are missing, and the store over them. */
export const make = (
  options: SqlOptions = {}
): Effect.Effect<Service, StoreError.StoreError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    Options.fields(module, options, {
      prefix: Options.is.text,
      name: Options.is.text,
      file: Options.is.text,
      deadLetters: Options.is.object(deadChecks),
      create: Options.is.flag
    })
    const { prefix = defaults.prefix, name = defaults.name, file, deadLetters = {} } = options
    const { cap = deadDefaults.cap, ttl = deadDefaults.ttl } = deadLetters
    Options.check(/^[a-z_][a-z0-9_]{0,39}$/i.test(prefix), module, "prefix", prefix, "letters, digits and _")
    const sql = (yield* SqlClient.SqlClient).withoutTransforms()
    const where = { store: name, file }
    yield* (options.create ?? defaults.create)
      ? migrate(sql, prefix).pipe(StoreError.mapSqlError(where))
      : exists(sql, prefix, where)
    return build(sql, prefix, where, cap, Duration.toMillis(ttl))
  })

const tablesOf = (prefix: string) => ({
  outbox: `${prefix}_outbox`,
  publishers: `${prefix}_publishers`,
  dead: `${prefix}_dead_letters`
})

/** Creates what is missing. Two processes may do it at once: PostgreSQL then fails one of them, which tries again. */
const migrate = (sql: SqlClient.SqlClient, prefix: string): Effect.Effect<void, SqlError.SqlError> => {
  const table = tablesOf(prefix)
  const types = sql.onDialectOrElse({
    sqlite: () => ({ key: "INTEGER PRIMARY KEY AUTOINCREMENT", bytes: "BLOB", number: "INTEGER" }),
    pg: () => ({
      key: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
      bytes: "BYTEA",
      number: "BIGINT"
    }),
    orElse: () => {
      throw new Options.InvalidOption(
        module,
        "SqlClient",
        undefined,
        "a client of SQLite or PostgreSQL",
        `${module}: the SqlClient must be one of SQLite or PostgreSQL`
      )
    }
  })
  const statements = [
    `CREATE TABLE IF NOT EXISTS ${table.outbox} (
      seq ${types.key}, id TEXT NOT NULL UNIQUE, publisher TEXT NOT NULL, subject TEXT NOT NULL,
      body ${types.bytes} NOT NULL, headers TEXT NOT NULL, broker_id TEXT NOT NULL, bytes INTEGER NOT NULL,
      born ${types.number} NOT NULL, rejections INTEGER NOT NULL)`,
    `CREATE INDEX IF NOT EXISTS ${table.outbox}_lane ON ${table.outbox} (publisher, subject, seq, bytes)`,
    `CREATE TABLE IF NOT EXISTS ${table.publishers} (
      id TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, beat ${types.number} NOT NULL)`,
    `CREATE TABLE IF NOT EXISTS ${table.dead} (
      num ${types.key}, letter TEXT NOT NULL UNIQUE, id TEXT NOT NULL, source TEXT NOT NULL, subject TEXT NOT NULL,
      body ${types.bytes} NOT NULL, headers TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL,
      attempts INTEGER NOT NULL, died ${types.number} NOT NULL, replays INTEGER NOT NULL, state TEXT NOT NULL,
      history TEXT NOT NULL)`,
    `CREATE INDEX IF NOT EXISTS ${table.dead}_died ON ${table.dead} (died)`,
    `CREATE INDEX IF NOT EXISTS ${table.dead}_id ON ${table.dead} (id)`
  ]
  return Effect.forEach(statements, (statement) => sql.unsafe(statement), { discard: true }).pipe(
    Effect.retry(Schedule.recurs(3))
  )
}

/** Fails unless the tables are there: for a tool that must not make a store of a wrong file. */
const exists = (
  sql: SqlClient.SqlClient,
  prefix: string,
  where: StoreError.Where
): Effect.Effect<void, StoreError.StoreError> =>
  Effect.asVoid(sql.unsafe(`SELECT num FROM ${tablesOf(prefix).dead} LIMIT 1`)).pipe(
    Effect.mapError(
      (error) =>
        StoreError.fromSqlError(error, where) ??
        new StoreError.StoreError({
          reason: "unavailable",
          store: where.store,
          ...(where.file === undefined ? {} : { file: where.file }),
          detail: `it has no tables of an outbox with the prefix \`${prefix}\``
        })
    )
  )

interface OutboxRecord {
  readonly seq: number | string
  readonly id: string
  readonly subject: string
  readonly body: Uint8Array
  readonly headers: string
  readonly broker_id: string
  readonly bytes: number | string
  readonly born: number | string
  readonly rejections: number | string
}

interface DeadRecord {
  readonly num: number | string
  readonly letter: string
  readonly id: string
  readonly source: string
  readonly subject: string
  readonly body: Uint8Array
  readonly headers: string
  readonly reason: Letter.Reason
  readonly detail: string
  readonly attempts: number | string
  readonly died: number | string
  readonly replays: number | string
  readonly state: "dead" | "replayed"
  readonly history: string
}

/** PostgreSQL gives a bigint as a text. */
const rowOf = (record: OutboxRecord): Row => ({
  seq: Number(record.seq),
  id: record.id,
  subject: record.subject,
  body: record.body,
  headers: JSON.parse(record.headers),
  brokerId: record.broker_id,
  bytes: Number(record.bytes),
  at: Number(record.born),
  rejections: Number(record.rejections)
})

const letterOf = (record: DeadRecord): DeadLetter => ({
  number: Number(record.num),
  key: record.letter,
  id: record.id,
  source: record.source,
  subject: record.subject,
  body: record.body,
  headers: JSON.parse(record.headers),
  reason: record.reason,
  detail: record.detail,
  attempts: Number(record.attempts),
  at: Number(record.died),
  replays: Number(record.replays),
  state: record.state,
  history: JSON.parse(record.history)
})

const recordOf = (publisher: string, row: NewRow) => ({
  id: row.id,
  publisher,
  subject: row.subject,
  body: row.body,
  headers: JSON.stringify(row.headers),
  broker_id: row.brokerId,
  bytes: row.bytes,
  born: row.at,
  rejections: row.rejections
})

const build = (
  own: SqlClient.SqlClient,
  prefix: string,
  where: { readonly store: string; readonly file: string | undefined },
  cap: number,
  ttl: number
): Service => {
  const table = tablesOf(prefix)
  const sql = own
  const outbox = sql(table.outbox)
  const publishers = sql(table.publishers)
  const dead = sql(table.dead)
  const run = StoreError.mapSqlError(where)
  const atomic = <A, E>(effect: Effect.Effect<A, E | SqlError.SqlError>) => run(sql.withTransaction(effect))

  const insertWith = (client: SqlClient.SqlClient, publisher: string, rows: ReadonlyArray<NewRow>) =>
    client`INSERT INTO ${client(table.outbox)} ${client.insert(
      nonEmpty(rows.map((row) => recordOf(publisher, row)))
    )} ON CONFLICT (id) DO NOTHING`

  const chunks = <A, B, E>(
    all: ReadonlyArray<A>,
    each: (part: ReadonlyArray<A>) => Effect.Effect<B, E>
  ): Effect.Effect<ReadonlyArray<B>, E> => {
    const parts: Array<ReadonlyArray<A>> = []
    for (let i = 0; i < all.length; i += chunk) parts.push(all.slice(i, i + chunk))
    return Effect.forEach(parts, each)
  }

  const bury = (which: { readonly seqs: ReadonlyArray<number> } | { readonly oldest: number }, why: Burial) =>
    Effect.gen(function* () {
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

  /** As much of a filter as SQL can say; patterns are compared in {@link selected}. */
  const clauses = (filter: Filter): Statement.Fragment => {
    const all: Array<Statement.Fragment> = []
    const { ids, subject, reason, since, before, replayed } = filter
    if (ids !== undefined) {
      const numbers = ids.filter((id) => /^\d{1,15}$/.test(id)).map(Number)
      const byId = sql.in("id", ids.length === 0 ? [""] : ids)
      all.push(numbers.length === 0 ? byId : sql`(${byId} OR ${sql.in("num", numbers)})`)
    }
    if (subject !== undefined && isPattern(subject)) all.push(sql`subject LIKE ${likeOf(subject)} ESCAPE '!'`)
    else if (subject !== undefined) all.push(sql`subject = ${subject}`)
    if (reason !== undefined) all.push(sql`reason = ${reason}`)
    if (since !== undefined) all.push(sql`died >= ${since}`)
    if (before !== undefined) all.push(sql`died < ${before}`)
    if (replayed !== true) all.push(sql`state = 'dead'`)
    return sql.and(all)
  }

  /** Numbers of the letters that a filter means, the oldest first. */
  const selected = (filter: Filter, limit = Infinity) =>
    Effect.gen(function* () {
      const numbers: Array<number> = []
      let above = 0
      while (numbers.length < limit) {
        const page = yield* sql<
          Pick<DeadRecord, "num" | "subject">
        >`SELECT num, subject FROM ${dead} WHERE ${clauses(
          filter
        )} AND num > ${above} ORDER BY num LIMIT ${chunk}`
        for (const { num, subject } of page) {
          above = Number(num)
          if (isMeant(filter, subject)) numbers.push(above)
        }
        if (page.length < chunk) break
      }
      return numbers.slice(0, limit)
    })

  return {
    insert: (publisher, rows) =>
      rows.length === 0
        ? Effect.void
        : rows.length <= maxRows
          ? Effect.asVoid(run(insertWith(sql, publisher, rows)))
          : Effect.asVoid(atomic(chunks(rows, (part) => insertWith(sql, publisher, part)))),
    insertIn: (publisher, row, committed) =>
      Effect.flatMap(SqlClient.SqlClient, (client) => {
        const raw = client.withoutTransforms()
        const insert = Effect.andThen(insertWith(raw, publisher, [row]), client.afterCommit(committed))
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
        Effect.map(
          sql<OutboxRecord>`SELECT * FROM ${outbox} WHERE ${
            // One publisher, the usual case, reads straight from the index.
            owned.length === 1 ? sql`publisher = ${owned[0]}` : sql.in("publisher", owned)
          } AND subject = ${subject} ORDER BY seq LIMIT ${limit}`,
          (records) => records.map(rowOf)
        )
      ),
    remove: (seqs) =>
      Effect.asVoid(run(chunks(seqs, (part) => sql`DELETE FROM ${outbox} WHERE ${sql.in("seq", part)}`))),
    rejected: (seq, rejections) =>
      Effect.asVoid(run(sql`UPDATE ${outbox} SET rejections = ${rejections} WHERE seq = ${seq}`)),
    bury: (which, why) => atomic(bury(which, why)),
    subjects: (publisher, limit) =>
      // Jumps from one subject to the next in the index: a plain DISTINCT would read every row.
      run(
        Effect.map(
          sql<{ readonly subject: string }>`WITH RECURSIVE lanes(subject) AS (
            SELECT min(subject) FROM ${outbox} WHERE publisher = ${publisher}
            UNION ALL
            SELECT (SELECT min(subject) FROM ${outbox} WHERE publisher = ${publisher} AND subject > lanes.subject)
            FROM lanes WHERE lanes.subject IS NOT NULL
          ) SELECT subject FROM lanes WHERE subject IS NOT NULL LIMIT ${limit}`,
          (rows) => rows.map(({ subject }) => subject)
        )
      ),
    totals: run(
      Effect.map(
        sql<Record<"events" | "bytes" | "dead", number | string>>`SELECT
          (SELECT count(*) FROM ${outbox}) AS events,
          (SELECT coalesce(sum(bytes), 0) FROM ${outbox}) AS bytes,
          (SELECT count(*) FROM ${dead} WHERE state = 'dead') AS dead`,
        ([row]) => ({
          events: Number(row?.events ?? 0),
          bytes: Number(row?.bytes ?? 0),
          dead: Number(row?.dead ?? 0)
        })
      )
    ),
    oldest: run(
      Effect.map(
        sql<{ readonly born: number | string }>`SELECT born FROM ${outbox} ORDER BY seq LIMIT 1`,
        ([row]) => (row === undefined ? Option.none() : Option.some(Number(row.born)))
      )
    ),

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
          ) SELECT publisher FROM seen
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
              AND NOT EXISTS (SELECT 1 FROM ${outbox} WHERE publisher = ${publishers}.id)`,
            sql`UPDATE ${publishers} SET holder = '', beat = ${released} WHERE holder = ${holder}`
          )
        )
      ),
    forget: (publisher, holder) =>
      Effect.asVoid(
        run(
          sql`DELETE FROM ${publishers} WHERE id = ${publisher} AND holder = ${holder}
            AND NOT EXISTS (SELECT 1 FROM ${outbox} WHERE publisher = ${publisher})`
        )
      ),

    writeDead: (letter) =>
      run(
        Effect.map(
          sql`INSERT INTO ${dead} ${sql.insert(deadRecord(letter, undefined))} ON CONFLICT (letter) DO NOTHING RETURNING num`,
          (rows) => rows.length > 0
        )
      ),
    listDead: (filter, { limit, below = Number.MAX_SAFE_INTEGER }) =>
      run(
        Effect.gen(function* () {
          const letters: Array<DeadLetter> = []
          let next = below
          while (letters.length < limit) {
            const page = yield* sql<DeadRecord>`SELECT * FROM ${dead} WHERE ${clauses(
              filter
            )} AND num < ${next} ORDER BY num DESC LIMIT ${limit}`
            for (const record of page) {
              next = Number(record.num)
              if (isMeant(filter, record.subject)) letters.push(letterOf(record))
            }
            if (page.length < limit) break
          }
          return letters.slice(0, limit)
        })
      ),
    showDead: (id) =>
      run(
        Effect.map(
          sql<DeadRecord>`SELECT * FROM ${dead} WHERE ${clauses({
            ids: [id],
            replayed: true
          })} ORDER BY num DESC LIMIT 1`,
          ([record]) => (record === undefined ? Option.none() : Option.some(letterOf(record)))
        )
      ),
    replayDead: (filter, limit, { at, by }) =>
      atomic(
        Effect.gen(function* () {
          const numbers = yield* selected(filter, limit)
          const parts = yield* chunks(numbers, (part) =>
            Effect.gen(function* () {
              const records = yield* sql<DeadRecord>`SELECT * FROM ${dead} WHERE ${sql.in(
                "num",
                part
              )} ORDER BY num`
              const letters = records.map(letterOf)
              const rows = letters.map((letter): NewRow => ({
                id: letter.id,
                subject: letter.subject,
                body: letter.body,
                headers: letter.headers,
                brokerId: Letter.replayId(letter),
                bytes: Event.sizeOf(letter),
                at,
                rejections: 0
              }))
              if (rows.length > 0) yield* insertWith(sql, replayPublisher, rows)
              for (const letter of letters) {
                const history = Letter.append(letter.history, {
                  at,
                  what: "replayed",
                  by,
                  brokerId: Letter.replayId(letter)
                })
                yield* sql`UPDATE ${dead} SET state = 'replayed', replays = ${letter.replays + 1},
                  history = ${JSON.stringify(history)} WHERE num = ${letter.number}`
              }
              return letters.map((letter) => ({
                number: letter.number,
                id: letter.id,
                subject: letter.subject,
                brokerId: Letter.replayId(letter)
              }))
            })
          )
          yield* sql`INSERT INTO ${publishers} (id, holder, beat) VALUES (${replayPublisher}, '', ${released})
            ON CONFLICT (id) DO NOTHING`
          return parts.flat()
        })
      ),
    purgeDead: (filter) =>
      atomic(
        Effect.gen(function* () {
          const numbers = yield* selected(filter)
          yield* chunks(numbers, (part) => sql`DELETE FROM ${dead} WHERE ${sql.in("num", part)}`)
          return numbers.length
        })
      ),
    countDead: (filter) => run(Effect.map(selected(filter), (numbers) => numbers.length)),
    trimDead: (now) =>
      atomic(
        Effect.gen(function* () {
          const old = yield* sql`DELETE FROM ${dead} WHERE died < ${now - ttl} RETURNING num`
          const [row] = yield* sql<{ readonly n: number | string }>`SELECT count(*) AS n FROM ${dead}`
          const excess = Number(row?.n ?? 0) - cap
          if (excess <= 0) return old.length
          yield* sql`DELETE FROM ${dead} WHERE num IN (SELECT num FROM ${dead} ORDER BY num LIMIT ${excess})`
          return old.length + excess
        })
      )
  }
}

/** A letter as a row; `before` is the same letter from an earlier death, whose history goes on. */
const deadRecord = (letter: NewDeadLetter, before: DeadLetter | undefined) => ({
  letter: letter.key,
  id: letter.id,
  source: letter.source,
  subject: letter.subject,
  body: letter.body,
  headers: JSON.stringify(letter.headers),
  reason: letter.reason,
  detail: letter.detail.slice(0, maxDetail),
  attempts: letter.attempts,
  died: letter.at,
  replays: before?.replays ?? 0,
  state: "dead",
  history: JSON.stringify(
    Letter.append(before?.history ?? [], {
      at: letter.at,
      what: "died",
      reason: letter.reason,
      detail: letter.detail.slice(0, maxDetail)
    })
  )
})

/** The caller has made sure that there is one. */
const nonEmpty = <A extends object>(
  records: ReadonlyArray<A>
): Arr.NonEmptyReadonlyArray<Record<string, unknown>> =>
  // A record of columns is a record of unknown values, which an interface does not say.
  records as unknown as Arr.NonEmptyReadonlyArray<Record<string, unknown>>

/** Longest detail that is kept, in characters. */
const maxDetail = 1_000

const isPattern = (subject: string): boolean => /(?:^|\.)[*>](?:\.|$)/.test(subject)

/** At least what the pattern matches. */
const likeOf = (pattern: string): string =>
  pattern
    .split(".")
    .map((part) => (part === "*" || part === ">" ? "%" : part.replace(/[!%_]/g, "!$&")))
    .join(".")

const isMeant = ({ subject: pattern }: Filter, subject: string): boolean =>
  pattern === undefined || !isPattern(pattern) || Event.matches(pattern, subject)
