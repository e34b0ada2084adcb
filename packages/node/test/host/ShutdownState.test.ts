/** The pure shutdown, by property. */
import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import * as Shutdown from "#node/host/ShutdownState"
import type { Phase, Plan } from "#node/host/ShutdownState"

const millis = fc.integer({ min: 0, max: 40_000 })
const plans: fc.Arbitrary<Plan> = fc.record({
  wait: millis,
  total: millis,
  limits: fc.record({
    intake: millis,
    loops: millis,
    runs: millis,
    outbox: millis,
    processes: millis,
    last: millis
  })
})
const sets = fc.subarray([...Shutdown.phases]).map((phases) => new Set(phases))

/** A whole shutdown. `share` is the part of its limit that each phase uses. */
const run = (plan: Plan, withSteps: ReadonlySet<Phase>, share: number) => {
  let now = 1_000_000
  const start = now
  const ran: Array<{ readonly phase: Phase; readonly limit: number }> = []
  let [action, state] = Shutdown.step(plan, Shutdown.initial, { _tag: "Asked", now })
  for (let i = 0; action._tag !== "End"; i++) {
    assert.isBelow(i, 20, "it ends")
    if (action._tag === "Wait") {
      now += action.millis
      ;[action, state] = Shutdown.step(plan, state, { _tag: "Waited", now, withSteps })
    } else if (action._tag === "Run") {
      const { limit, phase } = action
      ran.push({ phase, limit })
      now += limit * share
      const end = { phase, name: "a", result: "done", took: limit * share } as const
      ;[action, state] = Shutdown.step(plan, state, { _tag: "PhaseEnded", now, ends: [end], withSteps })
    } else assert.fail("nothing is ignored in order")
  }
  return { ran, took: now - start, ends: action.ends, state }
}

describe("a shutdown", () => {
  it("runs every phase that has steps once, in order, within the total", () => {
    fc.assert(
      fc.property(plans, sets, fc.double({ min: 0, max: 1, noNaN: true }), (plan, withSteps, share) => {
        const { ends, ran, state, took } = run(plan, withSteps, share)
        assert.deepStrictEqual(
          ran.map(({ phase }) => phase),
          Shutdown.phases.filter((phase) => withSteps.has(phase))
        )
        assert.deepStrictEqual(
          ends.map(({ phase }) => phase),
          ran.map(({ phase }) => phase)
        )
        assert.isAtMost(took, plan.total + 0.001)
        for (const { limit, phase } of ran) assert.isAtMost(limit, plan.limits[phase])
        assert.strictEqual(state._tag, "Ended")
      })
    )
  })

  it("leaves each later phase its share, however long the earlier ones block", () => {
    fc.assert(
      fc.property(plans, sets, (plan, withSteps) => {
        const shares = [...withSteps].map((phase) => Math.min(Shutdown.reserve, plan.limits[phase]))
        fc.pre(plan.total - plan.wait >= shares.reduce((sum, share) => sum + share, 0))
        const { ran } = run(plan, withSteps, 1)
        for (const { limit, phase } of ran) {
          assert.isAtLeast(limit + 0.001, Math.min(Shutdown.reserve, plan.limits[phase]))
        }
      })
    )
  })

  it("shares what is left where it is too little for all", () => {
    const second = 1_000
    const limits = {
      intake: second,
      loops: second,
      runs: second,
      outbox: second,
      processes: second,
      last: second
    }
    const { ran } = run({ wait: 0, total: 600, limits }, new Set(Shutdown.phases), 1)
    assert.deepStrictEqual(
      ran.map(({ limit }) => Math.round(limit)),
      [100, 100, 100, 100, 100, 100]
    )
  })

  it("gives a phase its whole limit when there is time for all", () => {
    const second = 1_000
    const limits = {
      intake: second,
      loops: second,
      runs: second,
      outbox: second,
      processes: second,
      last: second
    }
    const { ran, took } = run({ wait: 0, total: 20_000, limits }, new Set(Shutdown.phases), 1)
    assert.isTrue(ran.every(({ limit }) => limit === second))
    assert.strictEqual(took, 6_000)
  })

  it("ignores what comes out of order, and every further request", () => {
    const plan = {
      wait: 0,
      total: 0,
      limits: { intake: 0, loops: 0, runs: 0, outbox: 0, processes: 0, last: 0 }
    }
    const none = new Set<Phase>()
    const asked = { _tag: "Asked", now: 0 } as const
    const waited = { _tag: "Waited", now: 0, withSteps: none } as const
    const ended = { _tag: "PhaseEnded", now: 0, ends: [], withSteps: none } as const
    const ignored = (state: Shutdown.State, event: Shutdown.Event) =>
      assert.deepStrictEqual(Shutdown.step(plan, state, event), [{ _tag: "Ignore" }, state])
    const [, draining] = Shutdown.step(plan, Shutdown.initial, asked)
    const [, stopping] = Shutdown.step(plan, draining, { ...waited, withSteps: new Set<Phase>(["runs"]) })
    const [, end] = Shutdown.step(plan, stopping, ended)
    assert.deepStrictEqual([draining._tag, stopping._tag, end._tag], ["Draining", "Stopping", "Ended"])
    ignored(Shutdown.initial, waited)
    ignored(Shutdown.initial, ended)
    ignored(draining, asked)
    ignored(draining, ended)
    ignored(stopping, asked)
    ignored(stopping, waited)
    ignored(end, asked)
    ignored(end, ended)
  })
})
