/**
 * A lock between the processes of one machine: for a store that two processes must not run at once.
 *
 * {@link acquire} holds `BEGIN EXCLUSIVE` of SQLite on an empty file that has no other use. The kernel keeps the lock: it
 * holds across PID namespaces that share the file (containers with one volume), while the process is stopped by SIGSTOP,
 * and it is free as soon as the process is gone, also after SIGKILL. No file has to be cleaned up.
 *
 * The file stays, empty, after a release: deleting it would let two processes lock two files of one name. Beside it lies
 * `<path>.holder` with the process, host and time of the last holder, for messages only.
 *
 * **Limits.** Linux and other POSIX systems; tried on Linux. It does not hold on a network file system: one that is
 * recognised is refused, FUSE and 9P give a warning. Whoever deletes the file lets another process in: `isHeld` tells.
 * A process that opens and closes the file by other means than this module loses the lock.
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
import { Clock, Duration, Effect, Option, Schedule, Schema } from "effect"
import type { Scope } from "effect"
import { readFileSync, renameSync, statSync, unlinkSync, writeFileSync } from "node:fs"
import { hostname } from "node:os"
import { dirname, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { InvalidOption, StoreError } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"
import * as NetworkFileSystem from "../file/NetworkFileSystem.ts"
import * as PrivateFile from "../file/PrivateFile.ts"

export interface Options {
  /** How long to wait for a lock that another process holds. Default 0: fail at once. */
  readonly wait?: Duration.Input | undefined
  /** `refuse`: no lock on a network file system, where it is recognised. Default "refuse". */
  readonly networkFileSystem?: "refuse" | "allow" | undefined
}

export const defaults = { wait: Duration.zero, networkFileSystem: "refuse" } as const

/** The pause between two looks at a lock that is held. */
export const pause = Duration.millis(100)

const checks: Check.Checks<Options> = {
  wait: Check.is.duration({ max: Duration.infinity }),
  networkFileSystem: Check.is.oneOf("refuse", "allow")
}

export interface StoreLock {
  /** The absolute path of the file. */
  readonly path: string
  /** False once the file was deleted, moved or replaced: another process may hold the lock, too, then. */
  readonly isHeld: Effect.Effect<boolean>
}

/** Holds the lock until the scope closes. Throws an `InvalidOption` for a wrong path or option. */
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

/** Databases that hold a lock: one that nothing refers to would be closed with the garbage. */
const held = new Set<DatabaseSync>()

const take = (file: string): Effect.Effect<Held, StoreError.StoreError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.try({
      try: () => {
        const lock = lockNow(file)
        held.add(lock.database)
        writeHolder(file, now)
        return lock
      },
      catch: (error) => storeErrorOf(error, file)
    })
  )

const lockNow = (file: string): Held => {
  PrivateFile.create(file)
  const stat = statSync(file)
  if (!stat.isFile()) throw problem(file, "unavailable", "its path is no regular file")
  if (stat.size > 0)
    throw problem(file, "corrupt", "it has content, and a lock needs an empty file of its own")
  const identity = identityOf(file)
  const database = new DatabaseSync(file, { timeout: 0 })
  try {
    // Without a journal in memory there would be a file for it.
    database.exec("PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE")
    // Deleted between the two: this lock is on a file that has no name any more.
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
    // While it is still locked: the next holder writes its own.
    if (identityOf(file) === identity) ignoreErrors(() => unlinkSync(holderFile(file)))
    database.close()
  })

const identityOf = (file: string): string | undefined => {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true })
  return stat === undefined ? undefined : `${stat.dev}:${stat.ino}`
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
        const detail = `it lies on ${network.name}, where locks do not hold`
        return Effect.fail(problem(file, "unavailable", detail))
      }
      return Effect.logWarning(
        `The lock ${file} lies on ${network.name}, where locks may not hold between machines.`
      )
    })
  )

// -----------------------------------------------------------------------------
// The holder, for people
// -----------------------------------------------------------------------------

const Holder = Schema.fromJsonString(
  Schema.Struct({ pid: Schema.Int, host: Schema.String, since: Schema.String })
)

const holderFile = (file: string): string => `${file}.holder`

/** Best effort: a full disk is no reason to refuse a lock. */
const writeHolder = (file: string, now: number): void =>
  ignoreErrors(() => {
    const holder = { pid: process.pid, host: hostname(), since: new Date(now).toISOString() }
    const draft = `${holderFile(file)}.new`
    writeFileSync(draft, JSON.stringify(holder), { mode: 0o600 })
    renameSync(draft, holderFile(file))
  })

const holderOf = (file: string): string => {
  let text = ""
  ignoreErrors(() => {
    text = readFileSync(holderFile(file), "utf8")
  })
  const holder = Option.getOrUndefined(Schema.decodeUnknownOption(Holder)(text))
  return holder === undefined
    ? "another process holds it"
    : `process ${holder.pid} on ${holder.host} holds it since ${holder.since}`
}

const ignoreErrors = (f: () => void): void => {
  try {
    f()
  } catch {
    // Nothing depends on it.
  }
}

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

const store = "lock"

const problem = (file: string, reason: StoreError.Reason, detail: string): StoreError.StoreError =>
  new StoreError.StoreError({ reason, store, file, detail })

const locked = (file: string): StoreError.StoreError => problem(file, "locked", holderOf(file))

const storeErrorOf = (cause: unknown, file: string): StoreError.StoreError => {
  if (cause instanceof StoreError.StoreError) return cause
  const error = StoreError.fromSqlError(
    { _tag: "SqlError", reason: { _tag: "UnknownError", cause } },
    { store, file }
  )
  if (error?.reason === "locked") return locked(file)
  return error ?? new StoreError.StoreError({ reason: "unavailable", store, file, cause })
}
