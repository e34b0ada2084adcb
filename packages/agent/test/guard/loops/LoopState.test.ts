import { assert, describe, it } from "@effect/vitest"
import { LoopDetector } from "@outlast/agent"
import * as Cycle from "@outlast/agent/guard/loops/Cycle"
import * as Memory from "@outlast/agent/guard/loops/Memory"
import * as WordSet from "@outlast/agent/guard/loops/WordSet"
import * as fc from "fast-check"
import { random, words } from "./support.ts"

const detector = LoopDetector.make({ rows: 4 })
type Observation = LoopDetector.Observation

const call = fc.record({
  turn: fc.nat(30),
  tool: fc.constantFrom(
    "bash",
    "edit_file",
    "read_file",
    "grep",
    "click",
    "next_page",
    "sleep",
    "think",
    "mcp__a__b"
  ),
  arguments: fc.oneof(
    fc.record({ n: fc.nat(4) }),
    fc.record({
      path: fc.constantFrom("a", "b"),
      old: fc.constantFrom("x", "y"),
      new: fc.constantFrom("x", "y")
    }),
    fc.record({ query: fc.constantFrom("alpha beta", "beta gamma", "delta") }),
    fc.jsonValue()
  ),
  result: fc.oneof(
    fc.constantFrom(
      "ok",
      "failed: no such file",
      "no matches",
      "pending",
      "3/12",
      "4/12",
      "a.ts:3:1 error",
      []
    ),
    fc.string(),
    fc.jsonValue()
  ),
  failed: fc.boolean()
})

const through = (state: LoopDetector.State, calls: ReadonlyArray<Observation>): LoopDetector.State =>
  calls.reduce((before, one) => LoopDetector.observe(detector, before, one), state)

/** All but the tables, which others add to; and of those, what is in them. */
const valueOf = (
  { known, seen, tools, troubles, files, cycle, ...rest }: LoopDetector.State,
  of: ReadonlyArray<number>
) => ({
  ...rest,
  seen: Memory.entries(seen),
  cycle: [cycle.runs, Cycle.lastOf(cycle, Cycle.longest)],
  // A form is as old as the words of its table are many.
  tools: [...Memory.entries(tools)].map(([id, { calls, row, forms }]) => [
    id,
    calls,
    row,
    forms.map(({ leaves, question, questionHash, trouble }) => ({ leaves, question, questionHash, trouble }))
  ]),
  troubles: Memory.entries(troubles),
  files: Memory.entries(files),
  known: of.filter((word) => WordSet.has(known, word))
})
const assertSame = (one: LoopDetector.State, other: LoopDetector.State): void => {
  const met = [one, other].flatMap(({ known }) => [...known.table.words])
  assert.deepStrictEqual(valueOf(one, met), valueOf(other, met))
}

describe("a state", () => {
  it("leads to the same with the same call, whatever was done with it meanwhile", () => {
    fc.assert(
      fc.property(
        fc.array(call, { maxLength: 25 }),
        call,
        fc.array(fc.array(call, { maxLength: 12 }), { maxLength: 4 }),
        (calls, one, others) => {
          const state = through(LoopDetector.initial(detector), calls)
          const first = LoopDetector.observe(detector, state, one)
          const verdict = LoopDetector.before(detector, state, one)
          const refused = LoopDetector.refused(detector, state, one)
          for (const other of others) through(through(state, other), [one])
          assertSame(LoopDetector.observe(detector, state, one), first)
          assert.deepStrictEqual(LoopDetector.before(detector, state, one), verdict)
          assertSame(LoopDetector.refused(detector, state, one), refused)
        }
      )
    )
  })

  it("is the same whether it was asked before a call or not, and what else was asked", () => {
    fc.assert(
      fc.property(fc.array(call, { maxLength: 25 }), fc.array(call, { maxLength: 5 }), (calls, others) => {
        let state = LoopDetector.initial(detector)
        for (const one of calls) {
          LoopDetector.before(detector, state, one)
          for (const other of others) LoopDetector.before(detector, state, other)
          state = LoopDetector.observe(detector, state, one)
        }
        assertSame(state, through(LoopDetector.initial(detector), calls))
      })
    )
  })

  it("is the same after the twin of a call of its turn", () => {
    fc.assert(
      fc.property(fc.array(call, { maxLength: 9 }), call, (calls, one) => {
        const state = LoopDetector.observe(detector, through(LoopDetector.initial(detector), calls), one)
        assert.strictEqual(LoopDetector.observe(detector, state, one), state)
      })
    )
  })

  it("does not change when another goes on from it, however far", () => {
    const next = random(9)
    const observation = (i: number): Observation => ({
      turn: i,
      tool: "read_file",
      arguments: { path: `f${i}` },
      result: words(next(1_000_000), 300),
      failed: false
    })
    const kept = through(
      LoopDetector.initial(detector),
      Array.from({ length: 20 }, (_, i) => observation(i))
    )
    const last = observation(99)
    const first = LoopDetector.observe(detector, kept, last)
    through(
      kept,
      Array.from({ length: 200 }, (_, i) => observation(100 + i))
    )
    assertSame(LoopDetector.observe(detector, kept, last), first)
  })

  it("may be asked by an identity, and by a getter", () => {
    const plain = LoopDetector.make({ rows: 4, tools: { grep: { identity: (args) => args } } })
    const asking = LoopDetector.make({
      rows: 4,
      tools: {
        grep: {
          identity: (args) => {
            const other = { turn: 7, tool: "find", arguments: { name: "another thing" } }
            LoopDetector.before(detector, LoopDetector.initial(detector), other)
            LoopDetector.observe(detector, LoopDetector.initial(detector), {
              ...other,
              result: args,
              failed: true
            })
            return args
          }
        }
      }
    })
    const steps = Array.from({ length: 8 }, (_, turn) => ({
      turn,
      tool: "grep",
      arguments: { pattern: `purple ${turn % 3}` },
      result: `no purple ${turn % 3} here`,
      failed: false
    }))
    let [one, other] = [LoopDetector.initial(asking), LoopDetector.initial(plain)]
    for (const step of steps) {
      assert.deepStrictEqual(LoopDetector.before(asking, one, step), LoopDetector.before(plain, other, step))
      one = LoopDetector.observe(asking, one, step)
      other = LoopDetector.observe(plain, other, step)
    }
    assertSame(
      LoopDetector.observe(asking, one, steps[0] ?? assert.fail()),
      LoopDetector.observe(plain, other, steps[0] ?? assert.fail())
    )
  })

  it("may be asked by what it reads: arguments and results that run code of their own", () => {
    const asks = () => {
      const other = { turn: 3, tool: "bash", arguments: { command: "grep -r another ." } }
      const result = { error: "another thing failed", id: "9ecaa1" }
      LoopDetector.before(detector, LoopDetector.initial(detector), other)
      LoopDetector.observe(detector, LoopDetector.initial(detector), { ...other, result, failed: true })
    }
    const saying = (command: string) => ({
      get command() {
        asks()
        return command
      }
    })
    const showing = (text: string) => ({
      toJSON: () => {
        asks()
        return text
      }
    })
    let [one, other] = [LoopDetector.initial(detector), LoopDetector.initial(detector)]
    for (let turn = 0; turn < 12; turn++) {
      const command = ["grep -r purple src", "npm test", `sleep ${turn} && cat log`][turn % 3] ?? ""
      const result = ["", `${turn % 4} of 4 failed`, `line ${turn}`][turn % 3] ?? ""
      const call = { turn, tool: "bash", arguments: { command } }
      const odd = { ...call, arguments: saying(command) }
      assert.deepStrictEqual(
        LoopDetector.before(detector, one, odd),
        LoopDetector.before(detector, other, call)
      )
      one = LoopDetector.observe(detector, one, { ...odd, result: showing(result), failed: turn % 3 < 2 })
      other = LoopDetector.observe(detector, other, { ...call, result, failed: turn % 3 < 2 })
      assertSame(one, other)
    }
  })

  it("knows what it observes, though the asking was of a call that could not be read", () => {
    const one = { turn: 0, tool: "grep", arguments: { pattern: "purple" } }
    const broken = {
      turn: 0,
      tool: "grep",
      arguments: {
        pattern: "elephant",
        get path(): never {
          throw new Error("broken")
        }
      }
    }
    const result = { result: "nothing purple here", failed: false }
    const state = LoopDetector.initial(detector)
    const expected = LoopDetector.observe(detector, state, { ...one, ...result })
    LoopDetector.before(detector, state, one)
    assert.throws(() => LoopDetector.before(detector, state, broken), "broken")
    assertSame(LoopDetector.observe(detector, state, { ...one, ...result }), expected)
  })
})

describe("the size of a state", () => {
  /** Numbers, texts and the like in it, but for its table of words; what is in two places once. */
  const sizeOf = (state: unknown): number => {
    const counted = new Set<unknown>()
    const rest = [state]
    let size = 0
    for (let value = rest.pop(); rest.length > 0 || value !== undefined; value = rest.pop()) {
      if (ArrayBuffer.isView(value) || counted.has(value)) continue
      size++
      if (typeof value !== "object" || value === null) continue
      counted.add(value)
      rest.push(...Object.values(value))
    }
    return size
  }

  const texts = Array.from({ length: 4_000 }, (_, i) => words(i * 12, 1 + (i % 12)))

  const anything = (next: (below: number) => number, i: number): Observation => {
    const text = () => texts[next(texts.length)] ?? ""
    const value = (): unknown =>
      [
        text(),
        next(1_000),
        [text(), text()],
        { [`f${next(50)}`]: text(), id: next(99_999) },
        true,
        null,
        `${next(90)}/90`
      ][next(7)]
    return {
      turn: Math.floor(i / (1 + next(3))),
      tool:
        next(3) === 0
          ? `tool_${next(10_000)}`
          : (["bash", "edit", "read_file", "search", "click"][next(5)] ?? "x"),
      arguments:
        next(4) === 0 ? { path: `p${next(500)}`, old: text(), new: text() } : { a: value(), b: value() },
      result: next(5) === 0 ? `error: ${text()}` : value(),
      failed: next(6) === 0
    }
  }

  it("does not grow over 100,000 calls of 10,000 tools", () => {
    const of = LoopDetector.make({ rows: 4 })
    const next = random(17)
    let state = LoopDetector.initial(of)
    let early = 0
    let late = 0
    for (let i = 0; i < 100_000; i++) {
      const one = anything(next, i)
      if (i % 8 === 0) LoopDetector.before(of, state, one)
      state = LoopDetector.observe(of, state, one)
      // A table is larger before it is left.
      if (i % 50 !== 0) continue
      if (i > 5_000 && i < 10_000) early = Math.max(early, sizeOf(state))
      if (i > 95_000) late = Math.max(late, sizeOf(state))
    }
    assert.isAbove(early, 1_000)
    assert.isAtMost(late, 1.25 * early)
    assert.isAtMost(state.known.table.words.length, 4 * WordSet.capacity)
  })

  it("has a bound whatever the arguments are", () => {
    const of = LoopDetector.make({ rows: 1 })
    let state = LoopDetector.initial(of)
    for (let i = 0; i < 1_000; i++) {
      state = LoopDetector.observe(of, state, {
        turn: i,
        tool: `tool${i % 8}`,
        arguments: Array.from({ length: 2_000 }, (_, n) => (n % 2 ? { [`k${i}`]: true } : `a${i * 7}b${n}`)),
        result: words(i * 900, 900),
        failed: false
      })
    }
    // What was written of tools until their table is left, 512 words each; and what is small beside that.
    assert.isAtMost(sizeOf(state), 5 * 16 * Memory.places * 512 * 2 + 8 * 512)
  })
})
