import { assert, describe, it } from "@effect/vitest"
import * as CircuitCounts from "#resilience/breaker/CircuitCounts"
import * as CircuitPolicy from "#resilience/breaker/CircuitPolicy"

type Sample = CircuitCounts.Sample & { readonly at: number }

const policy = (trip: CircuitPolicy.TripOptions): CircuitPolicy.CircuitPolicy => CircuitPolicy.make({ trip })

const inARow = (failures: number, within?: number) => policy({ consecutive: { failures, within } })

/** A window of 100 ms has slices of 10 ms. */
const rated = (rate: NonNullable<CircuitPolicy.TripOptions["rate"]>) =>
  policy({ consecutive: false, rate: { window: 100, minimumCalls: 1, ...rate } })

const failedAt = (at: number, rest: Partial<Sample> = {}): Sample => ({ at, failed: true, ...rest })
const wellAt = (at: number, rest: Partial<Sample> = {}): Sample => ({ at, failed: false, ...rest })

const counted = (policy: CircuitPolicy.CircuitPolicy, samples: ReadonlyArray<Sample>) =>
  samples.reduce(
    (counts, { at, ...sample }) => CircuitCounts.add(policy, counts, sample, at),
    CircuitCounts.empty
  )

/** The reason to open after these samples, at the time of the last one or at `now`. */
const tripOf = (
  policy: CircuitPolicy.CircuitPolicy,
  samples: ReadonlyArray<Sample>,
  now = samples.at(-1)?.at ?? 0
) => CircuitCounts.trip(policy, counted(policy, samples), now)

const times = (count: number, sample: Sample): ReadonlyArray<Sample> =>
  Array.from({ length: count }, () => sample)

describe("memory", () => {
  it("is empty at first", () => {
    assert.deepStrictEqual(CircuitCounts.empty, { streak: [], slices: [] })
    assert.strictEqual(CircuitCounts.slices, 10)
    assert.strictEqual(CircuitPolicy.defaults.consecutive.distinctCalls, 3)
  })

  it("holds the time, the call and the concurrency of consecutive failures", () => {
    assert.deepStrictEqual(counted(inARow(3), [failedAt(5), failedAt(7, { call: "a", inFlight: 1 })]), {
      streak: [
        { at: 5, call: undefined, concurrent: false },
        { at: 7, call: "a", concurrent: true }
      ],
      slices: []
    })
  })

  it("holds at most as many failures as trip, the latest ones", () => {
    const { streak } = counted(
      inARow(2),
      [1, 2, 3].map((at) => failedAt(at, { call: "a" }))
    )
    assert.deepStrictEqual(
      streak.map(({ at }) => at),
      [2, 3]
    )
  })

  it("drops the failures after a success", () => {
    assert.deepStrictEqual(counted(inARow(3), [failedAt(1), failedAt(2), wellAt(3)]), CircuitCounts.empty)
  })

  it("holds calls, failures and slow calls for each slice of the window", () => {
    const slow = rated({ slow: 0.9, slowerThan: 50 })
    assert.deepStrictEqual(
      counted(slow, [
        wellAt(0, { took: 50 }),
        failedAt(9, { took: 51 }),
        wellAt(10, { took: 51 }),
        failedAt(25),
        failedAt(29, { took: 500 })
      ]),
      {
        streak: [],
        slices: [
          { index: 0, at: 9, calls: 2, failures: 1, slow: 1 },
          { index: 1, at: 10, calls: 1, failures: 0, slow: 1 },
          { index: 2, at: 29, calls: 2, failures: 2, slow: 1 }
        ]
      }
    )
  })

  it("drops a slice as soon as a part of it leaves the window", () => {
    const window = rated({})
    const atTen = [wellAt(5), wellAt(10)]
    // The slice from 10 to 20 counts until 110, exclusive: an age equal to the window no longer counts.
    assert.deepStrictEqual(
      counted(window, [...atTen, wellAt(99)]).slices.map(({ index }) => index),
      [0, 1, 9]
    )
    assert.deepStrictEqual(
      counted(window, [...atTen, wellAt(100)]).slices.map(({ index }) => index),
      [1, 10]
    )
    assert.deepStrictEqual(
      counted(window, [...atTen, wellAt(109)]).slices.map(({ index }) => index),
      [1, 10]
    )
    assert.deepStrictEqual(
      counted(window, [...atTen, wellAt(110)]).slices.map(({ index }) => index),
      [11]
    )
  })

  it("never exceeds the slices of a window, for any input", () => {
    const window = rated({ minimumCalls: 1_000, failures: 1 })
    const samples = Array.from({ length: 500 }, (_, index) => wellAt(index * 3))
    const { slices } = counted(window, samples)
    assert.isAtMost(slices.length, CircuitCounts.slices)
    assert.deepStrictEqual(slices.at(-1), { index: 149, at: 1497, calls: 3, failures: 0, slow: 0 })
  })

  it("holds nothing for a policy that is off", () => {
    assert.deepStrictEqual(counted(inARow(3), [failedAt(1)]).slices, [])
    assert.deepStrictEqual(counted(rated({}), [failedAt(1)]).streak, [])
  })

  it("is unchanged by a success without a rate and without failures", () => {
    const row = inARow(3)
    assert.isTrue(CircuitCounts.unmoved(row, CircuitCounts.empty))
    assert.isFalse(CircuitCounts.unmoved(row, counted(row, [failedAt(1)])))
    assert.isFalse(CircuitCounts.unmoved(rated({}), CircuitCounts.empty))
  })
})

describe("consecutive failures", () => {
  it("do not trip when there are none", () => {
    assert.isUndefined(CircuitCounts.trip(inARow(1), CircuitCounts.empty, 0))
    assert.isUndefined(CircuitCounts.trip(rated({}), CircuitCounts.empty, 0))
  })

  it("trip with the last of them, and with the first when one is enough", () => {
    assert.isUndefined(tripOf(inARow(5), times(4, failedAt(1))))
    assert.strictEqual(tripOf(inARow(5), times(5, failedAt(1))), "consecutive")
    assert.strictEqual(tripOf(inARow(1), [failedAt(0)]), "consecutive")
    assert.strictEqual(tripOf(inARow(2), times(2, failedAt(1))), "consecutive")
  })

  it("count without a time limit by default", () => {
    const year = 365 * 86_400_000
    assert.strictEqual(tripOf(inARow(2), [failedAt(0), failedAt(year)]), "consecutive")
  })

  it("count only within the time limit, exclusive", () => {
    assert.strictEqual(tripOf(inARow(3, 100), [failedAt(1), failedAt(50), failedAt(100)]), "consecutive")
    assert.isUndefined(tripOf(inARow(3, 100), [failedAt(0), failedAt(50), failedAt(100)]))
    // A fourth brings the last three within the time.
    assert.strictEqual(
      tripOf(inARow(3, 100), [failedAt(0), failedAt(50), failedAt(100), failedAt(149)]),
      "consecutive"
    )
  })

  it("do not trip a policy that has only rates", () => {
    assert.isUndefined(tripOf(rated({ minimumCalls: 100 }), times(50, failedAt(1))))
  })
})

describe("distinct calls", () => {
  const of = (...calls: ReadonlyArray<string | undefined>): ReadonlyArray<Sample> =>
    calls.map((call, index) => failedAt(index, { call, inFlight: 1 }))

  it("a call that is alone trips with its own attempts", () => {
    assert.strictEqual(tripOf(inARow(5), times(5, failedAt(1, { call: "a" }))), "consecutive")
  })

  it("a call does not trip alone when another call used the circuit meanwhile", () => {
    const alone = failedAt(1, { call: "a" })
    for (const position of [0, 2, 4]) {
      const samples = times(5, alone).map((sample, index) =>
        index === position ? { ...sample, inFlight: 1 } : sample
      )
      assert.isUndefined(tripOf(inARow(5), samples), `position ${position}`)
    }
  })

  it("two calls do not trip, three do", () => {
    assert.isUndefined(tripOf(inARow(5), of("a", "b", "a", "b", "a")))
    assert.strictEqual(tripOf(inARow(5), of("a", "b", "a", "b", "c")), "consecutive")
    assert.strictEqual(tripOf(inARow(5), of("a", "b", "c", "d", "e")), "consecutive")
  })

  const apart = (...calls: ReadonlyArray<string | undefined>) =>
    of(...calls).map((sample) => ({ ...sample, inFlight: 0 }))

  it("two calls that alternate do not trip, even when their attempts never overlapped", () => {
    assert.isUndefined(tripOf(inARow(5), apart("a", "b", "a", "b", "b")))
    assert.isUndefined(tripOf(inARow(3), apart("a", undefined, "a")))
    assert.strictEqual(tripOf(inARow(5), apart("a", "b", "a", "c", "c")), "consecutive")
  })

  it("at most two older failures of further calls are kept", () => {
    const beside = (...calls: ReadonlyArray<string | undefined>) => counted(inARow(2), of(...calls)).streak
    const callsIn = (...calls: ReadonlyArray<string | undefined>) => beside(...calls).map(({ call }) => call)
    assert.deepStrictEqual(callsIn("a", "a", "a"), ["a", "a"])
    assert.deepStrictEqual(callsIn("a", "b", "b"), ["a", "b", "b"])
    assert.deepStrictEqual(callsIn("a", "a", "b", "b"), ["a", "b", "b"])
    assert.deepStrictEqual(callsIn("a", "b", "c", "d", "d"), ["b", "c", "d", "d"])
    assert.deepStrictEqual(callsIn("a", "b", "a", "c", "c"), ["b", "a", "c", "c"])
    assert.deepStrictEqual(callsIn("a", "b", "c", "c", "a", "a"), ["b", "c", "a", "a"])
    assert.deepStrictEqual(callsIn(undefined, undefined, "a", "a"), [undefined, undefined, "a", "a"])
    // The newest failure represents its call.
    assert.deepStrictEqual(
      beside("a", "b", "a", "c", "c").map(({ at }) => at),
      [1, 2, 3, 4]
    )
  })

  it("next to a call that keeps failing, the third call that fails opens the circuit", () => {
    const sequential = of(...times(6, failedAt(0)).flatMap(() => ["a"]), ..."bbbbbb", ..."c")
    assert.isUndefined(tripOf(inARow(5), sequential.slice(0, 12)))
    assert.strictEqual(tripOf(inARow(5), sequential), "consecutive")
  })

  it("only the counted failures decide whether calls were concurrent", () => {
    const before = failedAt(0, { call: "a", inFlight: 1 })
    const row = times(5, failedAt(1, { call: "b" }))
    assert.isUndefined(tripOf(inARow(5), [before, ...row.slice(1)]))
    assert.strictEqual(tripOf(inARow(5), [before, ...row]), "consecutive")
  })

  it("two sequential calls trip like one call", () => {
    assert.strictEqual(tripOf(inARow(5), apart("a", "a", "a", "b", "b")), "consecutive")
    assert.strictEqual(tripOf(inARow(3), apart(undefined, "a", "a")), "consecutive")
    assert.strictEqual(tripOf(inARow(3), apart("a", "a", "b")), "consecutive")
  })

  it("a limit below three needs only that many calls", () => {
    assert.strictEqual(tripOf(inARow(1), of("a")), "consecutive")
    assert.strictEqual(tripOf(inARow(2), of("a", "b")), "consecutive")
    assert.isUndefined(tripOf(inARow(2), of("a", "a")))
    assert.strictEqual(tripOf(inARow(3), of("a", "b", "c")), "consecutive")
    assert.isUndefined(tripOf(inARow(3), of("a", "b", "b")))
  })

  it("attempts without a call count as one call each", () => {
    assert.strictEqual(tripOf(inARow(3), of(undefined, undefined, undefined)), "consecutive")
    assert.strictEqual(tripOf(inARow(4), of("a", undefined, "a", undefined)), "consecutive")
    assert.isUndefined(tripOf(inARow(4), of("a", undefined, "a", "a")))
    assert.isUndefined(tripOf(inARow(3), of("a", undefined, "a")))
  })

  it("any value names a call, by identity", () => {
    const call = {}
    assert.isUndefined(tripOf(inARow(2), times(2, failedAt(1, { call, inFlight: 1 }))))
    assert.isUndefined(tripOf(inARow(2), times(2, failedAt(1, { call: null, inFlight: 1 }))))
    assert.strictEqual(
      tripOf(inARow(2), [failedAt(1, { call: {}, inFlight: 1 }), failedAt(1, { call: {}, inFlight: 1 })]),
      "consecutive"
    )
  })
})

describe("rates", () => {
  const half = rated({ minimumCalls: 4, failures: 0.5 })

  it("are not judged below the minimum of calls", () => {
    assert.isUndefined(tripOf(half, times(3, failedAt(1))))
    assert.strictEqual(tripOf(half, times(4, failedAt(1))), "failure-rate")
  })

  it("trip at the share exactly, and not below", () => {
    const of = (failures: number, calls: number) => [
      ...times(calls - failures, wellAt(1)),
      ...times(failures, failedAt(1))
    ]
    assert.strictEqual(tripOf(half, of(2, 4)), "failure-rate")
    assert.isUndefined(tripOf(half, of(2, 5)))
    assert.strictEqual(tripOf(half, of(3, 5)), "failure-rate")
    const all = rated({ minimumCalls: 4, failures: 1 })
    assert.isUndefined(tripOf(all, of(99, 100)))
    assert.strictEqual(tripOf(all, of(100, 100)), "failure-rate")
  })

  it("cover the calls of the window, with any gaps between them", () => {
    const old = times(3, failedAt(1))
    assert.strictEqual(tripOf(half, [...old, failedAt(99)]), "failure-rate")
    assert.isUndefined(tripOf(half, [...old, failedAt(100)]))
    assert.isUndefined(tripOf(half, [...old, failedAt(86_400_000)]))
    // Later, the same calls no longer count.
    assert.isUndefined(tripOf(half, [...old, failedAt(99)], 100))
  })

  it("old successes do not dilute new failures", () => {
    assert.strictEqual(tripOf(half, [...times(50, wellAt(1)), ...times(4, failedAt(100))]), "failure-rate")
  })

  it("a call above the duration limit is slow, whether it failed or not", () => {
    const slow = rated({ minimumCalls: 2, failures: 1, slow: 0.5, slowerThan: 50 })
    assert.isUndefined(tripOf(slow, times(2, wellAt(1, { took: 50 }))))
    assert.strictEqual(tripOf(slow, [wellAt(1), wellAt(1, { took: 50.5 })]), "slow-rate")
    assert.strictEqual(tripOf(slow, [wellAt(1), failedAt(1, { took: 51 })]), "slow-rate")
    assert.isUndefined(tripOf(slow, [wellAt(1), wellAt(1), wellAt(1, { took: 51 })]))
    assert.isUndefined(tripOf(slow, [wellAt(1, { took: 51 })]))
  })

  it("slow calls trip alone when failures are off", () => {
    const slow = rated({ minimumCalls: 1, failures: false, slow: 1, slowerThan: 50 })
    assert.isUndefined(tripOf(slow, times(9, failedAt(1))))
    assert.strictEqual(tripOf(slow, times(1, failedAt(1, { took: 51 }))), "slow-rate")
  })

  it("a call without a duration is not slow", () => {
    const slow = rated({ minimumCalls: 1, failures: 1, slow: 0.1, slowerThan: 0 })
    assert.isUndefined(tripOf(slow, [wellAt(1)]))
    assert.strictEqual(tripOf(slow, [wellAt(1, { took: 0.1 })]), "slow-rate")
  })

  it("failures take precedence over slow calls, and consecutive failures over both", () => {
    const both = rated({ minimumCalls: 1, failures: 0.5, slow: 0.5, slowerThan: 50 })
    assert.strictEqual(tripOf(both, [failedAt(1, { took: 51 })]), "failure-rate")
    const all = policy({ consecutive: { failures: 2 }, rate: { minimumCalls: 2 } })
    assert.strictEqual(tripOf(all, times(2, failedAt(1))), "consecutive")
    assert.strictEqual(tripOf(all, [failedAt(1), wellAt(1)]), "failure-rate")
  })
})
