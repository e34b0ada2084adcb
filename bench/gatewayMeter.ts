/** Loaded into each gateway of `gateway.ts`: tells its parent what the process has used so far. */
export interface Usage {
  /** Microseconds of CPU time, of all threads. */
  readonly cpu: number
  /** Bytes of memory, now and at most. */
  readonly rss: number
  readonly maxRss: number
}

process.on("message", (message) => {
  if (message !== "usage") return
  const { user, system } = process.cpuUsage()
  const usage: Usage = {
    cpu: user + system,
    rss: process.memoryUsage.rss(),
    maxRss: process.resourceUsage().maxRSS * 1_024
  }
  process.send?.(usage)
})
