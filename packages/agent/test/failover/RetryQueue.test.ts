/** The order in which calls that wait for the retry budget may go, and what lets them go. */
import { assert, describe, it } from "@effect/vitest"
import { RetryQueue } from "#agent/failover/chain/RetryQueue"
import type { Tokens, Waiting } from "#agent/failover/chain/RetryQueue"
import { interactive } from "#agent/failover/decide/RecoveryPolicy"
import { viewsOf } from "./callWorld.ts"

const [one, two] = viewsOf("one", "two").map(({ ref }) => ref)

/** A queue, and what it let go: the number of the call, and the target. */
const queueOf = () => {
  const queue = new RetryQueue(interactive.pacing)
  const went: Array<string> = []
  const add = (call: number, mayGo: Waiting["mayGo"] = () => true): Waiting => {
    const waiting = {
      call,
      mayGo,
      go: (target: Parameters<Waiting["go"]>[0]) => void went.push(`${call} ${target?.id ?? "any"}`)
    }
    queue.add(waiting)
    return waiting
  }
  return { queue, went, add }
}

const tokensOf = (count: number): Tokens & { readonly left: () => number } => {
  let left = count
  return { isAvailable: () => left > 0, take: () => void left--, left: () => left }
}

const succeeded = (queue: RetryQueue, target = one) => queue.succeeded(target ?? assert.fail())

describe("a queue of calls that wait for the retry budget", () => {
  it("lets one call go for each success, the oldest first, to the target that answered", () => {
    const { queue, went, add } = queueOf()
    for (const call of [5, 3, 9, 4]) add(call)
    succeeded(queue)
    succeeded(queue, two)
    assert.deepStrictEqual(went, ["3 one", "4 two"])
    assert.isFalse(queue.isEmpty)
    succeeded(queue)
    succeeded(queue)
    assert.deepStrictEqual(went.slice(2), ["5 one", "9 one"])
    assert.isTrue(queue.isEmpty)
  })

  it("passes over a call that may not ask the target that answered", () => {
    const { queue, went, add } = queueOf()
    add(1, (target) => target?.id === "two")
    add(2)
    succeeded(queue)
    succeeded(queue, two)
    assert.deepStrictEqual(went, ["2 one", "1 two"])
  })

  it("lets the oldest call that may go trickle, one every two seconds", () => {
    const { queue, went, add } = queueOf()
    add(1, () => false)
    for (const call of [2, 3]) add(call)
    const tokens = tokensOf(1)
    queue.trickle(0, tokens)
    assert.strictEqual(tokens.left(), 0)
    queue.trickle(1_999, undefined)
    assert.deepStrictEqual(went, ["2 any"])
    queue.trickle(2_000, undefined)
    queue.trickle(4_000, undefined)
    assert.deepStrictEqual(went, ["2 any", "3 any"])
    add(4)
    queue.trickle(4_000, undefined)
    assert.deepStrictEqual(went.slice(2), ["4 any"])
  })

  it("lets calls go for tokens, and takes one for each", () => {
    const { queue, went, add } = queueOf()
    for (const call of [1, 2, 3]) add(call)
    const tokens = tokensOf(2)
    queue.release(tokens)
    assert.deepStrictEqual(went, ["1 any", "2 any"])
    assert.strictEqual(tokens.left(), 0)
    queue.release(undefined)
    assert.lengthOf(went, 2)
  })

  it("takes no token for a call whose targets are all out", () => {
    const { queue, went, add } = queueOf()
    add(1, () => false)
    add(2)
    const tokens = tokensOf(2)
    queue.release(tokens)
    assert.deepStrictEqual(went, ["2 any"])
    assert.strictEqual(tokens.left(), 1)
  })

  it("keeps a few successes for calls whose targets are out, each of which takes a token where there is one", () => {
    const { queue, went, add } = queueOf()
    let isOut = true
    for (let call = 1; call <= 12; call++) add(call, () => !isOut)
    for (let n = 0; n < 15; n++) succeeded(queue)
    isOut = false
    const tokens = tokensOf(11)
    queue.release(tokens)
    assert.lengthOf(went, 11)
    assert.strictEqual(tokens.left(), 0)
  })

  it("needs no token for a call that a kept success pays for", () => {
    const { queue, went, add } = queueOf()
    let isOut = true
    add(1, () => !isOut)
    add(2, () => !isOut)
    succeeded(queue)
    isOut = false
    queue.release(undefined)
    assert.deepStrictEqual(went, ["1 any"])
  })

  it("keeps the other calls when one leaves twice", () => {
    const { queue, went, add } = queueOf()
    const gone = add(1)
    add(2)
    queue.remove(gone)
    queue.remove(gone)
    succeeded(queue)
    assert.deepStrictEqual(went, ["2 one"])
  })

  it("keeps no success when no call waits", () => {
    const { queue, went, add } = queueOf()
    succeeded(queue)
    add(9)
    queue.release(undefined)
    assert.deepStrictEqual(went, [])
    succeeded(queue)
    went.length = 0
    const waiting = add(1, () => false)
    succeeded(queue)
    queue.remove(waiting)
    queue.remove(waiting)
    add(2)
    queue.release(undefined)
    assert.deepStrictEqual(went, [])
  })
})
