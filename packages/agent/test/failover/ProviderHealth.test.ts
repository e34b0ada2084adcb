import { assert, describe, it } from "@effect/vitest"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Health from "#agent/failover/chain/ProviderHealth"
import { failureOf, targetOf } from "./chainSupport.ts"

const one = targetOf("opus", "KEY_1")
const two = targetOf("opus", "KEY_2")
const other = targetOf("gpt", "KEY", "other")
const targets = [one, two, other]
const failure = failureOf("ServerError", "upstream connect error")

const health = (records: Health.ProviderRecords, cooldowns: Cooldown.Cooldowns = Cooldown.empty, now = 0) => {
  const [first] = Health.healthOf(records, cooldowns, targets, now)
  assert.isDefined(first)
  return first
}
const failing = (times: number, records = Health.empty) =>
  Array.from({ length: times }).reduce<Health.ProviderRecords>(
    (all) => Health.failed(all, "vendor", failure),
    records
  )

describe("the health of a provider", () => {
  it("is healthy, degraded after a failure, down after three consecutive ones, healthy after a success", () => {
    assert.deepStrictEqual(
      [0, 1, 2, 3, 4].map((times) => health(failing(times)).status),
      ["healthy", "degraded", "degraded", "down", "down"]
    )
    const back = Health.succeeded(failing(3), "vendor", 7)
    assert.deepStrictEqual(health(back), {
      provider: "vendor",
      status: "healthy",
      errorCount: 0,
      lastError: "the provider failed (HTTP 429): upstream connect error",
      lastErrorReason: "ServerError",
      lastSuccessAt: 7,
      cooldownUntil: undefined
    })
    assert.strictEqual(health(failing(2, back)).status, "degraded")
    assert.strictEqual(health(Health.reset(failing(3), "vendor")).status, "healthy")
  })

  it("does not count another provider's failures", () => {
    const statuses = Health.healthOf(failing(3), Cooldown.empty, targets, 0).map(({ status }) => status)
    assert.deepStrictEqual(statuses, ["down", "healthy"])
  })

  it("does not count cancelled calls, refused content, and requests that are malformed or too large", () => {
    for (const reason of ["Cancelled", "ContentPolicy", "FormatRequest", "ContextOverflow"] as const) {
      assert.strictEqual(Health.failed(Health.empty, "vendor", failureOf(reason)), Health.empty, reason)
    }
    for (const reason of ["FormatResponse", "RateLimit", "Auth"] as const) {
      assert.strictEqual(health(Health.failed(Health.empty, "vendor", failureOf(reason))).errorCount, 1)
    }
  })

  it("is degraded, not down, while all of its targets cool, until the first is back", () => {
    const out = (target: typeof one, until: number, before = Cooldown.empty) =>
      Cooldown.open(before, { scope: "key", target, until, failure }, 0)
    const both = out(two, 50, out(one, 100))
    assert.strictEqual(health(Health.empty, out(one, 100)).status, "healthy")
    assert.deepInclude(health(Health.empty, both), { status: "degraded", cooldownUntil: 50 })
    assert.deepInclude(health(Health.empty, both, 50), { status: "healthy", cooldownUntil: undefined })
    assert.strictEqual(health(failing(1), out(two, 50, out(one, 100))).status, "degraded")
    assert.strictEqual(health(failing(3), out(two, 50, out(one, 100))).status, "down")
    const dead = out(two, Infinity, out(one, Infinity))
    assert.deepInclude(health(Health.empty, dead), { status: "down", cooldownUntil: Infinity })
    assert.strictEqual(health(Health.empty, out(two, 50, out(one, Infinity))).status, "degraded")
  })

  it("is down when none of its targets could be built", () => {
    const [, , unbuilt] = Health.healthOf(Health.empty, Cooldown.empty, targets, 0, [
      one,
      targetOf("m", "k", "third")
    ])
    assert.deepInclude(unbuilt, { provider: "third", status: "down", cooldownUntil: Infinity })
    assert.strictEqual(Health.healthOf(Health.empty, Cooldown.empty, targets, 0, [two])[0]?.status, "healthy")
  })

  it("keeps at most 200 characters of an error, and one record per provider", () => {
    const once = Health.failed(Health.empty, "vendor", failureOf("ServerError", "x".repeat(300)))
    assert.strictEqual(health(once).lastError?.length, 200)
    const twice = Health.failed(once, "vendor", failureOf("RateLimit"))
    assert.strictEqual(twice.size, 1)
    assert.deepInclude(health(twice), { errorCount: 2, lastErrorReason: "RateLimit" })
  })
})
