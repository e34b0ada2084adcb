/**
 * Knows which workers of a cluster live, and hands the replies of their handlers over.
 *
 * A handler is not stopped when its worker loses a lease (a new worker has joined, the database was gone for a while).
 * The worker that has the task now finds the intent of a living worker, and waits for that handler. The reply comes
 * through the store. Without this, each new worker would leave the effects under way in doubt.
 *
 * A worker that begins at the address of an earlier one is its successor: two processes cannot listen at one address,
 * so the earlier one is gone.
 *
 * Any other worker lives while it renews its row. After a silence of one lease it is gone, unless the worker that asks
 * has been without the database itself: then the others have been, too, and get one lease to come back.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Schema } from "effect"
import { StoreError as StoreErrors } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import { ShardingConfig } from "effect/cluster"
import { SqlClient } from "effect/sql"
import * as SqlStore from "../store/sql/SqlStore.ts"
import * as Tables from "../store/sql/Tables.ts"
import { kept, StoreOutage } from "../store/StoreOutage.ts"
import type { EffectRecord } from "../state/TaskState.ts"
import type { Reply } from "../workflow/Reply.ts"
import { replyJson } from "../workflow/Reply.ts"

export interface Service {
  /** Says that this process lives. */
  readonly beat: (boot: string) => Effect.Effect<void, StoreError.StoreError>
  /** This process has ended in good order. */
  readonly leave: (boot: string) => Effect.Effect<void, StoreError.StoreError>
  /** Stores the reply of a handler of this process for the worker that has its task now. `key` names the attempt, too. */
  readonly answer: (
    handler: { readonly key: string; readonly task: string; readonly boot: string },
    reply: Reply
  ) => Effect.Effect<void, StoreError.StoreError>
  /** True for a worker that is gone, false for one that lives. Waits until it says that it lives, or is gone. */
  readonly hasDied: (boot: string) => Effect.Effect<boolean>
  /** The reply of an effect's handler, waiting while its holder lives. `own`: the process that asks. */
  readonly replyOf: (record: EffectRecord, own: string) => Effect.Effect<Option.Option<Reply>>
}

/** Absent where there is one process: another holder is then gone for sure. */
export const Holders: Context.Reference<Service | undefined> = Context.Reference<Service | undefined>(
  "@outlast/tasks/cluster/Holders",
  { defaultValue: () => undefined }
)

/** Time between two looks for a reply. */
const poll = "250 millis"

/** Rows of workers that were killed are deleted after a day. */
const forgotten = Duration.toMillis("1 day")

export const layer = (
  lease: Duration.Duration,
  options: SqlStore.SqlOptions
): Layer.Layer<
  never,
  StoreError.StoreError,
  SqlClient.SqlClient | StoreOutage | ShardingConfig.ShardingConfig
> =>
  Layer.effect(
    Holders,
    Effect.gen(function* () {
      const sql = (yield* SqlClient.SqlClient).withoutTransforms()
      const outage = yield* StoreOutage
      const { runnerAddress } = yield* ShardingConfig.ShardingConfig
      const address = Option.match(runnerAddress, {
        // Equal to no address in SQL.
        onNone: () => null,
        onSome: ({ host, port }) => `${host}:${port}`
      })
      const { prefix = SqlStore.defaults.prefix, file } = options
      const workers = sql(`${prefix}_workers`)
      const replies = sql(`${prefix}_replies`)
      const run = StoreErrors.mapSqlError({ store: "tasks", file })
      const now = sql`(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT`
      const term = Duration.toMillis(lease)
      /** When this process began to reach the database without a gap, and when it last did. */
      let since: number | undefined
      let last = 0
      let isFirst = true

      const migrated = Effect.gen(function* () {
        const alone = Tables.oneAtATime(sql, prefix)
        yield* alone(sql`CREATE TABLE IF NOT EXISTS ${workers} (
          boot TEXT NOT NULL PRIMARY KEY, seen BIGINT NOT NULL, address TEXT)`)
        // The first version had no address. `ADD COLUMN` waits for all who read the table, so it runs only where needed.
        yield* Effect.catch(sql`SELECT address FROM ${workers} LIMIT 1`, () =>
          alone(sql`ALTER TABLE ${workers} ADD COLUMN IF NOT EXISTS address TEXT`)
        )
        yield* alone(sql`CREATE TABLE IF NOT EXISTS ${replies} (effect_key TEXT NOT NULL, boot TEXT NOT NULL,
          task TEXT NOT NULL, reply TEXT NOT NULL, PRIMARY KEY (effect_key, boot))`)
        yield* alone(sql`DELETE FROM ${workers} WHERE seen < ${now} - ${forgotten}`)
        yield* alone(sql`DELETE FROM ${replies} WHERE NOT EXISTS (
          SELECT 1 FROM ${sql(`${prefix}_tasks`)} t WHERE t.id = ${replies}.task AND t.is_open = 1)`)
      })
      yield* run(migrated)

      /** Milliseconds since a worker was seen; `undefined` for one that has left. */
      const silence = (boot: string) =>
        Effect.map(
          sql<{ readonly ms: unknown }>`SELECT ${now} - seen AS ms FROM ${workers} WHERE boot = ${boot}`,
          ([row]) => (row === undefined ? undefined : Number(row.ms))
        )

      const isGone = (boot: string) =>
        Effect.gen(function* () {
          const at = yield* Clock.currentTimeMillis
          const silent = yield* silence(boot)
          if (silent === undefined) return true
          return silent > term && since !== undefined && at - since > term
        })

      const stored = ({ key, attempt, boot }: EffectRecord) =>
        Effect.gen(function* () {
          const [row] = yield* sql<{ readonly reply: string }>`SELECT reply FROM ${replies}
            WHERE effect_key = ${`${key}/${attempt}`} AND boot = ${boot}`
          return row === undefined
            ? Option.none<Reply>()
            : Option.some(yield* Effect.orDie(Schema.decodeUnknownEffect(replyJson)(row.reply)))
        })

      return {
        beat: (boot) =>
          Effect.gen(function* () {
            if (isFirst)
              yield* run(sql`DELETE FROM ${workers} WHERE address = ${address} AND boot <> ${boot}`)
            isFirst = false
            yield* run(sql`INSERT INTO ${workers} (boot, seen, address) VALUES (${boot}, ${now}, ${address})
              ON CONFLICT (boot) DO UPDATE SET seen = EXCLUDED.seen`)
            const at = yield* Clock.currentTimeMillis
            if (since === undefined || at - last > term) since = at
            last = at
          }),
        leave: (boot) => Effect.asVoid(run(sql`DELETE FROM ${workers} WHERE boot = ${boot}`)),
        answer: ({ key, task, boot }, reply) =>
          Effect.asVoid(
            run(sql`INSERT INTO ${replies} (effect_key, boot, task, reply)
              VALUES (${key}, ${boot}, ${task}, ${Schema.encodeSync(replyJson)(reply)})
              ON CONFLICT (effect_key, boot) DO NOTHING`)
          ),
        hasDied: (boot) =>
          Effect.gen(function* () {
            let before = 0
            while (!(yield* kept(outage, run(isGone(boot))))) {
              const silent = (yield* kept(outage, run(silence(boot)))) ?? 0
              if (silent < before) return false
              before = silent
              yield* Effect.sleep(poll)
            }
            return true
          }),
        replyOf: (record, own) =>
          Effect.gen(function* () {
            while (true) {
              // The first query asks if the holder lives: a worker that ends stores its replies before it leaves.
              const gone = record.boot === own || (yield* kept(outage, run(isGone(record.boot))))
              const reply = yield* kept(outage, run(stored(record)))
              if (gone || Option.isSome(reply)) return reply
              yield* Effect.sleep(poll)
            }
          })
      }
    })
  )
