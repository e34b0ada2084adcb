/** Honest work that looks repetitive is never blocked, and loops are. The numbers of the detector were chosen with these. */
import { assert, describe, it } from "vitest"
import { LoopDetector } from "@outlast/agent/guard"
import { madeTraces } from "./madeTraces.ts"

const detector = LoopDetector.make()

/** Index of the first call that does not run, and of the first one that the model is told about. */
const judged = (calls: ReadonlyArray<LoopDetector.Observation>) => {
  let state = LoopDetector.initial
  let told: number | undefined
  for (const [at, call] of calls.entries()) {
    const { _tag } = LoopDetector.before(detector, state, call)
    if (_tag !== "Ok") told ??= at
    if (_tag === "Block" || _tag === "Stop") return { at, told }
    state = LoopDetector.observe(detector, state, call)
  }
  return { at: undefined, told }
}

const kinds = [...new Set(madeTraces.map(({ kind }) => kind))]
const of = (kind: string) => madeTraces.filter((trace) => trace.kind === kind)
const isHonest = (kind: string) => of(kind).every(({ stopFrom }) => stopFrom === undefined)
/** Evidence that never blocks by default. */
const soft = ["a parameter that is ignored", "fixes that change nothing"]

describe("honest runs are never blocked:", () => {
  for (const kind of kinds.filter(isHonest)) {
    it(kind, () => {
      for (const { calls } of of(kind)) assert.isUndefined(judged(calls).at)
    })
  }

  it("test-and-fix cycles are not even told", () => {
    for (const kind of kinds.filter((kind) => kind.startsWith("test and fix"))) {
      for (const { calls } of of(kind)) assert.isUndefined(judged(calls).told)
    }
  })
})

describe("loops are blocked, and not too early:", () => {
  for (const kind of kinds.filter((kind) => !isHonest(kind) && !soft.includes(kind))) {
    it(kind, () => {
      for (const { calls, stopFrom = 0 } of of(kind)) {
        const { at = 0 } = judged(calls)
        assert.isAtLeast(at, stopFrom)
        assert.isAtMost(at, stopFrom + 4)
      }
    })
  }

  for (const kind of soft) {
    it(`${kind}: the model is told`, () => {
      for (const { calls } of of(kind)) {
        const { at, told } = judged(calls)
        assert.isUndefined(at)
        assert.isDefined(told)
      }
    })
  }
})
