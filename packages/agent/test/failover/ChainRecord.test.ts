import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as ChainRecord from "#agent/failover/chain/ChainRecord"
import type * as Cooldown from "#agent/failover/decide/Cooldown"
import { failureOf, targetOf } from "./chainSupport.ts"

const failure = failureOf("RateLimit", "slow down", 1_500)
const hour = 3_600_000
const day = 24 * hour

const time = fc.nat(50)
const record: fc.Arbitrary<ChainRecord.ChainRecord> = fc.record({
  fence: time,
  cooldown: fc.option(
    fc
      .record({ since: time, length: fc.oneof(time, fc.constant(Infinity)), named: fc.boolean() })
      .map(({ since, length, named }) => ({
        since,
        until: since + length,
        streak: 1,
        named,
        looks: named,
        failure
      })),
    { nil: undefined }
  )
})

const entryAt = (since: number, length: number): Cooldown.Entry => ({
  scope: "key",
  target: targetOf("m", "k"),
  since,
  until: since + length,
  failure,
  streak: 1,
  named: false,
  looks: false,
  probe: "none"
})

describe("joined records of two processes", () => {
  const same = (a: ChainRecord.ChainRecord, b: ChainRecord.ChainRecord) =>
    assert.isTrue(ChainRecord.isSame(a, b))
  const join = ChainRecord.join
  const alive = ({ cooldown }: ChainRecord.ChainRecord, fence: number) => ({ fence, cooldown })

  it("are the same in any order and after any number of joins", () => {
    fc.assert(
      fc.property(record, record, record, time, (a, b, c, fence) => {
        same(join(a, b), join(b, a))
        same(join(join(a, b), a), join(a, b))
        const [x, y, z] = [alive(a, fence), alive(b, fence), alive(c, fence)]
        same(join(join(x, y), z), join(x, join(y, z)))
      })
    )
  })

  it("hold no cooldown that one process knows to be over, and lose no other", () => {
    fc.assert(
      fc.property(record, record, (a, b) => {
        const { fence, cooldown } = join(a, b)
        assert.isAtLeast(cooldown?.since ?? Infinity, Math.max(a.fence, b.fence))
        for (const one of [a.cooldown, b.cooldown]) {
          if (one !== undefined && one.since >= fence) assert.isAtLeast(cooldown?.until ?? 0, one.until)
        }
      })
    )
  })

  it("drop cooldowns that opened before a success began, and keep later ones", () => {
    const now = { wall: 1_000, monotonic: 0 }
    const theirs = ChainRecord.opened(ChainRecord.empty, entryAt(-500, 1_000), now)
    const early = ChainRecord.cleared(ChainRecord.empty, -501, now)
    const later = ChainRecord.cleared(ChainRecord.empty, -500, now)
    assert.isDefined(join(theirs, early).cooldown)
    assert.isUndefined(join(theirs, later).cooldown)
  })

  it("keep the next cooldown even if the wall clock was set back, or a clear came from a clock ahead", () => {
    const first = ChainRecord.opened(ChainRecord.empty, entryAt(0, 100), { wall: hour, monotonic: 0 })
    const second = ChainRecord.opened(first, entryAt(200, 100), { wall: 5, monotonic: 200 })
    assert.deepStrictEqual(join(first, second), second)
    const ahead = ChainRecord.cleared(second, 300, { wall: day, monotonic: 300 })
    const third = ChainRecord.opened(ahead, entryAt(400, 100), { wall: hour, monotonic: 400 })
    assert.deepStrictEqual(join(ahead, third), third)
    assert.isUndefined(join(third, ChainRecord.cleared(third, 500, { wall: 5, monotonic: 500 })).cooldown)
  })
})

describe("a cooldown read back", () => {
  it("is never longer than before, whatever the wall clock did (openclaw#87608)", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: day }),
        fc.integer({ min: -day, max: day }),
        fc.integer({ min: 0, max: hour }),
        (length, step, monotonic) => {
          const wall = 10 * day
          const kept = ChainRecord.opened(ChainRecord.empty, entryAt(7, length), { wall, monotonic: 7 })
          const read = ChainRecord.decode(ChainRecord.encode(kept))
          assert.isObject(read)
          if (typeof read === "string" || read.cooldown === undefined) return
          const { since, until } = ChainRecord.timesOf(read.cooldown, { wall: wall + step, monotonic })
          assert.isAtMost(until - monotonic, length)
          assert.strictEqual(until - monotonic, length - Math.max(0, step))
          assert.isAtMost(since, monotonic)
        }
      )
    )
  })

  it("keeps its failure, its streak and an infinite end", () => {
    const kept: ChainRecord.ChainRecord = {
      fence: 3,
      cooldown: { since: 4, until: Infinity, streak: 7, named: true, looks: true, failure }
    }
    assert.deepStrictEqual(ChainRecord.decode(ChainRecord.encode(kept)), kept)
    const over: ChainRecord.ChainRecord = { fence: 3, cooldown: undefined }
    assert.deepStrictEqual(ChainRecord.decode(ChainRecord.encode(over)), over)
  })

  it("is ignored when it is broken or newer, and the event says which", () => {
    const good = ChainRecord.encode({ fence: 3, cooldown: undefined })
    for (const json of [
      "",
      "{",
      "null",
      "[]",
      "1",
      '{"v":1}',
      '{"v":"2"}',
      '{"fence":3}',
      good.slice(0, -1)
    ]) {
      assert.strictEqual(ChainRecord.decode(json), "broken", json)
    }
    assert.strictEqual(ChainRecord.decode('{"v":2,"until":"dawn"}'), "newer")
    fc.assert(fc.property(fc.string(), (json) => assert.strictEqual(ChainRecord.decode(json), "broken")))
  })
})

describe("a record is kept", () => {
  const isForgotten = (since: number, until: number, wall: number) =>
    ChainRecord.isForgotten(
      { fence: 0, cooldown: { since, until, streak: 1, named: false, looks: false, failure } },
      wall
    )

  it("for a day after its end, because of its streak", () => {
    assert.isFalse(isForgotten(0, hour, hour + day))
    assert.isTrue(isForgotten(0, hour, hour + day + 1))
    assert.isFalse(ChainRecord.isForgotten({ fence: hour, cooldown: undefined }, hour + day))
    assert.isTrue(ChainRecord.isForgotten({ fence: hour, cooldown: undefined }, hour + day + 1))
  })

  it("for thirty days if its key is dead", () => {
    assert.isFalse(isForgotten(0, Infinity, 30 * day))
    assert.isTrue(isForgotten(0, Infinity, 30 * day + 1))
  })
})
