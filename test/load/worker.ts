/** A thread of `Workers.ts`: receives a seed, and answers with its verdicts. */
import { parentPort, workerData } from "node:worker_threads"
import { policyOf } from "./Command.ts"
import * as Gates from "./Gates.ts"
import type { Work } from "./Workers.ts"

// Sent by `Workers.ts`.
const { policy, gates } = workerData as Work
const options = await policyOf(policy)
const wanted = Gates.gates.filter(({ name }) => gates.includes(name))

parentPort?.on("message", (seed: number) => {
  parentPort?.postMessage(Gates.check(options, [seed], wanted))
})
