import { assert, it } from "vitest"
import { Presets } from "@outlast/agent"
import { Backoffs } from "@outlast/agent/presets"
import { Backoff } from "@outlast/resilience"

/** Shortest and longest delay before each of the first retries, in milliseconds. */
const ranges = (spec: Backoff.Backoff, count: number) =>
  Array.from({ length: count }, (_, index) => {
    const { shortest, longest } = Backoff.range(spec, index + 1, undefined)
    return [shortest, longest]
  })

const exactly = (...delays: ReadonlyArray<number>) => delays.map((delay) => [delay, delay])

it("are those of the presets", () => {
  const { codebuddy, decision037, s11, nexo } = Presets
  assert.deepStrictEqual(codebuddy.policy.rows.rate_limit.backoff, Backoffs.codebuddy)
  assert.deepStrictEqual(decision037.policy.rows.NetworkTransient.backoff, Backoffs.decision037)
  const { backoff } = decision037.restartsOf(decision037.defaults)
  assert.deepStrictEqual(ranges(backoff, 3), ranges(Backoffs.decision037Restart, 3))
  assert.deepStrictEqual(s11.policy.rows.rate_limit.backoff, Backoffs.s11)
  assert.deepStrictEqual(nexo.policy.rows.rate_limit.backoff, Backoffs.nexoRateLimit)
  assert.deepStrictEqual(nexo.policy.rows.server_error.backoff, Backoffs.nexoServerError)
})

it("CodeBuddy waits 1.5, 3 and 6 seconds, without jitter", () => {
  assert.deepStrictEqual(ranges(Backoffs.codebuddy, 3), exactly(1_500, 3_000, 6_000))
  assert.strictEqual(Backoff.max(Backoffs.codebuddy), 300_000)
})

it("DECISION_037 waits 1, 2, 4, 8 and 16 seconds, ±20 %, never above 30", () => {
  assert.deepStrictEqual(ranges(Backoffs.decision037, 6), [
    [800, 1_200],
    [1_600, 2_400],
    [3_200, 4_800],
    [6_400, 9_600],
    [12_800, 19_200],
    [24_000, 30_000]
  ])
  assert.strictEqual(Backoff.max(Backoffs.decision037), 30_000)
})

it("DECISION_037 restarts a task after 1, 2 and 4 minutes", () => {
  assert.deepStrictEqual(ranges(Backoffs.decision037Restart, 3), exactly(60_000, 120_000, 240_000))
})

it("s11 waits min(500 · 2^n, 32000) ms plus 0 to 25 % of it, even beyond its cap", () => {
  const expected = Array.from({ length: 10 }, (_, n) => {
    const base = Math.min(500 * 2 ** n, 32_000)
    return [base, base * 1.25]
  })
  assert.deepStrictEqual(ranges(Backoffs.s11, 10), expected)
  assert.deepStrictEqual(expected[9], [32_000, 40_000])
  assert.strictEqual(Backoff.max(Backoffs.s11), 40_000)
})

it("nexo-rs waits 1 to 60 seconds, and up to 30 for server errors, with decorrelated jitter", () => {
  assert.deepStrictEqual(Backoff.range(Backoffs.nexoRateLimit, 1, undefined), {
    shortest: 1_000,
    longest: 2_000
  })
  assert.deepStrictEqual(Backoff.range(Backoffs.nexoRateLimit, 2, 1_700), { shortest: 1_000, longest: 3_400 })
  assert.deepStrictEqual(Backoff.range(Backoffs.nexoRateLimit, 9, 50_000), {
    shortest: 1_000,
    longest: 60_000
  })
  assert.deepStrictEqual(Backoff.range(Backoffs.nexoServerError, 9, 50_000), {
    shortest: 1_000,
    longest: 30_000
  })
  assert.deepStrictEqual(Backoff.range(Backoffs.nexoServerError, 2, 1_700), {
    shortest: 1_000,
    longest: 3_400
  })
})

it("nexo-rs opens a circuit for 10, 20, 40, 80 and then 120 seconds", () => {
  assert.deepStrictEqual(
    ranges(Backoffs.nexoCircuit, 6),
    exactly(10_000, 20_000, 40_000, 80_000, 120_000, 120_000)
  )
})

it("nexo-rs starts a child process again after 1, 2, 4, 8 and then 16 seconds", () => {
  assert.deepStrictEqual(ranges(Backoffs.nexoProcess, 6), exactly(1_000, 2_000, 4_000, 8_000, 16_000, 16_000))
})

it("claw0 uses the next key at once", () => {
  assert.deepStrictEqual(ranges(Backoffs.claw0, 3), exactly(0, 0, 0))
})
