/**
 * Proof that a model or an endpoint is out: rules by example, and compared with a model that keeps all attempts.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import type { TargetRef } from "#agent/conversation/TargetRef"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Evidence from "#agent/failover/chain/Evidence"
import type { Scope } from "#agent/failover/decide/RecoveryPolicy"
import * as Sweeps from "../../../../test/sweeps.ts"

const target = (model: string, key: string, endpoint = "one"): TargetRef => ({
  id: `${endpoint}/${model}#${key}`,
  provider: "vendor",
  model,
  endpoint,
  key
})

const flight = (at: TargetRef, startedAt: number, seen: Partial<Evidence.Flying> = {}): Evidence.Flying => ({
  target: at,
  startedAt,
  hasProgress: false,
  isHeard: false,
  ...seen
})

const a = target("m", "A")
const b = target("m", "B")
const other = target("m2", "A")

const timeout = (phase: FailoverReason.Timeout["phase"], more: { local?: boolean; silent?: boolean } = {}) =>
  ProviderFailure.local("test", new FailoverReason.Timeout({ phase, local: true, ...more }), a)

describe("silence", () => {
  it("is a local limit that passed for a connection, a first token, or a whole answer without content", () => {
    const silent = (failure: ProviderFailure.ProviderFailure) => Evidence.isSilence(failure, a, [], false)
    assert.deepStrictEqual(
      [
        timeout("connect"),
        timeout("first-token"),
        timeout("total", { silent: true }),
        timeout("total"),
        timeout("idle"),
        timeout("connect", { local: false }),
        ProviderFailure.local("test", new FailoverReason.Network(), a)
      ].map(silent),
      [true, true, true, false, false, false, false]
    )
  })

  it("is contradicted by progress of another attempt at the same target, and not at another one", () => {
    const isSilence = (flying: ReadonlyArray<Evidence.Flying>, hasProgressed = false) =>
      Evidence.isSilence(timeout("first-token"), a, flying, hasProgressed)
    assert.isFalse(isSilence([], true))
    assert.isFalse(isSilence([flight(a, 0), flight(a, 1, { hasProgress: true })]))
    assert.isTrue(isSilence([flight(b, 0, { hasProgress: true }), flight(a, 0)]))
  })

  it("is contradicted by headers for a whole answer, and not for a stream", () => {
    const heard = [flight(a, 0, { isHeard: true })]
    assert.isTrue(Evidence.isSilence(timeout("first-token"), a, heard, false))
    assert.isFalse(Evidence.isSilence(timeout("total", { silent: true }), a, heard, false))
  })
})

// -----------------------------------------------------------------------------
// Against a model
// -----------------------------------------------------------------------------

const targets = [a, b, other, target("m", "A", "two")]
const scopes: ReadonlyArray<Scope> = ["model", "endpoint"]

const command = fc.record({
  what: fc.constantFrom("begin", "begin", "fail", "fail", "fail", "succeed", "abandon"),
  which: fc.nat(10),
  target: fc.nat(targets.length - 1),
  call: fc.nat(3),
  scope: fc.constantFrom(...scopes),
  after: fc.nat(2)
})

interface Attempt extends Evidence.Flying {
  readonly call: number
}

/** An attempt that has ended. */
type Ended = Attempt & { readonly outcome: "failed" | "succeeded"; readonly scope: Scope }

/** The model: collects the failures of a scope since the last success that cleared them, and looks for two calls. */
const provenByModel = (
  ended: ReadonlyArray<Ended>,
  flying: ReadonlyArray<Attempt>,
  scope: Scope,
  at: TargetRef
): boolean => {
  let held: ReadonlyArray<Ended> = []
  for (const attempt of ended) {
    if (!Cooldown.covers(scope, at, attempt.target)) continue
    const [first] = held
    if (attempt.outcome === "succeeded") {
      if (first !== undefined && attempt.startedAt >= first.startedAt) held = []
    } else if (attempt.scope === scope) held = [...held, attempt]
  }
  const [first] = held
  return (
    first !== undefined &&
    new Set(held.map(({ call }) => call)).size >= 2 &&
    !flying.some(
      ({ target, startedAt }) => startedAt >= first.startedAt && Cooldown.covers(scope, at, target)
    )
  )
}

it("the failures of two calls are proof, unless a later attempt succeeded or is in flight", () => {
  let proven = 0
  fc.assert(
    fc.property(fc.array(command, { minLength: 20, maxLength: 60 }), (commands) => {
      let doubts = Evidence.none
      let flying: ReadonlyArray<Attempt> = []
      const ended: Array<Ended> = []
      let now = 0
      for (const { what, which, target: t, call, scope, after } of commands) {
        now += after
        const at = targets[t] ?? a
        if (what === "begin") {
          flying = [...flying, { ...flight(at, now), call }]
          continue
        }
        const attempt = flying[which % Math.max(1, flying.length)]
        if (attempt === undefined) continue
        flying = flying.filter((one) => one !== attempt)
        if (what === "fail") {
          ended.push({ ...attempt, outcome: "failed", scope })
          doubts = Evidence.failed(doubts, scope, attempt, attempt.call)
        } else if (what === "succeed") {
          ended.push({ ...attempt, outcome: "succeeded", scope })
          doubts = Evidence.succeeded(doubts, attempt.target, attempt.startedAt)
        }
        for (const each of scopes) {
          for (const one of targets) {
            const expected = provenByModel(ended, flying, each, one)
            if (expected) proven++
            assert.strictEqual(Evidence.isProven(doubts, each, one, flying), expected)
          }
        }
        for (const { calls } of doubts.values()) assert.isAtMost(calls.length, Evidence.enough)
        assert.isAtMost(doubts.size, scopes.length * targets.length)
      }
    }),
    { numRuns: Sweeps.runs(1_000) }
  )
  assert.isAbove(proven, 100)
})
