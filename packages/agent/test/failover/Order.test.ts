import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import { InvalidOption } from "@outlast/resilience"
import type { ModelInfo } from "@outlast/agent"
import * as Facts from "#agent/failover/decide/OrderFacts"
import * as Order from "#agent/failover/decide/Order"

const target = (id: string, model = id, info: ModelInfo.ModelInfo = {}): Order.Placed => ({
  ref: { id, provider: "vendor", model, endpoint: "", key: "" },
  info
})
const call = (options: Partial<Order.Call> = {}): Order.Call => ({ number: 0, draw: 0.5, now: 0, ...options })
const ids = (targets: ReadonlyArray<Order.Placed>) => targets.map(({ ref }) => ref.id).join(" ")

/** Arranges some targets and returns their order in short form. */
const arranged = (
  order: Order.Order,
  targets: ReadonlyArray<Order.Placed>,
  facts: Facts.OrderFacts = Facts.empty,
  options: Partial<Order.Call> = {}
) => ids(Order.arrange(order, targets, facts, call(options)))

const abc = [target("a"), target("b"), target("c")]

/** Facts after some answers, one per second. */
const after = (...answers: ReadonlyArray<Omit<Facts.Answer, "now">>): Facts.OrderFacts =>
  answers.reduce((facts, answer, i) => Facts.answered(facts, { ...answer, now: i * 1_000 }), Facts.empty)
const thrice = (target: string, elapsed: number) =>
  [1, 2, 3].map(() => ({ target, elapsed }) satisfies Omit<Facts.Answer, "now">)

describe("the default order", () => {
  it("returns the chain itself in any case", () => {
    const facts = Facts.failed(after({ target: "b", elapsed: 5 }), { target: "a", now: 0 })
    assert.strictEqual(Order.arrange(Order.inOrder, abc, facts, call({ number: 7 })), abc)
  })
})

describe("the sticky order", () => {
  it("keeps the target that answered last in front until it fails", () => {
    const answered = after({ target: "b", elapsed: 5 })
    assert.strictEqual(arranged(Order.sticky, abc, answered), "b a c")
    const other = Facts.failed(answered, { target: "a", now: 1 })
    assert.strictEqual(arranged(Order.sticky, abc, other), "b a c")
    const failed = Facts.failed(answered, { target: "b", now: 1 })
    assert.strictEqual(Order.arrange(Order.sticky, abc, failed, call()), abc)
  })
  it("keeps the chain when its first target answered last, or an unknown one did", () => {
    for (const last of ["a", "gone"])
      assert.strictEqual(Order.arrange(Order.sticky, abc, after({ target: last, elapsed: 5 }), call()), abc)
  })
})

describe("the round-robin order", () => {
  const mixed = [target("m1", "m"), target("other"), target("m2", "m"), target("m3", "m")]

  it("lets equivalent targets take turns, and keeps the places of the models", () => {
    const turns = [0, 1, 2, 3].map((number) => arranged(Order.roundRobin, mixed, Facts.empty, { number }))
    assert.deepStrictEqual(turns, ["m1 other m2 m3", "m2 other m1 m3", "m3 other m1 m2", "m1 other m3 m2"])
  })

  it("returns the chain itself when no two targets are equivalent, or the turn changes no place", () => {
    assert.strictEqual(Order.arrange(Order.roundRobin, abc, Facts.empty, call({ number: 5 })), abc)
    assert.strictEqual(Order.arrange(Order.roundRobin, mixed, Facts.empty, call({ number: 0 })), mixed)
  })

  it("shares the load equally among ready targets, whichever target is out", () => {
    const size = 4
    const keys = Array.from({ length: size }, (_, i) => target(`k${i}`, "m"))
    fc.assert(
      fc.property(fc.subarray(keys, { minLength: 1 }), fc.integer({ min: 0, max: 1e6 }), (ready, from) => {
        const counts = new Map<string, number>()
        for (let number = from; number < from + 24; number++) {
          const first = Order.arrange(Order.roundRobin, keys, Facts.empty, call({ number })).find((key) =>
            ready.includes(key)
          )
          const id = first?.ref.id ?? ""
          counts.set(id, (counts.get(id) ?? 0) + 1)
        }
        assert.deepStrictEqual([...new Set(counts.values())], [24 / ready.length])
      })
    )
  })
})

describe("the cheapest order", () => {
  const priced = (id: string, input: number, output: number, cacheRead?: number) =>
    target(id, id, { price: { input, output, cacheRead } })
  const targets = [target("unknown"), priced("wordy", 1, 30), priced("terse", 3, 5), priced("same", 3, 5)]

  it("sorts by price, equal prices in chain order, unknown prices last", () => {
    assert.strictEqual(arranged(Order.cheapest(), targets), "terse same wordy unknown")
  })
  it("uses the expected mix of tokens", () => {
    assert.strictEqual(
      arranged(Order.cheapest({ input: 100, output: 1 }), targets),
      "wordy terse same unknown"
    )
    const cached = [priced("flat", 2, 0), priced("cached", 5, 0, 0.5)]
    assert.strictEqual(arranged(Order.cheapest({ input: 1, output: 0 }), cached), "flat cached")
    assert.strictEqual(arranged(Order.cheapest({ input: 1, output: 0, cacheRead: 9 }), cached), "cached flat")
  })
  it("returns the chain itself when it is sorted already, also with several unknown prices", () => {
    const sorted = [priced("x", 1, 1), target("u1"), target("u2")]
    assert.strictEqual(Order.arrange(Order.cheapest(), sorted, Facts.empty, call()), sorted)
  })
  it("rejects a negative share", () => {
    assert.throws(() => Order.cheapest({ output: -1 }), InvalidOption, "Order.cheapest: output")
  })
})

describe("the fastest order", () => {
  const order = Order.fastest()

  it("puts the fastest target first, after those with too few answers", () => {
    const facts = after(...thrice("a", 900), ...thrice("b", 300), { target: "c", elapsed: 2_000 })
    assert.strictEqual(arranged(order, abc, facts), "c b a")
    const known = after(...thrice("a", 900), ...thrice("b", 300), ...thrice("c", 500))
    assert.strictEqual(arranged(order, abc, known), "b c a")
  })

  it("measures streamed answers by their first token, apart from whole answers", () => {
    const facts = after(
      ...thrice("a", 100),
      ...thrice("b", 200),
      ...[1, 2, 3].map(() => ({ target: "a", elapsed: 9_000, firstToken: 800 })),
      ...[1, 2, 3].map(() => ({ target: "b", elapsed: 9_000, firstToken: 50 }))
    )
    const [a, b] = abc
    assert(a !== undefined && b !== undefined)
    assert.strictEqual(arranged(order, [a, b], facts), "a b")
    assert.strictEqual(arranged(order, [a, b], facts, { streams: true }), "b a")
  })

  it("follows a change within a few answers, and ignores a single slow one", () => {
    const often = Array.from({ length: 30 }, () => ({ target: "a", elapsed: 100 }))
    let facts = after(...often, ...thrice("b", 300), ...thrice("c", 400))
    facts = Facts.answered(facts, { target: "a", elapsed: 600, now: 50_000 })
    assert.strictEqual(arranged(order, abc, facts, { now: 50_000 }), "a b c")
    for (let i = 0; i < 4; i++) facts = Facts.answered(facts, { target: "a", elapsed: 600, now: 50_000 })
    assert.strictEqual(arranged(order, abc, facts, { now: 50_000 }), "b c a")
  })

  it("puts targets that failed last at the end, until they answer or the failure is old", () => {
    const known = after(...thrice("a", 100), ...thrice("b", 300), ...thrice("c", 200))
    const failed = Facts.failed(known, { target: "a", now: 9_000 })
    assert.strictEqual(arranged(order, abc, failed, { now: 10_000 }), "c b a")
    const back = Facts.answered(failed, { target: "a", elapsed: 100, now: 10_000 })
    assert.strictEqual(arranged(order, abc, back, { now: 10_000 }), "a c b")
    const brief = Order.fastest({ forgetAfter: "5 seconds" })
    // The latency is older than the failure and has expired already.
    assert.strictEqual(arranged(brief, abc, failed, { now: 13_999 }), "b c a")
    assert.strictEqual(arranged(brief, abc, failed, { now: 14_000 }), "a b c")
  })

  it("tries another target first in a small share of the calls, each equally often", () => {
    const known = after(...thrice("a", 100), ...thrice("b", 300), ...thrice("c", 400))
    const firsts = (share: number, draws: number) => {
      const counts = { a: 0, b: 0, c: 0 }
      for (let i = 0; i < draws; i++) {
        const [first] = arranged(Order.fastest({ exploration: share }), abc, known, { draw: i / draws })
        if (first === "a" || first === "b" || first === "c") counts[first]++
      }
      return counts
    }
    assert.deepStrictEqual(firsts(0.3, 100), { a: 80, b: 10, c: 10 })
    assert.deepStrictEqual(firsts(0, 100), { a: 100, b: 0, c: 0 })
    assert.deepStrictEqual(firsts(Order.defaults.exploration, 600), { a: 580, b: 10, c: 10 })
  })

  it("rejects options out of range", () => {
    assert.throws(() => Order.fastest({ exploration: 1.5 }), InvalidOption, "exploration")
    assert.throws(() => Order.fastest({ forgetAfter: 0 }), InvalidOption, "forgetAfter")
  })
})

describe("affinity", () => {
  const order = Order.withAffinity(Order.inOrder)
  const warm = after({ target: "b", conversation: "x", elapsed: 5 })

  it("keeps a conversation where its prompt cache is warm (openclaw/hermes-agent#71576)", () => {
    assert.strictEqual(arranged(order, abc, warm, { conversation: "x" }), "b a c")
    assert.strictEqual(arranged(order, abc, warm, { conversation: "y" }), "a b c")
    assert.strictEqual(arranged(Order.inOrder, abc, warm, { conversation: "x" }), "a b c")
  })

  it("ends with the cache, five minutes after the last answer", () => {
    assert.strictEqual(arranged(order, abc, warm, { conversation: "x", now: 299_999 }), "b a c")
    assert.strictEqual(arranged(order, abc, warm, { conversation: "x", now: 300_000 }), "a b c")
    const again = Facts.answered(warm, { target: "b", conversation: "x", elapsed: 5, now: 299_999 })
    assert.strictEqual(arranged(order, abc, again, { conversation: "x", now: 300_000 }), "b a c")
    const hour = Order.withAffinity(Order.inOrder, { timeToLive: "1 hour" })
    assert.strictEqual(arranged(hour, abc, warm, { conversation: "x", now: 300_000 }), "b a c")
  })

  it("ends at a failure, and the conversation stays with the next target that answers (CLIProxyAPI#3613)", () => {
    const failed = Facts.failed(warm, { target: "b", conversation: "x", now: 1 })
    assert.strictEqual(arranged(order, abc, failed, { conversation: "x" }), "a b c")
    const moved = Facts.answered(failed, { target: "c", conversation: "x", elapsed: 5, now: 2 })
    assert.strictEqual(arranged(order, abc, moved, { conversation: "x", now: 2 }), "c a b")
  })

  it("survives failures of other targets, and failures of its target in other conversations", () => {
    for (const failure of [
      { target: "a", conversation: "x", now: 1 },
      { target: "b", conversation: "y", now: 1 }
    ]) {
      assert.strictEqual(arranged(order, abc, Facts.failed(warm, failure), { conversation: "x" }), "b a c")
    }
  })

  it("comes before every other order, which sorts the remaining targets", () => {
    const cheap = [
      target("a", "a", { price: { input: 3, output: 3 } }),
      target("b"),
      target("c", "c", { price: { input: 1, output: 1 } })
    ]
    const both = Order.withAffinity(Order.cheapest())
    assert.strictEqual(arranged(both, cheap, warm, { conversation: "x" }), "b c a")
  })

  it("rejects a time that is negative, infinite or not a duration", () => {
    assert.throws(() => Order.withAffinity(Order.inOrder, { timeToLive: "-1 second" }), InvalidOption)
  })
})

it("facts and conversations are requested only by orders that read them", () => {
  const orders = [Order.inOrder, Order.sticky, Order.roundRobin, Order.cheapest(), Order.fastest()]
  assert.deepStrictEqual(orders.map(Order.wantsFacts), [false, true, false, false, true])
  assert.isFalse(orders.some(Order.wantsConversation))
  assert.isTrue(orders.every((order) => Order.wantsConversation(Order.withAffinity(order))))
  assert.isTrue(orders.every((order) => Order.wantsFacts(Order.withAffinity(order))))
})

describe("facts for orders", () => {
  it("keep a bounded number of conversations, the newest ones", () => {
    let facts = Facts.empty
    const count = 2 * Facts.maxConversations
    for (let i = 0; i < count; i++) {
      facts = Facts.answered(facts, { target: "a", conversation: `c${i}`, elapsed: 1, now: i })
    }
    const known = (from: number, to: number) => {
      let known = 0
      for (let i = from; i < to; i++) if (Facts.warmTarget(facts, `c${i}`) !== undefined) known++
      return known
    }
    assert.strictEqual(known(count - Facts.maxConversations / 2, count), Facts.maxConversations / 2)
    assert.isAtMost(known(0, count), Facts.maxConversations)
  })

  it("keep a bounded number of targets, the newest ones", () => {
    let facts = Facts.empty
    for (let i = 0; i < Facts.maxTargets + 10; i++) {
      facts = Facts.answered(facts, { target: `t${i}`, elapsed: 1, now: i })
      facts = Facts.answered(facts, { target: "often", elapsed: 1, now: i })
    }
    assert.strictEqual(facts.speeds.size, Facts.maxTargets)
    assert.isTrue(facts.speeds.has("often"))
    assert.isFalse(facts.speeds.has("t0"))
    assert.isTrue(facts.speeds.has(`t${Facts.maxTargets + 9}`))
  })
})

it("every order has every target once, is stable, and returns the chain itself when nothing moves", () => {
  const info = fc.option(
    fc.record({ input: fc.integer({ min: 0, max: 5 }), output: fc.integer({ min: 0, max: 5 }) }),
    { nil: undefined }
  )
  const chain = fc
    .array(fc.record({ model: fc.constantFrom("m", "n"), price: info }), { minLength: 1, maxLength: 6 })
    .map((specs) => specs.map(({ model, price }, i) => target(String(i), model, { price })))
  const id = fc.integer({ min: 0, max: 6 }).map(String)
  const conversation = fc.constantFrom("x", "y", undefined)
  const event = fc.record({
    ok: fc.boolean(),
    target: id,
    conversation,
    elapsed: fc.integer({ min: 0, max: 5_000 }),
    firstToken: fc.option(fc.integer({ min: 0, max: 500 }), { nil: undefined }),
    now: fc.integer({ min: 0, max: 1_000_000 })
  })
  const base = fc.constantFrom(
    Order.inOrder,
    Order.sticky,
    Order.roundRobin,
    Order.cheapest(),
    Order.fastest({ exploration: 0.5 })
  )
  const order = fc
    .tuple(base, fc.boolean())
    .map(([base, affine]) => (affine ? Order.withAffinity(base) : base))
  const calls = fc.record({
    number: fc.nat(),
    draw: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    now: fc.integer({ min: 0, max: 1_000_000 }),
    streams: fc.boolean(),
    conversation
  })
  fc.assert(
    fc.property(order, chain, fc.array(event), calls, (order, targets, events, call) => {
      const facts = events.reduce(
        (facts, event) => (event.ok ? Facts.answered(facts, event) : Facts.failed(facts, event)),
        Facts.empty
      )
      const result = Order.arrange(order, targets, facts, call)
      assert.sameMembers([...result], targets)
      assert.lengthOf(result, targets.length)
      if (ids(result) === ids(targets)) assert.strictEqual(result, targets)
    })
  )
})
