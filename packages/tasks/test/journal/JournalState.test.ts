/** The journal against a model of the world: processes that die at any point of an effect. */
import { assert, describe, it } from "@effect/vitest"
import { Context } from "effect"
import { Tool } from "effect/ai"
import * as fc from "fast-check"
import { Journal } from "@outlast/tasks"
import * as JournalState from "#tasks/journal/JournalState"
import type { EffectRecord } from "@outlast/tasks"

const record: EffectRecord = {
  key: "k",
  task: "t",
  generation: 1,
  tool: "pay",
  turn: 1,
  callId: "c",
  params: {},
  attempt: 1,
  holder: "w",
  boot: "b",
  at: 0
}

/** Where a process dies: before the intent, before the effect, behind it, or not at all. */
const death = fc.constantFrom("intent", "effect", "reply", "lives")
type Answers = "exact" | "unknown" | "none"

/** Runs an effect until it has a reply or stops for a person. */
const run = (kind: "idempotent" | "once", deaths: ReadonlyArray<string>, answers: Answers) => {
  let happened = 0
  let hasIntent = false
  for (const at of [...deaths, "lives"]) {
    if (at === "intent") continue
    const known: JournalState.Known = hasIntent ? { _tag: "Begun", record } : { _tag: "New" }
    hasIntent = true
    let decision = JournalState.decide(kind, known, answers !== "none")
    if (decision._tag === "Ask") {
      if (answers === "exact" && happened > 0) return { happened, end: "replied" }
      decision = JournalState.reconciled(answers === "exact" ? "DidNot" : "Unknown", decision.record)
    }
    if (decision._tag === "Stop") return { happened, end: "stopped" }
    assert.strictEqual(decision._tag, "Run")
    if (at === "effect") continue
    happened++
    if (at === "reply") continue
    return { happened, end: "replied" }
  }
  return { happened, end: "never" }
}

const deaths = fc.array(death, { maxLength: 8 })

describe("JournalState", () => {
  it("begins an effect `once` at most once without reconcile, whatever dies", () => {
    fc.assert(
      fc.property(deaths, fc.constantFrom<Answers>("unknown", "none"), (deaths, answers) => {
        const { happened, end } = run("once", deaths, answers)
        assert.isAtMost(happened, 1)
        assert.include(["replied", "stopped"], end)
      })
    )
  })

  it("lets an effect `once` happen exactly once with an exact reconcile", () => {
    fc.assert(
      fc.property(deaths, (deaths) => {
        assert.deepStrictEqual(run("once", deaths, "exact"), { happened: 1, end: "replied" })
      })
    )
  })

  it("repeats an idempotent effect until it has a reply, and never stops for a person", () => {
    fc.assert(
      fc.property(deaths, (deaths) => {
        const { happened, end } = run("idempotent", deaths, "none")
        assert.strictEqual(end, "replied")
        assert.isAtLeast(happened, 1)
      })
    )
  })
})

describe("JournalState.knownOf", () => {
  const here = { attempt: 1, boot: "b", hasForgotten: false }

  it("runs what only this process has intended, and holds all else for begun", () => {
    assert.strictEqual(JournalState.knownOf(undefined, here)._tag, "New")
    // The step was interrupted between its intent and its handler.
    assert.strictEqual(JournalState.knownOf(record, here)._tag, "New")
    assert.strictEqual(JournalState.knownOf(record, { ...here, hasForgotten: true })._tag, "Begun")
    assert.strictEqual(JournalState.knownOf(record, { ...here, boot: "other" })._tag, "Begun")
  })

  it("takes a decision for the attempts before it, and not for its own", () => {
    const second = { ...here, attempt: 2, boot: "other" }
    assert.strictEqual(JournalState.knownOf(record, second)._tag, "DidNot")
    assert.strictEqual(JournalState.knownOf({ ...record, attempt: 2 }, second)._tag, "Begun")
  })
})

describe("JournalState.safer", () => {
  it("keeps the declaration of a tool whose effect has not begun, present or not", () => {
    for (const kind of ["none", "idempotent", "once"] as const) {
      assert.strictEqual(JournalState.safer(kind, false, undefined), kind)
      assert.strictEqual(JournalState.safer(kind, true, undefined), kind)
    }
  })

  it("takes the safer one of two declarations, and `once` for a tool that is gone", () => {
    const began = (kind: "idempotent" | "once" | undefined) => ({ kind })
    assert.strictEqual(JournalState.safer("none", false, began("idempotent")), "idempotent")
    assert.strictEqual(JournalState.safer("none", false, began("once")), "once")
    assert.strictEqual(JournalState.safer("idempotent", false, began("once")), "once")
    assert.strictEqual(JournalState.safer("once", false, began("idempotent")), "once")
    // A record of an earlier version.
    assert.strictEqual(JournalState.safer("none", false, began(undefined)), "once")
    assert.strictEqual(JournalState.safer("none", true, began("idempotent")), "once")
  })
})

describe("Journal.kindOf", () => {
  const tool = Tool.make("pay", {})

  it("is `once` for a tool that declares nothing, and follows the hints and the declaration", () => {
    assert.strictEqual(Journal.kindOf(tool), "once")
    assert.strictEqual(Journal.kindOf(tool.annotate(Tool.Readonly, true)), "none")
    assert.strictEqual(Journal.kindOf(tool.annotate(Tool.Idempotent, true)), "idempotent")
    assert.strictEqual(Journal.kindOf(Journal.effects("once")(tool.annotate(Tool.Readonly, true))), "once")
    assert.strictEqual(Journal.kindOf(undefined), "none")
  })

  it("leaves the other annotations of a tool", () => {
    const annotated = Journal.effects("none")(tool.annotate(Tool.Title, "Pay"))
    assert.strictEqual(Context.getOrUndefined(annotated.annotations, Tool.Title), "Pay")
  })
})
