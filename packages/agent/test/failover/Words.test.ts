/**
 * The effect on a call of a verdict that rests on words alone, and of the header `x-should-retry`.
 */
import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import * as RecoveryPolicy from "#agent/failover/decide/RecoveryPolicy"
import type { TargetRef } from "#agent/conversation/TargetRef"

/** Models with the same wire format. A malformed request is malformed for both. */
const target = (model: string): TargetRef => ({
  id: model,
  provider: "openai",
  model,
  endpoint: "https://api.openai.example",
  key: "KEY"
})
const [first, second] = [target("first"), target("second")]
const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)

/** Returns the next action of a call after its first attempt, at the first of `targets`, failed with `error`. */
const after = (error: unknown, targets: ReadonlyArray<TargetRef>): string => {
  const snapshot: CallState.Snapshot = {
    ...CallState.unbounded,
    now: 0,
    targets: targets.map((ref) => ({ ref, info: {}, renewable: false })),
    dead: [],
    cooldowns: Cooldown.empty
  }
  const [, state] = CallState.step(policy, CallState.initial, CallState.started, snapshot, 0)
  const failed: CallState.Event = {
    _tag: "Failed",
    failure: Classifier.failureOf(error).at(first, {}),
    commit: "nothing",
    elapsed: 0,
    cost: 0,
    tokens: 0
  }
  const [action] = CallState.step(policy, state, failed, snapshot, 0)
  return "probe" in action ? `asks ${action.target.id}` : action._tag
}

describe("a verdict that ends a call", () => {
  const said = "The request was rejected: messages must alternate between user and assistant"

  it("asks another model when only words support it", () => {
    for (const error of [said, new Error(said)]) {
      assert.strictEqual(after(error, [first, second]), "asks second")
      assert.strictEqual(after(error, [first]), "GiveUp")
    }
  })

  it("ends the call when a code or a status supports it", () => {
    const code = { responseBody: JSON.stringify({ error: { code: "invalid_request_error", message: "" } }) }
    for (const error of [{ message: said, statusCode: 400 }, code])
      assert.strictEqual(after(error, [first, second]), "GiveUp")
  })
})

describe("x-should-retry", () => {
  const answer = (statusCode: number, said: string, headers: Record<string, string> = {}) => ({
    message: "",
    statusCode,
    responseHeaders: { "x-should-retry": said, ...headers }
  })

  it("false: the target is not asked again, and another one is", () => {
    for (const status of [429, 500, 529]) {
      assert.strictEqual(after(answer(status, "false"), [first]), "GiveUp", String(status))
      assert.strictEqual(after(answer(status, "true"), [first]), "asks first", String(status))
      assert.strictEqual(after(answer(status, "false"), [first, second]), "asks second", String(status))
    }
  })

  it("true: a status that blames the request is repeated", () => {
    for (const status of [400, 409, 422])
      assert.strictEqual(after(answer(status, "true"), [first]), "asks first")
    assert.strictEqual(after(answer(400, "false"), [first, second]), "GiveUp")
    assert.strictEqual(after(answer(401, "true"), [first, second]), "asks second")
  })
})

it("409 and 425 are repeated", () => {
  for (const statusCode of [409, 425])
    assert.strictEqual(after({ message: "", statusCode }, [first]), "asks first")
})
