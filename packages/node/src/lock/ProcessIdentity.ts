/**
 * Identifies a process beyond its process id, which the kernel reuses.
 *
 * A process id with its start time, the boot of the machine and the PID namespace names one process forever. All of
 * them come from `/proc`.
 *
 * **Limits.** Linux only. Without `/proc` (macOS), or with the `/proc` of another PID namespace, only the process id
 * is known: {@link compare} then says `unknown`.
 */
import { readFileSync, readlinkSync } from "node:fs"

export interface ProcessIdentity {
  readonly pid: number
  /** Clock ticks from the boot to the start of the process. */
  readonly start?: string | undefined
  /** Random id of this boot of the machine. */
  readonly boot?: string | undefined
  /** The PID namespace, for example `pid:[4026531836]`. */
  readonly namespace?: string | undefined
}

/** Where `/proc` is. Tests replace it. */
const procFolder = "/proc"

/** The identity of this process. */
export const own = (proc: string = procFolder): ProcessIdentity => {
  const stat = statOf("self", proc)
  // A namespace without a `/proc` of its own sees the processes of another one under wrong ids.
  if (stat === undefined || stat.pid !== process.pid) return { pid: process.pid }
  return {
    pid: process.pid,
    start: stat.start,
    boot: text(() => readFileSync(`${proc}/sys/kernel/random/boot_id`, "utf8").trim()),
    namespace: text(() => readlinkSync(`${proc}/self/ns/pid`))
  }
}

/**
 * - `running`: this very process runs
 * - `ended`: it has ended, and its process id may belong to another process
 * - `elsewhere`: it is in another PID namespace, where its process id means another process
 * - `unknown`: the operating system does not say
 */
export type Verdict = "running" | "ended" | "elsewhere" | "unknown"

/** Looks for the process that `identity` describes. */
export const compare = (identity: ProcessIdentity, proc: string = procFolder): Verdict => {
  const self = own(proc)
  const { start, boot, namespace, pid } = identity
  if (self.start === undefined || start === undefined) return "unknown"
  if (boot !== undefined && self.boot !== undefined && boot !== self.boot) return "ended"
  if (namespace !== self.namespace) return "elsewhere"
  return statOf(String(pid), proc)?.start === start ? "running" : "ended"
}

/** True when both describe the same process. */
export const isSame = (a: ProcessIdentity, b: ProcessIdentity): boolean =>
  a.pid === b.pid && a.start === b.start && a.boot === b.boot && a.namespace === b.namespace

/** Reads the process id (field 1) and the start time (field 22) of `/proc/PID/stat`. Returns `undefined` for a missing process. */
const statOf = (pid: string, proc: string) => {
  const line = text(() => readFileSync(`${proc}/${pid}/stat`, "utf8"))
  if (line === undefined) return undefined
  // Field 2 is the command in parentheses, and may contain spaces and parentheses.
  const start = line
    .slice(line.lastIndexOf(")") + 2)
    .split(" ")
    .at(19)
  return start === undefined ? undefined : { pid: Number.parseInt(line, 10), start }
}

const text = (read: () => string): string | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}
