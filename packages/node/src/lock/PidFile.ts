/**
 * Names the process that holds a lock, in the file `<lock>.pid`. The lock decides, not this file.
 *
 * The first line is the process id, for people and scripts (`kill $(head -1 agent.lock.pid)`). The second line is
 * JSON with the host, the time, and what identifies the process after its id was reused.
 *
 * A complete temporary file is linked into place by `link(2)`, so a reader never sees a part, and a file of another
 * process is never overwritten. Only the holder of the lock may call {@link write} and {@link remove}.
 *
 * **Limits.** Best effort: a full disk leaves no pid file, and the lock is held nevertheless.
 */
import { Option, Schema } from "effect"
import { linkSync, readFileSync, renameSync, statSync, unlinkSync, writeFileSync } from "node:fs"
import type { ProcessIdentity } from "./ProcessIdentity.ts"
import * as Identity from "./ProcessIdentity.ts"

/** The process that holds a lock, or held it last. */
export interface Holder extends ProcessIdentity {
  readonly host: string
  /** ISO time at which it took the lock. */
  readonly since: string
}

const Details = Schema.fromJsonString(
  Schema.Struct({
    host: Schema.String,
    since: Schema.String,
    start: Schema.optional(Schema.String),
    boot: Schema.optional(Schema.String),
    namespace: Schema.optional(Schema.String)
  })
)

/** Largest pid file that is read, in bytes. A foreign file may have any size. */
const longest = 4_096

const pathOf = (lock: string): string => `${lock}.pid`

/** Names this process as the holder. Replaces the file of a holder that has ended. */
export const write = (lock: string, { pid, ...details }: Holder): void =>
  ignoreErrors(() => {
    const path = pathOf(lock)
    const draft = `${path}.new`
    // Left behind by a process that was killed right here.
    ignoreErrors(() => unlinkSync(draft))
    writeFileSync(draft, `${pid}\n${JSON.stringify(details)}\n`, { mode: 0o600, flag: "wx" })
    ignoreErrors(() => unlinkSync(path))
    try {
      linkSync(draft, path)
    } catch {
      // The file system has no hard links.
      ignoreErrors(() => renameSync(draft, path))
    }
    ignoreErrors(() => unlinkSync(draft))
  })

/** The holder that the file names; `undefined` where the file is missing or is no pid file. */
export const read = (lock: string): Holder | undefined => {
  let content = ""
  ignoreErrors(() => {
    // Not a named pipe, whose reading would not end.
    const stat = statSync(pathOf(lock))
    if (stat.isFile() && stat.size <= longest) content = readFileSync(pathOf(lock), "utf8")
  })
  const [first = "", second = ""] = content.split("\n")
  const details = Option.getOrUndefined(Schema.decodeUnknownOption(Details)(second))
  // 0 and negative numbers would address groups of processes.
  return details === undefined || !/^[1-9]\d{0,9}$/.test(first)
    ? undefined
    : { pid: Number(first), ...details }
}

/** Removes the file if it names `holder`. After a takeover it names another process. */
export const remove = (lock: string, holder: ProcessIdentity): void =>
  ignoreErrors(() => {
    const named = read(lock)
    if (named !== undefined && Identity.isSame(named, holder)) unlinkSync(pathOf(lock))
  })

/** The holder in words: `process 4711 on web-1 holds it since 2026-03-01T12:00:00.000Z`. */
export const describe = (holder: Holder | undefined): string =>
  holder === undefined
    ? "another process holds it"
    : `process ${holder.pid} on ${holder.host} holds it since ${holder.since}`

const ignoreErrors = (f: () => void): void => {
  try {
    f()
  } catch {
    // The file decides nothing.
  }
}
