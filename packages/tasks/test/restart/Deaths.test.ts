import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import * as fc from "fast-check"
import * as Deaths from "#tasks/restart/Deaths"

const alone = (boots: ReadonlyArray<string>, lonely: number, step?: string): Deaths.Deaths => ({
  boots,
  lonely,
  alone: true,
  ...(step === undefined ? {} : { step })
})

describe("Deaths", () => {
  it("makes a suspect of a task with the second death, and of none that was handed back", () => {
    const free = { lonely: 0, verdict: { _tag: "Free" } } as const
    const suspect = { lonely: 0, verdict: { _tag: "Suspect" } } as const
    assert.deepStrictEqual(Deaths.judge(Deaths.none, undefined), { boots: [], ...free })
    assert.deepStrictEqual(Deaths.judge(Deaths.none, "a"), { boots: ["a"], ...free })
    const second = Deaths.judge({ boots: ["a"], lonely: 0, alone: false }, "b")
    assert.deepStrictEqual(second, { boots: ["a", "b"], ...suspect })
    const handedBack = Deaths.judge(alone(["a", "b"], 0, "s"), undefined)
    assert.deepStrictEqual(handedBack, { boots: ["a", "b"], ...suspect })
  })

  it("condemns the step that died three times alone, and no task that had others beside it", () => {
    const once = Deaths.judge(alone(["a", "b"], 0, "s"), "c")
    assert.deepStrictEqual(once, { boots: ["a", "b", "c"], lonely: 1, verdict: { _tag: "Suspect" } })
    const boots = ["a", "b", "c", "d"]
    assert.deepStrictEqual(Deaths.judge(alone(boots, 2, "s"), "e").verdict, { _tag: "Condemned", step: "s" })
    assert.deepStrictEqual(Deaths.judge(alone(boots, 2), "e").verdict, { _tag: "Condemned", step: undefined })
    const beside = Deaths.judge({ boots, lonely: 2, alone: false, step: "s" }, "e")
    assert.deepStrictEqual(beside, { boots: [...boots, "e"], lonely: 2, verdict: { _tag: "Suspect" } })
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
          let lonely = 0
          for (const [n, how] of lives.entries()) {
            if (died !== undefined && deaths.alone) lonely++
            const { verdict, ...past } = Deaths.judge(deaths, died)
            assert.lengthOf(past.boots, inARow)
            assert.strictEqual(past.lonely, lonely)
            const isSuspect = verdict._tag !== "Free"
            assert.strictEqual(isSuspect, inARow >= 2)
            assert.strictEqual(
              verdict._tag === "Condemned",
              died !== undefined && deaths.alone && lonely >= 3
            )
            if (verdict._tag === "Condemned") return
            deaths = how === "goes on" ? Deaths.none : { ...past, alone: isSuspect && alones[n] === true }
            if (how === "goes on") lonely = 0
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
