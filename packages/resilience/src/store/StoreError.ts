/**
 * The error of a store that cannot do its work: a database on this machine or on another one.
 *
 * `reason` says what is wrong with the store, whatever the database is, so that a program decides once: `full` and
 * `readOnly` need an operator, `locked` and `unavailable` are often transient, `corrupt` needs a backup.
 * {@link fromSqlError} reads the codes of SQLite (node:sqlite's `errcode`, better-sqlite3's `code`), PostgreSQL
 * (SQLSTATE) and the operating system out of a `SqlError` of `effect/sql`.
 *
 * **What it does not do.** A wrong statement (syntax, a constraint, a missing table) is no problem of the
 * store: `fromSqlError` gives `undefined` for it. A message has no SQL, no values and no credentials.
 *
 * **Example** (Errors of a store, and defects of its statements)
 *
 * ```ts
 * sql`INSERT INTO events ${sql.insert(rows)}`.pipe(StoreError.mapSqlError({ store: "outbox", file: "outbox.db" }))
 * // StoreError: Store `outbox` (outbox.db) is full: no space is left on its disk (SQLite error 13). Free some space.
 * ```
 */
import { Cause, Effect, Schema } from "effect"
import * as ErrorText from "../ErrorText.ts"

/**
 * - `full`: no space left on the disk, or the quota or the size limit of the database is used up
 * - `readOnly`: the file, its folder or the server takes no writes
 * - `locked`: another process or transaction holds what the statement needs
 * - `corrupt`: the file is damaged, or is no database
 * - `unavailable`: the file, the server or its connection is gone
 */
export type Reason = "full" | "readOnly" | "locked" | "corrupt" | "unavailable"

export const reasons: ReadonlyArray<Reason> = ["full", "readOnly", "locked", "corrupt", "unavailable"]

export class StoreError extends Schema.TaggedError<StoreError>("@outlast/resilience/store/StoreError")(
  "StoreError",
  {
    reason: Schema.Literals(["full", "readOnly", "locked", "corrupt", "unavailable"]),
    /** The store's name, for example `outbox`. */
    store: Schema.String,
    /** File or address of the store, without credentials. */
    file: Schema.optional(Schema.String),
    /** Details that the reason does not give, for example `its file was deleted while it was open`. */
    detail: Schema.optional(Schema.String),
    /** The database's own code, for example `SQLite error 13` or `SQLSTATE 53100`. */
    code: Schema.optional(Schema.String),
    /** What to do, where the words of the reason do not fit, e.g. for a runtime without the database. */
    next: Schema.optional(Schema.String),
    cause: Schema.optional(Schema.Defect())
  }
) {
  /** True when the same operation may succeed later without anyone acting. */
  get isRetryable(): boolean {
    return this.reason === "locked" || (this.reason === "unavailable" && this.next === undefined)
  }

  override get message(): string {
    const { what } = words[this.reason]
    const next = this.next ?? words[this.reason].next
    const where = this.file === undefined ? "" : ` (${this.file})`
    const code = this.code === undefined ? "" : ` (${this.code})`
    return `Store \`${this.store}\`${where} is ${what}: ${this.detail ?? words[this.reason].why}${code}. ${next}`
  }
}

ErrorText.printedOnce(StoreError)

const words: Readonly<
  Record<Reason, { readonly what: string; readonly why: string; readonly next: string }>
> = {
  full: {
    what: "full",
    why: "no space is left on its disk, or its size limit is reached",
    next: "Nothing was stored. Free some space, or raise the limit."
  },
  readOnly: {
    what: "read-only",
    why: "it takes no writes",
    next: "Nothing was stored. Check the permissions of the file and its folder, and how the disk is mounted."
  },
  locked: {
    what: "locked",
    why: "another process or transaction holds it",
    next: "Try again later, or end the other process."
  },
  corrupt: {
    what: "corrupt",
    why: "its file is damaged, or is no database",
    next: "It was left as it is. Move it away and restore a backup, or begin with a new file."
  },
  unavailable: {
    what: "unavailable",
    why: "it cannot be reached",
    next: "Check that the file and its folder, or the server, are there."
  }
}

/** Where an error happened. */
export interface Where {
  /** The store's name for people, for example `outbox`. */
  readonly store: string
  /** File or address of the store. A password in an address is not kept. */
  readonly file?: string | undefined
}

/** As much of a `SqlError` as is read: `resilience` does not import `effect/sql`. */
export interface SqlErrorLike {
  readonly _tag: "SqlError"
  readonly reason: { readonly _tag: string; readonly cause?: unknown }
}

/**
 * The store's part in a `SqlError`; `undefined` where the statement is at fault. A cause that is a `StoreError` already
 * is returned as it is: the client knew more than a code says.
 */
export const fromSqlError = (error: SqlErrorLike, { store, file }: Where): StoreError | undefined => {
  if (error.reason.cause instanceof StoreError) return error.reason.cause
  const found = findCode(error.reason.cause, 0)
  // A code that says that the statement is at fault decides, too.
  const verdict = found === undefined ? ofTag[error.reason._tag] : found.verdict
  if (verdict === undefined) return undefined
  return new StoreError({
    reason: verdict.reason,
    store,
    ...(file === undefined ? {} : { file: withoutCredentials(file) }),
    ...(verdict.detail === undefined ? {} : { detail: verdict.detail }),
    ...(found === undefined ? {} : { code: found.code }),
    cause: error
  })
}

/**
 * Turns the `SqlError`s of an effect into `StoreError`s. A fault of the statement is a mistake in the program: it
 * becomes a defect.
 */
export const mapSqlError =
  (where: Where) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlErrorLike> | StoreError, R> =>
    Effect.catch(effect, (error): Effect.Effect<never, Exclude<E, SqlErrorLike> | StoreError> => {
      if (!isSqlError(error)) return Effect.fail(error as Exclude<E, SqlErrorLike>) // By the check.
      const told = fromSqlError(error, where)
      return told === undefined ? Effect.die(error) : Effect.fail(told)
    })

const isSqlError = (error: unknown): error is SqlErrorLike =>
  isObject(error) && error["_tag"] === "SqlError" && isObject(error["reason"])

interface Verdict {
  readonly reason: Reason
  readonly detail?: string | undefined
}

interface Found {
  readonly code: string
  /** Absent where the statement is at fault. */
  readonly verdict: Verdict | undefined
}

/** Verdicts by the class that `effect/sql` gave the error, where no code is known. */
const ofTag: Readonly<Record<string, Verdict>> = {
  ConnectionError: { reason: "unavailable" },
  AuthenticationError: { reason: "unavailable", detail: "it refused the credentials" },
  AuthorizationError: { reason: "readOnly", detail: "access is denied" },
  DeadlockError: { reason: "locked" },
  SerializationError: { reason: "locked" },
  LockTimeoutError: { reason: "locked" },
  StatementTimeoutError: { reason: "unavailable", detail: "it did not answer in time" }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** Causes deeper than this are not searched: a chain of causes may be a circle. */
const deepest = 6

/** The first known code of an error and of its causes, from the outside. */
const findCode = (error: unknown, depth: number): Found | undefined => {
  if (!isObject(error) || depth > deepest) return undefined
  const own = codeOf(error)
  if (own !== undefined) return own
  // `errors` of an AggregateError: a connection that was tried by several addresses.
  const inner = [
    error["cause"],
    error["reason"],
    ...(Array.isArray(error["errors"]) ? error["errors"] : []),
    ...(Cause.isCause(error)
      ? error.reasons.map((reason) =>
          Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : undefined
        )
      : [])
  ]
  for (const one of inner) {
    const found = findCode(one, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

const codeOf = (error: Readonly<Record<string, unknown>>): Found | undefined => {
  const { errcode, errno, code } = error
  if (code === "ERR_SQLITE_ERROR" && typeof errcode === "number") return sqlite(errcode)
  // better-sqlite3 has a name, other drivers have the number beside it.
  if (typeof code === "string" && code.startsWith("SQLITE_")) {
    return typeof errno === "number" && errno > 0 ? sqlite(errno) : sqliteByName(code)
  }
  if (typeof code !== "string") return undefined
  const ofSystem = systemCodes[code]
  if (ofSystem !== undefined) return { code, verdict: ofSystem }
  // Five characters, as PostgreSQL's class and subclass are; a system's code of five letters begins with E.
  return /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code) ? postgres(code) : undefined
}

// -----------------------------------------------------------------------------
// SQLite: https://www.sqlite.org/rescode.html
// -----------------------------------------------------------------------------

const denied: Verdict = { reason: "readOnly", detail: "access is denied" }
const ioError: Verdict = { reason: "unavailable", detail: "its disk reports an error" }

/** Verdicts by the primary code of SQLite, the lower 8 bits. */
const sqlitePrimary: Readonly<Record<number, Verdict>> = {
  3: denied,
  5: { reason: "locked" },
  6: { reason: "locked" },
  7: { reason: "unavailable", detail: "no memory is left" },
  8: { reason: "readOnly" },
  10: ioError,
  11: { reason: "corrupt" },
  13: { reason: "full" },
  14: { reason: "unavailable", detail: "its file cannot be opened" },
  15: { reason: "locked" },
  22: ioError,
  23: denied,
  24: { reason: "corrupt" },
  26: { reason: "corrupt", detail: "its file is no SQLite database, or its header is damaged" }
}

const gone: Verdict = {
  reason: "unavailable",
  detail: "its file was deleted, moved or replaced while it was open"
}

/** Extended codes that say more than their primary one. */
const sqliteExtended: Readonly<Record<number, Verdict>> = {
  // SQLITE_READONLY_DBMOVED, SQLITE_IOERR_FSTAT, SQLITE_IOERR_VNODE: node:sqlite gave 1802 for a deleted file.
  1032: gone,
  1802: gone,
  6922: gone,
  // SQLITE_IOERR_DATA (a checksum), SQLITE_IOERR_CORRUPTFS
  8202: { reason: "corrupt" },
  8458: { reason: "corrupt" },
  // SQLITE_IOERR_SHMSIZE: the index of the write-ahead log could not grow. Only a full disk does that.
  4874: { reason: "full" }
}

const sqlite = (errcode: number): Found => ({
  code: `SQLite error ${errcode}`,
  verdict: sqliteExtended[errcode] ?? sqlitePrimary[errcode & 0xff]
})

const sqliteNames: ReadonlyArray<readonly [name: string, code: number]> = [
  ["SQLITE_PERM", 3],
  ["SQLITE_BUSY", 5],
  ["SQLITE_LOCKED", 6],
  ["SQLITE_NOMEM", 7],
  ["SQLITE_READONLY_DBMOVED", 1032],
  ["SQLITE_READONLY", 8],
  ["SQLITE_IOERR_FSTAT", 1802],
  ["SQLITE_IOERR_VNODE", 6922],
  ["SQLITE_IOERR_DATA", 8202],
  ["SQLITE_IOERR_CORRUPTFS", 8458],
  ["SQLITE_IOERR_SHMSIZE", 4874],
  ["SQLITE_IOERR", 10],
  ["SQLITE_CORRUPT", 11],
  ["SQLITE_FULL", 13],
  ["SQLITE_CANTOPEN", 14],
  ["SQLITE_PROTOCOL", 15],
  ["SQLITE_NOLFS", 22],
  ["SQLITE_AUTH", 23],
  ["SQLITE_FORMAT", 24],
  ["SQLITE_NOTADB", 26]
]

const sqliteByName = (name: string): Found => {
  const known = sqliteNames.find(([known]) => name === known || name.startsWith(`${known}_`))
  return { code: name, verdict: known === undefined ? undefined : sqlite(known[1]).verdict }
}

// -----------------------------------------------------------------------------
// PostgreSQL: https://www.postgresql.org/docs/current/errcodes-appendix.html
// -----------------------------------------------------------------------------

const connection: Verdict = { reason: "unavailable", detail: "its connection is gone" }

/** Verdicts by the whole SQLSTATE. */
const postgresStates: Readonly<Record<string, Verdict>> = {
  "25006": { reason: "readOnly", detail: "the server takes only reads: it may be a replica" },
  "40001": { reason: "locked" },
  "40P01": { reason: "locked" },
  "42501": denied,
  "53100": { reason: "full" },
  "53300": { reason: "unavailable", detail: "it has too many connections" },
  "55P03": { reason: "locked" },
  "55006": { reason: "locked" },
  "57014": { reason: "unavailable", detail: "it ended the statement: a time limit or an operator" },
  "3D000": { reason: "unavailable", detail: "the database does not exist" },
  "58P01": { reason: "corrupt", detail: "a file of the database is missing" }
}

/** Verdicts by the class of the SQLSTATE, its first two characters. */
const postgresClasses: Readonly<Record<string, Verdict>> = {
  "08": connection,
  "28": { reason: "unavailable", detail: "it refused the credentials" },
  "53": { reason: "unavailable", detail: "it lacks memory or another resource" },
  "57": { reason: "unavailable", detail: "the server is starting, or shutting down" },
  "58": ioError,
  F0: { reason: "unavailable", detail: "its configuration is wrong" },
  XX: { reason: "corrupt", detail: "the server found damaged data, or an error of its own" }
}

const postgres = (state: string): Found => ({
  code: `SQLSTATE ${state}`,
  verdict: postgresStates[state] ?? postgresClasses[state.slice(0, 2)]
})

/** Codes of Node and of the operating system. */
const systemCodes: Readonly<Record<string, Verdict>> = {
  ENOSPC: { reason: "full" },
  EDQUOT: { reason: "full" },
  EROFS: { reason: "readOnly" },
  EACCES: denied,
  EPERM: denied,
  ENOENT: { reason: "unavailable", detail: "its file or folder does not exist" },
  ENOTDIR: { reason: "unavailable", detail: "its folder is no folder" },
  EIO: ioError,
  ESTALE: gone,
  ECONNREFUSED: { reason: "unavailable", detail: "the server refuses connections" },
  ECONNRESET: connection,
  EPIPE: connection,
  ETIMEDOUT: connection,
  EHOSTUNREACH: connection,
  ENETUNREACH: connection,
  ENOTFOUND: { reason: "unavailable", detail: "its host name is not known" },
  EAI_AGAIN: { reason: "unavailable", detail: "its host name cannot be looked up" }
}

/** An address without its user and password, and without its query, which may name a password, too. */
const withoutCredentials = (file: string): string =>
  /^[a-z][a-z0-9+.-]*:\/\//i.test(file)
    ? file.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, "$1").replace(/[?#].*$/, "")
    : file
