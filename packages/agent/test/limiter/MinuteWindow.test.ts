import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import * as Window from "#agent/limiter/MinuteWindow"

const of = (...uses: ReadonlyArray<readonly [amount: number, at: number]>) =>
  uses.reduce((window, [amount, at]) => Window.add(window, amount, at), Window.empty)

describe("a window of a minute", () => {
  it("counts a use for a minute after the end of its second", () => {
    const window = of([5, 400])
    assert.strictEqual(Window.used(window, 60_999), 5)
    assert.strictEqual(Window.used(window, 61_000), 0)
  })

  it("returns the time when more fits", () => {
    const window = of([5, 0], [3, 10_000])
    assert.strictEqual(Window.freeAt(window, 10, 2, 10_500), 10_500)
    assert.strictEqual(Window.freeAt(window, 10, 3, 10_500), 61_000)
    assert.strictEqual(Window.freeAt(window, 10, 7, 10_500), 61_000)
    assert.strictEqual(Window.freeAt(window, 10, 8, 10_500), 71_000)
    assert.strictEqual(Window.freeAt(window, 10, 10, 90_000), 90_000)
  })

  it("needs one more minute for each multiple of the limit", () => {
    const window = of([10, 0])
    assert.strictEqual(Window.freeAt(window, 10, 10, 0), 61_000)
    assert.strictEqual(Window.freeAt(window, 10, 11, 0), 121_000)
    assert.strictEqual(Window.freeAt(Window.empty, 10, 25, 0), 120_000)
  })

  it("sums up all uses of one second", () => {
    const uses = Array.from({ length: 1_000 }, (_, i) => [1, i] as const)
    const window = of([2, -5_000], ...uses)
    assert.lengthOf(window.past, 1)
    assert.strictEqual(Window.used(window, 999), 1_002)
  })

  it("corrects a use in its slot while the slot exists", () => {
    const window = of([5, 0], [3, 10_000])
    assert.strictEqual(Window.used(Window.correct(window, 0, -4), 10_000), 4)
    assert.strictEqual(Window.used(Window.correct(window, 10, 4), 10_000), 12)
    assert.strictEqual(Window.used(Window.correct(window, 10, -9), 10_000), 5)
    assert.strictEqual(Window.used(Window.correct(window, 7, 9), 10_000), 8)
  })

  it("keeps a bounded number of slots, and never counts less than the usage of any minute", () => {
    const uses = fc.array(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.oneof(fc.nat(3_000), fc.nat(90_000))), {
      maxLength: 200
    })
    fc.assert(
      fc.property(uses, (uses) => {
        let window = Window.empty
        let now = 0
        const log: Array<readonly [amount: number, at: number]> = []
        for (const [amount, after] of uses) {
          now += after
          window = Window.add(window, amount, now)
          log.push([amount, now])
          const exact = log.reduce((sum, [amount, at]) => (at > now - Window.length ? sum + amount : sum), 0)
          const loose = log.reduce(
            (sum, [amount, at]) => (at > now - Window.length - Window.slotLength ? sum + amount : sum),
            0
          )
          assert.isAtLeast(Window.used(window, now), exact)
          assert.isAtMost(Window.used(window, now), loose)
          assert.isAtMost(window.past.length, Window.slots - 1)
        }
      })
    )
  })
})
