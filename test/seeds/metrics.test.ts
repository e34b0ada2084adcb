/** The success metrics of DECISION_037, in the load simulation. */
import { assert, describe, it } from "vitest"
import { Presets } from "@outlast/agent"
import { recoveryOf } from "../load/Recovery.ts"
import { logOf } from "../load/Simulation.ts"
import { worlds } from "../load/Worlds.ts"
import * as Sweeps from "../sweeps.ts"

const world = worlds.subagents
const seeds = Sweeps.full([1, 2, 3, 4, 5], [1, 2])

/** Two calls a second for five minutes, over two vendors, under the preset. */
const all = seeds.map((seed) =>
  recoveryOf(
    logOf({
      world,
      chain: [
        { role: "main", keys: 1 },
        { role: "other", keys: 1 }
      ],
      arrivals: { _tag: "Rate", phases: [{ perSecond: 2, seconds: 300 }] },
      policy: { policy: Presets.decision037.policy },
      seed
    }),
    world,
    { "https://vendor-1.test": "main", "https://vendor-2.test": "other" }
  )
)
const sum = (of: (recovery: (typeof all)[number]) => number): number => all.reduce((n, one) => n + of(one), 0)

describe("under failures of a network", () => {
  it("001-M-recovery: at least 80 % of the calls with a failed request are answered", () => {
    for (const { disturbed, recoveryRate } of all) {
      assert.isAtLeast(disturbed, 100)
      assert.isAtLeast(recoveryRate, 0.8)
    }
  })

  it("001-M-retries: an answered call took at most 3 retries on average", () => {
    for (const { averageRetries } of all) assert.isAtMost(averageRetries, 3)
  })

  it("001-M-false-positive: fewer than 5 % of the openings of circuits meet a server that is up", () => {
    assert.isAtLeast(
      sum(({ openings }) => openings),
      seeds.length
    )
    assert.isBelow(sum(({ falsePositives }) => falsePositives) / sum(({ openings }) => openings), 0.05)
  })
})
