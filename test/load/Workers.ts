/**
 * Checks gates with many seeds, one seed at a time in each of several threads. A simulation runs synchronously, so one
 * thread uses one core.
 */
import { once } from "node:events"
import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import type { Verdict } from "./Gates.ts"
import { merged } from "./Gates.ts"

/** What a thread checks, in a form that can be sent to it. */
export interface Work {
  /** As after `--policy`. */
  readonly policy: string
  /** Names of gates. */
  readonly gates: ReadonlyArray<string>
}

/** The verdicts of all seeds. Rejects when a thread fails. */
export const check = async (work: Work, seeds: ReadonlyArray<number>): Promise<ReadonlyArray<Verdict>> => {
  const left = [...seeds]
  const found = new Map<number, ReadonlyArray<Verdict>>()
  const thread = async () => {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      workerData: work,
      // Also where the process itself runs without it, as in a test.
      execArgv: ["--conditions=@outlast/source"]
    })
    try {
      for (let seed = left.shift(); seed !== undefined; seed = left.shift()) {
        worker.postMessage(seed)
        // `once` rejects when the worker fails.
        const [verdicts]: ReadonlyArray<ReadonlyArray<Verdict>> = await once(worker, "message")
        found.set(seed, verdicts ?? [])
      }
    } finally {
      await worker.terminate()
    }
  }
  await Promise.all(Array.from({ length: Math.min(seeds.length, availableParallelism()) }, thread))
  // In the order of the seeds, so that equal values always show the same place.
  return seeds.flatMap((seed) => [found.get(seed) ?? []]).reduce(merged)
}
