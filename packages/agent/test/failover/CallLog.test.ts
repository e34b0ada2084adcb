/** The history of a call: attempts that have ended, and what an operator's reset makes of it. */
import { assert, describe, it } from "@effect/vitest"
import { HashMap } from "effect"
import * as Log from "#agent/failover/decide/CallLog"
import { ProviderFailure } from "#agent/failure/reasons/ProviderFailure"
import { failureOf, targetOf } from "./chainSupport.ts"

const [a, b, c] = [targetOf("one", "a"), targetOf("one", "b"), targetOf("two", "c")]
const spent = { elapsed: 0, cost: 0, tokens: 0 }
const at = (made: Log.CallLog, target: typeof a) => Log.triesAt({ made }, target)
const ended = (made: Log.CallLog, target: typeof a, delay: number): Log.CallLog =>
  Log.ended(made, { target, delay, isSweep: Log.isSweep({ made }, target) }, spent)
const failureAt = (target: typeof a) => new ProviderFailure({ ...failureOf("ServerError"), target })
const failed = (before: Log.CallLog, target: typeof a, failure = failureAt(target)) =>
  Log.failed(before, ended(before, target, 0), target, {
    failure,
    class: failure.reason._tag,
    now: 0,
    elapsed: 0,
    counted: 0,
    isReleased: false,
    notBefore: undefined
  })

describe("the log of a call", () => {
  it("has the delay of the last repeat at each target, and the attempts before the first one there", () => {
    const once = ended(Log.empty, a, 5)
    assert.deepInclude(at(once, a), { count: 1, before: 0, delay: undefined })
    const twice = ended(once, a, 7)
    assert.deepInclude(at(twice, a), { count: 2, before: 0, delay: 7 })
    const elsewhere = ended(twice, b, 9)
    assert.deepInclude(at(elsewhere, b), { count: 1, before: 2, delay: undefined })
    assert.deepInclude(at(elsewhere, c), { count: 0, failure: undefined })
  })

  it("counts a first attempt behind a refusal: by the rate limit, for the key, or for money", () => {
    const sweeps = (reason: "RateLimit" | "Auth" | "Billing" | "ServerError", next = b) =>
      ended(failed(Log.empty, a, failureOf(reason)), next, 0).sweeps
    assert.deepStrictEqual(
      (["RateLimit", "Auth", "Billing", "ServerError"] as const).map((reason) => sweeps(reason)),
      [1, 1, 1, 0]
    )
    assert.strictEqual(sweeps("RateLimit", a), 0)
    assert.strictEqual(ended(Log.empty, a, 0).sweeps, 0)
  })

  it("knows the last failure at the target that was asked last for the first time", () => {
    const orders = [
      [a, b, c],
      [b, c, a],
      [c, a, b]
    ] as const
    for (const order of orders) {
      const made = order.reduce((log, target) => failed(log, target), Log.empty)
      const lastOf = (meant: ReadonlyArray<typeof a>) =>
        Log.lastFailureOf(made, ({ id }) => meant.some((target) => target.id === id))?.target?.id
      assert.strictEqual(lastOf(order), order[2].id)
      assert.strictEqual(lastOf(order.slice(0, 2)), order[1].id)
      assert.strictEqual(lastOf(order.slice(0, 1)), order[0].id)
      assert.isUndefined(lastOf([]))
    }
  })

  it("knows no failure of a target that was cut, or of none", () => {
    const made = failed(ended(Log.empty, a, 0), b, failureOf("ServerError"))
    assert.isUndefined(Log.lastFailureOf(made, () => true))
  })

  it("counts consecutive failures of one class at one target", () => {
    const rowOf = (...targets: ReadonlyArray<typeof a>) =>
      targets.reduce((log, target) => failed(log, target), Log.empty).inARow?.count
    assert.deepStrictEqual([rowOf(a), rowOf(a, a), rowOf(a, b), rowOf(a, b, b)], [1, 2, 1, 2])
    assert.strictEqual(failed(failed(Log.empty, a), a, failureOf("RateLimit")).inARow?.count, 1)
  })

  it("forgets the waits at targets that an operator brought back", () => {
    const refusal = { until: 50, failure: failureOf("RateLimit"), mayResort: true, byCircuit: true }
    const waiting = (target: typeof a, made: Log.CallLog) =>
      Log.setRefused(
        Log.setTries(made, target, { ...at(made, target), count: 1, backAt: 60, notBefore: 70 }),
        target,
        refusal
      )
    const made = waiting(b, waiting(a, { ...Log.empty, attempts: 2 }))
    const reset = Log.afterReset(made, new Set([a.id, c.id]))
    assert.strictEqual(reset.attempts, 2)
    assert.deepStrictEqual(Log.refusalAt({ made: reset }, a), { ...refusal, until: -Infinity })
    assert.deepStrictEqual(Log.refusalAt({ made: reset }, b), refusal)
    assert.deepInclude(at(reset, a), { count: 1, backAt: undefined, notBefore: -Infinity })
    assert.deepInclude(at(reset, b), { count: 1, backAt: 60, notBefore: 70 })
    assert.strictEqual(HashMap.size(reset.tries), 2)
  })
})
