/** How long a call waits before its next attempt at a target; each rule by itself. */
import { assert, describe, it } from "@effect/vitest"
import { HashMap } from "effect"
import { Backoff } from "@outlast/resilience"
import { RecoveryPolicy } from "@outlast/agent"
import * as Log from "#agent/failover/decide/CallLog"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Delays from "#agent/failover/decide/Delays"
import { ProviderFailure } from "#agent/failure/reasons/ProviderFailure"
import { failureOf, targetOf } from "./chainSupport.ts"

const [a, b] = [targetOf("one", "a"), targetOf("one", "b")]
const policy: RecoveryPolicy.RecoveryPolicy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)
const row: RecoveryPolicy.Row = { ...policy.rows.ServerError, worthWaiting: true }
const broken = failureOf("ServerError")

/** A call that has made five attempts, one of them as the first one behind a refusal. */
const state = (changes: Partial<Log.Tries> = {}, made: Partial<Log.CallLog> = {}): CallState.CallState => ({
  ...CallState.initial,
  made: {
    ...Log.empty,
    attempts: 5,
    sweeps: 1,
    tries: HashMap.make(
      [a.id, { ...Log.triesAt(CallState.initial, a), count: 2, failure: broken, ...changes }],
      [b.id, { ...Log.triesAt(CallState.initial, b), count: 3, failure: broken }]
    ),
    ...made
  }
})

describe("the time from which a call may return to a target", () => {
  const backAt = (
    retryAfter: number | undefined,
    changes: Partial<RecoveryPolicy.Row> = {},
    made: Partial<Log.CallLog> = {},
    shouldRetry?: boolean
  ) => {
    const named = failureOf("ServerError", "", retryAfter)
    const failure = new ProviderFailure({ ...named, evidence: { ...named.evidence, shouldRetry } })
    const snapshot = {
      ...CallState.unbounded,
      now: 1_000,
      targets: [],
      dead: [],
      cooldowns: Cooldown.empty
    }
    return Delays.backAt(policy, { ...row, ...changes }, state({}, made), a, failure, snapshot, 0)
  }

  it("is the end of the wait that the server named, or of the longer backoff over all attempts", () => {
    assert.isUndefined(backAt(undefined))
    assert.strictEqual(backAt(9_000), 10_000)
    assert.strictEqual(backAt(500), 9_000)
    assert.isUndefined(backAt(9_000, { retryAfter: "ignored" }))
  })

  it("is the end of the backoff where a server names a wait of zero for the second time", () => {
    assert.strictEqual(backAt(0), 9_000)
    assert.strictEqual(backAt(0, {}, { attempts: 2, sweeps: 0 }), 3_000)
    assert.isUndefined(backAt(0, {}, { attempts: 1, sweeps: 0 }))
    assert.strictEqual(backAt(0, {}, {}, true), 9_000)
    assert.isUndefined(backAt(0, {}, {}, false))
    assert.isUndefined(backAt(0, { retryAfter: "wins" }))
    assert.isUndefined(backAt(0, { retryAfter: "ignored" }))
  })
})

describe("the delay before a return to a target", () => {
  const delay = (
    changes: Partial<Log.Tries> = {},
    of: Partial<RecoveryPolicy.Row> = {},
    shared = true
  ): number =>
    Delays.beforeReturn({ ...policy, sharedBackoff: shared }, { ...row, ...of }, state(changes), a, 0)

  it("grows with the attempts behind the first one at each target", () => {
    assert.strictEqual(delay(), 4_000)
  })

  it("is none without a failure there, behind a named wait, or where the failure does not pass", () => {
    assert.strictEqual(delay({}, {}, false), 0)
    assert.strictEqual(delay({ failure: undefined }), 0)
    assert.strictEqual(delay({ backAt: 0 }), 0)
    assert.strictEqual(delay({}, { then: "move" }), 0)
    assert.strictEqual(delay({}, { worthWaiting: false }), 0)
  })

  it("is at least the delay of the last repeat where the jitter is decorrelated", () => {
    const backoff = Backoff.exponential({
      initial: "1 second",
      factor: 2,
      cap: "1 minute",
      jitter: "decorrelated"
    })
    assert.strictEqual(
      Delays.beforeReturn(policy, { ...row, backoff }, state({ delay: 3_000 }), a, 0.5),
      3_500
    )
  })
})
