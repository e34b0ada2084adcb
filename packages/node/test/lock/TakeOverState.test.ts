/** The pure rules of a takeover. */
import { assert, describe, it } from "vitest"
import type { Holder } from "#node/lock/PidFile"
import * as TakeOver from "#node/lock/TakeOverState"

const limits: TakeOver.Limits = { grace: 5_000, afterKill: 2_000, settle: 1_000 }
const holder: Holder = { pid: 7, start: "100", boot: "b", namespace: "n", host: "h", since: "s" }
const seen = (now: number, more: Partial<TakeOver.Seen> = {}): TakeOver.Seen => ({
  now,
  holder,
  verdict: "running",
  isSelf: false,
  ...more
})

/** The actions for what is seen in order. */
const actions = (...all: ReadonlyArray<TakeOver.Seen>): ReadonlyArray<string> => {
  let state = TakeOver.begin(0, limits)
  return all.map((one) => {
    const [action, next] = TakeOver.step(limits, state, one)
    state = next
    return action._tag === "Wait" ? "wait" : action._tag === "Signal" ? action.signal : action.why
  })
}

describe("a takeover", () => {
  it("sends SIGTERM, waits for the grace time, sends SIGKILL, and gives up after it", () => {
    assert.deepStrictEqual(
      actions(seen(0), seen(100), seen(4_999), seen(5_000), seen(5_100), seen(6_999), seen(7_000)),
      ["SIGTERM", "wait", "wait", "SIGKILL", "wait", "wait", "survived"]
    )
  })

  it("compares the start time again before SIGKILL", () => {
    assert.deepStrictEqual(actions(seen(0), seen(5_000, { verdict: "ended" })), ["SIGTERM", "unidentified"])
    assert.deepStrictEqual(actions(seen(0), seen(5_000, { holder: undefined })), ["SIGTERM", "unidentified"])
  })

  it("signals nothing where the holder cannot be identified", () => {
    assert.deepStrictEqual(actions(seen(0, { isSelf: true })), ["self"])
    assert.deepStrictEqual(actions(seen(0, { verdict: "elsewhere" })), ["elsewhere"])
    assert.deepStrictEqual(actions(seen(0, { verdict: "unknown" })), ["noProc"])
  })

  it("gives a new holder a second to write its pid file", () => {
    const missing = { holder: undefined, verdict: "unknown" } as const
    assert.deepStrictEqual(actions(seen(0, missing), seen(100)), ["wait", "SIGTERM"])
    assert.deepStrictEqual(actions(seen(0, missing), seen(1_000, missing)), ["wait", "unidentified"])
    assert.deepStrictEqual(actions(seen(0, { verdict: "ended" }), seen(1_000, { verdict: "ended" })), [
      "wait",
      "unidentified"
    ])
  })

  it("is refused when another process gets the lock meanwhile", () => {
    const other = { ...holder, start: "200" }
    assert.deepStrictEqual(actions(seen(0), seen(100, { holder: other })), ["SIGTERM", "overtaken"])
    assert.deepStrictEqual(actions(seen(0), seen(5_000), seen(5_100, { holder: other })), [
      "SIGTERM",
      "SIGKILL",
      "overtaken"
    ])
  })
})
