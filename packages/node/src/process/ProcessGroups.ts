/**
 * Kills the supervised processes, with their groups and descendants, when this process ends in a hurry.
 *
 * A second signal, an uncaught error and `process.exit` run no finalizers. Handlers of `exit` still run. After SIGKILL
 * nothing runs: then the service manager or the container ends them.
 */
import * as Descendants from "./Descendants.ts"

const groups = new Set<number>()
const marks = new Set<string>()

let isInstalled = false

/** Registers a life of a process by the marker of its descendants, and returns what removes it again. */
export const begin = (mark: string): (() => void) => {
  if (!isInstalled) {
    isInstalled = true
    process.on("exit", killAll)
  }
  return added(marks, mark)
}

/** Registers the group with this leader, and returns what removes it again. */
export const add = (leader: number): (() => void) => added(groups, leader)

const added = <A>(set: Set<A>, value: A): (() => void) => {
  set.add(value)
  return () => void set.delete(value)
}

const killAll = (): void => {
  for (const leader of groups) {
    try {
      process.kill(-leader, "SIGKILL")
    } catch {
      // The group has ended.
    }
  }
  Descendants.killAll([...marks])
}
