/** The agent service of `examples/host`, killed: fewer times than by `npm run durability -- host`. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Random } from "effect"
import { vi } from "vitest"
import * as Sweeps from "../sweeps.ts"
import { killed, started } from "./host.ts"

const pairs = Sweeps.full(10, 3)

// Each test starts many processes.
vi.setConfig({ testTimeout: 180_000 })

describe("a service", () => {
  it.live("that is killed three times loses no event", () =>
    Effect.gen(function* () {
      const result = yield* killed(3)
      assert.deepStrictEqual(result.lost, [])
      assert.isAbove(result.accepted, 5)
    }).pipe(Random.withSeed("ci"))
  )
})

describe("two starts at the same instant", () => {
  it.live("leave exactly one running", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* started(pairs), { pairs, wrong: 0 })
    })
  )
})
