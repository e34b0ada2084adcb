/** Runs in one process leave nothing behind. `OUTLAST_CHAOS_HTTP_RUNS` sets their number. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Programs from "../programs.ts"
import * as Sweeps from "../sweeps.ts"

const main = Programs.bundled(new URL("endurance.ts", import.meta.url))
const runs = process.env["OUTLAST_CHAOS_HTTP_RUNS"] ?? String(Sweeps.full(500, 200))

/**
 * Bytes by which the heap may grow between a fifth of the runs and the end. Measured: 11 MB between run 40 and run 200. That
 * is compiled code and caches that fill: over 3,000 runs the heap stayed between 86 MB and 99 MB from run 200 on. The bound
 * is above the growth, because compiled code and collections differ between machines. A run that kept 65 kB would exceed
 * it, or 125 kB in the smaller number of runs.
 */
const growth = Sweeps.full(25_000_000, 20_000_000)

it.live(
  "runs with random faults over HTTP leave no timers, no sockets and no growing heap",
  () =>
    Effect.gen(function* () {
      const { stdout } = yield* Effect.promise(() =>
        promisify(execFile)(process.execPath, ["--expose-gc", main, runs])
      )
      const { early, late, ends } = JSON.parse(stdout)
      assert.deepInclude(late, { timers: 0, sockets: 0 })
      assert.isBelow(late.heap - early.heap, growth)
      // The faults let some runs succeed and some fail.
      assert.includeMembers(Object.keys(ends), ["completed", "failed"])
    }),
  300_000
)
