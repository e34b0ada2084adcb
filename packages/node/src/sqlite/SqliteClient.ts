/**
 * A `SqlClient` of `effect/sql` over Node's own SQLite in a worker thread. There is no driver to install, and no
 * commit, lock or long query blocks the event loop.
 *
 * The file is in WAL mode with `synchronous=FULL`: a confirmed statement or transaction survives a loss of power.
 * The file is created with mode 0600. Anything that uses a `SqlClient` works with it: `Migrator`, `KeyValueStore`,
 * `effect/workflow` with a single runner.
 *
 * - **One statement at a time.** A transaction has the connection to itself; others wait. A running statement is
 *   not interruptible: an interrupt waits for its reply. A transaction begins with `BEGIN IMMEDIATE`.
 * - **Locked by another process.** SQLite waits at most `busyTimeout`. Then the client retries up to `lockWait`,
 *   but only statements outside of transactions and `BEGIN`, which have had no effect yet. Others use the
 *   connection meanwhile, and an interrupt ends the wait.
 * - **Errors.** Opening fails with a `StoreError`. If the store is at fault, the `SqlError` of a statement names
 *   the file and what to do; `StoreError.fromSqlError` returns its reason. If the file is deleted, moved or
 *   replaced while it is open, every later statement fails.
 * - **A fiber outlives its transaction**: its statements fail, because the connection may be in another transaction.
 * - **SQLite rolls back a transaction itself** (a full disk): the transaction stays failed. Its later statements
 *   are not run, and its commit fails, even if the program has caught the error.
 * - **The thread ends** (killed, out of memory): the running statement fails with an unknown outcome, and the next
 *   one reopens the file. An in-memory database is then lost, and statements report it.
 *
 * **Limits.** A query cannot be stopped, and the next statement waits for it: read lists in pages by key, as
 * `docs/do/sqlite.md` shows. `stream` holds the connection until it ends. Only processes of one machine may use a
 * file.
 *
 * **Example** (A file)
 *
 * ```ts
 * const program = Effect.gen(function* () {
 *   const sql = yield* SqlClient.SqlClient
 *   yield* sql`CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)`
 *   yield* sql`INSERT INTO notes ${sql.insert({ text: "hello" })}`
 * }).pipe(Effect.provide(SqliteClient.layer({ filename: "notes.db" })))
 * ```
 */
import { Config, Duration, Effect, Layer, Option, Schedule, Semaphore, Stream } from "effect"
import type { Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlConnection } from "effect/sql"
import { SqlClient, SqlError, Statement } from "effect/sql"
import { isAbsolute, resolve } from "node:path"
import { StoreError } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import type { Fault, Mode, Opened, Page, Param, Reply, Request } from "./SqliteProtocol.ts"
import type { SqliteThread, ThreadEnded } from "./SqliteThread.ts"
import * as Thread from "./SqliteThread.ts"

export interface Options {
  /** Path of the file, or `:memory:` for a database that ends with its client. */
  readonly filename: string
  /** Name of the store in errors. Default "sqlite". */
  readonly store?: string | undefined
  /**
   * `full`: each commit is on the disk. `normal`: a loss of power may lose the last commits, a killed process loses
   * none. `extra`: as `full`, and the folder is synced as well. Default "full".
   */
  readonly synchronous?: "normal" | "full" | "extra" | undefined
  /** True to create a missing file. Default true. */
  readonly create?: boolean | undefined
  /** Time that SQLite itself waits for a lock, in its thread. At most 20 ms. Default 10 ms. */
  readonly busyTimeout?: Duration.Input | undefined
  /** Total time that opening, `BEGIN` and a statement outside of a transaction wait for a lock. Default 5 s. */
  readonly lockWait?: Duration.Input | undefined
  /** `refuse`: reject a file on a detected network file system. Default "refuse". */
  readonly networkFileSystem?: "refuse" | "allow" | undefined
}

export const defaults = {
  store: "sqlite",
  synchronous: "full",
  create: true,
  busyTimeout: Duration.millis(10),
  lockWait: Duration.seconds(5),
  networkFileSystem: "refuse"
} as const

const checks: Check.Checks<Options> = {
  filename: Check.is.required(Check.is.text),
  store: Check.is.text,
  synchronous: Check.is.oneOf("normal", "full", "extra"),
  create: Check.is.flag,
  busyTimeout: Check.is.duration({ max: "20 millis" }),
  lockWait: Check.is.duration(),
  networkFileSystem: Check.is.oneOf("refuse", "allow")
}

/** A client that closes its database with the scope. Throws an `InvalidOption` for an invalid option. */
export const make = (
  options: Options
): Effect.Effect<SqlClient.SqlClient, StoreError.StoreError, Scope.Scope | Reactivity.Reactivity> => {
  Check.fields("SqliteClient", options, checks)
  return makeChecked(settingsOf(options))
}

/** The layer of {@link make}. Throws an `InvalidOption` for an invalid option. */
export const layer = (options: Options): Layer.Layer<SqlClient.SqlClient, StoreError.StoreError> => {
  Check.fields("SqliteClient", options, checks)
  return Layer.effect(SqlClient.SqlClient, makeChecked(settingsOf(options))).pipe(
    Layer.provide(Reactivity.layer)
  )
}

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * SqliteClient.layerConfig({ filename: Config.String("OUTLAST_DATABASE") })
 * ```
 */
export const layerConfig = (
  options: Config.Wrap<Options>
): Layer.Layer<SqlClient.SqlClient, Config.ConfigError | StoreError.StoreError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Options>(options))
    })
  )

interface Settings {
  readonly opening: Parameters<typeof Thread.start>[0]
  readonly where: StoreError.Where
  readonly lockWait: Duration.Duration
}

const settingsOf = (options: Options): Settings => {
  const isMemory = options.filename === ":memory:"
  // An absolute path, so that errors locate the file, and SQLite does not interpret the name as a URI.
  const filename = isMemory || isAbsolute(options.filename) ? options.filename : resolve(options.filename)
  return {
    opening: {
      filename,
      synchronous: options.synchronous ?? defaults.synchronous,
      create: options.create ?? defaults.create,
      busyTimeout: Duration.toMillis(options.busyTimeout ?? defaults.busyTimeout),
      networkFileSystem: options.networkFileSystem ?? defaults.networkFileSystem
    },
    where: { store: options.store ?? defaults.store, ...(isMemory ? {} : { file: filename }) },
    lockWait: Duration.fromInputUnsafe(options.lockWait ?? defaults.lockWait)
  }
}

const makeChecked = (
  settings: Settings
): Effect.Effect<SqlClient.SqlClient, StoreError.StoreError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function* () {
    const { opening, where } = settings
    const isMemory = opening.filename === ":memory:"
    const unsupported = Thread.unsupported()
    if (unsupported !== undefined) {
      // The file is not at fault.
      return yield* new StoreError.StoreError({
        reason: "unavailable",
        store: where.store,
        ...unsupported
      })
    }
    let thread: SqliteThread | undefined
    let isClosed = false
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isClosed = true
        return thread === undefined ? Effect.void : thread.close
      })
    )
    const openThread = (create: boolean): Effect.Effect<SqliteThread, SqlError.SqlError> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Thread.start({ ...opening, create }), (next) =>
          restore(open(next, settings)).pipe(
            // The scope may have closed meanwhile. Its finalizer did not know this thread.
            Effect.andThen(Effect.suspend(() => (isClosed ? Effect.fail(closedError(where)) : Effect.void))),
            Effect.onError(() => next.close),
            Effect.map(() => (thread = next))
          )
        )
      )
    yield* Effect.mapError(openThread(opening.create), (error) => storeErrorOf(error, where))
    // Runs with the permit, so one at a time.
    const connection: Effect.Effect<Lease, SqlError.SqlError> = Effect.suspend(() => {
      if (isClosed || thread === undefined) return Effect.fail(closedError(where))
      const ended = thread.ended()
      if (ended === undefined) return Effect.succeed(lease(thread, settings))
      if (isMemory) return Effect.fail(lostMemory(ended, where))
      // A new file is not created, because the stored data was in the previous file.
      return Effect.map(openThread(false), (next) => lease(next, settings))
    })
    const acquirers = SqlClient.makeSqliteAcquirers<Lease>({
      connection,
      semaphore: yield* Semaphore.make(1),
      isTransaction: (connection: Lease) => connection.isTransaction()
    })
    const client = yield* SqlClient.make({
      ...acquirers,
      acquirer: untilReleased(acquirers.acquirer),
      transactionAcquirer: untilReleased(acquirers.transactionAcquirer),
      borrower: waitForLock(acquirers.borrower, settings.lockWait),
      compiler: Statement.makeCompilerSqlite(),
      driver: "sqlite-node",
      spanAttributes: [["db.system.name", "sqlite"]],
      prepareTransactionControls: true,
      beginTransaction: "BEGIN IMMEDIATE",
      releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`
    })
    return Object.assign(client, {
      withTransaction: waitToBegin(client.withTransaction, settings.lockWait)
    })
  })

/** Opens the database. Waits while another process holds it. */
const open = (thread: SqliteThread, settings: Settings): Effect.Effect<void, SqlError.SqlError> =>
  ask(thread, { op: "open" }, "connect", settings.where).pipe(
    Effect.retry({ schedule: lockSchedule(settings.lockWait), while: isLocked }),
    Effect.flatMap((reply) => {
      const { warning } = reply.value as Opened // The worker's reply to "open".
      const { file = "", store } = settings.where
      return warning === undefined
        ? Effect.void
        : Effect.logWarning(`Store \`${store}\` (${file}) ${warning}.`)
    })
  )

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** Converts a fault of the worker to a `SqlError`, which names the file if the store is at fault. */
const sqlErrorOf = (fault: Fault, operation: string, where: StoreError.Where): SqlError.SqlError => {
  if (fault.found !== undefined) {
    const { file, store } = where
    const cause = new StoreError.StoreError({
      ...fault.found,
      store,
      ...(file === undefined ? {} : { file })
    })
    return connectionError(cause, cause.message, operation)
  }
  const { code, errcode, message } = fault
  // Effect reads the number from `errno`.
  const cause = Object.assign(new Error(message), {
    ...(code === undefined ? {} : { code }),
    ...(errcode === undefined ? {} : { errcode, errno: errcode })
  })
  const classified = (message: string) =>
    new SqlError.SqlError({ reason: SqlError.classifySqliteError(cause, { message, operation }) })
  const error = classified(message)
  const ofStore = StoreError.fromSqlError(error, where)
  return ofStore === undefined ? error : classified(ofStore.message)
}

const connectionError = (cause: unknown, message: string, operation: string): SqlError.SqlError =>
  new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, message, operation }) })

const closedError = ({ file, store }: StoreError.Where): SqlError.SqlError => {
  const name = file === undefined ? `Store \`${store}\`` : `Store \`${store}\` (${file})`
  const message = `${name} is closed: the scope or layer of its client has ended. The statement was not run.`
  return connectionError(new Error(message), message, "execute")
}

const endedError = (ended: ThreadEnded, operation: string, where: StoreError.Where): SqlError.SqlError => {
  if (ended.isClosed) return closedError(where)
  const file = where.file === undefined ? "" : ` (${where.file})`
  const message = `Store \`${where.store}\`${file}: ${ended.message}. The outcome of the running statement is unknown. The next statement reopens the file.`
  return connectionError(ended, message, operation)
}

const lostMemory = (ended: ThreadEnded, where: StoreError.Where): SqlError.SqlError =>
  connectionError(
    ended,
    `Store \`${where.store}\` was in memory and is lost: ${ended.message}. Build the layer again.`,
    "connect"
  )

const storeErrorOf = (error: SqlError.SqlError, where: StoreError.Where): StoreError.StoreError =>
  StoreError.fromSqlError(error, where) ??
  new StoreError.StoreError({ reason: "unavailable", ...where, detail: error.message, cause: error })

/** Sends a request and returns its reply. A fault in the reply becomes a failure. */
const ask = (
  thread: SqliteThread,
  request: Request,
  operation: string,
  where: StoreError.Where
): Effect.Effect<Reply, SqlError.SqlError> =>
  Effect.matchEffect(thread.request(request), {
    onFailure: (ended) => Effect.fail(endedError(ended, operation, where)),
    onSuccess: (reply) =>
      reply.fault === undefined
        ? Effect.succeed(reply)
        : Effect.fail(sqlErrorOf(reply.fault, operation, where))
  })

// -----------------------------------------------------------------------------
// Locks of other processes
// -----------------------------------------------------------------------------

const isLocked = (error: unknown): boolean =>
  SqlError.isSqlError(error) && error.reason._tag === "LockTimeoutError"

const lockSchedule = (lockWait: Duration.Duration) =>
  Schedule.min([Schedule.exponential("4 millis", 1.5), Schedule.spaced("50 millis")]).pipe(
    Schedule.jittered,
    Schedule.upTo({ duration: lockWait })
  )

/** Retries a statement outside of transactions. Between attempts the connection is free and the wait interruptible. */
const waitForLock =
  (borrower: SqlConnection.Borrower, lockWait: Duration.Duration): SqlConnection.Borrower =>
  (f) => {
    const once = borrower(f)
    return Effect.catch(once, (error) =>
      isLocked(error)
        ? Effect.retry(once, { schedule: lockSchedule(lockWait), while: isLocked })
        : Effect.fail(error)
    )
  }

/** Retries the start of a transaction. Never runs its effect twice. */
const waitToBegin =
  (
    withTransaction: SqlClient.SqlClient["withTransaction"],
    lockWait: Duration.Duration
  ): SqlClient.SqlClient["withTransaction"] =>
  (effect) =>
    Effect.suspend(() => {
      let hasBegun = false
      const isWaiting = (error: unknown) => !hasBegun && isLocked(error)
      const once = withTransaction(
        Effect.suspend(() => {
          hasBegun = true
          return effect
        })
      )
      return Effect.catch(once, (error) =>
        isWaiting(error)
          ? Effect.retry(once, { schedule: lockSchedule(lockWait), while: isWaiting })
          : Effect.fail(error)
      )
    })

// -----------------------------------------------------------------------------
// A leased connection
// -----------------------------------------------------------------------------

interface Lease extends SqlConnection.Connection {
  readonly isTransaction: () => boolean
  /** Ends the lease with its transaction or with the scope of `reserve`. Later statements fail. */
  readonly end: () => void
}

const endsTransaction = (sql: string): boolean =>
  /^\s*(?:commit|end|rollback(?!\s+(?:transaction\s+)?to\b))\b/i.test(sql)

/** Ends the lease with the scope. A fiber that was forked inside may hold the connection for longer. */
const untilReleased = <E, R>(
  acquirer: Effect.Effect<Lease, E, R>
): Effect.Effect<Lease, E, R | Scope.Scope> =>
  Effect.tap(acquirer, (lease) => Effect.addFinalizer(() => Effect.sync(lease.end)))

/** The connection of one statement, one transaction or one `reserve`. Tracks whether its transaction is still open. */
const lease = (thread: SqliteThread, { where }: Settings): Lease => {
  let inTransaction = false
  /** The error with which SQLite rolled back the transaction. */
  let rolledBack: SqlError.SqlError | undefined
  let hasEnded = false

  const once = (request: Request, sql: string): Effect.Effect<Reply, SqlError.SqlError> =>
    Effect.matchEffect(thread.request(request), {
      onFailure: (ended) => {
        const error = endedError(ended, "execute", where)
        if (inTransaction) rolledBack = error
        inTransaction = false
        return Effect.fail(error)
      },
      onSuccess: (reply) => {
        const wasOpen = inTransaction
        inTransaction = reply.inTransaction
        if (reply.fault === undefined) return Effect.succeed(reply)
        const error = sqlErrorOf(reply.fault, "execute", where)
        if (wasOpen && !inTransaction && !endsTransaction(sql)) rolledBack = error
        return Effect.fail(error)
      }
    })

  const send = (request: Request, sql: string): Effect.Effect<Reply, SqlError.SqlError> =>
    Effect.suspend(() => {
      // The statement could join the transaction of another fiber, and be rolled back with it.
      if (hasEnded) return Effect.fail(outlived(where))
      const lost = rolledBack
      if (lost !== undefined) {
        // Running it now would be outside of any transaction.
        if (endsTransaction(sql)) rolledBack = undefined
        return Effect.fail(notRun(lost))
      }
      return once(request, sql)
    })

  const statement = (sql: string, params: ReadonlyArray<unknown>, mode: Mode, prepare: boolean) =>
    Effect.withFiber<unknown, SqlError.SqlError>((fiber) => {
      const bound = bind(params)
      if (typeof bound === "string") return Effect.fail(badParam(bound))
      const bigints = fiber.getRef(SqlClient.SafeIntegers)
      const request: Request = { op: "run", sql, params: bound, mode, prepare, bigints }
      return Effect.map(send(request, sql), ({ value }) => value)
    })

  const rows = (prepare: boolean): SqlConnection.Connection["execute"] => {
    return (sql, params, transform) =>
      Effect.map(statement(sql, params, "rows", prepare), (value) => {
        const all = value as ReadonlyArray<object> // The worker's reply in this mode.
        return transform === undefined ? all : transform(all)
      })
  }
  const values = (prepare: boolean): SqlConnection.Connection["executeValues"] => {
    return (sql, params) =>
      Effect.map(
        statement(sql, params, "values", prepare),
        (value) => value as ReadonlyArray<ReadonlyArray<unknown>> // The worker's reply in this mode.
      )
  }

  return {
    isTransaction: () => inTransaction,
    end: () => {
      hasEnded = true
    },
    execute: rows(true),
    executeUnprepared: rows(false),
    executeValues: values(true),
    executeValuesUnprepared: values(false),
    executeRaw: (sql, params) => statement(sql, params, "raw", true),
    executeStream: (sql, params, transform) =>
      Stream.unwrap(
        Effect.withFiber<Stream.Stream<object, SqlError.SqlError>, SqlError.SqlError, Scope.Scope>(
          (fiber) => {
            const bound = bind(params)
            if (typeof bound === "string") return Effect.fail(badParam(bound))
            const bigints = fiber.getRef(SqlClient.SafeIntegers)
            const drop = (cursor: number) => Effect.ignore(thread.request({ op: "drop", cursor }))
            return Effect.map(
              Effect.acquireRelease(
                Effect.map(
                  send({ op: "cursor", sql, params: bound, bigints }, sql),
                  ({ value }) => value as number // The worker's reply to "cursor".
                ),
                drop
              ),
              (cursor) =>
                Stream.paginate(cursor, () =>
                  Effect.map(send({ op: "fetch", cursor }, sql), ({ value }) => {
                    const { done, rows } = value as Page // The worker's reply to "fetch".
                    const page = transform === undefined ? rows : transform(rows)
                    return [page, done ? Option.none() : Option.some(cursor)] as const
                  })
                )
            )
          }
        )
      )
  }
}

/** The error of a statement whose fiber has outlived its transaction. */
const outlived = ({ store }: StoreError.Where): SqlError.SqlError => {
  const message = `Not run in store \`${store}\`: the transaction that this fiber was started in has ended, or its reserved connection. Wait for the fiber inside, or start it outside.`
  return new SqlError.SqlError({
    reason: new SqlError.UnknownError({ cause: new Error(message), message, operation: "execute" })
  })
}

/** The error of a statement after its transaction was rolled back. */
const notRun = ({ reason }: SqlError.SqlError): SqlError.SqlError => {
  const message = `Not run: the transaction was already rolled back with all of its statements. ${reason.message ?? ""}`
  const fields = { cause: reason.cause, message, operation: "execute" }
  return new SqlError.SqlError({
    reason:
      reason._tag === "ConnectionError"
        ? new SqlError.ConnectionError(fields)
        : new SqlError.UnknownError(fields)
  })
}

// -----------------------------------------------------------------------------
// Parameters
// -----------------------------------------------------------------------------

const badParam = (problem: string): SqlError.SqlError =>
  new SqlError.SqlError({
    reason: new SqlError.UnknownError({
      cause: new TypeError(problem),
      message: problem,
      operation: "execute"
    })
  })

/** The parameters as SQLite stores them, or the problem with one of them. Never shows a value. */
const bind = (params: ReadonlyArray<unknown>): ReadonlyArray<Param> | string => {
  const bound: Array<Param> = []
  for (const [index, param] of params.entries()) {
    const value = bindOne(param)
    if (value === undefined) {
      const kind =
        param instanceof Date
          ? "an invalid date"
          : typeof param === "object"
            ? "an object"
            : `a ${typeof param}`
      return `Parameter ${index + 1} is ${kind}: SQLite stores text, numbers, booleans, dates, bytes and null. Encode it first.`
    }
    bound.push(value)
  }
  return bound
}

const bindOne = (param: unknown): Param | undefined => {
  switch (typeof param) {
    case "string":
    case "bigint":
      return param
    case "number":
      // Node binds a number as a real, which a TEXT column would store as "5.0".
      return Number.isSafeInteger(param) && !Object.is(param, -0) ? BigInt(param) : param
    case "boolean":
      return param ? 1n : 0n
    case "undefined":
      return null
    default:
      if (param === null) return null
      if (param instanceof Date) return Number.isNaN(param.getTime()) ? undefined : param.toISOString()
      if (param instanceof ArrayBuffer) return new Uint8Array(param)
      return ArrayBuffer.isView(param) ? bytesOf(param) : undefined
  }
}

/** Copies the bytes of a view: a message would copy the whole buffer behind it, which Node's Buffers share. */
const bytesOf = ({ buffer, byteLength, byteOffset }: ArrayBufferView): Uint8Array => {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength)
  return byteLength === buffer.byteLength ? bytes : bytes.slice()
}
