/** The small pure rules: claims, pressure, growth. */
import { assert, describe, it } from "@effect/vitest"
import * as Claims from "#delivery/outbox/Claims"
import type { Publisher } from "#delivery/store/Publisher"
import { released } from "#delivery/store/Publisher"
import * as Growth from "#delivery/outbox/Growth"
import * as Pressure from "#delivery/outbox/Pressure"

describe("a publisher of another process", () => {
  const p = (beat: number, holder = "one"): Publisher => ({ id: "p", holder, beat })

  it("may be claimed when its beat has not changed for a lease, as we see it", () => {
    const [first, one] = Claims.observe(Claims.none, [p(7)], 1_000, 100)
    const [second, two] = Claims.observe(one, [p(7)], 1_099, 100)
    const [third] = Claims.observe(two, [p(7)], 1_100, 100)
    assert.deepStrictEqual([first, second, third], [[], [], [p(7)]])
  })
  it("lives as long as its beat or its holder changes", () => {
    const [, one] = Claims.observe(Claims.none, [p(7)], 0, 100)
    const [none, two] = Claims.observe(one, [p(8)], 100, 100)
    assert.deepStrictEqual(none, [])
    assert.deepStrictEqual(Claims.observe(two, [p(8, "two")], 200, 100)[0], [])
  })
  it("may be claimed at once when it was released", () => {
    assert.deepStrictEqual(Claims.observe(Claims.none, [p(released, "")], 0, 100)[0].length, 1)
  })
  it("is forgotten when it is gone", () => {
    const [, one] = Claims.observe(Claims.none, [p(7)], 0, 100)
    const [, two] = Claims.observe(one, [], 50, 100)
    assert.strictEqual(two.size, 0)
    assert.deepStrictEqual(Claims.observe(two, [p(7)], 100, 100)[0], [])
  })
})

describe("pressure", () => {
  const cap = { events: 10, bytes: 1_000 }

  it("is none below half of both limits, tight above, full at the cap", () => {
    const judge = (events: number, bytes: number, size = 10) => Pressure.judge(cap, { events, bytes }, size)
    assert.strictEqual(judge(4, 499), "room")
    assert.strictEqual(judge(5, 0), "tight")
    assert.strictEqual(judge(0, 500), "tight")
    assert.strictEqual(judge(9, 0), "tight")
    assert.strictEqual(judge(10, 0), "full")
    assert.strictEqual(judge(0, 990), "tight")
    assert.strictEqual(judge(0, 991), "full")
  })
  it("names the limit, and never counts below nothing", () => {
    assert.strictEqual(Pressure.exceeded(cap, { events: 10, bytes: 0 }, 1), "events")
    assert.strictEqual(Pressure.exceeded(cap, { events: 0, bytes: 1_000 }, 1), "bytes")
    assert.isUndefined(Pressure.exceeded(cap, { events: 9, bytes: 999 }, 1))
    assert.deepStrictEqual(Pressure.add({ events: 1, bytes: 5 }, -2, -9), Pressure.none)
  })
})

describe("growth", () => {
  const look = (points: ReadonlyArray<readonly [at: number, backlog: number]>) => {
    let growth = Growth.calm
    return points.map(([at, backlog]) => {
      const [change, next] = Growth.look(growth, backlog, at, 60)
      growth = next
      return change
    })
  }

  it("is raised once a backlog has grown for a while without shrinking, and cleared at half of its peak", () => {
    assert.deepStrictEqual(
      look([
        [0, 10],
        [59, 20],
        [60, 20],
        [90, 100],
        [95, 51],
        [99, 50],
        [100, 60]
      ]),
      [undefined, undefined, "raised", undefined, undefined, "cleared", undefined]
    )
  })
  it("is not raised by a backlog that stays, or that shrank in between", () => {
    assert.deepStrictEqual(
      look([
        [0, 10],
        [100, 10],
        [110, 9],
        [169, 90]
      ]),
      [undefined, undefined, undefined, undefined]
    )
    assert.deepStrictEqual(
      look([
        [0, 0],
        [100, 0],
        [200, 5]
      ]),
      [undefined, undefined, undefined]
    )
  })
})
