import { assert, describe, it } from "@effect/vitest"
import { FirstTokens, kept } from "#agent/failover/chain/FirstTokens"
import { HedgeShare } from "#agent/failover/chain/HedgeShare"

describe("FirstTokens", () => {
  const of = (tokens: number | undefined, ...times: ReadonlyArray<number>) => {
    const own = new FirstTokens()
    for (const time of times) own.add(tokens, time)
    return own
  }

  it("knows no usual time before the first answer", () => {
    assert.isUndefined(new FirstTokens().usual(1_000))
  })

  it("takes twice the median, so that some late answers stay late", () => {
    assert.strictEqual(of(1_000, 1_000, 900, 30_000, 1_100, 1_200).usual(1_000), 2_200)
    assert.strictEqual(of(undefined, 700).usual(0), 1_400)
  })

  it("keeps the times of each size apart, and takes those of the next smaller or larger size", () => {
    const own = of(1_000, 500)
    own.add(100_000, 9_000)
    assert.deepStrictEqual(
      [1_000, 10_000, 100_000, 1_000_000].map((size) => own.usual(size)),
      [1_000, 1_000, 18_000, 18_000]
    )
    assert.strictEqual(of(100_000, 9_000).usual(10), 18_000)
  })

  it("forgets old times", () => {
    const own = of(10, ...Array.from({ length: kept }, () => 10_000))
    for (let n = 0; n < kept; n++) own.add(10, 1_000)
    assert.strictEqual(own.usual(10), 2_000)
  })
})

describe("HedgeShare", () => {
  it("begins with the reserve, and saves up no more than that", () => {
    const share = new HedgeShare({ atMost: 0.05, reserve: 1 })
    for (let n = 0; n < 100; n++) share.pay()
    share.take()
    assert.isFalse(share.isLeft)
  })

  it("allows one hedge for twenty calls at 0.05", () => {
    const share = new HedgeShare({ atMost: 0.05, reserve: 3 })
    let hedges = 0
    for (let n = 0; n < 1_000; n++) {
      share.pay()
      if (!share.isLeft) continue
      share.take()
      hedges++
    }
    assert.strictEqual(hedges, 3 + 50 - 1)
  })
})
