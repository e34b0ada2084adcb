import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { Backoff, CircuitBreaker } from "@outlast/resilience"
import * as CircuitCounts from "#resilience/breaker/CircuitCounts"
import * as CircuitPolicy from "#resilience/breaker/CircuitPolicy"
import * as CircuitState from "#resilience/breaker/CircuitState"
import type { Tally } from "./support.ts"
import { anyRules, optionsOf, pureMachine, runModel, serviceOver } from "./support.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

/** A run is valid only when it has reached every transition. A part of the commands may miss a rare one. */
const gotEverywhere = ({ commands, transitions }: Tally, atLeast: number): void => {
  assert.isAtLeast(commands, atLeast)
  if (!Sweeps.isFull) return
  for (const change of [
    "closed>open",
    "open>half-open",
    "half-open>open",
    "half-open>closed",
    "open>open",
    "open>closed",
    "closed>isolated",
    "open>isolated",
    "isolated>closed"
  ]) {
    assert.isAbove(transitions.get(change) ?? 0, 0, change)
  }
}

describe("random commands, against a model written from the documentation", () => {
  it("the pure machine", async () => {
    gotEverywhere(await runModel(pureMachine, { commands: Sweeps.runs(20_000) }), Sweeps.runs(20_000))
  })

  it("the pure machine, with waiting calls and last resorts", async () => {
    const tally = await runModel(pureMachine, { commands: Sweeps.runs(40_000), requests: true })
    gotEverywhere(tally, Sweeps.runs(40_000))
  })

  it("the service, in virtual time", async () => {
    const memory = serviceOver({ layer: CircuitBreaker.layer })
    gotEverywhere(await runModel(memory, { commands: Sweeps.runs(10_000) }), Sweeps.runs(10_000))
    gotEverywhere(
      await runModel(memory, { commands: Sweeps.runs(10_000), requests: true }),
      Sweeps.runs(10_000)
    )
  })
})

// -----------------------------------------------------------------------------
// Invariants for any sequence of events, also with jitter
// -----------------------------------------------------------------------------

const policy = fc
  .record({
    rules: anyRules,
    jitter: fc.constantFrom<Backoff.Jitter>(0, 0.1, 1, "full", "equal", "decorrelated")
  })
  .map(({ rules, jitter }) =>
    CircuitPolicy.make({
      ...optionsOf(rules),
      open: Backoff.exponential({ initial: rules.initial, factor: 2, cap: rules.cap, jitter })
    })
  )

const event = fc.record({
  what: fc.constantFrom(
    "admit",
    "admit",
    "admit",
    "settle",
    "settle",
    "settle",
    "trip",
    "reset",
    "isolate",
    "release"
  ),
  after: fc.oneof(fc.constantFrom(0, 0, 1, 15, 20, 40, 80, 1_000), fc.nat(200)),
  draw: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  which: fc.nat(20),
  request: fc.record({ lastResort: fc.boolean(), waited: fc.boolean() }),
  length: fc.option(fc.nat(100), { nil: undefined }),
  ended: fc.oneof(
    fc.constant<CircuitState.Ended>({ outcome: "ignored" }),
    fc.record({
      outcome: fc.constantFrom("success" as const, "failure" as const, "failure" as const),
      retryAfter: fc.option(fc.oneof(fc.nat(500), fc.constant(Infinity)), { nil: undefined }),
      took: fc.nat(30),
      call: fc.constantFrom(undefined, "x", "y"),
      inFlight: fc.nat(3)
    })
  )
})

const frozen = <A>(value: A): A => {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(frozen)
  }
  return value
}

/** Milliseconds that may be lost where two times are added. */
const rounding = 1e-6

/** Invariants of a single state. */
const sound = (policy: CircuitPolicy.CircuitPolicy, state: CircuitState.CircuitState, now: number): void => {
  switch (state.phase) {
    case "closed":
      assert.isAtMost(state.counts.streak.length, policy.consecutive?.failures ?? 0)
      assert.isAtMost(state.counts.slices.length, CircuitCounts.slices)
      if (state.recovery !== undefined) {
        const { released, earned } = state.recovery
        const byTime = Math.floor((now - state.since) / CircuitState.releaseEvery)
        assert.isAtMost(released, CircuitState.releasedAtOnce + earned + byTime)
      }
      break
    case "open": {
      const longest = Math.max(Backoff.max(policy.open), policy.maxRetryAfter)
      assert.isAtMost(state.backoff, Backoff.max(policy.open))
      assert.isAtLeast(state.until, state.since)
      assert.closeTo(state.lasted, state.until - state.since, rounding)
      if (state.cause !== "tripped") assert.isAtMost(state.lasted, longest + rounding)
      // The failure of a last resort may name a later time. It does not prolong the opening in which it happened.
      if (state.cause !== "tripped" && state.lastResort === undefined) {
        assert.isAtLeast(state.until, state.notBefore)
      }
      assert.isAtLeast(state.openings, 1)
      assert.isAtMost(state.lastResort?.outcomes.length ?? 0, CircuitState.judged)
      assert.isBelow(state.lastResort?.outcomes.filter(Boolean).length ?? 0, CircuitState.enough)
      break
    }
    case "half-open": {
      // Last resorts pass in addition to the probes: one a second, each with a lease.
      const live = state.leases.filter(({ until }) => now < until)
      const beside =
        state.lastResortAt === undefined ? 0 : Math.ceil(policy.probeLimit / CircuitState.lastResortEvery)
      assert.isAtMost(live.length, policy.permits + beside)
      assert.isAtMost(live.length + state.successes + state.failures, policy.outOf + beside)
      assert.isBelow(state.successes, policy.successes)
      assert.isAtMost(state.failures, policy.outOf - policy.successes)
      assert.lengthOf(new Set(state.leases.map(({ holder }) => holder)), state.leases.length)
      break
    }
    case "isolated":
      assert.isNotEmpty(state.holders)
  }
  assert.isAtMost(state.notBefore, now + policy.maxRetryAfter)
  const [admission, next] = CircuitState.admit(policy, state, "looks", now)
  assert.strictEqual(CircuitState.available(policy, state, now), admission.granted)
  if (!admission.granted) {
    assert.strictEqual(next, state)
    const { retryAfter, reason } = admission.refusal
    assert.strictEqual(reason, CircuitState.phaseAt(state, now))
    if (retryAfter !== undefined && retryAfter > rounding) {
      assert.isFalse(CircuitState.available(policy, state, now + retryAfter / 2))
    }
  }
  for (const lastResort of [false, true]) {
    for (const waited of [false, true])
      soundFor(policy, state, now, { lastResort, waited }, admission.granted)
  }
  if (CircuitState.isForgettable(state, now, 100)) {
    assert.isTrue(CircuitState.isForgettable(state, now + 1_000, 100))
    assert.isFalse(state.phase === "isolated" || reasonOf(admission) === "open")
  }
}

/** Invariants of a request with properties. `plain` is true when a request without any would pass. */
const soundFor = (
  policy: CircuitPolicy.CircuitPolicy,
  state: CircuitState.CircuitState,
  now: number,
  request: CircuitState.Request,
  plain: boolean
): void => {
  const [admission, next] = CircuitState.admit(policy, state, "looks", now, request)
  assert.strictEqual(CircuitState.available(policy, state, now, request), admission.granted)
  if (!admission.granted) assert.strictEqual(next, state)
  if (state.phase === "isolated") assert.isFalse(admission.granted)
  // A last resort passes whenever a plain call passes. A waiting call never passes where a plain call is refused.
  if (plain && request.waited !== true) assert.isTrue(admission.granted)
  if (!plain && request.lastResort !== true) assert.isFalse(admission.granted)
  if (plain && !admission.granted) {
    assert.strictEqual(reasonOf(admission), "recovering")
    assert.strictEqual(state.phase, "closed")
    assert.isBelow(now, state.since + CircuitState.recoveryTime)
  }
  if (!plain && admission.granted) {
    assert.isTrue(admission.grant.lastResort === true)
    const again = CircuitState.admit(policy, next, "looks again", now, request)[0]
    assert.isFalse(again.granted, "one last resort a second")
    assert.strictEqual(next.generation, state.generation)
  }
}

const reasonOf = (admission: CircuitState.Admission): string | undefined =>
  admission.granted ? undefined : admission.refusal.reason

describe("for any sequence of events", () => {
  it("a state is valid, is never mutated, and a new phase has a new generation", () => {
    fc.assert(
      fc.property(policy, fc.array(event, { maxLength: 80 }), (policy, events) => {
        let state: CircuitState.CircuitState = CircuitState.initial
        let now = 0
        let holders = 0
        const grants: Array<CircuitState.Grant> = []
        const holds: Array<string> = []
        for (const { what, after, draw, which, length, ended, request } of events) {
          now += after
          const before = frozen(state)
          switch (what) {
            case "admit": {
              const [admission, next] = CircuitState.admit(policy, state, `${++holders}`, now, request)
              if (admission.granted) grants.push(admission.grant)
              state = next
              break
            }
            case "settle": {
              const [grant] = grants.splice(which % Math.max(1, grants.length), 1)
              if (grant === undefined) break
              state = CircuitState.settle(policy, state, grant, ended, now, draw)
              if (grant.generation !== before.generation) assert.strictEqual(state, before)
              const again = CircuitState.settle(policy, frozen(state), grant, ended, now, draw)
              if (grant.holder !== undefined) assert.strictEqual(again, state, "a permit counts once")
              break
            }
            case "trip":
              state = CircuitState.trip(policy, state, now, draw, length)
              break
            case "reset":
              state = CircuitState.reset(state, now)
              break
            case "isolate":
              holds.push(`${++holders}`)
              state = CircuitState.isolate(state, `${holders}`, now)
              break
            case "release": {
              const [hold = "nobody"] = holds.splice(which % Math.max(1, holds.length), 1)
              state = CircuitState.release(state, hold, now)
            }
          }
          const changed = state.generation - before.generation
          assert.isTrue(changed === 0 || changed === 1)
          if (changed === 0) assert.strictEqual(state.phase, before.phase)
          assert.strictEqual(state.phase === "isolated", holds.length > 0)
          sound(policy, state, now)
        }
      }),
      { numRuns: Sweeps.runs(500) }
    )
  })
})
