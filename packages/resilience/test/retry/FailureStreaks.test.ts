import { assert, it } from "vitest"
import * as fc from "fast-check"
import { Backoff, FailureStreaks } from "@outlast/resilience"

const fail = (streaks: FailureStreaks.FailureStreaks, ...names: ReadonlyArray<string>) =>
  names.reduce((all, name) => FailureStreaks.failed(all, name)[1], streaks)

it("consecutive failures are counted by name, and a success resets only that name", () => {
  const two = fail(FailureStreaks.make(), "a", "b", "a")
  assert.strictEqual(FailureStreaks.of(two, "a"), 2)
  assert.strictEqual(FailureStreaks.of(two, "b"), 1)
  assert.strictEqual(FailureStreaks.of(two, "c"), 0)
  assert.strictEqual(FailureStreaks.failed(two, "a")[0], 3)
  const after = FailureStreaks.succeeded(two, "a")
  assert.strictEqual(FailureStreaks.of(after, "a"), 0)
  assert.strictEqual(FailureStreaks.of(after, "b"), 1)
  assert.strictEqual(FailureStreaks.failed(after, "a")[0], 1)
  // Earlier states are unchanged.
  assert.strictEqual(FailureStreaks.of(two, "a"), 2)
})

it("a success of a name without failures changes nothing", () => {
  const streaks = fail(FailureStreaks.make(), "a")
  assert.strictEqual(FailureStreaks.succeeded(streaks, "b"), streaks)
})

it("the name that failed longest ago is evicted first", () => {
  const full = fail(FailureStreaks.make({ capacity: 2 }), "a", "b", "a")
  assert.deepStrictEqual(
    [...full.counts],
    [
      ["b", 1],
      ["a", 2]
    ]
  )
  const after = fail(full, "c")
  assert.deepStrictEqual(
    [...after.counts],
    [
      ["a", 2],
      ["c", 1]
    ]
  )
  assert.deepStrictEqual(
    [...fail(after, "b").counts],
    [
      ["c", 1],
      ["b", 1]
    ]
  )
})

it("a backoff can grow across calls", () => {
  const spec = Backoff.exponential({ initial: "1 second", jitter: 0 })
  let streaks = FailureStreaks.make()
  const waits = [1, 2, 3].map(() => {
    const [n, after] = FailureStreaks.failed(streaks, "task:model")
    streaks = after
    return Backoff.delay(spec, n, undefined, 0)
  })
  assert.deepStrictEqual(waits, [1_000, 2_000, 4_000])
})

it("the capacity defaults to 1,000, and must be an integer of at least 1", () => {
  assert.strictEqual(FailureStreaks.make().capacity, 1_000)
  assert.strictEqual(FailureStreaks.defaultCapacity, 1_000)
  assert.strictEqual(FailureStreaks.make({ capacity: 1 }).capacity, 1)
  for (const capacity of [0, 1.5, Number.NaN]) {
    assert.throws(() => FailureStreaks.make({ capacity }), RangeError, "FailureStreaks: capacity must be")
  }
})

it("the counts agree with a list of all failures, for every sequence", () => {
  const event = fc.record({ name: fc.constantFrom("a", "b", "c", "d"), failed: fc.boolean() })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5 }), fc.array(event, { maxLength: 60 }), (capacity, events) => {
      let streaks = FailureStreaks.make({ capacity })
      let model: Array<{ name: string; count: number }> = []
      for (const { name, failed } of events) {
        const count = (model.find((entry) => entry.name === name)?.count ?? 0) + 1
        model = model.filter((entry) => entry.name !== name)
        if (failed) {
          model = [...model, { name, count }].slice(-capacity)
          const [n, after] = FailureStreaks.failed(streaks, name)
          assert.strictEqual(n, count)
          streaks = after
        } else streaks = FailureStreaks.succeeded(streaks, name)
        assert.deepStrictEqual(
          [...streaks.counts],
          model.map(({ name, count }): [string, number] => [name, count])
        )
      }
    })
  )
})
