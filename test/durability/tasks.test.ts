import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Postgres from "../services/Postgres.ts"
import { run } from "./tasks.ts"

describe.skipIf(Postgres.missing !== undefined)("workers that are killed at and inside their steps", () => {
  it.live(
    "lose no task on PostgreSQL, and repeat no effect, in four kills of two workers",
    () =>
      Effect.gen(function* () {
        const result = yield* run({ engine: "postgres", kills: 4, seed: "ci", workers: 2 })
        const { kills, duplicates, missing, lost, changed } = result
        assert.deepStrictEqual(
          { kills, duplicates, missing, lost, changed },
          { kills: 4, duplicates: 0, missing: 0, lost: 0, changed: 0 }
        )
        assert.isAbove(result.tasks, 0)
      }),
    180_000
  )
})
