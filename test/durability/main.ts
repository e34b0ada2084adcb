/** `npm run durability -- delivery [--rounds N] [--seed TEXT] [--parallel N] [--json]`: real kills, counted. */
import { parseArgs } from "node:util"
import { Effect } from "effect"
import { run } from "./delivery.ts"

const usage = "Usage: npm run durability -- delivery [--rounds 200] [--seed 1] [--parallel 3] [--json]"

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    parallel: { type: "string", default: "3" },
    json: { type: "boolean", default: false }
  }
})
const rounds = Number(values.rounds)
const parallel = Number(values.parallel)

if (positionals.join() !== "delivery" || !(rounds >= 1) || !(parallel >= 1)) {
  console.error(usage)
  process.exit(2)
}

const started = performance.now()
const result = await Effect.runPromise(run({ rounds, seed: values.seed, parallel }))
const seconds = Math.round((performance.now() - started) / 1_000)
if (values.json) console.log(JSON.stringify({ ...result, seconds }))
else {
  console.log(
    [
      `${result.rounds} rounds in ${seconds} s, seed ${values.seed}`,
      `${result.kills} publishing processes killed, ${result.pauses} paused; the broker was down ${result.outages} times`,
      `${result.leasesLost} leases lost to another process`,
      `${result.events} events accepted, ${result.stored} of them stored first`,
      `${result.duplicates} delivered again, ${result.handledLate} handled late by the consumer, ${result.deadLetters} dead letters`,
      `lost: ${result.lost}, out of order: ${result.outOfOrder}`
    ].join("\n")
  )
}
process.exit(result.lost + result.outOfOrder === 0 ? 0 : 1)
