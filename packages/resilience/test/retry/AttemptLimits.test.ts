import { assert, it } from "vitest"
import * as fc from "fast-check"
import { AttemptLimits } from "@outlast/resilience"

/** The verdict for each failure of a call, in order. */
const verdicts = (
  limits: AttemptLimits.AttemptLimits,
  classes: ReadonlyArray<string>
): ReadonlyArray<number | string> => {
  let state = AttemptLimits.initial
  return classes.map((name) => {
    const [verdict, after] = AttemptLimits.next(limits, state, name)
    state = after
    return verdict._tag === "Allowed" ? verdict.retry : verdict.by
  })
}

const rate = "RateLimit"
const server = "ServerError"

it("25 a class has as many attempts as its limit, including the first", () => {
  const limits = AttemptLimits.make({ perClass: { RateLimit: 5, ServerError: 3 } })
  assert.deepStrictEqual(verdicts(limits, [rate, rate, rate, rate, rate, rate]), [
    1,
    2,
    3,
    4,
    "class",
    "class"
  ])
  assert.deepStrictEqual(verdicts(limits, [server, server, server]), [1, 2, "class"])
  assert.deepStrictEqual(verdicts(AttemptLimits.make({ perClass: { RateLimit: 1 } }), [rate]), ["class"])
})

it("each listed class has a separate limit", () => {
  const limits = AttemptLimits.make({ perClass: { RateLimit: 3, ServerError: 2 } })
  assert.deepStrictEqual(verdicts(limits, [rate, server, rate, server, rate]), [1, 1, 2, "class", "class"])
})

it("with `pooled`, all classes share a limit and keep their own", () => {
  const limits = AttemptLimits.make({ perClass: { RateLimit: 5, ServerError: 2 }, pooled: 4 })
  assert.deepStrictEqual(verdicts(limits, [rate, server, rate, rate]), [1, 1, 2, "pool"])
  assert.deepStrictEqual(verdicts(limits, [rate, server, server]), [1, 1, "class"])
  assert.deepStrictEqual(verdicts(AttemptLimits.make({ perClass: {}, pooled: 1 }), [rate]), ["pool"])
})

it("an unlisted class is limited only by the pool", () => {
  const limits = AttemptLimits.make({ perClass: { RateLimit: 2 }, pooled: 4 })
  assert.deepStrictEqual(verdicts(limits, ["A", "B", "A", "B"]), [1, 1, 2, "pool"])
})

it("25 a class without any limit is never repeated", () => {
  const limits = AttemptLimits.make({ perClass: { RateLimit: 5 } })
  assert.deepStrictEqual(verdicts(limits, ["Auth", rate]), ["unlisted", 1])
  assert.deepStrictEqual(verdicts(limits, ["constructor", "toString"]), ["unlisted", "unlisted"])
})

it("unlisted classes share a limit if one is given", () => {
  const own = AttemptLimits.make({ perClass: { RateLimit: 5 }, unlisted: 3 })
  assert.deepStrictEqual(verdicts(own, ["A", rate, "B", rate, "A"]), [1, 1, 1, 2, "unlisted"])
  const pooled = AttemptLimits.make({ perClass: { RateLimit: 5 }, unlisted: 3, pooled: 4 })
  assert.deepStrictEqual(verdicts(pooled, ["A", "B", "constructor"]), [1, 1, "unlisted"])
  assert.deepStrictEqual(verdicts(pooled, ["A", rate, rate, rate]), [1, 1, 2, "pool"])
})

it("a limit is an integer of at least 1", () => {
  for (const n of [0, -1, 1.5, Number.NaN, Infinity]) {
    assert.throws(
      () => AttemptLimits.make({ perClass: { A: 1, B: n } }),
      RangeError,
      "AttemptLimits: perClass.B must be"
    )
    assert.throws(
      () => AttemptLimits.make({ perClass: {}, unlisted: n }),
      RangeError,
      "AttemptLimits: unlisted must be"
    )
    assert.throws(
      () => AttemptLimits.make({ perClass: {}, pooled: n }),
      RangeError,
      "AttemptLimits: pooled must be"
    )
  }
  const limits = { perClass: { A: undefined, B: 1 }, pooled: undefined }
  assert.strictEqual<unknown>(AttemptLimits.make(limits), limits)
})

it("25 attempts stay within both limits for every sequence of failures", () => {
  const name = fc.constantFrom("A", "B", "C")
  const limit = fc.integer({ min: 1, max: 6 })
  const limits = fc.record({
    perClass: fc.record({ A: limit, B: limit }, { requiredKeys: [] }),
    pooled: fc.option(limit, { nil: undefined })
  })
  fc.assert(
    fc.property(limits, fc.array(name, { maxLength: 40 }), (limits, failures) => {
      let state = AttemptLimits.initial
      let attempts = 1
      const byClass = new Map<string, number>()
      for (const name of failures) {
        const [verdict, after] = AttemptLimits.next(limits, state, name)
        state = after
        byClass.set(name, (byClass.get(name) ?? 0) + 1)
        assert.strictEqual(after.total, attempts)
        assert.deepStrictEqual(after.byClass, byClass)
        if (verdict._tag === "Denied") return
        attempts += 1
        assert.isAtMost(attempts, limits.pooled ?? Infinity)
        assert.isBelow(
          byClass.get(name) ?? 0,
          (name === "C" ? undefined : limits.perClass[name as "A"]) ?? Infinity
        )
      }
    })
  )
})
