import { assert, describe, it } from "@effect/vitest"
import * as Progress from "@outlast/agent/guard/loops/Progress"
import * as fc from "fast-check"
import { read } from "./support.ts"

type Since = Partial<Progress.Since>
const once: Progress.Since = {
  calls: 1,
  own: 1,
  same: true,
  troubled: false,
  stirred: true,
  redone: 0,
  fresh: true
}

/** Whether each result goes on from those before it, beginning with the second. */
const going = (results: ReadonlyArray<unknown>, since: Since = {}): ReadonlyArray<boolean> => {
  const [first, ...rest] = results.map((result) => read(result))
  if (first === undefined) return []
  let progress = Progress.begin(first)
  return rest.map((numbers) => {
    const step = Progress.step(progress, numbers, { ...once, ...since })
    progress = step.progress
    return step.goesOn
  })
}

describe("a number that goes on", () => {
  it("is counted from its first step when it says how far it is to go", () => {
    for (const of of [
      (n: number) => `${n}/12 done`,
      (n: number) => `${n} of 12 done`,
      (n: number) => `${n} % done`,
      (n: number) => `${n}% done`,
      (n: number) => ({ done: n, total: 100 })
    ]) {
      assert.deepStrictEqual(going([of(3), of(5), of(6)]), [true, true], String(of(3)))
    }
  })

  it("is counted from its second step when it does not", () => {
    assert.deepStrictEqual(going(["14 open", "11 open", "9 open"]), [false, true])
    assert.deepStrictEqual(going(["14 open", "17 open", "29 open"]), [false, true])
  })

  it("is any that goes down, by whatever steps", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 1, max: 9_999 }), { minLength: 3, maxLength: 20 }),
        (numbers) => {
          const down = numbers.toSorted((a, b) => b - a).map((n) => `${n} left`)
          assert.deepStrictEqual(
            going(down),
            down.slice(1).map((_, i) => i > 0)
          )
        }
      )
    )
  })

  it("may stand still now and then", () => {
    assert.deepStrictEqual(going(["9 left", "7 left", "7 left", "5 left"]), [false, false, true])
  })

  it("may turn three times, and is none for good that goes to and fro", () => {
    const left = (...numbers: ReadonlyArray<number>) => going(numbers.map((n) => `${n} left`))
    assert.deepStrictEqual(left(5, 7, 5, 7, 9), [false, false, false, true])
    assert.deepStrictEqual(left(5, 7, 5, 7, 5, 7, 9, 11), [false, false, false, false, false, false, false])
    const ready = (...numbers: ReadonlyArray<number>) => going(numbers.map((n) => `${n}/12 ready`))
    assert.deepStrictEqual(ready(12, 9, 10, 9, 11, 10, 11), [true, true, true, true, false, false])
  })

  it("goes on after a step back where it went one way before", () => {
    const lag = (...numbers: ReadonlyArray<number>) =>
      going(numbers.map((n) => `${n} MB behind`)).lastIndexOf(true)
    // Down, and up now and then, more often than it may turn.
    const down = [900, 800, 700, 600, 500, 510, 400, 300, 200, 210, 150, 120, 90, 95, 60, 40, 30, 31, 20, 10]
    assert.strictEqual(lag(...down), down.length - 2)
    // As often up as down.
    const random = [40, 70, 20, 90, 10, 60, 30, 80, 50, 95, 15, 65, 35, 85, 25, 75, 45, 55]
    assert.isBelow(lag(...random), 8)
  })

  it("is one of as many, whatever else is said", () => {
    const page = (n: number, of: number, words: string) => `Page ${n} of ${of}: ${words}`
    const other = { same: false }
    assert.deepStrictEqual(going([page(1, 17, "Oak"), page(2, 17, "Elm"), page(3, 17, "Ash")], other), [
      true,
      true
    ])
    assert.deepStrictEqual(going([page(1, 17, "Oak"), page(2, 19, "Elm"), page(3, 18, "Ash")], other), [
      false,
      false
    ])
    assert.deepStrictEqual(going(["2 out of 6 pods", "3 out of 6 pods"]), [true])
  })

  it("is what is left of one or two, whatever else is said", () => {
    const left = [47, 23, 11, 5, 2].map(
      (n, i) => `${n} left to test, then ${"abcde"[i]} of the ${"vwxyz"[i]}`
    )
    const other = { same: false }
    assert.deepStrictEqual(going(left, other), [false, true, true, true])
    assert.deepStrictEqual(going(left.toReversed(), other), [false, false, false, false])
    const several = left.map((text) => `${text}, 3 4 7`)
    assert.deepStrictEqual(going(several, other), [false, false, false, false])
    // A check after a change may find more before it finds less.
    const check = { troubled: true, same: false, calls: 2 }
    assert.isTrue(going(left.toReversed(), check).includes(true))
    assert.isFalse(going(left.toReversed(), { ...check, stirred: false }).includes(true))
  })

  it("is none of an error that counts up to a number that stays, where nothing else was tried", () => {
    const cells = ["In[8] Error at 1911", "In[9] Error at 1911", "In[10] Error at 1911"]
    const error = { troubled: true, stirred: false }
    assert.deepStrictEqual(going(cells, error), [false, false])
    assert.deepStrictEqual(going(["3/12 Error", "4/12 Error", "5/12 Error"], error), [true, true])
  })

  it("counts up to a whole number only", () => {
    assert.deepStrictEqual(going(["sent 3, in all 12", "sent 5, in all 12"]), [true])
    assert.deepStrictEqual(going(["wall at 0.31, x 2.41", "wall at 0.28, x 2.41"]), [false])
  })

  it("of an error is none that was written or asked for", () => {
    const waits = [6_000, 8_000, 10_000, 15_000].map((n) => `Error: no answer within ${n}`)
    const check = { troubled: true, calls: 2 }
    assert.isTrue(going(waits, check).includes(true))
    assert.isFalse(going(waits, { ...check, fresh: false }).includes(true))
  })

  it("is none that counts the calls", () => {
    const ticks = (by: number) => [4, 5, 6, 7].map((n) => `frame ${n * by} shown`)
    assert.deepStrictEqual(going(ticks(1)), [false, false, false])
    assert.deepStrictEqual(going(ticks(3), { calls: 3 }), [false, false, false])
    assert.isTrue(going(ticks(3), { calls: 1 }).includes(true))
    // But of twelve it is one more.
    assert.deepStrictEqual(going(["4/12", "5/12", "6/12"]), [true, true])
  })

  it("counts no calls where it has stayed before", () => {
    const pods = (...done: ReadonlyArray<number>) => going(done.map((n) => `pods up to date ${n}`))
    assert.deepStrictEqual(pods(5, 6, 7, 8), [false, false, false])
    assert.deepStrictEqual(pods(5, 5, 6, 7, 7, 8), [false, false, true, false, true])
  })

  it("is none where something else is said", () => {
    assert.deepStrictEqual(going(["9 open", "11 closed", "14 new"], { same: false }), [false, false])
  })

  it("is none that nothing can be said of: another number of numbers, or none", () => {
    assert.deepStrictEqual(going(["nothing yet", "3 files", "nothing yet"]), [false, false])
    const huge = "9".repeat(400)
    assert.deepStrictEqual(going([{ sha: huge }, { sha: huge }, { sha: huge }]), [false, false])
  })
})

describe("a list of errors", () => {
  const errors = (count: number, line = 5) =>
    Array.from(
      { length: count },
      (_, i) => `a${"bcdefghijklmnop"[i]}.ts:${line}:1 - error: not assignable`
    ).join("\n")
  const since = { troubled: true, same: false }

  it("goes on while it gets shorter, of errors or of anything else, not when it gets longer", () => {
    assert.deepStrictEqual(going([errors(9), errors(7), errors(4)], since), [true, true])
    assert.deepStrictEqual(going([errors(4), errors(7), errors(9)], since), [false, false])
    assert.deepStrictEqual(going([errors(9), errors(7)], { same: false }), [true])
  })

  it("of what is well goes on when it gets longer", () => {
    const steps = ["checkout", "install", "lint", "unit", "build"].map((name) => `${name} done`)
    const shown = (count: number) => steps.slice(0, count).join("\n")
    assert.deepStrictEqual(going([shown(2), shown(3), shown(3), shown(5)], { same: false }), [
      true,
      false,
      true
    ])
    assert.deepStrictEqual(going([shown(2), shown(3)], since), [false])
  })

  it("goes on when the same error is further down; three lines are what an edit above moves", () => {
    const same = { troubled: true, same: true }
    assert.deepStrictEqual(going([errors(1, 10), errors(1, 30)], same), [true])
    assert.deepStrictEqual(going([errors(1, 10), errors(1, 13)], same), [false])
    const far = "9".repeat(400)
    assert.deepStrictEqual(going([`a.ts:${far} error`, `a.ts:${far} error`, `a.ts:${far} error`], same), [
      false,
      false
    ])
  })
})

describe("a step", () => {
  const numbers = fc.record({
    lines: fc.nat(50),
    place: fc.nat(500),
    places: fc.nat(3),
    numbersInAll: fc.nat(9),
    numbers: fc.array(fc.nat(20), { maxLength: 8 }),
    counted: fc.nat(255),
    pending: fc.nat(5)
  })

  it("to the same numbers is none", () => {
    fc.assert(
      fc.property(fc.array(numbers, { minLength: 1 }), fc.boolean(), fc.boolean(), (all, same, troubled) => {
        let progress = Progress.begin({
          lines: 0,
          place: 0,
          places: 0,
          numbers: [],
          counted: 0,
          pending: 0,
          numbersInAll: 0
        })
        for (const next of all)
          progress = Progress.step(progress, next, {
            calls: 1,
            own: 1,
            same,
            troubled,
            stirred: true,
            redone: 0,
            fresh: true
          }).progress
        const last = all.at(-1)
        if (last === undefined) return
        const step = Progress.step(progress, last, {
          calls: 1,
          own: 1,
          same,
          troubled,
          stirred: true,
          redone: 0,
          fresh: true
        })
        assert.isFalse(step.goesOn)
        assert.isFalse(step.moved)
        assert.deepStrictEqual(step.progress.ways, progress.ways)
      })
    )
  })

  it("changes nothing of where it came from", () => {
    fc.assert(
      fc.property(numbers, numbers, (one, other) => {
        const from = Progress.begin(one)
        const before = structuredClone(from)
        const step = Progress.step(from, other, once)
        assert.deepStrictEqual(from, before)
        assert.deepStrictEqual(Progress.step(from, other, once), step)
      })
    )
  })
})
