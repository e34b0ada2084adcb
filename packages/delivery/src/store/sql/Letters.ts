/** The dead letters: written, found, replayed, purged and trimmed. */
import { Effect, Option } from "effect"
import type { SqlError, Statement } from "effect/sql"
import type { StoreError } from "@outlast/resilience"
import * as Letter from "../DeadLetter.ts"
import type { DeadLetter, Filter } from "../DeadLetter.ts"
import * as Event from "../../Event.ts"
import { released } from "../Publisher.ts"
import type { NewRow, Service } from "../DeliveryStore.ts"
import { deadLettersFull, replayPublisher } from "../DeliveryStore.ts"
import { insertWith } from "./Insert.ts"
import type { DeadRecord } from "./Records.ts"
import { deadRecord, letterOf } from "./Records.ts"
import type { Tables } from "./Tables.ts"
import { chunk, chunks } from "./Tables.ts"

type Letters = Pick<
  Service,
  "writeDead" | "listDead" | "showDead" | "replayDead" | "purgeDead" | "countDead" | "trimDead"
>

/** Limits of dead letters. `ttl` in milliseconds. */
export interface Limits {
  readonly cap: number
  readonly whenFull: "fail" | "shedOldest"
  readonly ttl: number
}

/** Fails where a further dead letter would push out one that must stay. */
export const room = (
  { dead, sql }: Tables,
  { cap, whenFull }: Limits
): Effect.Effect<void, StoreError.StoreError | SqlError.SqlError> =>
  whenFull === "shedOldest"
    ? Effect.void
    : Effect.flatMap(
        sql<{ readonly n: number | string }>`SELECT count(*) AS n FROM ${dead}
          WHERE state = 'dead' AND reason <> 'shed'`,
        ([row]) => (Number(row?.n ?? 0) < cap ? Effect.void : Effect.fail(deadLettersFull(cap)))
      )

/** The dead letters of a store. */
export const make = (tables: Tables, limits: Limits): Letters => {
  const { atomic, dead, publishers, run, sql } = tables
  const { cap, ttl, whenFull } = limits

  /** As much of a filter as SQL can say; patterns are compared in {@link selected}. */
  const clauses = (filter: Filter): Statement.Fragment => {
    const all: Array<Statement.Fragment> = []
    const { ids, subject, reason, since, before, replayed } = filter
    if (ids !== undefined) {
      const numbers = ids.filter((id) => /^\d{1,15}$/.test(id)).map(Number)
      all.push(sql`(id IN ${tables.texts(ids)} OR num IN ${tables.integers(numbers)})`)
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
    writeDead: (letter) =>
      atomic(
        Effect.gen(function* () {
          const known = yield* sql`SELECT num FROM ${dead} WHERE letter = ${letter.key}`
          if (known.length > 0) return false
          yield* room(tables, limits)
          const rows =
            yield* sql`INSERT INTO ${dead} ${sql.insert(deadRecord(letter, undefined))} ON CONFLICT (letter) DO NOTHING RETURNING num`
          return rows.length > 0
        })
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
                rejections: 0,
                refusal: ""
              }))
              if (rows.length > 0) yield* insertWith(tables, sql, replayPublisher, rows)
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
          const mayGo = whenFull === "shedOldest" ? sql`1 = 1` : sql`(state <> 'dead' OR reason = 'shed')`
          const gone = yield* sql`DELETE FROM ${dead} WHERE num IN (
            SELECT num FROM ${dead} WHERE ${mayGo} ORDER BY num LIMIT ${excess}) RETURNING num`
          return old.length + gone.length
        })
      )
  }
}

const isPattern = (subject: string): boolean => /(?:^|\.)[*>](?:\.|$)/.test(subject)

/** At least what the pattern matches. */
const likeOf = (pattern: string): string =>
  pattern
    .split(".")
    .map((part) => (part === "*" || part === ">" ? "%" : part.replace(/[!%_]/g, "!$&")))
    .join(".")

const isMeant = ({ subject: pattern }: Filter, subject: string): boolean =>
  pattern === undefined || !isPattern(pattern) || Event.matches(pattern, subject)
