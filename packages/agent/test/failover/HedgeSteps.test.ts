/** The steps of `CallState` for a hedged call, as values and as a property of random races. */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import { FailoverReason, RecoveryPolicy } from "@outlast/agent"
import * as Sweeps from "../../../../test/sweeps.ts"
import { failure, limited } from "../support.ts"
import { viewsOf } from "./callWorld.ts"
import * as CallState from "#agent/failover/decide/CallState"
import * as Cooldown from "#agent/failover/decide/Cooldown"
import { isSending } from "#agent/failover/decide/Sending"

const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)
const views = viewsOf("one", "two", "three")

const snapshot = (now: number, cooldowns = Cooldown.empty): CallState.Snapshot => ({
  ...CallState.unbounded,
  now,
  targets: views,
  dead: [],
  cooldowns
})

const started: CallState.Event = { _tag: "Started", ...CallState.initial.call }
const late = (mayHedge = true): CallState.Event => ({ _tag: "Late", inputTokens: 1_000, mayHedge })
const spent = { elapsed: 4_000, cost: 0.25, tokens: 7 }
const timeout = failure(new FailoverReason.Timeout({ phase: "first-token", local: true }))

/** The last action, and the state behind these events, each a second after the other. */
const after = (...events: ReadonlyArray<CallState.Event>) =>
  events.reduce(
    ({ state }, event, n) => {
      const [action, next] = CallState.step(policy, state, event, snapshot(n * 1_000), 0)
      return { action, state: next }
    },
    { action: undefined as CallState.Action | undefined, state: CallState.initial }
  )

describe("a call whose first token is late", () => {
  it("gets a second attempt that takes no retry budget", () => {
    const { action, state } = after(started, late())
    assert.deepInclude(action, { _tag: "Attempt", isFree: true, isCounted: true, hedges: views[0]?.ref })
    assert.strictEqual(CallState.attemptsOf(state), 2)
    assert.strictEqual(CallState.lateAfter(policy, state, {}), Infinity)
  })

  it("gets no third attempt", () => {
    const { action, state } = after(started, late(), late())
    assert.strictEqual(action?._tag, "Await")
    assert.strictEqual(CallState.attemptsOf(state), 2)
  })

  it("waits where the share is used up, unless its target is out meanwhile", () => {
    assert.strictEqual(after(started, late(false)).action?._tag, "Await")
    const { state } = after(started)
    const target = views[0]?.ref ?? assert.fail()
    const out = Cooldown.open(Cooldown.empty, { scope: "model", target, until: 9_000, failure: timeout }, 0)
    const [action] = CallState.step(policy, state, late(false), snapshot(1_000, out), 0)
    assert.deepInclude(action, { _tag: "Attempt", isCounted: false })
  })

  it("waits once a time limit of the program is over", () => {
    const { state } = after(started)
    const [action] = CallState.step(policy, state, late(), { ...snapshot(1_000), deadline: 1_000 }, 0)
    assert.strictEqual(action._tag, "Await")
  })

  it("goes on alone when the second attempt is refused or taken away", () => {
    const refused: CallState.Event = {
      _tag: "PermitRefused",
      until: 5_000,
      failure: timeout,
      waited: true,
      byCircuit: false
    }
    // A third target is asked where the second one refuses.
    for (const events of [[refused, refused], [{ _tag: "TakenAway" } as const]]) {
      const { action, state } = after(started, late(), ...events)
      assert.strictEqual(action?._tag, "Await")
      assert.deepStrictEqual(state.doing, after(started).state.doing)
      assert.strictEqual(CallState.attemptsOf(state), 1)
    }
  })

  it("counts the time of two attempts once", () => {
    const failed = (isLate: boolean, elapsed: number, overlap: number): CallState.Event => ({
      _tag: "Failed",
      failure: timeout,
      commit: "nothing",
      isLate,
      overlap,
      ...spent,
      elapsed
    })
    const one = after(started, late(), failed(true, 20_000, 8_000))
    assert.strictEqual(one.state.made.spent, 12_000)
    assert.strictEqual(CallState.flightOf(one.state)?.target, views[1]?.ref)
    const two = after(started, late(), failed(false, 8_000, 8_000))
    assert.strictEqual(two.state.made.spent, 0)
    assert.strictEqual(CallState.flightOf(two.state)?.target, views[0]?.ref)
  })

  it("pays for the attempt that was aborted", () => {
    const overtaken: CallState.Event = { _tag: "Overtaken", isLate: true, isProven: false, ...spent }
    const { action, state } = after(started, late(), overtaken)
    assert.deepStrictEqual(action, { _tag: "Await", cooldown: undefined })
    assert.deepInclude(state.made, { attempts: 1, cost: 0.25, tokens: 7, spent: 0, failure: undefined })
    assert.strictEqual(CallState.flightOf(state)?.target, views[1]?.ref)
  })

  it("opens a cooldown for a target that is proven to be silent, and none for the other one", () => {
    const overtaken = (isLate: boolean): CallState.Event => ({
      _tag: "Overtaken",
      isLate,
      isProven: true,
      ...spent
    })
    const { state } = after(started, late())
    const cooldown = (answered: CallState.Snapshot["answered"]) => {
      const [action] = CallState.step(policy, state, overtaken(true), { ...snapshot(2_000), answered }, 0)
      const { scope, target, looks, until } = action.cooldown ?? assert.fail()
      return [scope, target, looks, until]
    }
    // Only a target that has answered before is looked at.
    assert.deepStrictEqual(cooldown(new Map([["one", 0]])), ["model", views[0]?.ref, true, 12_000])
    assert.deepStrictEqual(cooldown(new Map()), ["model", views[0]?.ref, false, 32_000])
    assert.isUndefined(after(started, late(), overtaken(false)).action?.cooldown)
  })

  it("takes an event out of order for a failure", () => {
    const overtaken: CallState.Event = { _tag: "Overtaken", isLate: true, isProven: false, ...spent }
    assert.strictEqual(after(started, overtaken).action?._tag, "GiveUp")
    assert.strictEqual(after(late()).action?._tag, "GiveUp")
  })
})

describe("the time that is waited at least", () => {
  const { state } = after(started)
  const looks: CallState.CallState = {
    ...state,
    doing: { ...(CallState.flightOf(state) ?? assert.fail()), looks: true }
  }

  it("is shorter for a look than for another call", () => {
    assert.strictEqual(CallState.lateAfter(policy, state, {}), 10_000)
    assert.strictEqual(CallState.lateAfter(policy, looks, {}), 2_000)
    const tools = { ...looks, call: { ...looks.call, providerTools: true } }
    assert.strictEqual(CallState.lateAfter(policy, tools, {}), Infinity)
  })
})

describe("for every race", () => {
  const turn = fc.record({
    late: fc.boolean(),
    mayHedge: fc.boolean(),
    failure: fc.constantFrom(timeout, limited(1), failure(new FailoverReason.ContentPolicy())),
    end: fc.constantFrom("late fails", "hedge fails", "late wins", "hedge wins"),
    elapsed: fc.integer({ min: 1, max: 30_000 }),
    cost: fc.integer({ min: 0, max: 3 }),
    draw: fc.double({ min: 0, max: 0.999, noNaN: true })
  })
  const price = { input: 1_000_000, output: 0 }

  it("a call ends, has at most two attempts in flight, and keeps to its attempts and its money", () => {
    fc.assert(
      fc.property(
        fc.array(turn, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 1, max: 6 }),
        fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined }),
        (turns, maxAttempts, maxCost) => {
          const own = { ...policy, maxAttempts, maxCost, deadline: Duration.minutes(5) }
          const priced = views.map((view) => ({ ...view, info: { price } }))
          let [state, now, sent, cost] = [CallState.initial, 0, 0, 0]
          let event: CallState.Event = started
          let stopped = false
          for (let n = 0; state.doing._tag !== "Done"; n++) {
            assert.isBelow(n, 500)
            const { draw, elapsed, end, late, mayHedge, ...turn } = turns[n % turns.length] ?? assert.fail()
            const step = CallState.step(own, state, event, { ...snapshot(now), targets: priced }, draw)
            const [action, next] = step
            const before = CallState.flightOf(state)
            state = next
            const flight = CallState.flightOf(state)
            if (isSending(action)) {
              assert.isFalse(stopped)
              sent++
              now += action.delay
              if (action.hedges !== undefined) {
                assert.isUndefined(before?.late)
                assert.isTrue(mayHedge)
                assert.notStrictEqual(action.target.model, action.hedges.model)
                assert.isBelow(cost, maxCost ?? Infinity)
              }
            }
            if (action._tag === "Wait") {
              now = action.until
              event = { _tag: "Woke" }
              continue
            }
            if (flight === undefined) continue
            if (flight.late === undefined && late && event._tag !== "Late" && action._tag !== "Await") {
              now += elapsed
              event = {
                _tag: "Late",
                inputTokens: 1,
                mayHedge: turns[(n + 1) % turns.length]?.mayHedge ?? false
              }
              continue
            }
            now += elapsed
            cost += turn.cost
            const isLate = flight.late !== undefined && end.startsWith("late") === end.endsWith("fails")
            const made = { elapsed, cost: turn.cost, tokens: 1 }
            event =
              flight.late !== undefined && end.endsWith("wins")
                ? { _tag: "Overtaken", isLate, isProven: false, ...made }
                : { _tag: "Failed", failure: turn.failure, commit: "nothing", isLate, overlap: 0, ...made }
            stopped ||= event._tag === "Failed" && event.failure.reason._tag === "ContentPolicy"
          }
          assert.strictEqual(state.made.attempts, sent)
          assert.strictEqual(state.made.cost, cost)
          assert.isAtMost(sent - state.made.sweeps, maxAttempts)
        }
      ),
      { seed: Sweeps.seed, numRuns: Sweeps.runs(2_000) }
    )
  })
})
