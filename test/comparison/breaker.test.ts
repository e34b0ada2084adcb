/** The comparison of docs/internals/decisions/own-breaker.md: each of its cells, run against the `effect` that is installed. */
import { describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { tables } from "./tables.ts"

for (const [name, { rows }] of Object.entries(tables)) {
  describe(name, () => {
    for (const { behaviour, ours, theirs } of rows) {
      it.effect(`${behaviour}: ours`, () => Effect.scoped(ours.check))
      it.effect(`${behaviour}: Effect's own`, () => Effect.scoped(theirs.check))
    }
  })
}
