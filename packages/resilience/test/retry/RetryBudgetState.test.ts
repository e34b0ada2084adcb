import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import { RetryBudgetState as Budget } from "@outlast/resilience"
import * as Sweeps from "../../../../test/sweeps.ts"

const rule = Budget.rule()
const shareOnly = Budget.rule({ burst: 0 })

/** A machine that keeps its state. */
const machine = (rule: Budget.Rule) => {
  let state = Budget.initial
  const withdraw = (now: number): boolean => {
    const [granted, after] = Budget.withdraw(rule, state, now)
    if (!granted) assert.strictEqual(after, state)
    state = after
    return granted
  }
  return {
    state: () => state,
    deposit: (now: number, times = 1) => {
      for (let i = 0; i < times; i++) state = Budget.deposit(rule, state, now)
    },
    withdraw,
    /** Number of retries granted until the first refusal. */
    drain: (now: number): number => {
      let granted = 0
      while (withdraw(now)) granted++
      return granted
    }
  }
}

it("the defaults are a fifth of the calls of a minute, and a reserve of ten refilled at ten a minute", () => {
  assert.deepStrictEqual(rule, {
    paidBy: "calls",
    ratio: 0.2,
    burst: 10,
    refillEvery: 6_000,
    window: 60_000,
    inFlight: 0
  })
})

it("the initial state has no counts and a full reserve", () => {
  assert.deepStrictEqual(Budget.initial, {
    current: { index: -Infinity, paid: 0, retries: 0 },
    past: [],
    fullAt: -Infinity,
    calls: 0,
    retries: 0
  })
})

describe("the reserve", () => {
  it("allows ten retries without calls, and refuses the eleventh", () => {
    const budget = machine(rule)
    assert.strictEqual(budget.drain(0), 10)
    assert.strictEqual(budget.drain(5_999), 0)
  })

  it("gets one token back every six seconds, and never holds more than ten", () => {
    const budget = machine(rule)
    budget.drain(0)
    assert.strictEqual(budget.drain(5_999), 0)
    assert.strictEqual(budget.drain(6_000), 1)
    assert.strictEqual(budget.drain(11_999), 0)
    assert.strictEqual(budget.drain(12_000), 1)
    assert.strictEqual(budget.drain(36_000), 4)
    assert.strictEqual(budget.drain(1_000_000), 10)
  })

  it("can have another size and speed", () => {
    const budget = machine(Budget.rule({ burst: 2, refillEvery: "1 second" }))
    assert.strictEqual(budget.drain(0), 2)
    assert.strictEqual(budget.drain(999), 0)
    assert.strictEqual(budget.drain(1_000), 1)
    assert.strictEqual(machine(shareOnly).drain(0), 0)
  })
})

describe("the share", () => {
  it("is one retry for five calls", () => {
    const budget = machine(shareOnly)
    budget.deposit(0, 4)
    assert.strictEqual(budget.drain(0), 0)
    budget.deposit(0)
    assert.strictEqual(budget.drain(0), 1)
    budget.deposit(0, 95)
    assert.strictEqual(budget.drain(0), 19)
  })

  it("is used before the reserve", () => {
    const budget = machine(rule)
    budget.deposit(0, 5)
    assert.strictEqual(budget.drain(0), 11)
    // The call's retry is spent, the tokens of the reserve are back.
    assert.strictEqual(budget.drain(6_000), 1)
  })

  it("can have another ratio", () => {
    const half = machine(Budget.rule({ burst: 0, ratio: 0.5 }))
    half.deposit(0, 10)
    assert.strictEqual(half.drain(0), 5)
    const none = machine(Budget.rule({ ratio: 0 }))
    none.deposit(0, 1_000)
    assert.strictEqual(none.drain(0), 10)
  })

  it("calls pay for the minute after they are made", () => {
    for (const [at, granted] of [
      [0, 2],
      [59_999, 2],
      [60_000, 0]
    ] as const) {
      const budget = machine(shareOnly)
      budget.deposit(0, 10)
      assert.strictEqual(budget.drain(at), granted, `at ${at}`)
    }
  })

  it("is counted in tenths of the window", () => {
    const budget = machine(Budget.rule({ burst: 0, window: "10 seconds" }))
    budget.deposit(1_999, 10)
    assert.strictEqual(budget.drain(10_999), 2)
    const later = machine(Budget.rule({ burst: 0, window: "10 seconds" }))
    later.deposit(1_999, 10)
    assert.strictEqual(later.drain(11_000), 0)
    assert.strictEqual(Budget.slots, 10)
  })

  it("a long period of calls saves up no more than a minute", () => {
    const budget = machine(shareOnly)
    for (let second = 0; second < 3_600; second++) budget.deposit(second * 1_000, 10)
    assert.strictEqual(budget.drain(3_599_999), 120)
    assert.isAtMost(budget.state().past.length, Budget.slots - 1)
  })

  it("retries expire together with the calls that paid, so steady traffic never exceeds its share", () => {
    const budget = machine(shareOnly)
    budget.deposit(0, 10)
    assert.strictEqual(budget.drain(59_000), 2)
    // The ten calls have left the window, their two retries have not.
    budget.deposit(61_000, 10)
    assert.strictEqual(budget.drain(61_000), 0)
    budget.deposit(61_000, 5)
    assert.strictEqual(budget.drain(61_000), 1)
  })
})

it("a call in the current slot changes no other slot", () => {
  const budget = machine(rule)
  budget.deposit(0)
  budget.deposit(30_000)
  const { past } = budget.state()
  budget.deposit(30_001)
  assert.strictEqual(budget.state().past, past)
  assert.deepStrictEqual(budget.state().current, { index: 5, paid: 2, retries: 0 })
})

it("a time that goes back by a slot counts in the newest slot", () => {
  const budget = machine(shareOnly)
  budget.deposit(30_000, 5)
  budget.deposit(20_000, 5)
  assert.strictEqual(budget.drain(30_000), 2)
})

describe("a retry that needs no permission", () => {
  const slim = Budget.rule({ burst: 1 })

  it("uses a payment, then the reserve", () => {
    const paid = Budget.deposit(slim, Budget.deposit(slim, Budget.initial, 0), 0)
    const five = [0, 0, 0].reduce((state) => Budget.deposit(slim, state, 0), paid)
    const first = Budget.take(slim, five, 0)
    assert.deepStrictEqual(first, Budget.withdraw(slim, five, 0)[1])
    assert.deepStrictEqual(Budget.available(slim, first, 0), { paid: 0, reserve: 1 })
    const second = Budget.take(slim, first, 0)
    assert.deepStrictEqual(Budget.available(slim, second, 0), { paid: 0, reserve: 0 })
    assert.strictEqual(second.retries, 2)
  })

  it("is counted where nothing is left, and owes nothing", () => {
    const empty = Budget.take(slim, Budget.initial, 0)
    assert.deepStrictEqual(Budget.take(slim, empty, 0), { ...empty, retries: 2 })
  })
})

it("amplification is attempts divided by calls, and 1 before the first call", () => {
  const budget = machine(rule)
  assert.strictEqual(Budget.amplification(budget.state()), 1)
  budget.deposit(0, 20)
  assert.strictEqual(Budget.amplification(budget.state()), 1)
  budget.withdraw(0)
  assert.strictEqual(Budget.amplification(budget.state()), 1.05)
  // Counted since the start, not over the last minute.
  budget.deposit(1_000_000, 20)
  assert.strictEqual(budget.drain(1_000_000), 14)
  assert.strictEqual(Budget.amplification(budget.state()), 55 / 40)
})

it("29 for every order of calls and retries, no window has more retries than its share and the reserve", () => {
  const event = fc.record({
    // Often at the same instant, sometimes after a long pause.
    after: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3_000 }), fc.integer({ min: 0, max: 200_000 })),
    call: fc.boolean()
  })
  const options = fc.record({
    ratio: fc.double({ min: 0, max: 1, noNaN: true }),
    burst: fc.integer({ min: 0, max: 12 }),
    refillEvery: fc.integer({ min: 100, max: 20_000 }),
    window: fc.integer({ min: 1_000, max: 120_000 })
  })
  fc.assert(
    fc.property(options, fc.array(event, { maxLength: 120 }), (options, events) => {
      const rule = Budget.rule(options)
      const budget = machine(rule)
      const calls: Array<number> = []
      const retries: Array<number> = []
      let now = 0
      for (const { after, call } of events) {
        now += after
        if (call) {
          budget.deposit(now)
          calls.push(now)
        } else if (budget.withdraw(now)) retries.push(now)
      }
      const between = (times: ReadonlyArray<number>, from: number, to: number) =>
        times.filter((at) => at >= from && at <= to).length
      for (const from of retries) {
        for (const to of retries) {
          if (to < from) continue
          const allowed =
            rule.ratio * between(calls, from - rule.window, to) + rule.burst + (to - from) / rule.refillEvery
          assert.isAtMost(between(retries, from, to), allowed + 1e-9)
        }
      }
      assert.isAtMost(
        budget.state().retries,
        rule.ratio * calls.length + rule.burst + now / rule.refillEvery + 1e-9
      )
      assert.strictEqual(budget.state().calls, calls.length)
      assert.strictEqual(budget.state().retries, retries.length)
    }),
    { numRuns: Sweeps.runs(300) }
  )
})

it("numbers out of range are rejected", () => {
  const cases: ReadonlyArray<readonly [string, Budget.RetryBudgetOptions]> = [
    ["ratio must be a finite number from 0 to 10, got 10.1", { ratio: 10.1 }],
    ["ratio must be a finite number from 0 to 10, got -0.1", { ratio: -0.1 }],
    ["burst must be an integer of at least 0, got -1", { burst: -1 }],
    ["burst must be an integer of at least 0, got 1.5", { burst: 1.5 }],
    ["refillEvery must be a finite duration of at least 1ms, got 0", { refillEvery: 0 }],
    ["refillEvery must be a finite duration of at least 1ms, got Infinity", { refillEvery: Infinity }],
    ["window must be a finite duration of at least 1s, got 999", { window: 999 }]
  ]
  for (const [message, options] of cases) {
    assert.throws(() => Budget.rule(options), RangeError, `RetryBudget: ${message}`)
  }
  assert.deepStrictEqual(Budget.rule({ ratio: 1, burst: 0, refillEvery: 1, window: 1_000 }), {
    paidBy: "calls",
    ratio: 1,
    burst: 0,
    refillEvery: 1,
    window: 1_000,
    inFlight: 0
  })
})

describe("paid by successes", () => {
  const bySuccesses = Budget.rule({ paidBy: "successes", ratio: 1, burst: 0 })

  it("the defaults are three retries for two successes of 20 seconds, and the same reserve", () => {
    assert.deepStrictEqual(Budget.rule({ paidBy: "successes" }), {
      paidBy: "successes",
      ratio: 1.5,
      burst: 10,
      refillEvery: 6_000,
      window: 20_000,
      inFlight: 10_000
    })
  })

  it("a call is counted and pays nothing", () => {
    const state = Budget.deposit(bySuccesses, Budget.initial, 0)
    assert.deepStrictEqual(state, { ...Budget.initial, calls: 1 })
  })

  it("where calls pay, a success pays nothing, and attempts in flight pay nothing", () => {
    assert.strictEqual(Budget.succeeded(rule, Budget.initial, 0), Budget.initial)
    assert.strictEqual(Budget.rule({ inFlight: "5 seconds" }).inFlight, 0)
    assert.strictEqual(Budget.flightAt(rule, 5_000), 0)
    assert.strictEqual(Budget.flyingAt(rule, new Map([[0, 1]]), 0), 0)
  })

  it("a retry spends a success, so a burst of retries is not allowed again one window later", () => {
    let state = Budget.initial
    const drain = (now: number): number => {
      for (let granted = 0; ; granted++) {
        const [isGranted, after] = Budget.withdraw(bySuccesses, state, now)
        if (!isGranted) return granted
        state = after
      }
    }
    const seconds = (from: number, to: number, retries: boolean): ReadonlyArray<number> => {
      const granted: Array<number> = []
      for (let now = from; now < to; now += 1_000) {
        state = Budget.succeeded(bySuccesses, state, now)
        if (retries) granted.push(drain(now))
      }
      return granted
    }
    seconds(0, 20_000, false)
    assert.strictEqual(drain(19_999), 20)
    assert.deepStrictEqual(new Set(seconds(20_000, 60_000, true)), new Set([1]))
  })

  it("a retry spends the oldest successes first, and parts of them", () => {
    const rule = Budget.rule({ paidBy: "successes", burst: 0 })
    let state = Budget.initial
    for (const now of [0, 0, 2_000, 4_000]) state = Budget.succeeded(rule, state, now)
    const paid = () => [...state.past, state.current].map(({ paid }) => Math.round(paid * 3) / 3)
    const retry = (flying = 0) => {
      const [granted, after] = Budget.withdraw(rule, state, 4_000, flying)
      state = after
      return granted
    }
    assert.deepStrictEqual([retry(), paid()], [true, [4 / 3, 1, 1]])
    assert.deepStrictEqual([retry(), retry(), paid()], [true, true, [0, 1, 1]])
    assert.deepStrictEqual([retry(), retry(), retry(), paid()], [true, true, true, [0, 0, 0]])
    assert.deepStrictEqual([retry(), state.current.retries], [false, 0])
    // Only what an attempt in flight pays for is counted.
    assert.deepStrictEqual([retry(1), Math.round(state.current.retries), retry(1)], [true, 1, false])
  })

  it("attempts in flight are counted in slots, and dropped when silent for too long", () => {
    const flights: Budget.Flights = new Map()
    const begin = (now: number) => Budget.began(flights, Budget.flightAt(bySuccesses, now))
    const flyingAt = (now: number) => Budget.flyingAt(bySuccesses, flights, now)
    for (const now of [0, 500, 1_000, 1_001]) begin(now)
    assert.deepStrictEqual(
      [...flights],
      [
        [0, 2],
        [1, 2]
      ]
    )
    assert.deepStrictEqual([9_999, 10_000, 10_999, 11_000].map(flyingAt), [4, 2, 2, 0])
    begin(10_000)
    assert.deepStrictEqual(
      [...flights],
      [
        [1, 2],
        [10, 1]
      ]
    )
    begin(11_000)
    assert.deepStrictEqual(
      [...flights],
      [
        [10, 1],
        [11, 1]
      ]
    )
    // The attempt was silent for too long before it ended.
    Budget.left(flights, 0)
    Budget.left(flights, 11)
    assert.deepStrictEqual(
      [...flights],
      [
        [10, 1],
        [11, 0]
      ]
    )
    assert.strictEqual(flyingAt(11_000), 1)
  })

  it("retries never exceed successes and attempts in flight", () =>
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("begin", "succeed", "fail", "retry"), fc.nat(2_000)), {
          maxLength: 200
        }),
        (events) => {
          let state = Budget.initial
          const flights: Budget.Flights = new Map()
          let now = 0
          const running: Array<{ readonly index: number; readonly at: number }> = []
          const successes: Array<number> = []
          const retries: Array<number> = []
          for (const [event, pause] of events) {
            now += pause
            if (event === "begin") {
              const index = Budget.flightAt(bySuccesses, now)
              Budget.began(flights, index)
              running.push({ index, at: now })
            } else if (event === "retry") {
              const flying = Budget.flyingAt(bySuccesses, flights, now)
              const [granted, after] = Budget.withdraw(bySuccesses, state, now, flying)
              state = after
              if (granted) retries.push(now)
            } else {
              const one = running.shift()
              if (one === undefined) continue
              Budget.left(flights, one.index)
              if (event === "succeed") {
                state = Budget.succeeded(bySuccesses, state, now)
                successes.push(now)
              }
            }
            // Payments within the window, or in flight when the retry was granted, limit the retries of a window.
            const recent = (times: ReadonlyArray<number>, span: number) =>
              times.filter((at) => at > now - span).length
            if (event === "retry" && retries.at(-1) === now) {
              const flying = running.filter(({ at }) => at > now - 10_000).length
              assert.isAtMost(recent(retries, 18_000), recent(successes, 20_000) + flying)
            }
          }
        }
      ),
      { numRuns: Sweeps.runs(300) }
    ))
})

it("the retries that are shown as available are those that are granted, for any past", () => {
  const past = fc.array(
    fc.record({
      wait: fc.integer({ min: 0, max: 20_000 }),
      does: fc.constantFrom("call", "success", "retry")
    }),
    { maxLength: 60 }
  )
  const rules = fc.record({
    paidBy: fc.constantFrom("calls" as const, "successes" as const),
    ratio: fc.constantFrom(0, 0.2, 0.5, 1, 1.5),
    burst: fc.integer({ min: 0, max: 12 })
  })
  fc.assert(
    fc.property(rules, past, fc.nat(20), (options, past, flying) => {
      const rule = Budget.rule(options)
      let state = Budget.initial
      let now = 0
      for (const { wait, does } of past) {
        now += wait
        if (does === "call") state = Budget.deposit(rule, state, now)
        else if (does === "success") state = Budget.succeeded(rule, state, now)
        else [, state] = Budget.withdraw(rule, state, now)
      }
      const { paid, reserve } = Budget.available(rule, state, now, flying)
      let granted = 0
      for (let isGranted = true; isGranted;) {
        ;[isGranted, state] = Budget.withdraw(rule, state, now, flying)
        if (isGranted) granted++
      }
      assert.strictEqual(paid + reserve, granted)
    }),
    { numRuns: Sweeps.runs(2_000) }
  )
})
