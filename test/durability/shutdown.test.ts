/** The agent service of `examples/host`, terminated in the middle of its runs. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { vi } from "vitest"
import { terminated } from "./host.ts"

// Each test starts many processes.
vi.setConfig({ testTimeout: 180_000 })

describe("a service", () => {
  it.live("ends orderly after SIGTERM in the middle of 20 runs, and the next start goes on with them", () =>
    Effect.gen(function* () {
      const result = yield* terminated()
      assert.deepStrictEqual(result.end, { code: 0, signal: null })
      assert.deepStrictEqual(result.lost, [])
      assert.deepInclude(result, { accepted: 40, before: 0 })
      // Every run that was under way has its transcript.
      assert.isAtLeast(result.continued, 20)
      assert.isBelow(result.took, 25_000)
    })
  )

  it.live("ends orderly as the first process of a PID namespace, as in a container", () =>
    Effect.gen(function* () {
      const within = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
      const result = yield* terminated({ within })
      assert.deepStrictEqual(result.end, { code: 0, signal: null })
      assert.deepStrictEqual(result.lost, [])
      assert.isAtLeast(result.continued, 20)
    })
  )
})
