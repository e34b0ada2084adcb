import { assert, it } from "@effect/vitest"
import { WrongTokens } from "../../src/ops/WrongTokens.ts"

it("twenty wrong tokens cost nothing, and each further one a second", () => {
  const wrong = new WrongTokens()
  for (let n = 0; n < 20; n++) {
    assert.strictEqual(wrong.wait("a", 0), 0)
    wrong.add("a", 0)
  }
  assert.strictEqual(wrong.wait("a", 0), 1_000)
  assert.strictEqual(wrong.wait("b", 0), 0)
  assert.strictEqual(wrong.wait("a", 999), 1)
  assert.strictEqual(wrong.wait("a", 1_000), 0)
  wrong.add("a", 1_000)
  assert.strictEqual(wrong.wait("a", 1_000), 1_000)
  // After twenty seconds all of them are there again.
  assert.strictEqual(wrong.wait("a", 21_000), 0)
  for (let n = 0; n < 20; n++) wrong.add("a", 21_000)
  assert.strictEqual(wrong.wait("a", 21_000), 1_000)
})

it("of addresses beyond a thousand, the one that was wrong least recently is forgotten", () => {
  const wrong = new WrongTokens()
  for (let n = 0; n < 20; n++) for (const address of ["first", "second"]) wrong.add(address, 0)
  wrong.add("first", 0)
  for (let n = 0; n < 999; n++) wrong.add(`${n}`, 0)
  assert.deepStrictEqual([wrong.wait("second", 0), wrong.wait("first", 0)], [0, 2_000])
})
