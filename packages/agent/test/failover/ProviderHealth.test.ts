import { assert, describe, it } from "@effect/vitest"
import { interactive } from "#agent/failover/decide/RecoveryPolicy"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { ChainMemory } from "#agent/failover/chain/ChainMemory"
import * as Health from "#agent/failover/chain/ProviderHealth"
import { answers, failureOf, fails, targetOf } from "./chainSupport.ts"

const one = targetOf("opus", "KEY_1")
const two = targetOf("opus", "KEY_2")
const other = targetOf("gpt", "KEY", "other")
const targets = [one, two, other]
const failure = failureOf("ServerError", "upstream connect error")

const fresh = () => new ChainMemory(one, false, interactive.pacing)
const all = (
  memory: ChainMemory,
  cooldowns: Cooldown.Cooldowns = Cooldown.empty,
  now = 0,
  unbuilt = [other]
) =>
  Health.healthOf(
    [...memory.targetLogs.values()],
    cooldowns,
    targets,
    now,
    interactive.pacing.downAfter,
    unbuilt
  )
const health = (memory: ChainMemory, cooldowns?: Cooldown.Cooldowns, now?: number) => {
  const [first] = all(memory, cooldowns, now)
  assert.isDefined(first)
  return first
}
const failing = (times: number, memory = fresh()) => {
  for (let i = 0; i < times; i++) fails(memory, i % 2 === 0 ? one : two, failure)
  return memory
}

describe("the health of a provider", () => {
  it("is healthy, degraded after a failure, down after three consecutive ones, healthy after a success", () => {
    assert.deepStrictEqual(
      [0, 1, 2, 3, 4].map((times) => health(failing(times)).status),
      ["healthy", "degraded", "degraded", "down", "down"]
    )
    const memory = failing(3)
    answers(memory, two, 7)
    assert.deepStrictEqual(health(memory), {
      provider: "vendor",
      status: "healthy",
      errorCount: 0,
      lastError: "the provider failed (HTTP 429): upstream connect error",
      lastErrorReason: "ServerError",
      lastSuccessAt: 7,
      cooldownUntil: undefined
    })
    assert.strictEqual(health(failing(2, memory)).status, "degraded")
  })

  it("counts the failures of all targets since the last answer of any", () => {
    const memory = failing(5)
    assert.strictEqual(health(memory).errorCount, 5)
    answers(memory, two)
    fails(memory, one, failure)
    assert.strictEqual(health(memory).errorCount, 1)
    fails(memory, two, failure)
    fails(memory, one, failureOf("RateLimit"), 1)
    assert.deepInclude(health(memory), { errorCount: 3, lastErrorReason: "RateLimit" })
    answers(memory, other)
    assert.strictEqual(health(memory).errorCount, 3)
  })

  it("forgets the failures of targets that an operator brought back, and keeps the last error", () => {
    const memory = failing(3)
    memory.reset([one], 1)
    assert.deepInclude(health(memory), { errorCount: 1, lastErrorReason: "ServerError" })
    memory.reset([two], 1)
    assert.deepInclude(health(memory), { status: "healthy", lastErrorReason: "ServerError" })
  })

  it("does not count another provider's failures", () => {
    const statuses = all(failing(3)).map(({ status }) => status)
    assert.deepStrictEqual(statuses, ["down", "healthy"])
  })

  it("does not count cancelled calls, refused content, and requests that are malformed or too large", () => {
    const countOf = (reason: Parameters<typeof failureOf>[0]) => {
      const memory = fresh()
      fails(memory, one, failureOf(reason))
      return health(memory).errorCount
    }
    for (const reason of ["Cancelled", "ContentPolicy", "FormatRequest", "ContextOverflow"] as const) {
      assert.strictEqual(countOf(reason), 0, reason)
    }
    for (const reason of ["FormatResponse", "RateLimit", "Auth"] as const) {
      assert.strictEqual(countOf(reason), 1, reason)
    }
  })

  it("is degraded, not down, while all of its targets cool, until the first is back", () => {
    const out = (target: typeof one, until: number, before = Cooldown.empty) =>
      Cooldown.open(before, { scope: "key", target, until, failure }, 0)
    const both = out(two, 50, out(one, 100))
    assert.strictEqual(health(fresh(), out(one, 100)).status, "healthy")
    assert.deepInclude(health(fresh(), both), { status: "degraded", cooldownUntil: 50 })
    assert.deepInclude(health(fresh(), both, 50), { status: "healthy", cooldownUntil: undefined })
    assert.strictEqual(health(failing(1), out(two, 50, out(one, 100))).status, "degraded")
    assert.strictEqual(health(failing(3), out(two, 50, out(one, 100))).status, "down")
    const dead = out(two, Infinity, out(one, Infinity))
    assert.deepInclude(health(fresh(), dead), { status: "down", cooldownUntil: Infinity })
    assert.strictEqual(health(fresh(), out(two, 50, out(one, Infinity))).status, "degraded")
  })

  it("is down when none of its targets could be built", () => {
    const [, , unbuilt] = all(fresh(), undefined, 0, [one, targetOf("m", "k", "third")])
    assert.deepInclude(unbuilt, { provider: "third", status: "down", cooldownUntil: Infinity })
    assert.strictEqual(all(fresh(), undefined, 0, [two])[0]?.status, "healthy")
  })

  it("keeps at most 200 characters of an error", () => {
    const memory = fresh()
    fails(memory, one, failureOf("ServerError", "x".repeat(300)))
    assert.strictEqual(health(memory).lastError?.length, 200)
  })
})
