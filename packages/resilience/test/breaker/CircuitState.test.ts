import { assert, describe, it } from "@effect/vitest"
import { Backoff } from "@outlast/resilience"
import * as CircuitPolicy from "#resilience/breaker/CircuitPolicy"
import * as CircuitState from "#resilience/breaker/CircuitState"

type State = CircuitState.CircuitState

/** Opens for 10 s, 20 s, 40 s, 80 s, 120 s, exactly. */
const exact = Backoff.exponential({ initial: "10 seconds", factor: 2, cap: "120 seconds", jitter: 0 })

const make = (options: CircuitPolicy.Options = {}) => CircuitPolicy.make({ open: exact, ...options })

/** Trips on the second failure. */
const policy = make({ trip: { consecutive: { failures: 2 } } })

const failure: CircuitState.Ended = { outcome: "failure" }
const success: CircuitState.Ended = { outcome: "success" }
const ignored: CircuitState.Ended = { outcome: "ignored" }
const after = (retryAfter: number): CircuitState.Ended => ({ outcome: "failure", retryAfter })

/** Lets a call through, or throws. */
const admitted = (state: State, holder: string, now: number, p = policy) => {
  const [admission, next] = CircuitState.admit(p, state, holder, now)
  if (!admission.granted) throw new Error(`refused: ${admission.refusal.reason}`)
  return { grant: admission.grant, state: next }
}

const refusalOf = (state: State, now: number, p = policy) => {
  const [admission, next] = CircuitState.admit(p, state, "x", now)
  assert.strictEqual(next, state)
  assert.strictEqual(CircuitState.available(p, state, now), admission.granted)
  return admission.granted ? undefined : admission.refusal
}

/** Runs a call from admission to its end, without time passing. */
const ran = (state: State, ended: CircuitState.Ended, now: number, p = policy, draw = 0): State => {
  const { grant, state: running } = admitted(state, "h", now, p)
  return CircuitState.settle(p, running, grant, ended, now, draw)
}

const open = (state: State): CircuitState.Open => {
  if (state.phase !== "open") throw new Error(`${state.phase}, not open`)
  return state
}

const halfOpen = (state: State): CircuitState.HalfOpen => {
  if (state.phase !== "half-open") throw new Error(`${state.phase}, not half-open`)
  return state
}

/** Freezes a state deeply, so that any later write to it throws. */
const frozen = (state: State): State => {
  Object.values(state).forEach((value) => typeof value === "object" && Object.freeze(value))
  return Object.freeze(state)
}

// The life of a circuit: trips at 1000 for 10 s, is tested at 11,000 and closes at 11,200.
const closed: State = frozen(CircuitState.initial)
const opened: State = frozen(ran(ran(closed, failure, 900), failure, 1_000))
const probed = admitted(opened, "p1", 11_000)
const testing: State = frozen(probed.state)
const closedAgain: State = frozen(ran(ran(opened, success, 11_000), success, 11_200))
const isolated: State = frozen(CircuitState.isolate(closed, "ops", 500))

describe("a circuit", () => {
  it("starts closed, with empty counts", () => {
    assert.deepStrictEqual(CircuitState.initial, {
      phase: "closed",
      generation: 0,
      since: 0,
      openings: 0,
      backoff: 0,
      lasted: 0,
      notBefore: -Infinity,
      counts: { streak: [], slices: [] }
    })
  })

  it("opens on the failure that trips it", () => {
    assert.deepStrictEqual(opened, {
      phase: "open",
      generation: 1,
      since: 1_000,
      openings: 1,
      backoff: 10_000,
      lasted: 10_000,
      notBefore: -Infinity,
      until: 11_000,
      cause: "consecutive"
    })
  })

  it("becomes half-open with the first call after the open time", () => {
    assert.deepStrictEqual(probed, {
      grant: { generation: 2, holder: "p1" },
      state: {
        phase: "half-open",
        generation: 2,
        since: 11_000,
        openings: 1,
        backoff: 10_000,
        lasted: 10_000,
        notBefore: -Infinity,
        cause: "consecutive",
        leases: [{ holder: "p1", until: 71_000 }],
        successes: 0,
        failures: 0
      }
    })
  })

  it("closes with empty counts after enough successful probes", () => {
    assert.deepStrictEqual(closedAgain, {
      phase: "closed",
      generation: 3,
      since: 11_200,
      openings: 1,
      backoff: 10_000,
      lasted: 10_000,
      notBefore: -Infinity,
      counts: { streak: [], slices: [] },
      recovery: { released: 0, successes: 0 }
    })
  })

  it("can be isolated by hand", () => {
    assert.deepStrictEqual(isolated, {
      phase: "isolated",
      generation: 1,
      since: 500,
      openings: 0,
      backoff: 0,
      lasted: 0,
      notBefore: -Infinity,
      holders: ["ops"]
    })
  })
})

describe("phaseAt", () => {
  it("is half-open from the exact end of an opening", () => {
    assert.strictEqual(CircuitState.phaseAt(opened, 1_000), "open")
    assert.strictEqual(CircuitState.phaseAt(opened, 10_999.999), "open")
    assert.strictEqual(CircuitState.phaseAt(opened, 11_000), "half-open")
    assert.strictEqual(CircuitState.phaseAt(opened, 1e9), "half-open")
  })

  it("is otherwise the phase of the state", () => {
    for (const now of [0, 1e9]) {
      assert.strictEqual(CircuitState.phaseAt(closed, now), "closed")
      assert.strictEqual(CircuitState.phaseAt(testing, now), "half-open")
      assert.strictEqual(CircuitState.phaseAt(isolated, now), "isolated")
    }
  })
})

describe("admission", () => {
  it("closed: admits every call without changing the state", () => {
    const [admission, next] = CircuitState.admit(policy, closed, "h", 5)
    assert.deepStrictEqual(admission, { granted: true, grant: { generation: 0, holder: undefined } })
    assert.strictEqual(next, closed)
    assert.isTrue(CircuitState.available(policy, closed, 5))
  })

  it("open: refuses with the exact remaining time", () => {
    assert.deepStrictEqual(refusalOf(opened, 1_000), { reason: "open", retryAfter: 10_000 })
    assert.deepStrictEqual(refusalOf(opened, 10_999), { reason: "open", retryAfter: 1 })
    assert.isTrue(CircuitState.available(policy, opened, 11_000))
  })

  it("half-open: admits no more calls than permits", () => {
    assert.deepStrictEqual(refusalOf(testing, 11_000), { reason: "half-open", retryAfter: undefined })
  })

  it("isolated: refuses every call", () => {
    assert.deepStrictEqual(refusalOf(isolated, 1e9), { reason: "isolated", retryAfter: undefined })
  })

  it("half-open: admits N calls at a time", () => {
    const three = make({ halfOpen: { permits: 3, successes: 5 } })
    let state = opened
    for (const holder of ["a", "b", "c"]) state = admitted(state, holder, 11_000, three).state
    assert.deepStrictEqual(
      halfOpen(state).leases.map(({ holder }) => holder),
      ["a", "b", "c"]
    )
    assert.strictEqual(state.generation, 2)
    assert.deepStrictEqual(refusalOf(state, 11_000, three), { reason: "half-open", retryAfter: undefined })
  })

  it("half-open: admits no more probes than the verdict needs", () => {
    const five = make({ halfOpen: { permits: 5, successes: 2, outOf: 3 } })
    const first = ran(opened, success, 11_000, five)
    const two = admitted(admitted(first, "a", 11_000, five).state, "b", 11_000, five).state
    assert.strictEqual(refusalOf(two, 11_000, five)?.reason, "half-open")
    const second = ran(ran(opened, failure, 11_000, five), success, 11_000, five)
    const last = admitted(second, "a", 11_000, five).state
    assert.strictEqual(refusalOf(last, 11_000, five)?.reason, "half-open")
  })

  it("half-open: an expired lease is free, and is removed", () => {
    const short = make({ halfOpen: { probeLimit: 100 } })
    const { state } = admitted(opened, "a", 11_000, short)
    assert.deepStrictEqual(halfOpen(state).leases, [{ holder: "a", until: 11_100 }])
    assert.strictEqual(refusalOf(state, 11_099, short)?.reason, "half-open")
    assert.isTrue(CircuitState.available(short, state, 11_100))
    const next = admitted(state, "b", 11_100, short)
    assert.deepStrictEqual(next.grant, { generation: 2, holder: "b" })
    assert.deepStrictEqual(halfOpen(next.state).leases, [{ holder: "b", until: 11_200 }])
  })
})

describe("a call through a closed circuit", () => {
  it("that is ignored, or succeeds with empty counts, returns the same object", () => {
    const grant = { generation: 0, holder: undefined }
    assert.strictEqual(CircuitState.settle(policy, closed, grant, ignored, 5, 0), closed)
    assert.strictEqual(CircuitState.settle(policy, closed, grant, success, 5, 0), closed)
    const counted = frozen(ran(closed, failure, 5))
    assert.strictEqual(CircuitState.settle(policy, counted, grant, ignored, 6, 0), counted)
  })

  it("that fails is counted; a success clears the failures", () => {
    const counted = ran(closed, { outcome: "failure", call: "c", inFlight: 1 }, 5)
    assert.deepStrictEqual(counted, {
      ...CircuitState.initial,
      counts: { streak: [{ at: 5, call: "c", concurrent: true }], slices: [] }
    })
    assert.deepStrictEqual(ran(counted, success, 6), CircuitState.initial)
  })

  it("is counted with its duration when the policy has a limit for slow calls", () => {
    const slow = make({ trip: { consecutive: false, rate: { minimumCalls: 1, slow: 1, slowerThan: 50 } } })
    const state = ran(closed, { outcome: "success", took: 51 }, 5, slow)
    assert.strictEqual(open(state).cause, "slow-rate")
    assert.strictEqual(ran(closed, { outcome: "success", took: 50 }, 5, slow).phase, "closed")
  })

  it("that succeeds can trip a rate", () => {
    const rate = make({ trip: { consecutive: false, rate: { minimumCalls: 2, failures: 0.5 } } })
    const state = ran(ran(closed, failure, 5, rate), success, 6, rate)
    assert.strictEqual(open(state).cause, "failure-rate")
  })

  it("trips alone when there are no others; with concurrent calls, three are needed", () => {
    const three = make({ trip: { consecutive: { failures: 3 } } })
    const run = (...calls: ReadonlyArray<{ call: string; inFlight: number }>) =>
      calls.reduce<State>((state, call, at) => ran(state, { outcome: "failure", ...call }, at, three), closed)
        .phase
    const alone = { call: "a", inFlight: 0 }
    const among = (call: string) => ({ call, inFlight: 1 })
    assert.strictEqual(run(alone, alone, alone), "open")
    assert.strictEqual(run(among("a"), among("a"), among("a")), "closed")
    assert.strictEqual(run(among("a"), among("b"), among("a")), "closed")
    assert.strictEqual(run(among("a"), among("b"), among("c")), "open")
  })
})

describe("a probe", () => {
  const permit = probed.grant
  const settle = (state: State, ended: CircuitState.Ended, now = 11_050, grant = permit, p = policy) =>
    CircuitState.settle(p, state, grant, ended, now, 0)

  it("that succeeds is counted and frees its lease", () => {
    assert.deepStrictEqual(settle(testing, success), { ...testing, leases: [], successes: 1 } as State)
  })

  it("that is ignored only frees its lease", () => {
    assert.deepStrictEqual(settle(testing, ignored), { ...testing, leases: [] } as State)
  })

  it("that fails opens the circuit again, for longer", () => {
    assert.deepStrictEqual(settle(testing, failure), {
      phase: "open",
      generation: 3,
      since: 11_050,
      openings: 2,
      backoff: 20_000,
      lasted: 20_000,
      notBefore: -Infinity,
      until: 31_050,
      cause: "probe"
    })
  })

  it("of another holder keeps its lease", () => {
    const two = make({ halfOpen: { permits: 2, successes: 2 } })
    const first = admitted(opened, "a", 11_000, two)
    const second = admitted(first.state, "b", 11_010, two)
    const state = settle(second.state, success, 11_050, first.grant, two)
    assert.deepStrictEqual(halfOpen(state).leases, [{ holder: "b", until: 71_010 }])
    assert.strictEqual(settle(state, success, 11_060, first.grant, two), state, "once")
    assert.strictEqual(settle(state, success, 11_060, second.grant, two).phase, "closed")
  })

  it("with an expired or unknown lease changes nothing", () => {
    for (const ended of [success, failure, ignored, after(1e6)]) {
      assert.strictEqual(settle(testing, ended, 71_000), testing)
      assert.notStrictEqual(settle(testing, ended, 70_999), testing)
      assert.strictEqual(settle(testing, ended, 11_050, { generation: 2, holder: "other" }), testing)
      assert.strictEqual(settle(testing, ended, 11_050, { generation: 2, holder: undefined }), testing)
    }
  })

  it("must succeed twice in two by default", () => {
    const one = ran(opened, success, 11_000)
    assert.strictEqual(halfOpen(one).successes, 1)
    assert.strictEqual(ran(one, success, 11_001).phase, "closed")
    assert.strictEqual(ran(one, failure, 11_001).phase, "open")
  })

  it("2 of 4: closes on the second success, opens on the third failure", () => {
    const some = make({ halfOpen: { successes: 2, outOf: 4 } })
    const phase = (...ends: ReadonlyArray<CircuitState.Ended>) =>
      ends.reduce((state, ended, index) => ran(state, ended, 11_000 + index, some), opened).phase
    assert.strictEqual(phase(failure), "half-open")
    assert.strictEqual(phase(failure, failure), "half-open")
    assert.strictEqual(phase(failure, failure, failure), "open")
    assert.strictEqual(phase(failure, failure, success), "half-open")
    assert.strictEqual(phase(failure, failure, success, success), "closed")
    assert.strictEqual(phase(failure, failure, success, failure), "open")
    assert.strictEqual(phase(success, failure, success), "closed")
    const state = ran(ran(opened, failure, 11_000, some), success, 11_001, some)
    assert.deepStrictEqual([halfOpen(state).failures, halfOpen(state).successes], [1, 1])
  })

  it("3 of 3 and 1 of 1", () => {
    const all = make({ halfOpen: { successes: 3 } })
    assert.strictEqual(ran(ran(opened, success, 11_000, all), success, 11_000, all).phase, "half-open")
    assert.strictEqual(ran(opened, failure, 11_000, all).phase, "open")
    assert.strictEqual(ran(opened, success, 11_000, make({ halfOpen: { successes: 1 } })).phase, "closed")
  })
})

describe("behaviour 10: an outcome of another generation changes nothing", () => {
  // Permits of both phases that give any, and every later phase.
  const call = { generation: closed.generation, holder: undefined }
  const later: ReadonlyArray<readonly [string, State]> = [
    ["closed again", closedAgain],
    ["closed again, and counting", frozen(ran(closedAgain, failure, 11_300))],
    ["closed by reset", frozen(CircuitState.reset(testing, 11_300))],
    ["open", frozen(CircuitState.trip(policy, closedAgain, 11_300, 0))],
    ["half-open", frozen(admitted(CircuitState.trip(policy, closedAgain, 11_300, 0), "p1", 31_300).state)],
    ["isolated", frozen(CircuitState.isolate(testing, "ops", 11_300))]
  ]
  for (const [from, grant] of [
    ["closed", call],
    ["half-open", probed.grant]
  ] as const) {
    for (const [into, state] of later) {
      it(`admitted ${from}, now ${into}`, () => {
        for (const ended of [success, failure, ignored, after(1e6)]) {
          assert.strictEqual(CircuitState.settle(policy, state, grant, ended, 31_300, 0), state)
        }
      })
    }
  }

  it("admitted closed, now in the phase that followed its own generation", () => {
    for (const state of [opened, testing, isolated]) {
      for (const ended of [success, failure, ignored]) {
        assert.strictEqual(CircuitState.settle(policy, state, call, ended, 11_000, 0), state)
      }
    }
  })

  it("nothing changes in a phase without permits, even for its own generation", () => {
    for (const state of [opened, isolated]) {
      for (const holder of [undefined, "ops", "p1"]) {
        const forged = { generation: state.generation, holder }
        assert.strictEqual(CircuitState.settle(policy, state, forged, failure, 11_000, 0), state)
      }
    }
  })
})

describe("open time", () => {
  it("doubles with consecutive openings, up to the cap", () => {
    let state = opened
    const lasted = [open(state).lasted]
    for (let n = 0; n < 5; n++) {
      const now = open(state).until
      state = ran(state, failure, now)
      assert.strictEqual(open(state).until, now + open(state).lasted)
      lasted.push(open(state).lasted)
    }
    assert.deepStrictEqual(lasted, [10_000, 20_000, 40_000, 80_000, 120_000, 120_000])
    assert.strictEqual(state.openings, 6)
  })

  it("restarts once the circuit stayed closed as long as its last opening, and not before", () => {
    const tripped = (at: number) => open(ran(ran(closedAgain, failure, at), failure, at))
    const soon = tripped(21_199)
    assert.deepStrictEqual([soon.openings, soon.lasted], [2, 20_000])
    const late = tripped(21_200)
    assert.deepStrictEqual([late.openings, late.lasted, late.backoff], [1, 10_000, 10_000])
  })

  it('restarts at each closing with `restart: "closed"`', () => {
    const own = { ...policy, restart: "closed" } as const
    const counted = (state: CircuitState.CircuitState, now: number) => {
      const [admission, next] = CircuitState.admit(own, state, "a", now)
      if (!admission.granted) throw new Error("refused")
      return CircuitState.settle(own, next, admission.grant, failure, now, 0)
    }
    const soon = open(counted(counted(closedAgain, 11_200), 11_200))
    assert.deepStrictEqual([soon.openings, soon.lasted], [1, 10_000])
    // A failed probe is not a closing.
    const again = open(CircuitState.settle(own, testing, probed.grant, failure, 60_000, 0))
    assert.deepStrictEqual([again.openings, again.lasted], [2, 20_000])
  })

  it("does not restart after any other phase, however late", () => {
    const late = open(CircuitState.settle(policy, testing, probed.grant, failure, 60_000, 0))
    assert.deepStrictEqual([late.openings, late.lasted], [2, 20_000])
    const byHand = open(CircuitState.trip(policy, opened, 60_000, 0))
    assert.deepStrictEqual([byHand.openings, byHand.lasted], [2, 20_000])
  })

  it("starts at the initial delay for the first opening of all, however early", () => {
    assert.strictEqual(open(ran(ran(closed, failure, 0), failure, 0)).openings, 1)
  })

  it("is compared with the time since the closing, and with the real length of the last opening", () => {
    const longer = ran(ran(closed, failure, 0), after(50_000), 1_000)
    assert.deepStrictEqual([open(longer).backoff, open(longer).lasted], [10_000, 50_000])
    const back = ran(ran(longer, success, 51_000), success, 51_000)
    const at = (now: number) => open(ran(ran(back, failure, now), failure, now)).openings
    assert.strictEqual(at(100_999), 2)
    assert.strictEqual(at(101_000), 1)
  })

  it("stays within the cap with jitter, by the draw", () => {
    const { open: spec } = CircuitPolicy.make()
    const jittered = make({ open: spec, trip: { consecutive: { failures: 1 } } })
    const lengths = (draw: number) => {
      let state = ran(closed, failure, 0, jittered, draw)
      const all = [open(state).lasted]
      while (all.length < 6) {
        state = ran(state, failure, open(state).until, jittered, draw)
        all.push(open(state).lasted)
      }
      return all
    }
    assert.deepStrictEqual(lengths(0), [9_000, 18_000, 36_000, 72_000, 108_000, 108_000])
    assert.deepStrictEqual(lengths(0.5), [10_000, 20_000, 40_000, 80_000, 114_000, 114_000])
    for (const length of lengths(1 - 2 ** -53)) assert.isAtMost(length, 120_000)
  })

  it("grows from the previous backoff with decorrelated jitter, and restarts with a first opening", () => {
    const decorrelated = make({
      trip: { consecutive: { failures: 1 } },
      halfOpen: { successes: 1 },
      open: Backoff.exponential({ initial: 1_000, factor: 3, cap: 60_000, jitter: "decorrelated" })
    })
    const first = open(ran(closed, failure, 0, decorrelated, 0.5))
    // Between 1000 and 3000.
    assert.strictEqual(first.backoff, 2_000)
    const second = open(ran(first, after(30_000), first.until, decorrelated, 0.5))
    // Between 1000 and 6000: based on the backoff, not on the server's wait.
    assert.deepStrictEqual([second.backoff, second.lasted], [3_500, 30_000])
    const back = ran(second, success, second.until, decorrelated)
    assert.strictEqual(open(ran(back, failure, second.until + 30_000, decorrelated, 0.5)).backoff, 2_000)
  })

  it("grows by trips by hand too, except the first", () => {
    assert.strictEqual(open(CircuitState.trip(policy, closed, 5, 0)).openings, 1)
    assert.strictEqual(open(CircuitState.trip(policy, opened, 2_000, 0)).lasted, 20_000)
    assert.strictEqual(open(CircuitState.trip(policy, testing, 11_000, 0)).lasted, 20_000)
    assert.strictEqual(open(CircuitState.trip(policy, closedAgain, 21_199, 0)).lasted, 20_000)
    assert.strictEqual(open(CircuitState.trip(policy, closedAgain, 21_200, 0)).lasted, 10_000)
  })
})

describe("Retry-After", () => {
  it("lengthens an opening and never shortens it", () => {
    const tripped = (retryAfter: number) => open(ran(ran(closed, failure, 0), after(retryAfter), 1_000))
    assert.deepStrictEqual([tripped(30_000).until, tripped(30_000).lasted], [31_000, 30_000])
    assert.strictEqual(tripped(10_001).until, 11_001)
    assert.strictEqual(tripped(10_000).until, 11_000)
    assert.strictEqual(tripped(1).until, 11_000)
    assert.strictEqual(tripped(0).until, 11_000)
    assert.strictEqual(tripped(30_000).notBefore, 31_000)
  })

  it("is capped", () => {
    const capped = make({ trip: { consecutive: { failures: 1 } }, maxRetryAfter: "15 seconds" })
    assert.strictEqual(open(ran(closed, after(15_001), 1_000, capped)).until, 16_000)
    assert.strictEqual(open(ran(closed, after(14_999), 1_000, capped)).until, 15_999)
    assert.strictEqual(open(ran(closed, after(Infinity), 1_000, capped)).until, 16_000)
    const hour = make({ trip: { consecutive: { failures: 1 } } })
    assert.strictEqual(open(ran(closed, after(Infinity), 0, hour)).until, 3_600_000)
  })

  it("is kept by a failure that does not trip, and the latest end applies", () => {
    const asked = ran(closed, after(60_000), 1_000)
    assert.strictEqual(asked.phase, "closed")
    assert.strictEqual(asked.notBefore, 61_000)
    const sooner = ran(asked, after(5_000), 2_000)
    assert.deepStrictEqual([open(sooner).until, sooner.notBefore], [61_000, 61_000])
    const plain = ran(asked, failure, 3_000)
    assert.deepStrictEqual([open(plain).until, open(plain).lasted], [61_000, 58_000])
  })

  it("is kept when the next call succeeds, and when the circuit closes", () => {
    const asked = ran(ran(closed, after(60_000), 1_000), success, 2_000)
    assert.strictEqual(asked.notBefore, 61_000)
    assert.strictEqual(open(ran(ran(asked, failure, 3_000), failure, 3_000)).until, 61_000)
  })

  it("is ignored unless the call failed", () => {
    const odd: CircuitState.Ended = { outcome: "success", retryAfter: 60_000 }
    assert.strictEqual(ran(ran(closed, failure, 0), odd, 1_000).notBefore, -Infinity)
  })

  it("counts from a probe, whether or not it opens the circuit", () => {
    assert.strictEqual(open(ran(opened, after(60_000), 11_000)).until, 71_000)
    const some = make({ halfOpen: { successes: 1, outOf: 2 } })
    const one = ran(opened, after(60_000), 11_000, some)
    assert.deepStrictEqual([one.phase, one.notBefore], ["half-open", 71_000])
    assert.strictEqual(open(ran(one, failure, 11_001, some)).until, 71_000)
    const back = ran(one, success, 11_001, some)
    assert.deepStrictEqual([back.phase, back.notBefore], ["closed", 71_000])
  })
})

describe("trip", () => {
  it("opens every phase except isolated", () => {
    for (const state of [closed, opened, testing, closedAgain]) {
      const tripped = open(CircuitState.trip(policy, state, 12_000, 0))
      assert.deepStrictEqual(
        [tripped.generation, tripped.cause, tripped.since],
        [state.generation + 1, "tripped", 12_000]
      )
    }
    assert.strictEqual(CircuitState.trip(policy, isolated, 12_000, 0), isolated)
    assert.strictEqual(CircuitState.trip(policy, isolated, 12_000, 0, 5), isolated)
  })

  it("lasts for the policy's time, by the draw", () => {
    const { open: spec } = CircuitPolicy.make()
    assert.strictEqual(open(CircuitState.trip(make({ open: spec }), closed, 0, 0)).until, 9_000)
    assert.strictEqual(open(CircuitState.trip(make({ open: spec }), closed, 0, 0.5)).until, 10_000)
  })

  it("lasts exactly for a given length, whatever the server requested", () => {
    const asked = ran(closed, after(60_000), 1_000)
    assert.deepStrictEqual(CircuitState.trip(policy, asked, 2_000, 0, 5), {
      phase: "open",
      generation: 1,
      since: 2_000,
      openings: 1,
      backoff: 10_000,
      lasted: 5,
      notBefore: 61_000,
      until: 2_005,
      cause: "tripped"
    })
    assert.strictEqual(open(CircuitState.trip(policy, closed, 2_000, 0, 0)).until, 2_000)
    assert.strictEqual(open(CircuitState.trip(policy, asked, 2_000, 0)).until, 61_000)
  })
})

describe("reset", () => {
  it("closes every phase except isolated, with nothing counted", () => {
    for (const state of [ran(closed, after(60_000), 5), opened, testing, closedAgain]) {
      assert.deepStrictEqual(CircuitState.reset(frozen(state), 12_000), {
        ...CircuitState.initial,
        generation: state.generation + 1,
        since: 12_000
      })
    }
  })

  it("keeps the holds of an isolated circuit", () => {
    const state = frozen(CircuitState.isolate(opened, "ops", 2_000))
    assert.deepStrictEqual(CircuitState.reset(state, 12_000), {
      phase: "isolated",
      generation: 3,
      since: 12_000,
      openings: 0,
      backoff: 0,
      lasted: 0,
      notBefore: -Infinity,
      holders: ["ops"]
    })
  })

  it("makes the next opening count as the first", () => {
    const state = CircuitState.reset(opened, 2_000)
    assert.strictEqual(open(ran(ran(state, failure, 2_001), failure, 2_001)).lasted, 10_000)
  })
})

describe("isolation", () => {
  it("starts from every phase, and keeps the count of openings", () => {
    for (const state of [closed, opened, testing, closedAgain]) {
      const held = CircuitState.isolate(state, "a", 12_000)
      assert.deepStrictEqual(held, {
        phase: "isolated",
        generation: state.generation + 1,
        since: 12_000,
        openings: state.openings,
        backoff: state.backoff,
        lasted: state.lasted,
        notBefore: state.notBefore,
        holders: ["a"]
      })
    }
  })

  it("ends with the last hold, in any order", () => {
    const two = frozen(CircuitState.isolate(frozen(CircuitState.isolate(closed, "a", 1)), "b", 2))
    assert.deepStrictEqual(two, { ...two, generation: 1, since: 1, holders: ["a", "b"] } as State)
    for (const [first, last] of [
      ["a", "b"],
      ["b", "a"]
    ] as const) {
      const one = CircuitState.release(two, first, 3)
      assert.deepStrictEqual(one, { ...two, holders: [last] } as State)
      assert.deepStrictEqual(CircuitState.release(one, last, 4), {
        ...CircuitState.initial,
        generation: 2,
        since: 4
      })
    }
  })

  it("counts a hold once, and only its holder can release it", () => {
    assert.strictEqual(CircuitState.isolate(isolated, "ops", 9), isolated)
    assert.strictEqual(CircuitState.release(isolated, "other", 9), isolated)
    assert.strictEqual(CircuitState.release(closed, "ops", 9), closed)
    assert.strictEqual(CircuitState.release(opened, "ops", 9), opened)
    assert.strictEqual(CircuitState.release(testing, "p1", 9), testing)
  })

  it("keeps earlier openings in the count afterwards", () => {
    const held = CircuitState.isolate(opened, "a", 2_000)
    const back = CircuitState.release(held, "a", 3_000)
    assert.strictEqual(open(ran(ran(back, failure, 12_999), failure, 12_999)).openings, 2)
    assert.strictEqual(open(ran(ran(back, failure, 13_000), failure, 13_000)).openings, 1)
  })
})

describe("isForgettable", () => {
  const idle = 1_000
  const from = (state: State, at: number) => {
    assert.isFalse(CircuitState.isForgettable(state, at - 0.001, idle), "before")
    assert.isTrue(CircuitState.isForgettable(state, at, idle), "then")
    assert.isTrue(CircuitState.isForgettable(state, at + 1e9, idle), "later")
  }

  it("closed with nothing counted: at once", () => {
    assert.isTrue(CircuitState.isForgettable(closed, 0, idle))
    from(CircuitState.reset(closed, 500), 500)
  })

  it("closed with consecutive failures: after the idle time", () => {
    from(ran(closed, failure, 700), 1_700)
    const three = make({ trip: { consecutive: { failures: 3 } } })
    from(ran(ran(closed, failure, 700, three), failure, 900, three), 1_900)
  })

  it("closed with calls in the window: after the idle time", () => {
    const rate = make({ trip: { consecutive: false, rate: {} } })
    from(ran(ran(closed, success, 700, rate), success, 60_800, rate), 61_800)
  })

  it("closed after an opening: when the next opening would count as the first", () => {
    from(closedAgain, 21_200)
    from(ran(closedAgain, failure, 11_300), 22_200)
    from(ran(closedAgain, failure, 30_000), 31_000)
  })

  it("closed with a Retry-After: when that wait is over", () => {
    from(ran(ran(closed, after(60_000), 700), success, 800), 60_700)
    from(ran(closed, after(60_000), 700), 61_700)
  })

  it("open: the idle time after the end of the opening", () => {
    from(opened, 12_000)
  })

  it("half-open: the idle time after its start and its last lease", () => {
    from(testing, 72_000)
    const two = make({ halfOpen: { permits: 2 } })
    from(admitted(admitted(opened, "a", 11_000, two).state, "b", 11_500, two).state, 72_500)
    from(CircuitState.settle(policy, testing, probed.grant, ignored, 11_050, 0), 12_000)
  })

  it("isolated: never", () => {
    assert.isFalse(CircuitState.isForgettable(isolated, 1e12, idle))
  })
})

describe("a rate", () => {
  const rate = make({ trip: { consecutive: false, rate: { minimumCalls: 4, failures: 0.8 } } })

  it("counts calls in flight as not failed", () => {
    const fail = (inFlight: number) => (state: State) =>
      CircuitState.settle(
        rate,
        state,
        { generation: 0, holder: undefined },
        { outcome: "failure", inFlight },
        5,
        0
      )
    const four = (inFlight: number) => [1, 2, 3, 4].reduce<State>(fail(inFlight), closed)
    assert.strictEqual(four(0).phase, "open")
    // 4 of 5 have failed, which is the share; of 6 it is less.
    assert.strictEqual(four(1).phase, "open")
    assert.strictEqual(four(2).phase, "closed")
    assert.strictEqual(fail(1)(fail(2)(fail(2)(fail(2)(fail(2)(closed))))).phase, "open")
  })

  it("counts calls in flight towards the minimum of calls", () => {
    const state = ran(closed, failure, 5, rate)
    const settle = (inFlight: number) =>
      CircuitState.settle(
        make({ trip: { consecutive: false, rate: { minimumCalls: 4, failures: 0.5 } } }),
        state,
        { generation: 0, holder: undefined },
        { outcome: "failure", inFlight },
        5,
        0
      )
    assert.strictEqual(settle(1).phase, "closed")
    assert.strictEqual(settle(2).phase, "open")
  })
})

describe("slow probes", () => {
  const slow = make({
    trip: {
      consecutive: { failures: 2 },
      rate: { minimumCalls: 1, failures: false, slow: 1, slowerThan: 50 }
    },
    halfOpen: { permits: 2, successes: 1, outOf: 2 }
  })
  const took = (millis: number): CircuitState.Ended => ({ outcome: "success", took: millis })

  it("fail when slowness opened the circuit, and open it again", () => {
    const bySlowness = ran(closed, took(51), 0, slow)
    assert.strictEqual(open(bySlowness).cause, "slow-rate")
    const once = ran(bySlowness, took(51), 10_000, slow)
    assert.deepInclude(halfOpen(once), { successes: 0, failures: 1 })
    const again = ran(once, took(60), 10_100, slow)
    // The first cause is kept: the next probes are judged by their duration too.
    assert.strictEqual(open(again).cause, "slow-rate")
    assert.strictEqual(again.openings, 2)
    assert.strictEqual(ran(bySlowness, took(50), 10_000, slow).phase, "closed")
  })

  it("are judged as failures with all of their data, unlike any other outcome", () => {
    const bySlowness = ran(closed, took(51), 0, slow)
    const judged = (ended: CircuitState.Ended, state: State = bySlowness, p = slow) =>
      CircuitState.judgedAsProbe(p, state, ended)
    const long: CircuitState.Ended = { outcome: "success", took: 51, call: "x", inFlight: 1 }
    assert.deepStrictEqual(judged(long), { ...long, outcome: "failure" })
    assert.deepStrictEqual(judged(long, admitted(bySlowness, "p", 10_000, slow).state), {
      ...long,
      outcome: "failure"
    })
    assert.strictEqual(judged(long, closed), long)
    assert.strictEqual(judged(long, bySlowness, policy), long)
    for (const ended of [took(50), success, ignored, after(5), { ...after(5), took: 51 }]) {
      assert.strictEqual(judged(ended), ended)
    }
  })

  it("count as successes when failures opened the circuit", () => {
    const byFailures = ran(ran(closed, failure, 0, slow), failure, 0, slow)
    assert.strictEqual(open(byFailures).cause, "consecutive")
    assert.strictEqual(ran(byFailures, took(51), 10_000, slow).phase, "closed")
  })
})

describe("last resort", () => {
  const last = (state: State, holder: string, now: number, p = policy) => {
    const [admission, next] = CircuitState.admit(p, state, holder, now, { lastResort: true })
    return admission.granted
      ? { grant: admission.grant, state: next }
      : { refusal: admission.refusal, state: next }
  }
  const passed = (state: State, holder: string, now: number, p = policy) => {
    const admission = last(state, holder, now, p)
    if (admission.grant === undefined) throw new Error(`refused: ${admission.refusal.reason}`)
    return admission
  }
  const tried = (state: State, ended: CircuitState.Ended, now: number): State => {
    const { grant, state: next } = passed(state, "last", now)
    return CircuitState.settle(policy, next, grant, ended, now, 0)
  }

  it("passes an open circuit once a second, and leaves it open", () => {
    const { grant, state } = passed(opened, "a", 2_000)
    assert.deepStrictEqual(grant, { generation: 1, holder: "a", lastResort: true })
    assert.strictEqual(open(state).until, opened.phase === "open" ? opened.until : 0)
    assert.deepStrictEqual(last(state, "b", 2_999).refusal, { reason: "open", retryAfter: 1 })
    assert.isDefined(last(state, "b", 3_000).grant)
    assert.isFalse(CircuitState.available(policy, opened, 2_000))
    assert.isTrue(CircuitState.available(policy, opened, 2_000, { lastResort: true }))
  })

  it("waits no longer than the opening", () => {
    const { state } = passed(opened, "a", 10_500)
    assert.deepStrictEqual(last(state, "b", 10_600).refusal, { reason: "open", retryAfter: 400 })
  })

  it("closes the circuit with two successes among the last three", () => {
    assert.strictEqual(tried(tried(opened, success, 2_000), success, 3_000).phase, "closed")
    const between = tried(tried(opened, success, 2_000), failure, 3_000)
    assert.strictEqual(between.phase, "open")
    assert.strictEqual(tried(between, success, 4_000).phase, "closed")
    const forgotten = tried(tried(between, failure, 4_000), success, 5_000)
    assert.strictEqual(forgotten.phase, "open")
  })

  it("holds a separate lease until it ends", () => {
    const first = passed(opened, "a", 2_000)
    const both = passed(first.state, "b", 3_000)
    const leases = [
      { holder: "a", until: 62_000 },
      { holder: "b", until: 63_000 }
    ]
    const settled = (ended: CircuitState.Ended, grant = both.grant) =>
      open(CircuitState.settle(policy, both.state, grant, ended, 4_000, 0)).lastResort
    assert.deepStrictEqual(open(first.state).lastResort, {
      at: 2_000,
      leases: leases.slice(0, 1),
      outcomes: []
    })
    assert.deepStrictEqual(open(both.state).lastResort, { at: 3_000, leases, outcomes: [] })
    assert.deepStrictEqual(settled(success), { at: 3_000, leases: leases.slice(0, 1), outcomes: [true] })
    assert.deepStrictEqual(settled(failure, first.grant), {
      at: 3_000,
      leases: leases.slice(1),
      outcomes: [false]
    })
    assert.deepStrictEqual(settled(ignored), { at: 3_000, leases: leases.slice(0, 1), outcomes: [] })
  })

  it("changes nothing without a lease", () => {
    const grant = { generation: opened.generation, holder: "nobody" }
    assert.strictEqual(CircuitState.settle(policy, opened, grant, success, 2_000, 0), opened)
    const { state } = passed(opened, "a", 2_000)
    assert.strictEqual(CircuitState.settle(policy, state, grant, success, 2_000, 0), state)
  })

  it("closes the circuit gradually", () => {
    const { phase, ...rest } = tried(tried(opened, success, 2_000), success, 3_000)
    assert.strictEqual(phase, "closed")
    assert.deepInclude(rest, { recovery: { released: 0, successes: 0 } })
  })

  it("never lengthens an opening, and does not count when ignored or late", () => {
    const failed = tried(opened, failure, 2_000)
    assert.strictEqual(open(failed).until, open(opened).until)
    assert.strictEqual(tried(tried(opened, ignored, 2_000), success, 3_000).phase, "open")
    const short = make({ trip: { consecutive: { failures: 2 } }, halfOpen: { probeLimit: 100 } })
    const { grant, state } = passed(opened, "a", 2_000, short)
    assert.strictEqual(CircuitState.settle(short, state, grant, success, 2_100, 0), state)
    assert.notStrictEqual(CircuitState.settle(short, state, grant, success, 2_099, 0), state)
  })

  it("keeps the end of the opening when a success has a wait", () => {
    const { notBefore } = tried(opened, { outcome: "success", retryAfter: 60_000 }, 2_000)
    assert.strictEqual(notBefore, opened.notBefore)
  })

  it("passes a half-open circuit in addition to its probes, once a second", () => {
    const { state } = passed(testing, "a", 11_500)
    assert.strictEqual(halfOpen(state).leases.length, 2)
    assert.deepStrictEqual(last(state, "b", 11_600).refusal, { reason: "half-open", retryAfter: 900 })
    assert.isDefined(last(state, "b", 12_500).grant)
  })

  it("never passes an isolated circuit", () => {
    assert.deepStrictEqual(last(isolated, "a", 2_000).refusal, { reason: "isolated", retryAfter: undefined })
  })
})

describe("recovery", () => {
  const waits = (state: State, now: number) => {
    const [admission, next] = CircuitState.admit(policy, state, "h", now, { waited: true })
    return { isGranted: admission.granted, state: next, admission }
  }

  it("lets three waiting calls through, then one for each success", () => {
    let state: State = closedAgain
    for (const isGranted of [true, true, true, false]) {
      const next = waits(state, 11_300)
      assert.strictEqual(next.isGranted, isGranted)
      state = next.state
    }
    assert.deepStrictEqual(waits(state, 11_300).admission, {
      granted: false,
      refusal: { reason: "recovering", retryAfter: undefined }
    })
    // The success of a call that had not waited releases no other.
    assert.isFalse(waits(ran(state, success, 11_400), 11_500).isGranted)
    const grant: CircuitState.Grant = { generation: state.generation, holder: undefined, waited: true }
    const ended = (outcome: CircuitState.Ended) =>
      CircuitState.settle(policy, state, grant, outcome, 11_400, 0)
    assert.isFalse(waits(ended(failure), 11_500).isGranted)
    assert.isTrue(waits(ended(success), 11_500).isGranted)
    assert.isFalse(waits(waits(ended(success), 11_500).state, 11_500).isGranted)
  })

  it("counts a success of a call that waited, and keeps the rest of the state", () => {
    const { state } = waits(closedAgain, 11_300)
    const grant: CircuitState.Grant = { generation: state.generation, holder: undefined, waited: true }
    const recovery: CircuitState.Recovery = { released: 1, successes: 1 }
    const settled: unknown = CircuitState.settle(policy, state, grant, success, 11_400, 0)
    assert.deepStrictEqual(settled, { ...closedAgain, recovery })
  })

  it("marks the grant of a call that waited", () => {
    const { admission } = waits(closedAgain, 11_300)
    assert.deepStrictEqual(admission, {
      granted: true,
      grant: { generation: 3, holder: undefined, waited: true }
    })
  })

  it("lets one more through every five seconds, because those let through may all have failed", () => {
    let state: State = closedAgain
    for (let n = 0; n < 3; n++) state = waits(state, 11_300).state
    assert.isFalse(waits(state, 16_199).isGranted)
    state = waits(state, 16_200).state
    assert.isFalse(waits(state, 21_199).isGranted)
    assert.isTrue(waits(state, 21_200).isGranted)
  })

  it("lets waiting calls through a circuit that was never open", () => {
    const { isGranted, state } = waits(closed, 100)
    assert.isTrue(isGranted)
    assert.strictEqual(state, closed)
  })

  it("lets all other calls through", () => {
    let state: State = closedAgain
    for (let n = 0; n < 10; n++) state = admitted(state, "h", 11_300).state
    assert.strictEqual(state, closedAgain)
  })

  it("ends after ten minutes, and does not start when the circuit was closed by hand", () => {
    let state: State = closedAgain
    for (let n = 0; n < 700; n++) state = waits(state, 611_199).state
    assert.isFalse(waits(state, 611_199).isGranted)
    assert.isTrue(waits(state, 611_200).isGranted)
    const { recovery, ...rest } = ran(state, success, 611_200) as CircuitState.Closed
    assert.isUndefined(recovery)
    assert.strictEqual(rest.phase, "closed")
    assert.notProperty(CircuitState.reset(opened, 2_000), "recovery")
  })
})
