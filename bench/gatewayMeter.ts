/** Loaded into each gateway of `gateway.ts`: tells its parent what the process has used so far. */
export interface Usage {
  /** Microseconds of CPU time, of all threads. */
  readonly cpu: number
}

process.on("message", (message) => {
  if (message !== "usage") return
  const { user, system } = process.cpuUsage()
  const usage: Usage = { cpu: user + system }
  process.send?.(usage)
})
