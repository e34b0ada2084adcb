/** When a call next asks each target, from what the program knows. */
import { assert, describe, it } from "@effect/vitest"
import * as NextTry from "#node/ops/NextTry"
import { reader } from "#node/ops/HeadlineSections"

const now = 1_000_000

/** Two targets behind one circuit, which lets a probe through in 9 s. */
const targets = ["a", "b"].map((id) => ({
  id,
  provider: "p",
  model: "m",
  state: "open",
  nextTry: now + 9_000,
  circuits: [{ circuit: "p", phase: "open" }]
}))

const wait = (reason: string, rest: Readonly<Record<string, string | number>>) => ({
  kind: "wait",
  state: "running",
  text: "a",
  reason,
  ...rest
})

const nextTries = (list: ReadonlyArray<object>, ...steps: ReadonlyArray<object>) => {
  const activity = { running: [{ steps }], recent: [], circuits: [], notices: [] }
  return NextTry.of(reader.targets(list) ?? [], reader.activity(activity))
}

describe("the next try of a target", () => {
  it("is the time from which the chain lets a call through", () => {
    assert.deepStrictEqual(nextTries(targets), { a: now + 9_000, b: now + 9_000 })
    const [first] = targets
    assert.deepStrictEqual(nextTries([{ ...first, nextTry: null }, { id: "c" }]), {})
    assert.deepStrictEqual(nextTries([{ ...first, nextTry: null }]), { a: null })
  })

  it("is the end of a call's wait for the target, if that is sooner", () => {
    const cooling = targets.map((one) => ({ ...one, state: "cooling", circuits: [] }))
    const waiting = (until: number) => wait("cooldown", { until })
    assert.deepStrictEqual(nextTries(cooling, waiting(now + 2_000)), { a: now + 2_000, b: now + 9_000 })
    assert.deepStrictEqual(nextTries(cooling, waiting(now + 20_000)).a, now + 9_000)
    // A note behind the wait does not end it.
    const note = { kind: "note", state: "note", text: "asked for a new key" }
    assert.strictEqual(nextTries(cooling, waiting(now + 2_000), note).a, now + 2_000)
    const over = { ...waiting(now + 2_000), state: "over" }
    assert.strictEqual(nextTries(cooling, over).a, now + 9_000)
  })

  it("is the same for all targets behind the circuit that a call waits for", () => {
    const found = nextTries(targets, wait("circuit", { by: "p", until: now + 700 }))
    assert.deepStrictEqual(found, { a: now + 700, b: now + 700 })
  })

  it("is not the time at which a call gives up its wait for the retry budget", () => {
    assert.strictEqual(nextTries(targets, wait("budget", { until: now + 100 })).a, now + 9_000)
  })

  it("is that of its limits for a ready target, also while a call waits before it repeats there", () => {
    const ready = (nextTry: number) => targets.map((one) => ({ ...one, state: "ready", nextTry }))
    const backoff = wait("backoff", { until: now + 100 })
    assert.strictEqual(nextTries(ready(0), backoff).a, 0)
    assert.strictEqual(nextTries(ready(now + 5_000), backoff).a, now + 5_000)
  })
})
