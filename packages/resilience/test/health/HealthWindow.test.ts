import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import { HealthWindow } from "@outlast/resilience"
import * as Sweeps from "../../../../test/sweeps.ts"

const minute = 60_000

/** Outcomes one second apart: `F` failed, anything else succeeded. */
const after = (
  letters: string,
  options: HealthWindow.Options = {},
  from = HealthWindow.empty,
  start = 0
): HealthWindow.HealthWindow => {
  const spec = HealthWindow.spec(options)
  return [...letters].reduce(
    (state, letter, i) =>
      HealthWindow.step(spec, state, { _tag: letter === "F" ? "Failed" : "Succeeded" }, start + i * 1_000),
    from
  )
}
const verdict = (letters: string, options: HealthWindow.Options = {}): HealthWindow.Verdict =>
  HealthWindow.read(HealthWindow.spec(options), after(letters, options), (letters.length - 1) * 1_000).verdict

describe("HealthWindow", () => {
  it("is unhealthy at one half, not below, and not before the minimum of outcomes", () => {
    assert.strictEqual(verdict(""), "unknown")
    assert.strictEqual(verdict("FF"), "unknown")
    assert.strictEqual(verdict("SFF"), "unhealthy")
    assert.strictEqual(verdict("SSFF"), "unhealthy")
    assert.strictEqual(verdict("SSSFF"), "healthy")
    assert.strictEqual(verdict("FF", { minimum: 2 }), "unhealthy")
    assert.strictEqual(verdict("SSFF", { unhealthyAt: 0.51 }), "healthy")
  })

  it("keeps only the last outcomes", () => {
    const old = "F".repeat(10)
    assert.strictEqual(
      HealthWindow.read(HealthWindow.spec(), after(`${old}${"S".repeat(50)}`), 60_000).outcomes,
      20
    )
    // Ten of twelve later outcomes have pushed out the failures.
    assert.strictEqual(verdict(`SSS${"F".repeat(2)}${"S".repeat(10)}`, { size: 10 }), "healthy")
    assert.strictEqual(
      HealthWindow.read(HealthWindow.spec({ size: 4 }), after("FFSSSS", { size: 4 }), 5_000).failureRate,
      0
    )
  })

  it("recovers after two consecutive successes, and drops earlier outcomes", () => {
    const failed = after("FFFFFFFF")
    assert.isTrue(HealthWindow.isUnhealthy(failed, 8_000))
    const once = after("S", {}, failed, 8_000)
    assert.isTrue(HealthWindow.isUnhealthy(once, 8_000))
    const twice = after("S", {}, once, 9_000)
    assert.isFalse(HealthWindow.isUnhealthy(twice, 9_000))
    assert.strictEqual(HealthWindow.read(HealthWindow.spec(), twice, 9_000).failureRate, 0)
    // One more failure does not make it unhealthy again.
    assert.isFalse(HealthWindow.isUnhealthy(after("F", {}, twice, 10_000), 10_000))
    const three = { recovery: 3 }
    assert.isTrue(HealthWindow.isUnhealthy(after("FFFFSS", three), 5_000))
    assert.isFalse(HealthWindow.isUnhealthy(after("FFFFSSS", three), 6_000))
  })

  it("a failure between two successes restarts the count of successes", () => {
    assert.isTrue(HealthWindow.isUnhealthy(after("FFFFFSFS"), 7_000))
    assert.isFalse(HealthWindow.isUnhealthy(after("FFFFFSFSS"), 8_000))
  })

  it("failures as old as the span do not count: age ends the unhealthy state to the millisecond", () => {
    const failed = after("FFF")
    // Two of three outcomes are below the minimum, so the first to leave ends it.
    assert.isTrue(HealthWindow.isUnhealthy(failed, 5 * minute - 1))
    assert.isFalse(HealthWindow.isUnhealthy(failed, 5 * minute))
    assert.strictEqual(HealthWindow.read(HealthWindow.spec(), failed, 5 * minute).outcomes, 2)
    assert.isFalse(HealthWindow.isUnhealthy(after("FFF", { span: "10 seconds" }), 10_000))
  })

  it("four failures, one idle hour, one failure: not unhealthy", () => {
    const failed = after("FFFF")
    assert.isFalse(HealthWindow.isUnhealthy(after("F", {}, failed, 60 * minute), 60 * minute))
  })

  it("age alone never makes it unhealthy, even when successes leave the window", () => {
    const state = after("SSSSFFF", { span: "10 seconds" })
    for (let now = 6_000; now < 30_000; now += 500) assert.isFalse(HealthWindow.isUnhealthy(state, now))
  })

  it("reports the latency of successes, as measured values", () => {
    const spec = HealthWindow.spec()
    const state = [10, 20, 30, 40, 1_000].reduce(
      (state, latency, i) => HealthWindow.step(spec, state, { _tag: "Succeeded", latency }, i),
      HealthWindow.step(spec, HealthWindow.empty, { _tag: "Failed" }, 0)
    )
    assert.deepStrictEqual(HealthWindow.read(spec, state, 10).latency, { mean: 220, p50: 30, p95: 1_000 })
    assert.isUndefined(HealthWindow.read(spec, after("FFF"), 10).latency)
  })

  it("counts consecutive failures and keeps the last times beyond the window", () => {
    const reading = HealthWindow.read(
      HealthWindow.spec({ size: 3 }),
      after("SFFFFF", { size: 3 }),
      60 * minute
    )
    assert.strictEqual(reading.consecutiveFailures, 5)
    assert.strictEqual(reading.lastSuccess, 0)
    assert.strictEqual(reading.lastFailure, 5_000)
    assert.strictEqual(reading.outcomes, 0)
    assert.isUndefined(reading.successRate)
  })

  it("an outcome reported late counts at the time of the latest one", () => {
    const spec = HealthWindow.spec()
    const state = HealthWindow.step(
      spec,
      after("S", {}, HealthWindow.empty, 10_000),
      { _tag: "Failed" },
      4_000
    )
    assert.strictEqual(state.lastFailure, 10_000)
  })

  it("an invalid option is named in the error", () => {
    const wrong: ReadonlyArray<readonly [HealthWindow.Options, RegExp]> = [
      [{ size: 0 }, /HealthWindow: size must be an integer from 1 to 1000, got 0/],
      [{ size: 1_001 }, /size/],
      [{ minimum: 21 }, /HealthWindow: minimum must be an integer from 1 to 20, got 21/],
      [{ unhealthyAt: 0 }, /HealthWindow: unhealthyAt must be a finite number above 0 and at most 1, got 0/],
      [{ unhealthyAt: Number.NaN }, /unhealthyAt/],
      [{ recovery: 0 }, /recovery/],
      [{ span: 0 }, /HealthWindow: span must be a finite duration of at least 1ms/],
      [{ span: Duration.infinity }, /span/]
    ]
    for (const [options, message] of wrong) assert.throws(() => HealthWindow.spec(options), message)
  })

  it("agrees with a window that keeps all outcomes", () => {
    const event = fc.record({ failed: fc.boolean(), gap: fc.integer({ min: 0, max: 4_000 }) })
    const options = fc.record({
      size: fc.integer({ min: 1, max: 8 }),
      unhealthyAt: fc.constantFrom(0.25, 0.5, 1),
      recovery: fc.integer({ min: 1, max: 3 })
    })
    fc.assert(
      fc.property(
        options,
        fc.array(event, { maxLength: 40 }),
        fc.integer({ min: 0, max: 12_000 }),
        (own, events, wait) => {
          const spec = HealthWindow.spec({ ...own, span: "10 seconds" })
          let state = HealthWindow.empty
          let all: Array<{ readonly at: number; readonly failed: boolean }> = []
          let unhealthy = false
          let streak = 0
          let now = 0
          const seen = () => all.filter(({ at }) => now - at < 10_000).slice(-spec.size)
          const bad = () => {
            const window = seen()
            const failures = window.filter(({ failed }) => failed).length
            return window.length >= spec.minimum && failures / window.length >= spec.unhealthyAt
          }
          const pass = (time: number) => {
            // Millisecond by millisecond: the first good moment ends it.
            while (now < time) {
              now += 1
              if (unhealthy && !bad()) unhealthy = false
            }
          }
          for (const { failed, gap } of events) {
            pass(now + gap)
            all.push({ at: now, failed })
            streak = failed ? 0 : streak + 1
            if (failed) unhealthy = bad()
            else if (unhealthy && streak >= spec.recovery) {
              unhealthy = false
              all = seen().slice(-spec.recovery)
            } else if (unhealthy) unhealthy = bad()
            state = HealthWindow.step(spec, state, { _tag: failed ? "Failed" : "Succeeded" }, now)
            assert.strictEqual(HealthWindow.isUnhealthy(state, now), unhealthy)
            assert.isAtMost(state.entries.length, spec.size)
          }
          pass(now + wait)
          assert.strictEqual(HealthWindow.isUnhealthy(state, now), unhealthy)
          assert.strictEqual(HealthWindow.read(spec, state, now).outcomes, seen().length)
        }
      ),
      { numRuns: Sweeps.runs(50) }
    )
  })
})
