/**
 * Ends the descendants of a supervised process that are outside of its process group, for example by `setsid`.
 *
 * Each life of a process has a variable of its own in its environment, with a name that cannot be guessed. All of its
 * descendants inherit it, and Linux shows the environment of each process in `/proc`. After the end of the life, one
 * look usually finds none. Others get SIGTERM, and SIGKILL after {@link patience} looks.
 *
 * **Limits.** Linux only: elsewhere nothing is found. A descendant that clears or overwrites its environment, or that
 * belongs to another user, is not found. A look reads `/proc` without a pause: about 0.1 ms for each process of the machine.
 */
import { Duration, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync, readlinkSync } from "node:fs"

/** Name of the variable for one life of a process. */
export const marker = (): string => `OUTLAST_LIFE_${randomUUID().replaceAll("-", "")}`

/** Looks with SIGTERM, and looks at all. A descendant may start others while it ends. */
const patience = 10
const looks = 40
const pause = Duration.millis(50)

/** Ends all processes with this marker, and waits for their end. */
export const end = (mark: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    const told = new Set<number>()
    for (let look = 0; look < looks; look++) {
      const isLate = look >= patience
      const left = found([mark], (pid) => {
        if (isLate || !told.has(pid)) kill(pid, isLate ? "SIGKILL" : "SIGTERM")
        told.add(pid)
      })
      if (left === 0) return
      yield* Effect.sleep(pause)
    }
  })

/** Kills all processes with one of these markers, without waiting. */
export const killAll = (marks: ReadonlyArray<string>): void => {
  if (marks.length === 0) return
  for (let look = 0; look < patience; look++) if (found(marks, (pid) => kill(pid, "SIGKILL")) === 0) return
}

const kill = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // The process has ended.
  }
}

/** Calls `act` for each process with one of these markers, at once: later its id may be another one's. Counts them. */
const found = (marks: ReadonlyArray<string>, act: (pid: number) => void): number => {
  let count = 0
  for (const pid of pids()) {
    if (pid === process.pid || !has(pid, marks)) continue
    count++
    act(pid)
  }
  return count
}

const pids = (): ReadonlyArray<number> => {
  try {
    // The `/proc` of another PID namespace has other processes under these ids.
    if (readlinkSync("/proc/self") !== String(process.pid)) return []
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 0)
  } catch {
    return []
  }
}

const has = (pid: number, marks: ReadonlyArray<string>): boolean => {
  try {
    const environment = `\0${readFileSync(`/proc/${pid}/environ`, "latin1")}`
    return marks.some((mark) => environment.includes(`\0${mark}=`))
  } catch {
    // The process has ended, or belongs to another user.
    return false
  }
}
