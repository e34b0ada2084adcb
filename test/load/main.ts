/** `npm run simulate`: what a policy does in a world, before an outage shows it. See `docs/load.md`. */
import { parseArgs } from "node:util"
import * as Arrivals from "./Arrivals.ts"
import * as Chains from "./Chains.ts"
import { policies } from "./Policies.ts"
import { simulate } from "./Simulation.ts"
import * as Table from "./Table.ts"
import { worlds } from "./Worlds.ts"

const { values } = parseArgs({
  options: {
    world: { type: "string", default: "flaky-30" },
    policy: { type: "string", default: "interactive" },
    chain: { type: "string", default: "one-target" },
    arrivals: { type: "string", default: "4/s for 150s" },
    seeds: { type: "string", default: "5" }
  }
})
const world = worlds[values.world as keyof typeof worlds]
const policy = policies[values.policy as keyof typeof policies]
const chain = Chains.parse(values.chain)
const arrivals = Arrivals.parse(values.arrivals)
if (world === undefined || policy === undefined || chain === undefined || arrivals === undefined)
  throw new Error("Unknown world, policy, chain or arrivals.")
const reports = Array.from({ length: Number(values.seeds) }, (_, i) =>
  simulate({ world, chain, arrivals, policy, seed: i + 1 })
)
const name = [values.world, values.chain, values.arrivals, values.policy].join(", ")
console.log(Table.plain(Table.cells([{ name, reports }])))
