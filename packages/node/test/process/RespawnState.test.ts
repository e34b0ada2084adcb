/** The pure rules of restarts. */
import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import * as Respawn from "#node/process/RespawnState"
import { policyOf } from "#node/process/SupervisedOptions"

const policy = policyOf()

/** Lives of these lengths. Returns what follows each death. */
const lives = (policy: Respawn.Policy, lengths: ReadonlyArray<number>) => {
  let now = 0
  let state = Respawn.begin(now)
  return lengths.map((length) => {
    state = Respawn.step(policy, state, { _tag: "Ready", now })[1]
    now += length
    const [action, next] = Respawn.step(policy, state, { _tag: "Died", now, draw: 0.5 })
    const millis = action._tag === "Wait" ? action.millis : Number.NaN
    now += millis
    state = Respawn.step(policy, next, { _tag: "Woke", now })[1]
    return { phase: next.phase._tag, millis, deaths: next.deaths.length }
  })
}

describe("restarts", () => {
  it("wait 1, 2, 4, 8 and 16 s, and the sixth death within 5 minutes opens the circuit", () => {
    const seen = lives(policy, [0, 0, 0, 0, 0, 0])
    assert.deepStrictEqual(
      seen.map(({ millis }) => millis),
      [1_000, 2_000, 4_000, 8_000, 16_000, 300_000]
    )
    assert.strictEqual(seen.at(-1)?.phase, "Open")
  })

  it("begin again with 1 s after a life that is longer than the window", () => {
    const seen = lives(policy, [0, 0, 300_000, 0])
    assert.deepStrictEqual(
      seen.map(({ millis }) => millis),
      [1_000, 2_000, 1_000, 2_000]
    )
  })

  it("open the circuit at once after a probe that dies, and not after one that lives", () => {
    const dead = lives(policy, [0, 0, 0, 0, 0, 0, 200_000])
    assert.strictEqual(dead.at(-1)?.phase, "Open")
    const alive = lives(policy, [0, 0, 0, 0, 0, 0, 300_000])
    assert.deepInclude(alive.at(-1), { phase: "Waiting", millis: 1_000 })
  })

  it("keep a bounded list of deaths, however many probes die within the window", () => {
    const seen = lives(policyOf({ open: "1 millis" }), new Array<number>(100).fill(0))
    assert.isTrue(seen.every(({ deaths }) => deaths <= 6))
  })

  it("without any allowed opens at the first death", () => {
    assert.strictEqual(lives(policyOf({ restarts: 0 }), [0])[0]?.phase, "Open")
  })

  it("never exceed the limit within the window, and keep a bounded list, for any lives", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 6 }),
        fc.integer({ min: 1, max: 100_000 }),
        fc.array(fc.integer({ min: 0, max: 50_000 }), { maxLength: 60 }),
        (restarts, window, lengths) => {
          const policy = policyOf({ restarts, window, open: window })
          let now = 0
          let state = Respawn.begin(now)
          const starts: Array<number> = []
          for (const length of lengths) {
            now += length
            const [action, next] = Respawn.step(policy, state, { _tag: "Died", now, draw: 0 })
            assert.strictEqual(action._tag, "Wait")
            now += action._tag === "Wait" ? action.millis : 0
            starts.push(now)
            assert.isAtMost(next.deaths.length, restarts + 1)
            state = Respawn.step(policy, next, { _tag: "Woke", now })[1]
            assert.strictEqual(state.phase._tag, "Starting")
          }
          for (const start of starts) {
            const within = starts.filter((other) => other > start - window && other <= start)
            assert.isAtMost(within.length, restarts + 1)
          }
        }
      )
    )
  })

  it("are forgotten by a reset, and end with a stop", () => {
    let state = Respawn.begin(0)
    const step = (event: Respawn.Event): Respawn.Action => {
      const [action, next] = Respawn.step(policy, state, event)
      state = next
      return action
    }
    for (let i = 0; i < 6; i++) {
      step({ _tag: "Died", now: 0, draw: 0 })
      if (i < 5) step({ _tag: "Woke", now: 0 })
    }
    assert.strictEqual(state.phase._tag, "Open")
    assert.strictEqual(step({ _tag: "Ready", now: 0 })._tag, "None")
    assert.strictEqual(step({ _tag: "Died", now: 0, draw: 0 })._tag, "None")
    assert.strictEqual(step({ _tag: "Reset", now: 1 })._tag, "Spawn")
    assert.deepStrictEqual(state, Respawn.begin(1))
    assert.strictEqual(step({ _tag: "Woke", now: 1 })._tag, "None")
    assert.strictEqual(step({ _tag: "Reset", now: 1 })._tag, "None")
    step({ _tag: "Stopped" })
    for (const event of [
      { _tag: "Woke", now: 2 },
      { _tag: "Reset", now: 2 },
      { _tag: "Died", now: 2, draw: 0 }
    ] as const) {
      assert.strictEqual(step(event)._tag, "None")
      assert.strictEqual(state.phase._tag, "Stopped")
    }
  })
})
