import { assert, it } from "@effect/vitest"
import * as fc from "fast-check"
import { ShownText } from "#agent/failover/call/ShownText"

const deltas = fc.array(fc.string({ maxLength: 3 }), { maxLength: 5_000, size: "max" })

it("the text is all that was added since it was cleared, and its length that many characters", () => {
  fc.assert(
    fc.property(deltas, deltas, (before, after) => {
      const [kept, counted] = [new ShownText(true), new ShownText(false)]
      for (const text of [kept, counted]) {
        for (const delta of before) text.add(delta)
        assert.strictEqual(text.length, before.join("").length)
      }
      assert.strictEqual(kept.all, before.join(""))
      assert.strictEqual(counted.all, "")
      kept.clear()
      assert.deepStrictEqual([kept.all, kept.length], ["", 0])
      for (const delta of after) kept.add(delta)
      assert.strictEqual(kept.all, after.join(""))
    }),
    { numRuns: 20 }
  )
})
