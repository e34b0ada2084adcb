/**
 * Ends a process whose shutdown blocks the thread, for example in a loop without an end.
 *
 * No timer and no signal handler of such a process runs. A worker thread still does: it names the phase and kills the
 * process.
 */
import { Worker } from "node:worker_threads"
import { phases } from "./ShutdownState.ts"
import type { Status } from "./HostService.ts"

export interface Watchdog {
  /** Starts the time. */
  readonly start: (millis: number) => void
  readonly status: (status: Status) => void
}

const words: ReadonlyArray<string> = ["running", "draining", ...phases, "ended"]

// Plain JavaScript: a worker of the built package cannot load a file of the sources, nor the other way round.
const program = `
const { workerData } = require("node:worker_threads")
const { writeSync } = require("node:fs")
const { millis, phase, words } = workerData
setTimeout(() => {
  const where = words[new Int32Array(phase)[0]]
  try {
    writeSync(2, "Shutdown: the thread has been blocked in \`" + where + "\`. The process is killed.\\n")
  } catch {}
  process.kill(process.pid, "SIGKILL")
}, millis)
`

/** Without a listener, a worker that cannot start (no memory) would end the process in its shutdown. */
const ignore = (): void => {}

export const make = (): Watchdog => {
  const phase = new SharedArrayBuffer(4)
  const cell = new Int32Array(phase)
  return {
    start: (millis) => {
      try {
        const worker = new Worker(program, { eval: true, workerData: { millis, phase, words } })
        worker.on("error", ignore)
        worker.unref()
      } catch {
        // No worker is allowed (`node --permission`). The shutdown goes on without the watchdog.
      }
    },
    status: (status) => {
      cell[0] = words.indexOf(status)
    }
  }
}
