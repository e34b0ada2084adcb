/** What a call has of its answer behind attempts that failed or were cut. */
import { assert, describe, it } from "@effect/vitest"
import * as Answer from "#agent/failover/decide/AnswerSoFar"
import type { Commit } from "#agent/failover/decide/CallModel"

const { none } = Answer
const plain = { structured: false, restarts: false }
const object = { structured: true, restarts: false }
const again = { structured: false, restarts: true }
/** The answer after a failed attempt that has shown `commit`. */
const failed = (before: Answer.Answer, commit: Commit, how = plain, keptText?: boolean) =>
  Answer.failed(before, { commit, keptText }, how)
const cut = (before: Answer.Answer, commit: Commit = "nothing", hasText = true) =>
  Answer.cut(before, { commit, hasText })

const partial = () => failed(none, "text")
const anew = () => failed(none, "text", again)
const raise: Answer.Raise = {
  from: 4_000,
  cut: {
    _tag: "Cut",
    commit: "nothing",
    gain: 1,
    input: 1,
    limit: 4_000,
    inToolCall: false,
    hasText: true,
    elapsed: 0,
    cost: 0,
    tokens: 0
  }
}
const raised = (): Answer.CutAnswer => ({ ...cut(none), raise, anew: true })
const noText = { hasText: false, raise: undefined } as const

describe("the answer after a failed attempt", () => {
  it("is none without text", () => {
    for (const commit of ["nothing", "reasoning"] as const) {
      assert.deepStrictEqual(failed(none, commit, again), {
        _tag: "None",
        seen: false,
        anew: false,
        continued: false,
        ...noText
      })
    }
    assert.isFalse(Answer.isSeen(none) || Answer.isAnew(none) || Answer.isContinuing(none))
  })

  it("is partial behind text that was seen, and continued or begun again", () => {
    assert.deepStrictEqual(partial(), {
      _tag: "Partial",
      seen: true,
      anew: false,
      continued: true,
      ...noText
    })
    assert.deepStrictEqual(anew(), { ...partial(), anew: true })
    assert.deepStrictEqual([partial(), anew()].map(Answer.isSeen), [true, true])
    assert.deepStrictEqual([partial(), anew()].map(Answer.isAnew), [false, true])
    assert.deepStrictEqual([partial(), anew()].map(Answer.isContinuing), [true, false])
    assert.deepStrictEqual(failed(partial(), "nothing"), partial())
    assert.deepStrictEqual(failed(partial(), "nothing", again), anew())
    assert.deepStrictEqual(failed(anew(), "nothing"), anew())
  })

  it("is cut where the window cut it, and continued if it has text and is no object", () => {
    const kept: Answer.CutAnswer = {
      _tag: "Cut",
      seen: false,
      anew: false,
      continued: true,
      hasText: true,
      raise: undefined
    }
    assert.deepStrictEqual(failed(none, "nothing", plain, true), kept)
    assert.deepStrictEqual(failed(none, "nothing", object, true), { ...kept, continued: false })
    const bare: Answer.CutAnswer = { ...kept, continued: false, hasText: false }
    assert.deepStrictEqual(failed(none, "nothing", plain, false), bare)
    assert.deepStrictEqual(failed(none, "text", plain, false), { ...bare, seen: true, continued: true })
  })

  it("stays cut, with its text and its raised limit until the window has cut it", () => {
    assert.deepStrictEqual(failed(cut(none), "nothing"), cut(none))
    assert.deepStrictEqual(failed(raised(), "nothing"), raised())
    assert.isUndefined(failed(raised(), "nothing", plain, false).raise)
    assert.isTrue(failed(raised(), "nothing", plain, false).hasText)
  })

  it("has nothing of text that the attempt began again, but for a raised limit that has shown no text", () => {
    const kept = (before: Answer.Answer, commit: Commit = "nothing") => Answer.kept(before, { commit })
    assert.deepStrictEqual(kept(partial()), partial())
    assert.strictEqual(kept(anew()), none)
    assert.deepStrictEqual(kept(raised()), raised())
    assert.strictEqual(kept(raised(), "text"), none)
    assert.strictEqual(kept({ ...raised(), raise: undefined }), none)
    const continued = { ...raised(), anew: false }
    assert.strictEqual(kept(continued, "text"), continued)
  })
})

describe("an answer that the output limit cut", () => {
  it("has the text so far, and is continued where that was", () => {
    const first: Answer.CutAnswer = {
      _tag: "Cut",
      seen: false,
      anew: false,
      continued: false,
      hasText: true,
      raise: undefined
    }
    assert.deepStrictEqual(cut(none), first)
    assert.deepStrictEqual(cut(none, "nothing", false), { ...first, hasText: false })
    assert.deepStrictEqual(cut(none, "text"), { ...first, seen: true })
    assert.deepStrictEqual(cut(partial()), { ...first, seen: true, continued: true })
    assert.deepStrictEqual(cut(cut(none), "nothing", false), first)
  })

  it("has shown nothing of an answer that was begun again", () => {
    assert.deepStrictEqual(cut(anew()), cut(none))
    assert.deepStrictEqual(cut({ ...raised(), seen: true, continued: true }), cut(none))
  })
})
