/**
 * SQLite in a worker thread: what it leaves of the event loop, and how fast groups of inserts are.
 *
 * The same `SqlClient`, the same file settings (WAL, `synchronous=FULL`) and the same rows; once with the database in a
 * worker thread (`SqliteClient`), once in the thread of the program. The raw appends write the same bytes to a file and
 * call `fdatasync`. Each group is what has come in until the group before was stored.
 */
import { Array as Arr, Context, Deferred, Effect, Layer, Semaphore, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlConnection } from "effect/sql"
import { SqlClient, SqlError, Statement } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { open } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import type { SQLInputValue } from "node:sqlite"
import { DatabaseSync } from "node:sqlite"
import { SqliteClient } from "@outlast/node"
import type { Figure, Report } from "./measure.ts"
import { median } from "./measure.ts"

const targets = { delay: 20_000, delayRatio: 0.2, groups: 0.35 }
const rounds = 5
const body = "x".repeat(500)

// -----------------------------------------------------------------------------
// Clients
// -----------------------------------------------------------------------------

type Make = (folder: string) => Layer.Layer<SqlClient.SqlClient, unknown>

const inWorker: Make = (folder) => SqliteClient.layer({ filename: join(folder, "worker.db") })

/** The shortest client in the thread of the program. */
const inThread: Make = (folder) =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const database = yield* Effect.acquireRelease(
        Effect.sync(() => new DatabaseSync(join(folder, "thread.db"))),
        (database) => Effect.sync(() => database.close())
      )
      database.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
      const run = (sql: string, params: ReadonlyArray<unknown>) =>
        Effect.try({
          // The rows of this bench are numbers and texts.
          try: () => database.prepare(sql).all(...(params as ReadonlyArray<SQLInputValue>)),
          catch: (cause) => new SqlError.SqlError({ reason: SqlError.classifySqliteError(cause) })
        })
      const connection: SqlConnection.Connection = {
        execute: run,
        executeRaw: run,
        executeUnprepared: run,
        executeValues: () => Effect.succeed([]),
        executeValuesUnprepared: () => Effect.succeed([]),
        executeStream: () => Stream.empty
      }
      const semaphore = yield* Semaphore.make(1)
      return yield* SqlClient.make({
        ...SqlClient.makeSqliteAcquirers({ connection: Effect.succeed(connection), semaphore }),
        compiler: Statement.makeCompilerSqlite(),
        driver: "same-thread",
        spanAttributes: []
      })
    })
  ).pipe(Layer.provide(Reactivity.layer))

const withClient = <A>(
  make: Make,
  use: (sql: SqlClient.SqlClient) => Effect.Effect<A, unknown>
): Promise<A> => {
  const folder = mkdtempSync(join(tmpdir(), "outlast-bench-"))
  const program = Effect.gen(function* () {
    const sql = Context.get(yield* Layer.build(make(folder)), SqlClient.SqlClient)
    yield* sql`CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)`
    return yield* use(sql)
  })
  return Effect.runPromise(Effect.orDie(Effect.scoped(program))).finally(() =>
    rmSync(folder, { recursive: true })
  )
}

// -----------------------------------------------------------------------------
// The event loop
// -----------------------------------------------------------------------------

const writers = 50
const writesOfEach = 20

/** The 99th percentile of the event loop's delay while fibers write, in µs. */
const delayUnderLoad = (make: Make): Promise<number> =>
  withClient(make, (sql) => {
    const insert = sql`INSERT INTO rows (body) VALUES (${body})`
    const writer = Effect.repeat(insert, { times: writesOfEach - 1 })
    const histogram = monitorEventLoopDelay({ resolution: 1 })
    return insert.pipe(
      Effect.andThen(Effect.sync(() => histogram.enable())),
      Effect.andThen(
        Effect.forEach(Array.from({ length: writers }), () => writer, {
          concurrency: "unbounded",
          discard: true
        })
      ),
      // A loop that was blocked to the end has its delay counted in the next turn.
      Effect.andThen(Effect.sleep("20 millis")),
      Effect.map(() => {
        histogram.disable()
        return histogram.percentile(99) / 1_000
      })
    )
  })

// -----------------------------------------------------------------------------
// Groups
// -----------------------------------------------------------------------------

const callers = 1_000
const insertsOfEach = 20

/** Stores a row with whatever others have come in meanwhile. */
const grouped = (store: (count: number) => Effect.Effect<unknown, unknown>): Effect.Effect<void, unknown> => {
  let waiting: Array<Deferred.Deferred<void>> = []
  let isStoring = false
  const drain = Effect.gen(function* () {
    yield* Effect.promise(() => new Promise(setImmediate))
    while (waiting.length > 0) {
      const group = waiting
      waiting = []
      yield* store(group.length)
      for (const one of group) Deferred.doneUnsafe(one, Effect.void)
    }
    isStoring = false
  })
  return Effect.suspend(() => {
    const stored = Deferred.makeUnsafe<void>()
    waiting.push(stored)
    if (isStoring) return Deferred.await(stored)
    isStoring = true
    return Effect.andThen(Effect.forkDetach(drain), Deferred.await(stored))
  })
}

/** µs for each row of many callers. */
const perRow = (store: (count: number) => Effect.Effect<unknown, unknown>): Effect.Effect<number, unknown> =>
  Effect.suspend(() => {
    const caller = Effect.repeat(grouped(store), { times: insertsOfEach - 1 })
    const start = process.hrtime.bigint()
    return Effect.forEach(Array.from({ length: callers }), () => caller, {
      concurrency: "unbounded",
      discard: true
    }).pipe(Effect.map(() => Number(process.hrtime.bigint() - start) / 1_000 / (callers * insertsOfEach)))
  })

const groupsInSqlite = (): Promise<number> =>
  withClient(inWorker, (sql) =>
    perRow((count) => {
      const rows = Arr.makeBy(count, () => ({ body }))
      return sql`INSERT INTO rows ${sql.insert(rows)}`
    })
  )

const groupsInFile = async (): Promise<number> => {
  const folder = mkdtempSync(join(tmpdir(), "outlast-bench-"))
  const file = await open(join(folder, "raw.log"), "a")
  const line = Buffer.from(`${body}\n`)
  const append = (count: number) =>
    Effect.promise(async () => {
      await file.write(Buffer.concat(Array.from({ length: count }, () => line)))
      await file.datasync()
    })
  try {
    return await Effect.runPromise(Effect.orDie(perRow(append)))
  } finally {
    await file.close()
    rmSync(folder, { recursive: true })
  }
}

// -----------------------------------------------------------------------------

/** The figures of contenders that take turns; ratios are to the first one. */
const compare = async (
  contenders: ReadonlyArray<readonly [name: string, run: () => Promise<number>]>
): Promise<ReadonlyArray<Figure>> => {
  const values = contenders.map((): Array<number> => [])
  for (let round = -1; round < rounds; round++) {
    for (const [index, [, run]] of contenders.entries()) {
      const value = await run()
      if (round >= 0) values[index]?.push(value)
    }
  }
  const base = values[0] ?? []
  return contenders.map(([name], index) => {
    const own = values[index] ?? []
    const ratio = median(own.map((value, round) => value / (base[round] ?? NaN)))
    return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio }
  })
}

export const sqlite = async ({ say, table }: Report): Promise<void> => {
  say(`SQLite in WAL mode with synchronous=FULL, ${rounds} rounds, Node ${process.version}`)
  const delays = await compare([
    ["in the program's thread", () => delayUnderLoad(inThread)],
    ["in a worker thread", () => delayUnderLoad(inWorker)]
  ])
  table(`Event-loop delay, 99th percentile, while ${writers} fibers write, µs`, delays)
  const groups = await compare([
    ["SQLite", groupsInSqlite],
    ["appends with fdatasync", groupsInFile]
  ])
  table(`${callers} callers, rows of 500 bytes stored in groups, µs per row`, groups)
  const verdict = (what: string, value: number, target: number, isMet: boolean) =>
    say(`  ${what.padEnd(52)}${value.toFixed(2)} (target ${target}: ${isMet ? "met" : "missed"})`)
  const delay = delays[1]?.median ?? NaN
  const delayRatio = delays[1]?.ratio ?? NaN
  const share = groups[1]?.ratio ?? NaN
  say("")
  verdict(
    "event-loop delay p99 with a worker, ms, at most:",
    delay / 1_000,
    targets.delay / 1_000,
    delay <= targets.delay
  )
  verdict(
    "the same, to that of the program's thread, at most:",
    delayRatio,
    targets.delayRatio,
    delayRatio <= targets.delayRatio
  )
  verdict("inserts in groups, to raw appends, at least:", share, targets.groups, share >= targets.groups)
}
