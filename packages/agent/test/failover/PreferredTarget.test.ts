/**
 * The key at which a call begins while another key is being refused.
 */
import { assert, describe, it } from "@effect/vitest"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as Openings from "#agent/failover/decide/Openings"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"
import { failed } from "./callWorld.ts"

const view = (key: string, model = "m"): CallState.TargetView => ({
  ref: { id: `${model} ${key}`, provider: "p", model, endpoint: "e", key },
  info: {},
  renewable: false
})
const [a, b, c] = [view("A"), view("B"), view("C")]
const other = view("D", "other")
const now = 1_000
const refused = new FailoverReason.Auth({ permanent: false })

interface Setting {
  /** The view of a target that cools until `until`. */
  readonly out?: CallState.TargetView
  readonly reason?: FailoverReason.FailoverReason
  readonly until?: number
  readonly flying?: ReadonlyArray<CallState.TargetView>
  readonly answered?: ReadonlyArray<CallState.TargetView>
  readonly failed?: ReadonlyArray<CallState.TargetView>
  readonly named?: boolean
  /** The target that the call has left. */
  readonly left?: CallState.TargetView
}

const preferred = (
  targets: ReadonlyArray<CallState.TargetView>,
  {
    out = b,
    reason = refused,
    until = 2_000,
    flying = [a],
    answered = [],
    failed: failing = [],
    named,
    left
  }: Setting = {}
) => {
  const cooldown = { scope: "key", target: out.ref, until, failure: failed(reason), named } as const
  const cooldowns = Cooldown.open(Cooldown.empty, cooldown, 0)
  const snapshot: CallState.Snapshot = {
    ...CallState.unbounded,
    now,
    targets: [a, b, c, other],
    dead: [],
    cooldowns,
    flying: flying.map(({ ref }) => ({ target: ref, startedAt: 0 })),
    answered: new Map(answered.map(({ ref }) => [ref.id, now])),
    streaks: new Map(failing.map(({ ref }) => [ref.id, { failures: 1, delay: undefined }]))
  }
  const made = { ...CallState.initial.made, left: left?.ref }
  return Openings.preferred((is) => targets.find(is), { ...CallState.initial, made }, snapshot)
}

describe("the preferred target among several keys", () => {
  it("is another key while an attempt at the first one is in flight", () => {
    assert.strictEqual(preferred([a, c]), c)
  })

  it("is the first one when no attempt at it is in flight", () => {
    assert.strictEqual(preferred([a, c], { flying: [c] }), a)
  })

  it("is the first one if it has answered before", () => {
    assert.strictEqual(preferred([a, c], { answered: [a] }), a)
  })

  it("is the first one when attempts at every key are in flight", () => {
    assert.strictEqual(preferred([a, c], { flying: [c, a] }), a)
  })

  it("is never another model", () => {
    assert.strictEqual(preferred([a, other]), a)
    assert.strictEqual(preferred([a, other, c]), c)
  })

  it("is the first one when the refused key belongs to another model", () => {
    assert.strictEqual(preferred([a, c], { out: other }), a)
  })

  it("is the first one when the server failed and no key was refused", () => {
    assert.strictEqual(preferred([a, c], { reason: new FailoverReason.ServerError() }), a)
  })

  it("is the first one once the cooldown of the refused key is over", () => {
    assert.strictEqual(preferred([a, c], { until: now }), a)
  })
})

describe("the preferred target after a cooldown without a success", () => {
  const back = { out: a, reason: new FailoverReason.ServerError(), until: now, flying: [] } satisfies Setting

  it("is at first one that no call has asked", () => {
    assert.strictEqual(preferred([a, b, other], { ...back, failed: [a, b] }), other)
    assert.strictEqual(preferred([a, b, other], { ...back, answered: [b], failed: [a] }), other)
    assert.strictEqual(preferred([a, b, other], { ...back, flying: [b], failed: [a] }), other)
  })

  it("is at first the same one when each was asked", () => {
    assert.strictEqual(preferred([a, b, c], { ...back, failed: [a, b], answered: [c] }), a)
  })

  it("is after a failure one without such a cooldown", () => {
    assert.strictEqual(preferred([a, b, c], { ...back, failed: [b], left: other }), b)
    assert.strictEqual(preferred([b, a], { ...back, left: other }), b)
    assert.strictEqual(preferred([a], { ...back, left: other }), a)
  })

  it("is the same one when the server named the length", () => {
    assert.strictEqual(preferred([a, b], { ...back, named: true }), a)
    assert.strictEqual(preferred([a, b], { ...back, named: true, left: other }), a)
  })
})
