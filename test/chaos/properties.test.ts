/**
 * Laws of every run of an agent, over random worlds. `OUTLAST_CHAOS_RUNS` sets the number of worlds (default 250, or
 * 10,000 in `npm run test:full`), `SEED` the seed.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Arbitraries } from "@outlast/testing"
import * as Laws from "./Laws.ts"
import * as Run from "./Run.ts"
import { World } from "./World.ts"
import * as Sweeps from "../sweeps.ts"

const runs = Number(process.env["OUTLAST_CHAOS_RUNS"] ?? 250)

describe("an agent in a random world", () => {
  it.effect.prop(
    "ends typed and within its limits, pays once, stays legal, and explains every request",
    { world: World, policy: Arbitraries.Policy },
    ({ world, policy }) =>
      Effect.gen(function* () {
        const run = yield* Run.run(world, policy)
        for (const [name, law] of Object.entries(Laws.all)) {
          assert.deepStrictEqual(law(run, world, policy), [], `${name}\n${Run.printed(run)}`)
        }
      }),
    {
      arbitrary: { runs, maxShrinks: 200, seed: Sweeps.seed },
      timeout: 20 * runs + 60_000
    }
  )
})
