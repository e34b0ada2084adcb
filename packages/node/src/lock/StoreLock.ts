/**
 * A lock between the processes of one machine, for a store that only one process may run.
 *
 * {@link acquire} holds `BEGIN EXCLUSIVE` of SQLite on an empty file that has no other use. The kernel keeps the
 * lock. It works across PID namespaces that share the file (containers with one volume), and while the process is
 * stopped by SIGSTOP. It is released as soon as the process ends, also after SIGKILL. No file has to be cleaned up.
 *
 * The empty file remains after a release: deleting it would let two processes lock two files of one name. The file
 * `<path>.pid` next to it names the holder: its process id on the first line, then JSON. It decides nothing.
 *
 * **Limits.** Linux and other POSIX systems; tested on Linux. It does not work on a network file system: a detected
 * one is rejected, FUSE and 9P give a warning. Deleting the file lets another process in; `isHeld` detects this. A
 * process that opens and closes the file by other means than this module loses the lock.
 *
 * **Example** (One process for a store; a new one waits for the old one to end)
 *
 * ```ts
 * const program = Effect.scoped(
 *   Effect.andThen(StoreLock.acquire("tasks.lock", { wait: "30 seconds" }), serve)
 * )
 * // StoreError: Store `lock` (/data/tasks.lock) is locked: process 4711 on web-1 holds it since
 * // 2026-03-01T12:00:00.000Z. Try again later, or end the other process.
 * ```
 */
import { Clock, Duration, Effect, Schedule } from "effect"
import type { Scope } from "effect"
import { statSync } from "node:fs"
import { hostname } from "node:os"
import { dirname, resolve } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import { InvalidOption, StoreError } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import * as NetworkFileSystem from "../file/NetworkFileSystem.ts"
import * as NodeSqlite from "../file/NodeSqlite.ts"
import * as PrivateFile from "../file/PrivateFile.ts"
import * as PidFile from "./PidFile.ts"
import * as Identity from "./ProcessIdentity.ts"

export interface Options {
  /** Time to wait for a lock that another process holds. Default 0: fail at once. */
  readonly wait?: Duration.Input | undefined
  /** `refuse`: reject a file on a detected network file system. Default "refuse". */
  readonly networkFileSystem?: "refuse" | "allow" | undefined
}

export const defaults = { wait: Duration.zero, networkFileSystem: "refuse" } as const

/** Time between two attempts to take a lock that is held. */
export const pause = Duration.millis(100)

/**
 * Milliseconds for which SQLite repeats an attempt. Two processes that begin at the same instant are in each other's way
 * for a moment, and without repeats neither gets the lock.
 */
const collision = 25

const checks: Check.Checks<Options> = {
  wait: Check.is.duration({ max: Duration.infinity }),
  networkFileSystem: Check.is.oneOf("refuse", "allow")
}

export interface StoreLock {
  /** The absolute path of the file. */
  readonly path: string
  /** False once the file was deleted, moved or replaced. Another process may then hold the lock, too. */
  readonly isHeld: Effect.Effect<boolean>
}

/** Holds the lock until the scope closes. Throws an `InvalidOption` for an invalid path or option. */
export const acquire = (
  path: string,
  options: Options = {}
): Effect.Effect<StoreLock, StoreError.StoreError, Scope.Scope> => {
  if (typeof path !== "string" || path === "") {
    throw new InvalidOption("StoreLock", "path", path, "the path of a file")
  }
  Check.fields("StoreLock", options, checks)
  const { networkFileSystem = defaults.networkFileSystem, wait = defaults.wait } = options
  const file = resolve(path)
  const once = Effect.acquireRelease(take(file), release)
  const acquired = Duration.isZero(Duration.fromInputUnsafe(wait))
    ? once
    : Effect.retry(once, {
        schedule: Schedule.spaced(pause).pipe(Schedule.upTo({ duration: wait })),
        while: ({ reason }) => reason === "locked"
      })
  return Effect.andThen(
    checkFileSystem(file, networkFileSystem),
    Effect.map(acquired, ({ identity }) => ({
      path: file,
      isHeld: Effect.sync(() => identityOf(file) === identity)
    }))
  )
}

interface Held {
  readonly database: DatabaseSync
  readonly file: string
  readonly identity: string
}

/** Databases that hold a lock. The reference keeps the garbage collector from closing them. */
const held = new Set<DatabaseSync>()

const take = (file: string): Effect.Effect<Held, StoreError.StoreError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.try({
      try: () => {
        const lock = lockNow(file)
        held.add(lock.database)
        PidFile.write(file, { ...Identity.own(), host: hostname(), since: new Date(now).toISOString() })
        return lock
      },
      catch: (error) => storeErrorOf(error, file)
    })
  )

const lockNow = (file: string): Held => {
  const unsupported = NodeSqlite.unsupported()
  if (unsupported !== undefined)
    // The file is not at fault.
    throw new StoreError.StoreError({ reason: "unavailable", store, ...unsupported })
  // Loaded here, so that an old Node can import the package.
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite")
  PrivateFile.create(file)
  const stat = statSync(file)
  if (!stat.isFile()) throw problem(file, "unavailable", "its path is not a regular file")
  if (stat.size > 0)
    throw problem(file, "corrupt", "it has content, and a lock needs an empty file of its own")
  const identity = identityOf(file)
  const database = new DatabaseSync(file, { timeout: collision })
  try {
    // The journal would be a file otherwise.
    database.exec("PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE")
    // The file was deleted in between, so this lock is on a file without a name.
    if (identity === undefined || identityOf(file) !== identity) throw locked(file)
    return { database, file, identity }
  } catch (error) {
    database.close()
    throw error
  }
}

const release = ({ database, file, identity }: Held): Effect.Effect<void> =>
  Effect.sync(() => {
    held.delete(database)
    // Removed while the lock is still held, because the next holder writes its own file.
    if (identityOf(file) === identity) PidFile.remove(file, Identity.own())
    database.close()
  })

/** `undefined` for a file that is missing or cannot be reached (e.g. its folder became a loop of links). */
const identityOf = (file: string): string | undefined => {
  try {
    const { dev, ino } = statSync(file, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return undefined
  }
}

const checkFileSystem = (
  file: string,
  policy: "refuse" | "allow"
): Effect.Effect<void, StoreError.StoreError> =>
  Effect.try({
    try: () => NetworkFileSystem.of(dirname(file)),
    catch: (error) => storeErrorOf(error, file)
  }).pipe(
    Effect.flatMap((network) => {
      if (network === undefined) return Effect.void
      if (network.verdict === "refuse" && policy === "refuse") {
        const detail = `it is on ${network.name}, where locks do not work`
        return Effect.fail(problem(file, "unavailable", detail))
      }
      return Effect.logWarning(
        `The lock ${file} is on ${network.name}, where locks between machines may not work.`
      )
    })
  )

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

const store = "lock"

const problem = (file: string, reason: StoreError.Reason, detail: string): StoreError.StoreError =>
  new StoreError.StoreError({ reason, store, file, detail })

const locked = (file: string): StoreError.StoreError =>
  problem(file, "locked", PidFile.describe(PidFile.read(file)))

const storeErrorOf = (cause: unknown, file: string): StoreError.StoreError => {
  if (cause instanceof StoreError.StoreError) return cause
  const error = StoreError.fromSqlError(
    { _tag: "SqlError", reason: { _tag: "UnknownError", cause } },
    { store, file }
  )
  if (error?.reason === "locked") return locked(file)
  return error ?? new StoreError.StoreError({ reason: "unavailable", store, file, cause })
}
