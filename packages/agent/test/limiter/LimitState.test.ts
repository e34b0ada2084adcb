import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import { InvalidOption } from "@outlast/resilience"
import * as Limit from "#agent/limiter/LimitState"
import * as Sweeps from "../../../../test/sweeps.ts"

/** A machine that remembers its state and its verdicts. */
const machine = (limits: Limit.Limits) => {
  const rule = Limit.rule(limits)
  let state = Limit.initial
  let ids = 0
  const said: Array<Limit.Verdict> = []
  const took = ([verdicts, after]: Limit.Step) => {
    said.push(...verdicts)
    state = after
  }
  return {
    said,
    state: () => state,
    granted: () => said.flatMap((verdict) => (verdict._tag === "Granted" ? [verdict.id] : [])),
    refused: () =>
      said.flatMap((verdict) => (verdict._tag === "Refused" ? [[verdict.id, verdict.until]] : [])),
    grantOf: (id: number) => said.find((verdict) => verdict._tag === "Granted" && verdict.id === id),
    ask: (now: number, options: Partial<Limit.Asking> = {}): number => {
      const id = ++ids
      const asking = {
        id,
        priority: "interactive",
        input: 0,
        output: 0,
        deadline: Infinity,
        ...options
      } as const
      took(Limit.ask(rule, state, asking, now))
      return id
    },
    leave: (id: number, now: number) => took(Limit.leave(rule, state, id, now)),
    release: (now: number) => took(Limit.release(rule, state, now)),
    undo: (grant: Limit.Grant, now: number) => took(Limit.undo(rule, state, grant, now)),
    settle: (grant: Limit.Grant, tokens: number, now: number): Limit.Grant => {
      const [settled, step] = Limit.settle(rule, state, grant, tokens, now)
      took(step)
      return settled
    },
    learn: (headers: unknown, now: number) => took(Limit.learn(rule, state, headers, now)),
    hold: (until: number) => {
      state = Limit.hold(state, until)
    },
    tick: (now: number) => took(Limit.tick(rule, state, now)),
    wakeAt: (now: number) => Limit.wakeAt(rule, state, now)
  }
}

const background = { priority: "background" } as const

describe("limits", () => {
  it("of concurrent calls", () => {
    const m = machine({ concurrency: 2 })
    for (let i = 0; i < 4; i++) m.ask(0)
    assert.deepStrictEqual(m.granted(), [1, 2])
    assert.isUndefined(m.wakeAt(0))
    m.release(5)
    m.release(6)
    assert.deepStrictEqual(m.granted(), [1, 2, 3, 4])
  })

  it("of calls that begin within a minute", () => {
    const m = machine({ requestsPerMinute: 2 })
    for (let i = 0; i < 3; i++) m.ask(500)
    assert.deepStrictEqual(m.granted(), [1, 2])
    // The end of a call does not matter.
    m.release(600)
    assert.strictEqual(m.wakeAt(600), 61_000)
    m.tick(60_999)
    assert.deepStrictEqual(m.granted(), [1, 2])
    m.tick(61_000)
    assert.deepStrictEqual(m.granted(), [1, 2, 3])
  })

  it("of tokens within a minute, input and output", () => {
    const m = machine({ tokensPerMinute: 100 })
    m.ask(0, { input: 30, output: 30 })
    m.ask(0, { input: 40 })
    m.ask(0, { input: 1 })
    assert.deepStrictEqual(m.granted(), [1, 2])
    assert.strictEqual(m.wakeAt(0), 61_000)
  })

  it("that are not set admit everything and count nothing", () => {
    const m = machine({})
    for (let i = 0; i < 100; i++) m.ask(0, { input: 1e9 })
    assert.lengthOf(m.granted(), 100)
    assert.strictEqual(m.state().tokens, Limit.initial.tokens)
    assert.strictEqual(m.state().requests, Limit.initial.requests)
  })

  it("are used up by a call that is larger", () => {
    const m = machine({ tokensPerMinute: 100 })
    m.ask(0, { input: 10 })
    m.ask(0, { input: 1_000 })
    m.tick(61_000)
    m.ask(61_000, { input: 1 })
    assert.deepStrictEqual(m.granted(), [1, 2])
  })

  it("that a provider named apply", () => {
    const m = machine({})
    m.learn(
      {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "59s"
      },
      0
    )
    m.ask(0)
    m.ask(0)
    assert.deepStrictEqual(m.granted(), [1])
    assert.strictEqual(m.wakeAt(0), 1_000)
    m.tick(1_000)
    assert.deepStrictEqual(m.granted(), [1, 2])
  })

  it("held from outside delay every call", () => {
    const m = machine({})
    m.hold(5_000)
    m.hold(1_000)
    m.ask(0)
    assert.strictEqual(m.wakeAt(0), 5_000)
    m.tick(5_000)
    assert.deepStrictEqual(m.granted(), [1])
    const held = Limit.hold(Limit.initial, 5_000)
    assert.deepStrictEqual(
      [4_999, 5_000].map((now) => Limit.isIdle(held, now)),
      [false, true]
    )
  })

  it("below 1 are rejected", () => {
    for (const limits of [{ concurrency: 0 }, { requestsPerMinute: 0.5 }, { tokensPerMinute: Number.NaN }]) {
      assert.throws(() => Limit.rule(limits), InvalidOption, Object.keys(limits)[0])
    }
  })
})

describe("the usage of a call", () => {
  it("corrects the estimate, up and down", () => {
    const m = machine({ tokensPerMinute: 100 })
    m.ask(0, { input: 90 })
    m.ask(0, { input: 50 })
    const verdict = m.grantOf(1)
    assert(verdict?._tag === "Granted")
    const settled = m.settle(verdict.grant, 50, 10)
    assert.deepStrictEqual(m.granted(), [1, 2])
    m.settle(settled, 60, 20)
    m.ask(30, { input: 1 })
    assert.deepStrictEqual(m.granted(), [1, 2])
  })

  it("is taken back when the call was not made", () => {
    const m = machine({ concurrency: 1, requestsPerMinute: 1, tokensPerMinute: 100 })
    m.ask(0, { input: 90 })
    m.ask(0, { input: 90 })
    const verdict = m.grantOf(1)
    assert(verdict?._tag === "Granted")
    m.undo(verdict.grant, 1_500)
    assert.deepStrictEqual(m.granted(), [1, 2])
    const known = machine({})
    known.learn({ "x-ratelimit-remaining-tokens": "100", "x-ratelimit-reset-tokens": "30s" }, 0)
    known.ask(0, { input: 60, output: 40 })
    const first = known.grantOf(1)
    assert(first?._tag === "Granted")
    known.undo(first.grant, 0)
    known.ask(0, { input: 60, output: 40 })
    assert.deepStrictEqual(known.granted(), [1, 2])
  })
})

describe("the order of calls", () => {
  it("is interactive before background, and first in, first out within each", () => {
    const m = machine({ concurrency: 1 })
    m.ask(0)
    m.ask(0, background)
    m.ask(0)
    m.ask(0, background)
    m.ask(0)
    for (let i = 0; i < 4; i++) m.release(i)
    assert.deepStrictEqual(m.granted(), [1, 3, 5, 2, 4])
  })

  it("gives every fifth turn to a waiting background call", () => {
    const m = machine({ concurrency: 1 })
    m.ask(0)
    m.ask(0, background)
    m.ask(0, background)
    for (let i = 0; i < 12; i++) {
      m.ask(i)
      m.release(i)
    }
    assert.deepStrictEqual(m.granted(), [1, 4, 5, 6, 7, 2, 8, 9, 10, 11, 3, 12, 13])
  })

  it("ignores interactive calls from before a background call waited", () => {
    const m = machine({ concurrency: 1 })
    for (let i = 0; i < 10; i++) m.ask(0)
    for (let i = 0; i < 8; i++) m.release(i)
    m.ask(9, background)
    m.ask(9)
    m.release(10)
    m.release(11)
    assert.deepStrictEqual(m.granted(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12])
  })

  it("never lets a smaller call overtake a larger one, which would otherwise wait without end", () => {
    const m = machine({ tokensPerMinute: 100 })
    m.ask(0, { input: 50 })
    m.ask(0, { input: 60 })
    m.ask(0, { input: 10 })
    assert.deepStrictEqual(m.granted(), [1])
    m.tick(61_000)
    assert.deepStrictEqual(m.granted(), [1, 2, 3])
  })
})

describe("a wait", () => {
  it("beyond the deadline is rejected at once, with its end", () => {
    const m = machine({ requestsPerMinute: 1 })
    m.ask(0)
    m.ask(0, { deadline: 60_999 })
    m.ask(0, { deadline: 61_000 })
    // A call after the waiting one needs another minute.
    m.ask(0, { deadline: 61_000 })
    assert.deepStrictEqual(m.refused(), [
      [2, 61_000],
      [4, 121_000]
    ])
    m.tick(61_000)
    assert.deepStrictEqual(m.granted(), [1, 3])
  })

  it("of unknown length ends at the deadline", () => {
    const m = machine({ concurrency: 1 })
    m.ask(0)
    m.ask(0, { deadline: 0 })
    m.ask(0, { deadline: 300 })
    assert.strictEqual(m.wakeAt(0), 300)
    m.tick(299)
    assert.deepStrictEqual(m.refused(), [[2, Limit.unknownWait]])
    m.tick(300)
    assert.deepStrictEqual(m.refused(), [
      [2, Limit.unknownWait],
      [3, 300 + Limit.unknownWait]
    ])
    m.release(400)
    assert.deepStrictEqual(m.granted(), [1])
  })

  it("that ends exactly at the deadline is granted", () => {
    const m = machine({ concurrency: 1 })
    m.ask(0)
    m.ask(0, { deadline: 300 })
    m.release(300)
    assert.deepStrictEqual(m.granted(), [1, 2])
  })

  it("in the background ends at its deadline, even if the call is not next", () => {
    const m = machine({ concurrency: 1 })
    m.ask(0)
    m.ask(0)
    m.ask(0, { ...background, deadline: 300 })
    assert.strictEqual(m.wakeAt(0), 300)
    m.tick(300)
    assert.deepStrictEqual(m.refused(), [[3, 300 + Limit.unknownWait]])
  })

  it("of an interactive call excludes background calls", () => {
    const m = machine({ requestsPerMinute: 1 })
    m.ask(0)
    m.ask(0, background)
    m.ask(0, { deadline: 61_000 })
    m.ask(0, { ...background, deadline: 61_000 })
    assert.deepStrictEqual(m.refused(), [[4, 181_000]])
    m.tick(61_000)
    assert.deepStrictEqual(m.granted(), [1, 3])
  })

  it("is rejected when too many calls wait", () => {
    const m = machine({ concurrency: 1 })
    for (let i = 0; i <= Limit.maxWaiters; i++) m.ask(0, i % 2 === 0 ? {} : background)
    assert.isEmpty(m.refused())
    m.ask(0)
    m.ask(0, background)
    assert.lengthOf(m.refused(), 2)
  })

  it("that is abandoned makes room for later calls", () => {
    const m = machine({ tokensPerMinute: 100 })
    m.ask(0, { input: 50 })
    m.ask(0, { input: 60 })
    m.ask(0, { input: 10 })
    m.leave(2, 5)
    assert.deepStrictEqual(m.granted(), [1, 3])
  })
})

it("every limit holds, every call gets one verdict in time and in order, and nothing is left, for any events", () => {
  const limits = fc.record({
    concurrency: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
    requestsPerMinute: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
    tokensPerMinute: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined })
  })
  const event = fc.record({
    after: fc.oneof(fc.constant(0), fc.nat(2_000), fc.nat(50_000)),
    what: fc.constantFrom("ask", "ask", "ask", "release", "leave", "settle", "undo"),
    which: fc.nat(),
    priority: fc.constantFrom("interactive", "background"),
    input: fc.nat(60),
    output: fc.nat(60),
    maxWait: fc.oneof(fc.constant(0), fc.nat(100_000))
  })
  fc.assert(
    fc.property(limits, fc.array(event, { maxLength: 60 }), (limits, events) => {
      const m = machine(limits)
      let now = 0
      let seen = 0
      const asked = new Map<
        number,
        { readonly priority: Limit.Asking["priority"]; readonly deadline: number }
      >()
      const waiting = new Set<number>()
      const running = new Map<number, Limit.Grant>()
      const begun: Array<{ readonly id: number; readonly at: number; tokens: number }> = []
      let passed = 0

      const check = () => {
        for (const verdict of m.said.slice(seen)) {
          const { id } = verdict
          const asking = asked.get(id)
          assert(asking !== undefined)
          // One verdict each: a call with a verdict does not wait any more.
          assert.isTrue(waiting.delete(id), `${id}`)
          if (verdict._tag === "Refused") {
            assert.isAbove(verdict.until, now)
            continue
          }
          assert.isTrue(now <= asking.deadline)
          const earlier = [...waiting].filter((other) => other < id)
          assert.isFalse(earlier.some((other) => asked.get(other)?.priority === asking.priority))
          const behind = [...waiting].some((other) => asked.get(other)?.priority === "background")
          passed = asking.priority === "interactive" && behind ? passed + 1 : 0
          assert.isAtMost(passed, Limit.turns)
          running.set(id, verdict.grant)
          begun.push({ id, at: now, tokens: verdict.grant.tokens })
        }
        seen = m.said.length
        assert.strictEqual(m.state().running, running.size)
        assert.isAtMost(running.size, limits.concurrency ?? Infinity)
        const recent = begun.filter(({ at }) => at > now - 60_000)
        assert.isAtMost(recent.length, limits.requestsPerMinute ?? Infinity)
        const tokens = recent.reduce((sum, { tokens }) => sum + tokens, 0)
        assert.isAtMost(tokens, limits.tokensPerMinute ?? Infinity)
        for (const id of waiting) assert.isAbove(asked.get(id)?.deadline ?? 0, now)
      }
      const pass = (until: number) => {
        for (let at = m.wakeAt(now); at !== undefined && at <= until; at = m.wakeAt(now)) {
          now = at
          m.tick(now)
          check()
        }
        now = until
      }
      const pick = <A>(items: Iterable<A>, n: number): A | undefined => {
        const all = [...items]
        return all[n % Math.max(1, all.length)]
      }

      for (const { after, what, which, priority, input, output, maxWait } of events) {
        pass(now + after)
        const call = pick(running, which)
        if (what === "ask") {
          const deadline = now + maxWait
          const id = asked.size + 1
          asked.set(id, { priority, deadline })
          waiting.add(id)
          m.ask(now, { priority, input, output, deadline })
        } else if (what === "leave") {
          const id = pick(waiting, which)
          if (id === undefined) continue
          waiting.delete(id)
          m.leave(id, now)
        } else if (call !== undefined) {
          const [id, grant] = call
          const use = begun.find((one) => one.id === id)
          assert(use !== undefined)
          if (what === "settle") {
            // Usage beyond the estimate is not a decision of the machine, so count at most the grant.
            use.tokens = Math.min(grant.tokens, input)
            running.set(id, m.settle(grant, use.tokens, now))
          } else {
            running.delete(id)
            if (what === "undo") begun.splice(begun.indexOf(use), 1)
            if (what === "undo") m.undo(grant, now)
            else m.release(now)
          }
        }
        check()
      }

      // All calls have ended or left: a minute later the state is empty.
      for (const id of waiting) {
        waiting.delete(id)
        m.leave(id, now)
        check()
      }
      for (const id of running.keys()) {
        running.delete(id)
        m.release(now)
        check()
      }
      assert.isUndefined(m.wakeAt(now))
      assert.isTrue(Limit.isUnused(m.state()))
      assert.isTrue(Limit.isIdle(m.state(), now + 61_000))
    }),
    { numRuns: Sweeps.runs(500) }
  )
})
