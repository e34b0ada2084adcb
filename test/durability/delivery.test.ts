import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nats from "../services/Nats.ts"
import { run } from "./delivery.ts"

describe.skipIf(Nats.missing !== undefined)("a broker and publishers that are killed", () => {
  it.live(
    "lose no event and no order, in seven rounds",
    () =>
      Effect.gen(function* () {
        const result = yield* run({ rounds: 7, seed: "ci", parallel: 3 })
        assert.isAtLeast(result.kills, 10)
        assert.isAbove(result.events, 100)
        assert.deepStrictEqual(
          { lost: result.lost, outOfOrder: result.outOfOrder },
          { lost: 0, outOfOrder: 0 }
        )
      }),
    120_000
  )
})
