import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import * as Deaths from "#tasks/restart/Deaths"

const alone = (boots: ReadonlyArray<string>, step?: string): Deaths.Deaths => ({
  boots,
  alone: true,
  ...(step === undefined ? {} : { step })
})

describe("Deaths", () => {
  it("makes a suspect of a task with the second death, and of none that was handed back", () => {
    assert.deepStrictEqual(Deaths.judge(Deaths.none, undefined), { boots: [], verdict: { _tag: "Free" } })
    assert.deepStrictEqual(Deaths.judge(Deaths.none, "a"), { boots: ["a"], verdict: { _tag: "Free" } })
    const second = Deaths.judge({ boots: ["a"], alone: false }, "b")
    assert.deepStrictEqual(second, { boots: ["a", "b"], verdict: { _tag: "Suspect" } })
    const handedBack = Deaths.judge(alone(["a", "b"], "s"), undefined)
    assert.deepStrictEqual(handedBack, { boots: ["a", "b"], verdict: { _tag: "Suspect" } })
  })

  it("condemns the step that was alone, and no task that had others beside it", () => {
    assert.deepStrictEqual(Deaths.judge(alone(["a", "b"], "s"), "c").verdict, {
      _tag: "Condemned",
      step: "s"
    })
    assert.deepStrictEqual(Deaths.judge(alone(["a", "b"]), "c").verdict, {
      _tag: "Condemned",
      step: undefined
    })
    const beside = Deaths.judge({ boots: ["a", "b"], alone: false, step: "s" }, "c")
    assert.deepStrictEqual(beside, { boots: ["a", "b", "c"], verdict: { _tag: "Suspect" } })
  })

  it("condemns only tasks that die alone, whatever lives they had", () => {
    const life = fc.constantFrom("dies", "stops", "goes on")
    fc.assert(
      fc.property(
        fc.array(life, { maxLength: 20 }),
        fc.array(fc.boolean(), { maxLength: 20 }),
        (lives, alones) => {
          let deaths = Deaths.none
          let died: string | undefined
          let inARow = 0
          for (const [n, how] of lives.entries()) {
            const { boots, verdict } = Deaths.judge(deaths, died)
            assert.lengthOf(boots, inARow)
            const isSuspect = verdict._tag !== "Free"
            assert.strictEqual(isSuspect, inARow >= 2)
            assert.strictEqual(verdict._tag === "Condemned", died !== undefined && deaths.alone)
            if (verdict._tag === "Condemned") return
            deaths = how === "goes on" ? Deaths.none : { boots, alone: isSuspect && alones[n] === true }
            died = how === "dies" ? String(n) : undefined
            inARow = how === "goes on" ? 0 : inARow + (how === "dies" ? 1 : 0)
          }
        }
      )
    )
  })

  it("lets a suspect be alone for longer with each death", () => {
    assert.deepStrictEqual(
      [2, 3, 4, 9].map((deaths) => Duration.toSeconds(Deaths.alone(deaths))),
      [10, 20, 40, 1280]
    )
  })
})
