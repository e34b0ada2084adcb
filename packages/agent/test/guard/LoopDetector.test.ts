import { assert, describe, it } from "@effect/vitest"
import { LoopDetector } from "@outlast/agent"
import * as Cycle from "@outlast/agent/guard/loops/Cycle"
import { maxParallel } from "@outlast/agent/guard/loops/LoopState"
import * as Memory from "@outlast/agent/guard/loops/Memory"
import { InvalidOption } from "@outlast/resilience/Options"
import { Predicate } from "effect"
import * as fc from "fast-check"
import { soft } from "./loops/support.ts"

const detector = LoopDetector.make()
/** Soft evidence blocks as well, at the counts that are the defaults. */
const softly = LoopDetector.make(soft)

type Step = Omit<LoopDetector.Observation, "turn"> & { readonly turn?: number }

const ran = (tool: string, args: unknown, result: unknown, failed = false): Step => ({
  tool,
  arguments: args,
  result,
  failed
})

interface Run {
  readonly state: LoopDetector.State
  readonly verdicts: ReadonlyArray<LoopDetector.Verdict>
  /** Index of the first call that would not have run. */
  readonly at: number | undefined
}

/** Asks about each call and takes it in, until one would not run. */
const run = (steps: ReadonlyArray<Step>, of: LoopDetector.LoopDetector = detector): Run => {
  let state = LoopDetector.initial(of)
  const verdicts: Array<LoopDetector.Verdict> = []
  for (const [index, step] of steps.entries()) {
    const call = { turn: index, ...step }
    const verdict = LoopDetector.before(of, state, call)
    verdicts.push(verdict)
    if (verdict._tag === "Block" || verdict._tag === "Stop") return { state, verdicts, at: index }
    state = LoopDetector.observe(of, state, call)
  }
  return { state, verdicts, at: undefined }
}

const times = (count: number, step: (i: number) => Step): ReadonlyArray<Step> =>
  Array.from({ length: count }, (_, i) => step(i))
const tags = ({ verdicts }: Run) => verdicts.map(({ _tag }) => _tag)
const patternOf = ({ verdicts }: Run) => {
  const last = verdicts.at(-1)
  return last === undefined || last._tag === "Ok" ? undefined : last.evidence.pattern
}

const grep = ran("grep", { pattern: "a" }, "src/a.ts:1: a")
const write = ran("write_file", { path: "a.ts", content: "a" }, "ok")

describe("the ladder", () => {
  it("runs, tells the model, then does not run the call", () => {
    assert.deepStrictEqual(tags(run(times(9, () => write))), ["Ok", "Ok", "Nudge", "Block"])
  })

  it("has more patience with a tool that only reads, but catches 364 equal searches", () => {
    const found = run(times(364, () => grep))
    assert.strictEqual(found.at, 5)
    assert.strictEqual(patternOf(found), "identical")
  })

  it("stops the run when calls were refused and nothing was learned", () => {
    let { state } = run(times(9, () => write))
    const call = { turn: 23, ...write }
    for (let i = 0; i < 3; i++) {
      // Calls of one turn are refused before the model has heard of any.
      for (let n = 0; n < 5; n++) {
        const other = { ...call, turn: 20 + i }
        assert.strictEqual(LoopDetector.before(detector, state, other)._tag, "Block")
        state = LoopDetector.refused(detector, state, other)
      }
    }
    assert.strictEqual(LoopDetector.before(detector, state, call)._tag, "Stop")
    const learned = LoopDetector.observe(detector, state, {
      ...ran("read_file", { path: "b" }, "something else altogether"),
      turn: 30
    })
    assert.strictEqual(LoopDetector.before(detector, learned, call)._tag, "Ok")
  })

  it("gives a tool that failed in the same way one more chance after a refusal", () => {
    const { state, at } = run(
      times(9, (i) => ran("bash", { command: `make t${i}` }, "make: no such target", true)),
      softly
    )
    assert.strictEqual(at, 6)
    const other = { turn: 9, tool: "bash", arguments: { command: "ls" } }
    assert.strictEqual(LoopDetector.before(softly, state, other)._tag, "Block")
    const refused = LoopDetector.refused(softly, state, other)
    assert.notStrictEqual(LoopDetector.before(softly, refused, other)._tag, "Block")
  })

  it("says what it saw, and holds no argument and no result", () => {
    const secret = "sk-very-secret"
    const found = run(times(9, () => ran("login", { password: secret }, secret)))
    assert.notInclude(JSON.stringify(found.verdicts), secret)
    const last = found.verdicts.at(-1)
    if (last === undefined || last._tag === "Ok") return assert.fail("not stopped")
    assert.strictEqual(last.kind, "tool_loop")
    assert.match(last.message, /^login was called with the same arguments 3 times/)
    assert.deepStrictEqual(last.evidence, { pattern: "identical", tool: "login", count: 3 })
  })
})

describe("modes", () => {
  const failing = times(30, (i) =>
    ran("edit", { path: "a", old: `try ${i}`, new: "x" }, "not found in a", true)
  )
  const withMode = (mode: LoopDetector.Mode) => LoopDetector.make(mode)

  it("by default soft evidence only tells the model: soon, and again at multiples of the count", () => {
    const found = run(
      failing,
      LoopDetector.make({ stale: { nudge: 90 }, edits: { nudge: 90 }, findings: { nudge: 90 } })
    )
    assert.isUndefined(found.at)
    const told = tags(found).flatMap((tag, i) => (tag === "Nudge" ? [i] : []))
    assert.deepStrictEqual(told, [4, 5, 6, 12, 18, 24])
  })

  it("`soft` lets soft evidence block at twice its count", () => {
    assert.strictEqual(run(failing, withMode("soft")).at, 12)
  })

  it("`tell` blocks nothing, not even equal calls, cycles and answers that repeat themselves", () => {
    const tell = withMode("tell")
    const cycle = times(60, (i) => ran("act", { n: i % 2 }, "ok"))
    for (const steps of [failing, cycle, times(60, () => write), times(60, () => grep)]) {
      const found = run(steps, tell)
      assert.isUndefined(found.at)
      assert.include(tags(found), "Nudge")
    }
    assert.strictEqual(LoopDetector.text(tell, "I will try again, and again. ".repeat(90))._tag, "Nudge")
  })

  it("the same failure of the same call blocks, though other things are read in between", () => {
    const steps = times(40, (i) =>
      i % 2
        ? ran("run_tests", {}, "1 failed: expected 2, got 3", true)
        : ran("read_file", { path: `${i}` }, `the content of file ${i} and ${"x".repeat(i)}`)
    )
    const found = run(steps)
    assert.deepStrictEqual([found.at, patternOf(found)], [13, "identical"])
  })

  it("the same failure of the same call only tells where something is done in between", () => {
    const steps = times(40, (i) =>
      i % 2
        ? ran("run_tests", {}, "1 failed: expected 2, got 3", true)
        : ran("edit", { path: `${i}`, old: `o${i}`, new: `n${i}` }, "ok")
    )
    assert.isUndefined(run(steps).at)
  })

  it("a cycle of other calls with the same outcomes only tells", () => {
    const lap = (i: number) => [
      ran("frobnicate", { about: `thing ${i}` }, "state unchanged for this one here"),
      ran("twiddle", { about: `thing ${i}` }, "state unchanged for that one there")
    ]
    assert.isUndefined(run(Array.from({ length: 15 }, (_, i) => lap(i)).flat()).at)
  })

  it("refuses another mode, and unknown fields", () => {
    for (const bad of [
      "loud",
      { mode: "loud" },
      { blocks: 3 },
      { acts: { at: 3 } },
      { tools: { x: { kind: 1 } } }
    ]) {
      // From a program without types.
      assert.throws(() => LoopDetector.make(bad as unknown as LoopDetector.Mode), InvalidOption)
    }
  })
})

describe("the same call", () => {
  const id = fc.uuid()
  const moment = fc
    .date({ min: new Date(2020, 0), max: new Date(2030, 0), noInvalidDate: true })
    .map((date) => date.toISOString())
  const duration = fc.integer({ min: 1, max: 99_999 })
  const volatile = fc.record({ id, moment, duration })

  it("is the same whatever ids, times and durations say", () => {
    const plain = times(9, () =>
      ran("get_job", { job: "j1" }, { state: "stuck", request_id: "x", at: "y", note: "took z" })
    )
    const expected = run(plain).at
    fc.assert(
      fc.property(fc.array(volatile, { minLength: 9, maxLength: 9 }), (parts) => {
        const steps = parts.map(({ id, moment, duration }) =>
          ran(
            "get_job",
            { job: "j1", trace_id: id, timestamp: moment },
            { state: "stuck", request_id: id, checked_at: moment, note: `took ${duration} ms at ${moment}` }
          )
        )
        assert.strictEqual(run(steps).at, expected)
      })
    )
  })

  it("does not depend on the order of fields", () => {
    const steps = times(9, (i) =>
      ran("set", i % 2 ? { a: 1, b: { c: 2, d: 3 } } : { b: { d: 3, c: 2 }, a: 1 }, "ok")
    )
    assert.strictEqual(run(steps).at, 3)
  })

  it("counts once among the equal calls of one turn", () => {
    const one = times(40, () => ({ ...write, turn: 0 }))
    assert.isUndefined(run(one).at)
    assert.strictEqual(
      run([...one, { ...write, turn: 1 }, { ...write, turn: 2 }, { ...write, turn: 3 }]).at,
      42
    )
  })

  it("begins anew when something new came between", () => {
    const steps = times(40, (i) =>
      i % 2 ? ran("sync", {}, "ok") : ran("read_file", { path: `${i}` }, `content ${i}`)
    )
    assert.isUndefined(run(steps).at)
  })

  it("is not excused by a thought or a pause", () => {
    const thinking = times(20, (i) => (i % 2 ? write : ran("think", { thought: `hm ${i}` }, "")))
    assert.strictEqual(run(thinking).at, 7)
    const pausing = times(20, (i) =>
      i % 2 ? ran("sync", {}, "ok") : ran("sleep", { seconds: i }, `slept ${i}`)
    )
    assert.strictEqual(run(pausing).at, 17)
  })

  it("flips between two results and gets nowhere: the model is told, as the outcomes differ", () => {
    const steps = times(20, (i) => ran("get_power", { lamp: 1 }, { on: i % 2 === 0 }))
    const found = run(steps)
    assert.isUndefined(found.at)
    assert.strictEqual(tags(found)[9], "Nudge")
    assert.isDefined(run(steps, softly).at)
  })

  it("may go on by itself: a queue, a page, a debugger's step", () => {
    const steps = times(30, (i) => ran("next_message", {}, { id: 7000 + i }))
    assert.isUndefined(run(steps).at)
  })
})

describe("progress", () => {
  const tool = fc.constantFrom(
    "bash",
    "edit_file",
    "read_file",
    "grep",
    "http_get",
    "browser_snapshot",
    "frobnicate"
  )

  it("is never stopped, whatever the tools and however few the arguments", () => {
    fc.assert(
      fc.property(fc.array(fc.record({ tool, arg: fc.nat(3) }), { maxLength: 120 }), (calls) => {
        const steps = calls.map(({ tool, arg }, i) =>
          ran(tool, { arg }, `line ${i} of something that goes on, ${i * 3} left`)
        )
        assert.isUndefined(run(steps).at)
      })
    )
  })

  it("is a percentage, a count and the tail of a log", () => {
    const results = [
      (i: number) => `${i}%`,
      (i: number) => ({ state: "running", done: i, total: 100 }),
      (i: number) => `2026-01-01T10:00:${10 + i}Z copied part-${i * 3}`
    ]
    for (const result of results) {
      assert.isUndefined(run(times(40, (i) => ran("check_build", { id: 1 }, result(i)))).at)
    }
  })

  it("is a file that becomes new, as often as it likes", () => {
    const steps = times(40, (i) => ran("edit", { path: "a", old: `part ${i}`, new: `done ${i}` }, "ok"))
    assert.isUndefined(run(steps).at)
  })

  it("is a check that stays green while files change", () => {
    const steps = times(40, (i) =>
      i % 2
        ? ran("run_tests", {}, `12 passed, 0 failed in ${i}.1 s`)
        : ran("edit", { path: "a", old: `o${i}`, new: `n${i}` }, "ok")
    )
    assert.isUndefined(run(steps).at)
  })

  it("is deleting by id, though every answer is the same", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.uuid(), { minLength: 30, maxLength: 30 }), (ids) => {
        assert.isUndefined(run(ids.map((id) => ran("delete_user", { id }, { deleted: true }))).at)
      })
    )
  })
})

describe("a run that repeats itself", () => {
  const step = fc.record({
    tool: fc.constantFrom("bash", "edit_file", "read_file", "grep", "click", "frobnicate"),
    arguments: fc.record({ n: fc.nat(5) }),
    result: fc.constantFrom(
      "ok",
      "no matches found",
      "pending",
      "Error: it broke",
      { a: 1 },
      [],
      "a b c d e f g h i j"
    ),
    failed: fc.boolean()
  })

  it("is stopped in time, however long its round and whatever came before", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 40 }),
        fc.array(step, { minLength: 1, maxLength: 20 }),
        (honest, round) => {
          const begin = times(honest, (i) => ran("read_file", { path: `f${i}` }, `content of file ${i}`))
          const steps = [...begin, ...Array.from({ length: 40 }, () => round).flat()]
          const { at } = run(steps, softly)
          assert.isDefined(at)
          // Seven rounds of what waits; a round that is longer than the longest cycle is stale before that.
          assert.isAtMost(at ?? Infinity, honest + 8 * round.length + 8)
        }
      )
    )
  })

  it("is stopped by strict evidence alone where each call of its round has one outcome", () => {
    const round = fc.uniqueArray(step, {
      minLength: 1,
      maxLength: 20,
      selector: (call) => `${call.tool} ${call.arguments.n}`
    })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40 }), round, (honest, round) => {
        const begin = times(honest, (i) => ran("read_file", { path: `f${i}` }, `content of file ${i}`))
        const { at } = run([...begin, ...Array.from({ length: 40 }, () => round).flat()])
        assert.isDefined(at)
        assert.isAtMost(at ?? Infinity, honest + 9 * round.length + 8)
      })
    )
  })

  it("is a cycle from A-B-A-B on", () => {
    const cycleOf = (period: number) => run(times(200, (i) => ran("act", { n: i % period }, "ok")))
    for (const [period, at] of [
      [2, 6],
      [3, 8],
      [4, 10],
      [12, 30]
    ] as const) {
      assert.strictEqual(cycleOf(period).at, at, `period ${period}`)
    }
    assert.strictEqual(patternOf(cycleOf(2)), "cycle")
    assert.strictEqual(patternOf(cycleOf(12)), "cycle")
  })

  it("waits for something longer than for anything else", () => {
    assert.strictEqual(run(times(20, () => ran("job", { id: 1 }, "pending"))).at, 8)
    assert.strictEqual(run(times(20, () => ran("job", { id: 1 }, "lost"))).at, 3)
  })

  it("fails in the same words with other arguments", () => {
    const steps = times(20, (i) =>
      ran("edit", { path: "a", old: `try ${i}`, new: "x" }, `try ${i} not found in a`, true)
    )
    const found = run(steps, softly)
    assert.strictEqual(found.at, 6)
    assert.strictEqual(patternOf(found), "same_failure")
  })

  it("finds nothing, whatever it asks", () => {
    const found = run(
      times(20, (i) => ran("web_search", { query: `q ${i} x${i}` }, `No results for q ${i} x${i}`)),
      softly
    )
    assert.strictEqual(found.at, 6)
    assert.strictEqual(patternOf(found), "same_finding")
    const words = ["avbrudd", "linje", "kunde", "faktura", "mangler"]
    const ord = (i: number) => `${words[i % 5]} ${words[(i + 1 + Math.floor(i / 5)) % 5]}`
    const searches = times(20, (i) => ran("sok", { ord: ord(i) }, { treff: [], antall: 0 }))
    assert.isDefined(run(searches, softly).at)
  })

  it("changes a file and fails as before", () => {
    const found = run(
      times(40, (i) =>
        i % 2
          ? ran("run_tests", {}, `1 failed (${i} ms): expected 2, got 3`, true)
          : ran("edit", { path: "a", old: `o${i}`, new: `n${i}` }, "ok")
      ),
      softly
    )
    assert.strictEqual(found.at, 10)
    assert.strictEqual(patternOf(found), "edits")
  })

  it("changes something that is no file and fails as before", () => {
    const found = run(
      times(40, (i) =>
        i % 2 ? ran("deploy", {}, "no image", true) : ran("set_variable", { name: "A", value: `v${i}` }, "ok")
      ),
      softly
    )
    assert.strictEqual(found.at, 11)
    assert.strictEqual(patternOf(found), "unchanged_check")
  })

  it("clicks here and there and sees the same", () => {
    const found = run(
      times(60, (i) =>
        i % 2 ? ran("screenshot", {}, "a page") : ran("click", { x: i, y: 2 * i }, "clicked")
      )
    )
    assert.isAtMost(found.at ?? Infinity, 12)
  })
})

describe("what a result is about", () => {
  const edit = (i: number) => ran("edit", { path: "a.ts", old: `x${i}`, new: `y${i}` }, "ok")
  const build = (at: (i: number) => string) =>
    times(12, (i) =>
      i % 2 ? ran("bash", { command: "npx tsc" }, `${at(i)}: error TS2322: not assignable`, true) : edit(i)
    )

  it("a failure that edits move by a line is the same failure", () => {
    for (const at of [
      (i: number) => `src/a.ts:${40 + (i % 4)}:${i}`,
      (i: number) => `src/a.ts(${40 + (i % 4)},${i})`,
      (i: number) => `File "a.py", line ${40 + (i % 4)}, in f`
    ]) {
      assert.isDefined(run(build(at), softly).at, at(0))
    }
  })

  it("one further down is another failure", () => {
    assert.isUndefined(
      run(
        build((i) => `src/a.ts:${40 + i * 10}:5`),
        softly
      ).at
    )
  })

  it("files that are gone through, one by one, with nothing found in any", () => {
    const grep = (i: number) => ran("grep", { pattern: "TODO", path: `src/${i}.ts` }, "")
    assert.isUndefined(run(times(20, grep), softly).at)
    // The same files over again are nothing new.
    const guess = (i: number) => ran("grep", { pattern: `idea ${i}`, path: `src/${i % 2}.ts` }, "")
    assert.isDefined(run(times(20, guess), softly).at)
  })

  it("a field that says that it was not done is a failure", () => {
    const lock = (acquired: boolean) =>
      times(12, (i) => ran("lock", { owner: `agent ${i}` }, { acquired, holder: "ci" }))
    assert.isDefined(run(lock(false), softly).at)
    assert.isUndefined(run(lock(true), softly).at)
    const down = times(12, (i) => ran("check_host", { host: `web-${i}` }, { host: `web-${i}`, ok: false }))
    assert.isUndefined(run(down, softly).at)
  })

  it("a digest stands for a content; an id stands for nothing", () => {
    const screens = (what: string) =>
      run(
        times(12, (i) =>
          ran("screenshot", {}, `${what} ${"abcdef0123456789".slice(i % 8)}${"0a1b".repeat(i)}`)
        )
      )
    assert.isUndefined(screens("sha256").at)
    assert.isDefined(screens("request").at)
  })

  it("the number of a process says nothing, as a field or in a sentence", () => {
    const restart = (i: number) => ran("restart", { name: "web" }, `restarted, PID ${4000 + i}`)
    assert.isDefined(run(times(6, restart)).at)
  })

  it("what goes on by itself is told from the last one by its id", () => {
    const next = (tool: string) => run(times(12, (i) => ran(tool, {}, { order: 5_000 + i, item: "pen" }))).at
    assert.isUndefined(next("pop_message"))
    assert.isDefined(next("create_order"))
  })

  it("a value that goes to and fro is no progress, and no wait", () => {
    const scaling = run(
      times(20, (i) =>
        i % 2
          ? ran("get_load", {}, i % 4 === 1 ? "load 12%" : "load 91%")
          : ran("scale", { replicas: i % 4 === 0 ? 5 : 2 }, "scaled")
      )
    )
    assert.isAtMost(scaling.at ?? Infinity, 14)
  })
})

describe("edits that go back", () => {
  const toggle = (i: number) => ({ path: "a", old: i % 2 ? "on" : "off", new: i % 2 ? "off" : "on" })

  it("are seen in the arguments of tools that edit", () => {
    for (const args of [
      toggle,
      (i: number) => ({ file_path: "a", content: i % 2 ? "on" : "off" }),
      (i: number) => ({ command: "str_replace", path: "a", old_str: toggle(i).old, new_str: toggle(i).new })
    ]) {
      const found = run(
        times(20, (i) => ran("change", { ...args(i), note: i }, "ok")),
        softly
      )
      assert.strictEqual(patternOf(found), "edits")
      assert.isAtMost(found.at ?? Infinity, 5)
    }
  })

  it("are seen by the hashes that a host gives", () => {
    const edits = times(20, (i) => ({
      ...ran("patch", { n: i }, "ok"),
      edit: { path: "a", before: i % 2 ? "h1" : "h0", after: i % 2 ? "h0" : "h1" }
    }))
    let state = LoopDetector.initial(detector)
    for (const [turn, edit] of edits.entries())
      state = LoopDetector.observe(detector, state, { ...edit, turn })
    const verdict = LoopDetector.before(detector, state, {
      turn: 99,
      tool: "edit",
      arguments: { path: "a", old: "x", new: "y" }
    })
    assert.strictEqual(verdict._tag === "Ok" ? undefined : verdict.kind, "file_loop")
  })

  it("are forgiven when the check tells something new", () => {
    const steps = times(40, (i) =>
      i % 2
        ? ran("run_tests", {}, `${99 - i} failed`, true)
        : ran("edit", { ...toggle(i / 2), note: i }, "ok")
    )
    assert.isUndefined(run(steps).at)
  })
})

describe("an answer", () => {
  const sentence = "I will now look at the file once more. "
  const lines = (count: number, line: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => line(i)).join("\n")
  /** No part of it is like another. */
  const prose = lines(
    300,
    (i) => `and so it goes on ${"abcdefghijklmnopqrstuvwxyz".slice(i % 26)} ${"z".repeat(i / 26)}`
  )
  /** The worst that is said of it while it comes. */
  const grown = (text: string) => {
    const said = new Set<string>()
    for (let end = 1_000; end < text.length + 1_000; end += 1_000) {
      said.add(LoopDetector.text(detector, text.slice(0, end))._tag)
    }
    return ["Stop", "Nudge"].find((tag) => said.has(tag)) ?? "Ok"
  }

  it("that repeats its words is noticed, then stopped, counters or not", () => {
    assert.strictEqual(LoopDetector.text(detector, "Well. " + sentence.repeat(3))._tag, "Ok")
    assert.strictEqual(LoopDetector.text(detector, "Well. " + sentence.repeat(4))._tag, "Nudge")
    assert.strictEqual(LoopDetector.text(detector, "Well. " + sentence.repeat(6))._tag, "Stop")
    const paragraph = prose.slice(0, 2_000)
    const counted = (count: number) => lines(count, (i) => `Attempt ${i}: ${paragraph}`)
    assert.strictEqual(LoopDetector.text(detector, counted(3))._tag, "Ok")
    assert.strictEqual(LoopDetector.text(detector, counted(4))._tag, "Nudge")
    assert.strictEqual(LoopDetector.text(detector, counted(6))._tag, "Stop")
  })

  it("may end in a few short words", () => {
    assert.strictEqual(LoopDetector.text(detector, `const a = [${"null, ".repeat(12)}`)._tag, "Ok")
    assert.strictEqual(LoopDetector.text(detector, `const a = [${"null, ".repeat(18)}`)._tag, "Nudge")
    assert.strictEqual(LoopDetector.text(detector, `const a = [${"null, ".repeat(60)}`)._tag, "Stop")
  })

  it("may hold tables, rulers and rows of numbers", () => {
    for (const text of ["-".repeat(400), "| --- | --- |\n".repeat(40), "0.0, 1.5, ".repeat(90)]) {
      assert.strictEqual(LoopDetector.text(detector, text)._tag, "Ok")
    }
  })

  it("may hold lists whose lines differ in their numbers", () => {
    for (const text of [
      lines(8, (i) => `- test ${i}: passed`),
      lines(300, (i) => `test case_${i + 100} ... ok`),
      lines(6, (i) => `${i + 1}. Port 800${i} is open`),
      lines(60, (i) => `| item ${i} | yes |`),
      lines(60, (i) => `- Step ${i + 1}: open file ${i + 1}, look at it, and write down what it says`),
      lines(40, (i) => `## 1.${i + 10}.0\n\n- Updated dependencies\n  - effect@4.${i + 10}.0\n`),
      lines(
        100,
        (i) => `INSERT INTO users (id, name, mail) VALUES (${i}, 'user${i}', 'user${i}@example.com');`
      )
    ]) {
      assert.strictEqual(grown(text), "Ok", text.slice(0, 40))
    }
  })

  it("that never ends is stopped, whatever it says", () => {
    for (const text of [
      "a".repeat(1e5),
      "a ".repeat(1e5),
      "0".repeat(1e5),
      "!".repeat(1e5),
      lines(2_000, (i) => `Attempt ${i}: I will try that again.`),
      lines(5_000, (i) => `Line ${i}`),
      prose.slice(0, 700).repeat(20),
      prose.slice(0, 1_000).repeat(20),
      prose.slice(0, 2_600).repeat(20)
    ]) {
      assert.strictEqual(grown(text), "Stop", text.slice(0, 40))
    }
  })

  it("may be of any length", () => {
    const words = Array.from({ length: 20_000 }, (_, i) => `word${(i * 7919) % 4001}`).join(" ")
    assert.strictEqual(LoopDetector.text(detector, words)._tag, "Ok")
  })
})

describe("options", () => {
  it("set the ladder of each pattern", () => {
    const same = { nudge: 1, block: 1 }
    const first = (options: Parameters<typeof LoopDetector.make>[0], steps: ReadonlyArray<Step>) =>
      run(steps, LoopDetector.make(options)).at
    assert.strictEqual(
      first(
        { acts: same },
        times(5, () => write)
      ),
      1
    )
    assert.strictEqual(
      first(
        { reads: same },
        times(5, () => grep)
      ),
      1
    )
    assert.strictEqual(
      first(
        { waits: same },
        times(5, () => ran("job", {}, "queued"))
      ),
      1
    )
    assert.strictEqual(
      first(
        { failures: same, mode: "soft" },
        times(5, (i) => ran("f", { i }, "broken", true))
      ),
      2
    )
    assert.strictEqual(
      first(
        { findings: same, mode: "soft" },
        times(5, (i) => ran("search", { q: `a${i}` }, []))
      ),
      3
    )
    assert.strictEqual(
      first(
        { cycle: { block: 4 }, acts: { block: 9 } },
        times(40, (i) => ran("act", { n: i % 3 }, "ok"))
      ),
      12
    )
    assert.strictEqual(
      first(
        { stale: { nudge: 2, block: 2 }, mode: "soft" },
        times(90, (i) => ran("act", { n: i % 20 }, "ok"))
      ),
      24
    )
    const checked = times(20, (i) => (i % 2 ? ran("test", {}, "bad", true) : ran("set", { i }, "ok")))
    assert.strictEqual(first({ checks: { nudge: 1, block: 1 }, mode: "soft" }, checked), 7)
    const edits = times(20, (i) => ran("edit", { path: "a", old: `${i}`, new: `${i + 1}` }, "ok"))
    assert.strictEqual(first({ edits: { nudge: 1, block: 1 }, mode: "soft" }, edits), 3)
    const impatient = LoopDetector.make({ text: { nudge: 2, block: 2 } })
    assert.strictEqual(LoopDetector.text(impatient, "the same old words again, ".repeat(2))._tag, "Stop")
    let state = run(times(9, () => write)).state
    const strict = LoopDetector.make({ refusals: 1 })
    state = LoopDetector.refused(strict, state, { turn: 9, ...write })
    assert.strictEqual(LoopDetector.before(strict, state, { turn: 10, ...write })._tag, "Stop")
  })

  it("set a tool's nature, ladder and identity", () => {
    const read = LoopDetector.make({ tools: { ask_oracle: { nature: "read" } } })
    assert.strictEqual(
      run(
        times(9, () => ran("ask_oracle", {}, "42")),
        read
      ).at,
      5
    )
    const lax = LoopDetector.make({ tools: { grep: { same: { block: 20 } } } })
    assert.strictEqual(
      run(
        times(40, () => grep),
        lax
      ).at,
      20
    )
    const byUrl = LoopDetector.make({
      tools: {
        fetch: {
          identity: (args) => (typeof args === "object" && args !== null && "url" in args ? args.url : args)
        }
      }
    })
    const steps = times(9, (i) => ran("fetch", { url: "https://a.example", salt: `q${i}` }, "same page"))
    assert.isUndefined(run(steps).at)
    assert.strictEqual(run(steps, byUrl).at, 5)
  })

  describe("of a tool's identity", () => {
    const by = (identity: NonNullable<LoopDetector.ToolOptions["identity"]>) =>
      LoopDetector.make({ tools: { get_candle: { identity } } })
    const field = (args: unknown, name: string): unknown =>
      Predicate.hasProperty(args, name) ? args[name] : undefined
    const minute = (i: number) => `2026-01-01T00:0${i}:00Z`
    const steps = times(9, (i) => ran("get_candle", { symbol: "x", timestamp: minute(i) }, { open: 1 }))

    it("tell times and ids apart", () => {
      assert.strictEqual(run(steps).at, 5)
      assert.isUndefined(
        run(
          steps,
          by((args) => field(args, "timestamp"))
        ).at
      )
      assert.isUndefined(
        run(
          steps,
          by((args) => ({ at: [new Date(String(field(args, "timestamp")))] }))
        ).at
      )
      assert.isUndefined(
        run(
          steps,
          by((args) => BigInt(Date.parse(String(field(args, "timestamp")))))
        ).at
      )
      assert.strictEqual(
        run(
          steps,
          by((args) => field(args, "symbol"))
        ).at,
        5
      )
      assert.strictEqual(
        run(
          steps,
          by(() => undefined)
        ).at,
        5
      )
    })

    it("do not depend on the order of fields, nor on fields without a value", () => {
      let i = 0
      const turned = by(() =>
        i++ % 2 ? { a: 1, b: { c: minute(2), d: 3 } } : { b: { d: 3, e: undefined, c: minute(2) }, a: 1 }
      )
      assert.strictEqual(run(steps, turned).at, 5)
    })

    it("are refused where they are no JSON: all of a kind would be the same", () => {
      const endless: Array<unknown> = []
      endless.push(endless)
      const wide = Array.from({ length: 60 }).reduce<unknown>((inner) => [inner, inner], 0)
      for (const [what, identity] of [
        ["Promise", async (args: unknown) => args],
        ["Set", (args: unknown) => new Set([args])],
        ["Map", (args: unknown) => ({ of: new Map([["args", args]]) })],
        ["ArrayBuffer", () => new ArrayBuffer(8)],
        ["a symbol", () => Symbol("x")],
        ["a function", (args: unknown) => [() => args]],
        ["without an end", () => endless],
        ["too large", () => wide]
      ] as const) {
        const ask = () => run(steps, by(identity))
        assert.throws(ask, InvalidOption, /tools\.get_candle\.identity must be a function that returns JSON/)
        assert.throws(ask, InvalidOption, what)
      }
    })
  })

  it("set one number of a ladder: the other gives way, of a tool as of all", () => {
    for (const options of [{ acts: { nudge: 4 } }, { tools: { write_file: { same: { nudge: 4 } } } }]) {
      const late = run(
        times(9, () => write),
        LoopDetector.make(options)
      )
      assert.deepStrictEqual(tags(late), ["Ok", "Ok", "Ok", "Ok", "Block"])
    }
    for (const options of [{ reads: { block: 2 } }, { tools: { grep: { same: { block: 2 } } } }]) {
      const early = run(
        times(9, () => grep),
        LoopDetector.make(options)
      )
      assert.deepStrictEqual(tags(early), ["Ok", "Ok", "Block"])
    }
  })

  it("that nobody could have meant are refused", () => {
    assert.throws(() => LoopDetector.make({ acts: { nudge: Number.NaN } }), InvalidOption, /acts\.nudge/)
    assert.throws(() => LoopDetector.make({ acts: { nudge: 4, block: 3 } }), InvalidOption, /acts\.nudge/)
    assert.throws(() => LoopDetector.make({ reads: { block: 0 } }), InvalidOption, /reads\.block/)
    assert.throws(() => LoopDetector.make({ rows: 12 }), InvalidOption, /power of two/)
    assert.throws(() => LoopDetector.make({ refusals: 0 }), InvalidOption, /refusals/)
    assert.throws(
      () => LoopDetector.make({ tools: { x: { same: { block: Number.NaN } } } }),
      InvalidOption,
      /tools\.x/
    )
  })

  it("that throw are not hidden: no call goes through on a guess", () => {
    const broken = LoopDetector.make({
      tools: {
        grep: {
          identity: () => {
            throw new Error("broken")
          }
        }
      }
    })
    const ask = () => LoopDetector.before(broken, LoopDetector.initial(broken), { turn: 0, ...grep })
    assert.throws(ask, "broken")
  })

  it("says what it found in the host's words, and in its own where those fail", () => {
    const german = LoopDetector.make({
      wording: (step, { tool, count }) => `${step}: ${tool} schon ${count}-mal`
    })
    const told = run(
      times(9, () => write),
      german
    ).verdicts.map((verdict) => ("message" in verdict ? verdict.message : ""))
    assert.deepStrictEqual(told.slice(2), ["Nudge: write_file schon 2-mal", "Block: write_file schon 3-mal"])
    const broken = LoopDetector.make({
      wording: () => {
        throw new Error("no words")
      }
    })
    const messages = (of: LoopDetector.LoopDetector) =>
      run(
        times(9, () => write),
        of
      ).verdicts.map((verdict) => ("message" in verdict ? verdict.message : ""))
    assert.deepStrictEqual(messages(broken), messages(detector))
    const answer = LoopDetector.text(german, "I will try again, and again. ".repeat(9))
    assert.strictEqual("message" in answer ? answer.message : "", "Stop: undefined schon 9-mal")
  })
})

describe("memory", () => {
  const heldIn = (memory: Memory.Memory<unknown>) => Memory.entries(memory).size
  const sizeOf = (state: LoopDetector.State) => {
    const { seen, tools, troubles, files, cycle, inTurn, unchecked, acted } = state
    return (
      [seen, tools, troubles, files].reduce((sum, memory) => sum + heldIn(memory), 0) +
      [Cycle.lastOf(cycle, Infinity), inTurn, unchecked, acted].reduce((sum, list) => sum + list.length, 0)
    )
  }

  it("is bounded, over 100,000 calls and within one turn", () => {
    const of = LoopDetector.make({ rows: 2 })
    let state = LoopDetector.initial(of)
    for (let i = 0; i < 100_000; i++) {
      const tool = i % 2 ? `tool_${i}` : "edit"
      state = LoopDetector.observe(of, state, {
        turn: i % 3 ? 0 : i,
        ...ran(tool, { path: `${i}`, new: `${i}`, old: "" }, `${i}`)
      })
    }
    assert.isAtMost(sizeOf(state), (3 * 2 + 16) * Memory.places + 256 + 3 * maxParallel)
    assert.strictEqual(state.calls, 100_000)
  })

  it("survives arguments and results of any shape", () => {
    const endless: Record<string, unknown> = {}
    endless["self"] = endless
    const deep = Array.from({ length: 50_000 }).reduce<unknown>((inner) => [inner], 0)
    for (const value of [endless, deep, undefined, null, Symbol("s"), 1n, () => 1, Number.NaN, "\u{1f600}"]) {
      assert.isDefined(run(times(9, () => ran("f", value, value))).at)
    }
  })
})
