/**
 * `npm run durability -- delivery|host|tasks [--rounds N] [--pairs N] [--seed TEXT] [--parallel N] [--engine NAME]
 * [--workers N] [--json]`: real kills, counted.
 */
import { parseArgs } from "node:util"
import { Effect } from "effect"
import * as Delivery from "./delivery.ts"
import * as Host from "./host.ts"
import * as Tasks from "./tasks.ts"

const usage = `Usage:
  npm run durability -- delivery [--rounds 200] [--seed 1] [--parallel 3] [--json]
  npm run durability -- host [--rounds 50] [--pairs 100] [--seed 1] [--json]
  npm run durability -- tasks [--rounds 200] [--engine sqlite|postgres] [--workers 3] [--seed 1] [--json]`

const refused = (problem: string): never => {
  console.error(`${problem}\n${usage}`)
  process.exit(2)
}

const parsed = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        rounds: { type: "string" },
        pairs: { type: "string", default: "100" },
        seed: { type: "string", default: "1" },
        engine: { type: "string" },
        workers: { type: "string", default: "3" },
        parallel: { type: "string", default: "3" },
        json: { type: "boolean", default: false }
      }
    })
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error))
  }
}

const { values, positionals } = parsed()
const what = positionals.join()
const rounds = Number(values.rounds ?? (what === "host" ? 50 : 200))
const parallel = Number(values.parallel)
const pairs = Number(values.pairs)
const workers = Number(values.workers)
const engines = Tasks.engines.filter((engine) => values.engine === undefined || values.engine === engine)
const { json, seed } = values

if (!["delivery", "host", "tasks"].includes(what)) refused(`There is no run \`${what}\`.`)
if (![rounds, parallel, pairs, workers].every((n) => Number.isInteger(n) && n >= 1)) {
  refused("--rounds, --pairs, --parallel and --workers must be whole numbers from 1.")
}
if (engines.length === 0) refused(`There is no engine \`${values.engine}\`.`)

const started = performance.now()
const secondsSince = () => Math.round((performance.now() - started) / 1_000)

if (what === "host") {
  const { isRight, lines, ...result } = await Effect.runPromise(Host.runAll({ kills: rounds, pairs, seed }))
  if (json) console.log(JSON.stringify({ ...result, seconds: secondsSince() }))
  else console.log([...lines, `${secondsSince()} s, seed ${seed}`].join("\n"))
  process.exit(isRight ? 0 : 1)
}

if (what === "tasks") {
  const kills = Math.ceil(rounds / engines.length)
  let isRight = true
  for (const engine of engines) {
    const result = await Effect.runPromise(Tasks.run({ engine, kills, seed, workers }))
    isRight &&= Tasks.isRight(result)
    console.log(json ? JSON.stringify(result) : Tasks.lines(result).join("\n"))
  }
  if (!json) console.log(`${secondsSince()} s, seed ${seed}`)
  process.exit(isRight ? 0 : 1)
}

const result = await Effect.runPromise(Delivery.run({ rounds, seed, parallel }))
const seconds = secondsSince()
if (json) console.log(JSON.stringify({ ...result, seconds }))
else {
  console.log(
    [
      `${result.rounds} rounds in ${seconds} s, seed ${seed}`,
      `${result.kills} publishing processes killed, ${result.pauses} paused; the broker was down ${result.outages} times`,
      `${result.leasesLost} leases lost to another process`,
      `${result.events} events accepted, ${result.stored} of them stored first`,
      `${result.duplicates} delivered again, ${result.handledLate} handled late by the consumer, ${result.deadLetters} dead letters`,
      `lost: ${result.lost}, out of order: ${result.outOfOrder}`
    ].join("\n")
  )
}
process.exit(result.lost + result.outOfOrder === 0 ? 0 : 1)
