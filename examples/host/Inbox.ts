/**
 * Keeps accepted events on disk until they are answered, with the transcripts of their runs.
 *
 * An event is accepted when it is committed. Its end and its answer are committed together, so no event is lost and none
 * is answered twice, whenever the process dies.
 */
import { Context, Effect, Layer, Option, Schema } from "effect"
import { Prompt } from "effect/ai"
import { SqlClient } from "effect/sql"
import { Outbox } from "@outlast/delivery"

const Saved = Schema.fromJsonString(Prompt.Prompt)

interface Row {
  readonly id: string
  readonly text: string
  readonly transcript: string | null
}

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const outbox = yield* Outbox.Outbox
  yield* sql`CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, text TEXT NOT NULL, transcript TEXT, isDone INTEGER NOT NULL)`
  return {
    /** True when the event is new. */
    accept: (id: string, text: string) =>
      Effect.map(
        sql<{
          id: string
        }>`INSERT INTO inbox VALUES (${id}, ${text}, NULL, 0) ON CONFLICT DO NOTHING RETURNING id`,
        (rows) => rows.length > 0
      ),
    /** Events without an answer. */
    open: Effect.map(sql<{ id: string }>`SELECT id FROM inbox WHERE isDone = 0 ORDER BY rowid`, (rows) =>
      rows.map(({ id }) => id)
    ),
    /** Where the run of the event begins: its transcript, or its text. */
    prompt: (id: string) =>
      Effect.gen(function* () {
        const [row] = yield* sql<Row>`SELECT id, text, transcript FROM inbox WHERE id = ${id} AND isDone = 0`
        if (row === undefined) return Option.none<Prompt.Prompt>()
        if (row.transcript === null) return Option.some(Prompt.make(row.text))
        return Option.some(yield* Schema.decodeEffect(Saved)(row.transcript))
      }),
    save: (id: string, transcript: Prompt.Prompt) =>
      Effect.flatMap(Schema.encodeEffect(Saved)(transcript), (text) =>
        Effect.asVoid(sql`UPDATE inbox SET transcript = ${text} WHERE id = ${id}`)
      ),
    finish: (id: string, answer: string) =>
      Effect.andThen(
        outbox.publishIn({ id: `answer-${id}`, subject: "answers", body: new TextEncoder().encode(answer) }),
        sql`UPDATE inbox SET isDone = 1 WHERE id = ${id}`
      ).pipe(sql.withTransaction, Effect.provideService(SqlClient.SqlClient, sql))
  }
})

export class Inbox extends Context.Service<Inbox, Effect.Success<typeof make>>()("example/Inbox") {
  static readonly layer = Layer.effect(this, make)
}
