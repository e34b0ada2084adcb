/** Which of several keys a call begins at, while one of them is refused. */
import { assert, describe, it } from "@effect/vitest"
import * as CallState from "#agent/failover/decide/CallState"
import * as Choice from "#agent/failover/decide/Choice"
import * as Cooldown from "#agent/failover/decide/Cooldown"
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
  /** Cools until `until`. */
  readonly out?: CallState.TargetView
  readonly reason?: FailoverReason.FailoverReason
  readonly until?: number
  readonly flying?: ReadonlyArray<CallState.TargetView>
  readonly answered?: ReadonlyArray<CallState.TargetView>
}

const preferred = (
  targets: ReadonlyArray<CallState.TargetView>,
  { out = b, reason = refused, until = 2_000, flying = [a], answered = [] }: Setting = {}
) => {
  const cooldown = { scope: "key", target: out.ref, until, failure: failed(reason) } as const
  const cooldowns = Cooldown.open(Cooldown.empty, cooldown, 0)
  const snapshot: CallState.Snapshot = {
    ...CallState.unbounded,
    now,
    targets: [a, b, c, other],
    dead: [],
    cooldowns,
    flying: flying.map(({ ref }) => ({ target: ref })),
    answered: new Set(answered.map(({ ref }) => ref.id))
  }
  return Choice.preferred(targets, snapshot, cooldowns)
}

describe("the preferred target, where a key was refused", () => {
  it("is another key while the first one is being asked", () => {
    assert.strictEqual(preferred([a, c]), c)
  })

  it("is the first one while it is not being asked", () => {
    assert.strictEqual(preferred([a, c], { flying: [c] }), a)
  })

  it("is the first one if it has answered before", () => {
    assert.strictEqual(preferred([a, c], { answered: [a] }), a)
  })

  it("is the first one if each key is being asked", () => {
    assert.strictEqual(preferred([a, c], { flying: [c, a] }), a)
  })

  it("is no other model", () => {
    assert.strictEqual(preferred([a, other]), a)
    assert.strictEqual(preferred([a, other, c]), c)
  })

  it("is the first one if the refused key is another model's", () => {
    assert.strictEqual(preferred([a, c], { out: other }), a)
  })

  it("is the first one if no key is refused, but the server failed", () => {
    assert.strictEqual(preferred([a, c], { reason: new FailoverReason.ServerError() }), a)
  })

  it("is the first one once the cooldown of the refused key is over", () => {
    assert.strictEqual(preferred([a, c], { until: now }), a)
  })
})
