/**
 * Kills the process groups of supervised processes when this process ends in a hurry.
 *
 * A second signal, an uncaught error and `process.exit` run no finalizers. Handlers of `exit` still run. After SIGKILL
 * nothing runs: then the service manager or the container ends the groups.
 */

const groups = new Set<number>()

let isInstalled = false

/** Registers the group with this leader, and returns what removes it again. */
export const add = (leader: number): (() => void) => {
  if (!isInstalled) {
    isInstalled = true
    process.on("exit", killAll)
  }
  groups.add(leader)
  return () => void groups.delete(leader)
}

const killAll = (): void => {
  for (const leader of groups) {
    try {
      process.kill(-leader, "SIGKILL")
    } catch {
      // The group has ended.
    }
  }
}
