/**
 * Runs before each test file. The files of a worker share their modules, and the default of `ContextWindows` remembers
 * the limits of models for the life of the process. Learning the greatest number of other models forgets them.
 */
import { afterEach, beforeAll, beforeEach } from "vitest"
import { Context, Effect } from "effect"
import * as fc from "fast-check"
import { ContextWindows } from "@outlast/agent/compaction"
import * as Assertions from "./assertions.ts"
import * as Sweeps from "./sweeps.ts"

fc.configureGlobal({ seed: Sweeps.seed })

beforeAll(() => {
  const windows = Context.get(Context.empty(), ContextWindows.ContextWindows)
  for (let n = 0; n < ContextWindows.limits.models; n++)
    Effect.runSync(windows.learn(`other-${n}`, 1_000_000))
})

beforeEach(() => void Assertions.taken())
afterEach(({ task }) => {
  if (Assertions.taken() === 0 && task.result?.errors === undefined)
    throw new Error("This test has no assertion, so it cannot fail.")
})
