/**
 * The worker thread of a `SqliteClient`: one database, one request at a time.
 *
 * Everything that can block is in this thread: locks of other processes, `fsync`, long queries. The file runs from
 * sources and from `dist`, because it imports only Node's modules and relative paths.
 */
import { accessSync, constants, statSync } from "node:fs"
import { dirname } from "node:path"
import type { StatementSync } from "node:sqlite"
import { DatabaseSync } from "node:sqlite"
import type { MessagePort } from "node:worker_threads"
import { parentPort, workerData } from "node:worker_threads"
import * as NetworkFileSystem from "../file/NetworkFileSystem.ts"
import * as PrivateFile from "../file/PrivateFile.ts"
import type { Envelope, Fault, Opened, Opening, Page, Reply, Request } from "./SqliteProtocol.ts"

/** Number of prepared statements that are kept. The least recently used one is evicted first. */
const maxPrepared = 200
/** Rows of a cursor in one message. */
const pageSize = 256

const options = workerData as Opening // Written by SqliteThread.
const isMemory = options.filename === ":memory:"

/** A check of this module failed. */
class Found extends Error {
  readonly found: NonNullable<Fault["found"]>
  constructor(reason: NonNullable<Fault["found"]>["reason"], detail: string) {
    super(detail)
    this.found = { reason, detail }
  }
}

// -----------------------------------------------------------------------------
// Opening
// -----------------------------------------------------------------------------

let database: DatabaseSync | undefined
/** Identities of the open files, by path. A deleted file would take writes that are never read again. */
const identities = new Map<string, string>()

const identityOf = (path: string): string | undefined => {
  const stat = statSync(path, { throwIfNoEntry: false, bigint: true })
  return stat === undefined ? undefined : `${stat.dev}:${stat.ino}`
}

const open = (): Opened => {
  const warning = isMemory ? undefined : prepareFile(options.filename)
  const opened = new DatabaseSync(options.filename, { timeout: options.busyTimeout })
  try {
    const mode = opened.prepare("PRAGMA journal_mode=WAL").get()?.["journal_mode"]
    if (!isMemory && mode !== "wal") {
      throw new Found(
        "unavailable",
        `its file system does not allow a write-ahead log (mode: ${String(mode)})`
      )
    }
    opened.exec(`PRAGMA synchronous=${options.synchronous}`)
  } catch (error) {
    opened.close()
    throw error
  }
  database = opened
  if (!isMemory) remember(options.filename)
  return { warning }
}

const remember = (path: string): void => {
  const identity = identityOf(path)
  if (identity !== undefined) identities.set(path, identity)
}

/** Creates the file, or checks the existing one. Returns a warning, if any. */
const prepareFile = (filename: string): string | undefined => {
  const folder = dirname(filename)
  const network = NetworkFileSystem.of(folder)
  const isRefused = network?.verdict === "refuse" && options.networkFileSystem === "refuse"
  if (network !== undefined && isRefused) {
    throw new Found("unavailable", `it is on ${network.name}, where SQLite's locks do not work`)
  }
  // The write-ahead log is a separate file in this folder.
  if (!statSync(folder).isDirectory()) throw new Found("unavailable", "its parent path is not a folder")
  accessSync(folder, constants.W_OK | constants.X_OK)
  // Read before the file: a database that another process creates now has content before its log has any.
  const logSize = statSync(`${filename}-wal`, { throwIfNoEntry: false })?.size ?? 0
  const stat = statSync(filename, { throwIfNoEntry: false })
  if (stat === undefined && !options.create) {
    throw new Found("unavailable", "its file does not exist, and is not created")
  }
  if (stat !== undefined && !stat.isFile()) throw new Found("unavailable", "its path is not a regular file")
  // SQLite would delete the log of an empty file.
  if ((stat === undefined || stat.size === 0) && logSize > 0) {
    const what = stat === undefined ? "missing" : "empty"
    throw new Found("corrupt", `its file is ${what}, but its write-ahead log (-wal) exists`)
  }
  // SQLite treats a file of one byte as empty, and would overwrite it.
  if (stat?.size === 1) throw new Found("corrupt", "its file is not a SQLite database")
  if (stat === undefined) PrivateFile.create(filename)
  accessSync(filename, constants.R_OK | constants.W_OK)
  return network === undefined ? undefined : `is on ${network.name}, where SQLite's locks may not work`
}

/** SQLite's own code for a moved database (SQLITE_READONLY_DBMOVED), which it reports only in some cases. */
const movedCode = 1032

/** Throws if a file was deleted, moved or replaced since it was opened. */
const checkFiles = (): void => {
  const log = `${options.filename}-wal`
  // The log exists only after the first statement.
  if (!identities.has(log)) remember(log)
  for (const [path, identity] of identities) {
    if (identityOf(path) === identity) continue
    const message = `${path} was deleted, moved or replaced while it was open`
    throw Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode: movedCode })
  }
}

// -----------------------------------------------------------------------------
// Statements
// -----------------------------------------------------------------------------

const opened = (): DatabaseSync => {
  if (database === undefined) throw new Error("The database is not open.")
  return database
}

const prepared = new Map<string, StatementSync>()

const prepare = (sql: string): StatementSync => {
  const statement = opened().prepare(sql)
  // Node runs the first statement and ignores the rest. Only blanks and comments may follow.
  const rest = sql.slice(statement.sourceSQL.length).replaceAll(/--.*$|\/\*[^]*?\*\/|[\s;]/gm, "")
  if (rest !== "") throw new Error("One statement at a time: text follows its end. Nothing was run.")
  return statement
}

const prepareOnce = (sql: string): StatementSync => {
  const known = prepared.get(sql)
  const statement = known ?? prepare(sql)
  // Reinserts the statement at the end, because a Map iterates in the order of insertion.
  prepared.delete(sql)
  prepared.set(sql, statement)
  const [oldest] = prepared.keys()
  if (prepared.size > maxPrepared && oldest !== undefined) prepared.delete(oldest)
  return statement
}

const run = (request: Extract<Request, { readonly op: "run" }>): unknown => {
  const { bigints, mode, params, sql } = request
  const statement = request.prepare ? prepareOnce(sql) : prepare(sql)
  statement.setReadBigInts(bigints)
  statement.setReturnArrays(mode === "values")
  if (mode === "raw" && statement.columns().length === 0) return statement.run(...params)
  return statement.all(...params)
}

// -----------------------------------------------------------------------------
// Cursors
// -----------------------------------------------------------------------------

const cursors = new Map<number, Iterator<object>>()
let lastCursor = 0

const openCursor = ({ bigints, params, sql }: Extract<Request, { readonly op: "cursor" }>): number => {
  const statement = prepare(sql)
  statement.setReadBigInts(bigints)
  cursors.set(++lastCursor, statement.iterate(...params))
  return lastCursor
}

const fetch = (cursor: number): Page => {
  const rows: Array<object> = []
  for (let count = 0; count < pageSize; count++) {
    const next = cursors.get(cursor)?.next()
    if (next === undefined || next.done === true) return { rows, done: true }
    rows.push(next.value)
  }
  return { rows, done: false }
}

const dropCursor = (cursor: number): void => {
  cursors.get(cursor)?.return?.()
  cursors.delete(cursor)
}

const close = (): void => {
  for (const cursor of cursors.keys()) dropCursor(cursor)
  database?.close()
  database = undefined
  // With the port closed, nothing keeps the thread alive. Deno's port cannot be closed.
  const port: Partial<MessagePort> | null = parentPort
  if (port?.close === undefined) process.exit(0)
  parentPort?.close()
}

// -----------------------------------------------------------------------------
// Messages
// -----------------------------------------------------------------------------

const answer = (request: Request): unknown => {
  switch (request.op) {
    case "open":
      return open()
    case "run": {
      const value = run(request)
      if (!isMemory && !opened().isTransaction) checkFiles()
      return value
    }
    case "cursor":
      return openCursor(request)
    case "fetch":
      return fetch(request.cursor)
    case "drop":
      return dropCursor(request.cursor)
    case "close":
      return undefined
  }
}

const faultOf = (error: unknown): Fault => {
  if (!(error instanceof Error)) return { message: String(error) }
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown }
  return {
    message: error.message,
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof errcode === "number" ? { errcode } : {}),
    ...(error instanceof Found ? { found: error.found } : {})
  }
}

const reply = ({ id, request }: Envelope): Reply => {
  try {
    const value = answer(request)
    return { id, inTransaction: database?.isTransaction === true, value }
  } catch (error) {
    return { id, inTransaction: database?.isTransaction === true, fault: faultOf(error) }
  }
}

parentPort?.on("message", (envelope: Envelope) => {
  parentPort?.postMessage(reply(envelope))
  if (envelope.request.op === "close") close()
})
