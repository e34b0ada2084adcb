import { assert, describe, it } from "@effect/vitest"
import { LoopDetector } from "@outlast/agent/guard"
import { Options } from "@outlast/resilience"
import { Predicate, Schema } from "effect"
import * as fc from "fast-check"

const detector = LoopDetector.make()
const softly = LoopDetector.make("soft")

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
  /** Index of the first call that would not run. */
  readonly at: number | undefined
}

/** Checks and records each call, until one would not run. */
const run = (steps: ReadonlyArray<Step>, of: LoopDetector.LoopDetector = detector): Run => {
  let state = LoopDetector.initial
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
const patterns = ({ verdicts }: Run) =>
  verdicts.map((verdict) => (verdict._tag === "Ok" ? undefined : verdict.evidence.pattern))
const patternOf = (found: Run) => patterns(found).at(-1)

const grep = ran("grep", { pattern: "a" }, "src/a.ts:1: a")
/** A call of a tool with an annotation. */
const wipe = { ...ran("wipe", { disk: "a" }, "ok"), hints: { destructiveHint: true } }
const names =
  "amber birch cedar delta ember fjord grove heath islet jetty knoll lagoon marsh north oasis".split(" ")
const nameOf = (i: number) => names[i % names.length] ?? ""
/** Reads another file each time. */
const reading = (i: number) =>
  ran("read_file", { path: `${nameOf(i)}.ts` }, `the ${nameOf(i)} file, part ${i}`)

describe("the ladder", () => {
  it("runs a call, then nudges the model, then blocks the call", () => {
    assert.deepStrictEqual(tags(run(times(9, () => wipe))), ["Ok", "Ok", "Nudge", "Block"])
  })

  it("blocks reading and unknown tools later", () => {
    for (const step of [grep, ran("frobnicate", {}, "ok")]) {
      const found = run(times(364, () => step))
      assert.deepStrictEqual([found.at, patternOf(found)], [5, "identical"])
    }
  })

  it("stops the run after three turns with refusals and nothing new", () => {
    let { state } = run(times(9, () => wipe))
    for (let turn = 20; turn < 23; turn++) {
      // Calls of one turn are refused before the model has read any refusal.
      for (let n = 0; n < 5; n++) {
        assert.strictEqual(LoopDetector.before(detector, state, { ...wipe, turn })._tag, "Block")
        state = LoopDetector.refused(detector, state, { ...wipe, turn })
      }
    }
    const call = { ...wipe, turn: 23 }
    assert.strictEqual(LoopDetector.before(detector, state, call)._tag, "Stop")
    const learned = LoopDetector.observe(detector, state, { ...reading(1), turn: 23 })
    assert.strictEqual(LoopDetector.before(detector, learned, { ...wipe, turn: 24 })._tag, "Ok")
  })

  it("reports no arguments and no results", () => {
    const secret = "sk-very-secret"
    const found = run(times(9, () => ran("login", { password: secret }, secret)))
    assert.notInclude(JSON.stringify([found.verdicts, found.state]), secret)
    const last = found.verdicts.at(-1)
    if (last === undefined || last._tag === "Ok") return assert.fail("not blocked")
    assert.strictEqual(last.kind, "tool_loop")
    assert.match(last.message, /^login was called with the same arguments 5 times/)
    assert.deepStrictEqual(last.evidence, { pattern: "identical", tool: "login", count: 5 })
  })
})

describe("modes", () => {
  /** The results differ in one word of five, and each is new in one way. */
  const failing = times(30, (i) => ran("edit", { path: nameOf(i) }, "the old text was not found", true))
  const searching = times(30, (i) =>
    ran("search", { query: nameOf(i) }, "an index of all of the old pages, as ever")
  )

  it("by default soft evidence nudges the model, again at multiples of the count", () => {
    const found = run(searching)
    assert.isUndefined(found.at)
    assert.deepStrictEqual(
      patterns(found)
        .flatMap((pattern, i) => (pattern === "same_finding" ? [i] : []))
        .slice(0, 4),
      [4, 5, 6, 12]
    )
  })

  it("`soft` blocks on soft evidence at twice its count, with one more chance after a refusal", () => {
    const { at, state } = run(searching, softly)
    assert.strictEqual(at, 12)
    const other = { turn: 12, tool: "search", arguments: { query: "another" } }
    const refused = LoopDetector.refused(softly, state, other)
    assert.notStrictEqual(LoopDetector.before(softly, refused, { ...other, turn: 13 })._tag, "Block")
  })

  it("by default one failure of different calls blocks after nine turns without news, with one more chance", () => {
    const { at, state } = run(failing)
    assert.strictEqual(at, 10)
    const other = { turn: 10, tool: "edit", arguments: { path: "another" } }
    assert.strictEqual(LoopDetector.before(detector, state, other)._tag, "Block")
    const refused = LoopDetector.refused(detector, state, other)
    assert.notStrictEqual(LoopDetector.before(detector, refused, { ...other, turn: 11 })._tag, "Block")
    // News in between, a short text, and a failure that may pass do not block.
    for (const steps of [
      times(60, (i) =>
        i % 6 ? ran("edit", { path: `${i}` }, "the old text was not found", true) : reading(i / 6)
      ),
      times(30, (i) => ran("open", { path: nameOf(i) }, "not found", true)),
      times(30, (i) => ran("get", { host: nameOf(i) }, "the request timed out after a while", true))
    ]) {
      assert.isUndefined(run(steps).at)
    }
  })

  it("`tell` never blocks equal calls, cycles or repeated answers", () => {
    const tell = LoopDetector.make("tell")
    const cycle = times(60, (i) => ran("act", { n: i % 2 }, "ok"))
    for (const steps of [failing, cycle, times(60, () => wipe), times(60, () => grep)]) {
      const found = run(steps, tell)
      assert.isUndefined(found.at)
      assert.include(tags(found), "Nudge")
    }
    const answer = LoopDetector.read(LoopDetector.noText, "I will try again, and again. ".repeat(900))
    for (const repetition of ["tell", "cut"] as const) {
      const always = LoopDetector.make({ mode: "tell", repetition })
      assert.strictEqual(LoopDetector.text(always, answer)._tag, "Nudge")
    }
  })

  it("rejects unknown modes and fields", () => {
    for (const bad of [
      "loud",
      { mode: "loud" },
      { edits: {} },
      { acts: { at: 3 } },
      { tools: { x: { kind: 1 } } }
    ]) {
      // As from an untyped program.
      assert.throws(() => LoopDetector.make(bad as unknown as LoopDetector.Mode), Options.InvalidOption)
    }
  })
})

describe("the same call", () => {
  const volatile = fc.record({
    id: fc.uuid(),
    moment: fc
      .date({ min: new Date(2020, 0), max: new Date(2030, 0), noInvalidDate: true })
      .map((date) => date.toISOString()),
    duration: fc.integer({ min: 1, max: 99_999 })
  })

  it("is recognised despite ids, times and durations in results, with the counts of a poll", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(volatile, { minLength: 12, maxLength: 12, selector: ({ id }) => id }),
        (parts) => {
          const steps = parts.map(({ id, moment, duration }) =>
            ran(
              "get_job",
              { job: "j1", at: moment },
              {
                state: "stuck",
                request: id,
                checked: moment,
                took_ms: duration,
                note: `${duration} ms, req_${id}`
              }
            )
          )
          const found = run(steps)
          assert.deepStrictEqual([found.at, patternOf(found)], [8, "poll"])
        }
      )
    )
  })

  it("differs by numbers and names in its results", () => {
    assert.isUndefined(run(times(30, (i) => ran("get_job", {}, { percent: 3 * i }))).at)
    assert.isUndefined(run(times(30, (i) => ran("next_message", {}, { from: nameOf(i), number: i }))).at)
  })

  it("differs by ids in its arguments", () => {
    const id = (i: number) => `8f14e45f-ceea-467f-a8f3-${String(i).padStart(12, "0")}`
    assert.isUndefined(run(times(30, (i) => ran("delete_mail", { id: id(i) }, { deleted: true }))).at)
  })

  it("is independent of the order of fields", () => {
    const steps = times(9, (i) =>
      ran(
        "set",
        i % 2 ? { a: 1, b: { c: 2, d: 3 } } : { b: { d: 3, c: 2 }, a: 1 },
        i % 2 ? { x: 1, y: 2 } : { y: 2, x: 1 }
      )
    )
    assert.strictEqual(run(steps).at, 5)
  })

  it("counts once among equal calls of one turn", () => {
    const one = times(40, () => ({ ...wipe, turn: 0 }))
    assert.isUndefined(run(one).at)
    assert.strictEqual(run([...one, ...times(3, (i) => ({ ...wipe, turn: i + 1 }))]).at, 42)
  })

  it("loses half of its count after news elsewhere", () => {
    // The counts are 1, 2, 3, then 2.5, 3.5, 4.5 and 5.5.
    const steps = [grep, grep, grep, reading(0), grep, grep, grep, grep]
    assert.isUndefined(run(steps).at)
    assert.strictEqual(run([...steps, grep]).at, 8)
    const always = times(40, (i) => (i % 2 ? ran("sync", {}, "ok") : reading(i)))
    assert.isUndefined(run(always).at)
  })

  it("uses the counts of a poll after two changes of its outcome", () => {
    const status = (state: string) => ran("get_status", { job: 1 }, { state })
    const stuck = times(20, () => status("running"))
    assert.strictEqual(run([status("queued"), ...stuck]).at, 6)
    assert.strictEqual(run([status("queued"), status("starting"), ...stuck]).at, 10)
    const acting = [status("queued"), status("starting"), ...stuck].map((step) => ({
      ...step,
      tool: "retry"
    }))
    const acts = LoopDetector.make({ tools: { retry: { nature: "act" } } })
    assert.strictEqual(run(acting, acts).at, 5)
  })

  it("uses the counts of a poll when time passes in between", () => {
    // Pauses of unknown length count as polls.
    const pauses = times(40, (i) => (i % 2 ? ran("sync", {}, "ok") : ran("sleep", {}, "slept")))
    assert.strictEqual(run(pauses).at, 17)
    const asleep = (seconds: number) => ran("bash", { command: `sleep ${seconds}; date +%A` }, "Monday")
    assert.strictEqual(run(times(20, () => asleep(300))).at, 8)
  })

  it("waits 10 minutes, by pauses, time stamps or the clock", () => {
    const minute = (i: number) => `2026-01-01T00:${String(i).padStart(2, "0")}:00Z`
    const status = { state: "queued" }
    for (const steps of [
      times(60, () => ran("bash", { command: "sleep 60; date +%A" }, "Monday")),
      times(60, (i) => (i % 2 ? ran("get_job", {}, status) : ran("sleep", { seconds: 60 }, ""))),
      times(60, (i) =>
        i % 2 ? ran("bash", { command: "squeue" }, "PD") : ran("bash", { command: "sleep 60" }, "")
      ),
      times(60, (i) => ran("get_job", {}, { ...status, updated_at: minute(i) })),
      times(60, (i) => ({ ...ran("bash", { command: "sleep 1; date +%A" }, "Monday"), at: 1 + i * 60_000 }))
    ]) {
      const at = run(steps).at ?? 0
      assert.oneOf(steps[at]?.tool === "get_job" || at > 12 ? "late" : at, ["late", 11])
    }
  })

  it("waits twice as long as the outcome took to change before, and not for polls in quick succession", () => {
    const poll = (state: string, i: number, seconds: number) => ({
      ...ran("get_job", {}, { state }),
      at: 1 + i * seconds * 1_000
    })
    // The first change comes after 30 minutes.
    const slow = times(60, (i) => poll(i < 4 ? "queued" : i < 5 ? "starting" : "running", i, 600))
    assert.strictEqual(run(slow).at, 13)
    assert.strictEqual(run(times(60, (i) => poll(i < 1 ? "a" : i < 2 ? "b" : "c", i, 2))).at, 10)
  })

  it("counts when only the number of a created thing differs", () => {
    const ticket = (i: number) => ran("file_ticket", { title: "Fix login" }, `Created OPS-${410 + i}.`)
    assert.strictEqual(run(times(20, ticket)).at, 5)
    const order = (i: number) => ran("place_order", { sku: "A1" }, { order_id: 90_210 + i, state: "placed" })
    assert.strictEqual(run(times(20, order)).at, 5)
    const next = (i: number) => ran("read_next", {}, { message_id: i, from: "Ann" })
    assert.isUndefined(run(times(20, next)).at)
    const other = (i: number) => ran("file_ticket", { title: nameOf(i) }, `Created OPS-${410 + i}.`)
    assert.notInclude(tags(run(times(15, other))), "Nudge")
  })

  it("is blocked after three failures, even with file reads in between", () => {
    const test = ran("run_tests", {}, "1 failed: expected 2, got 3", true)
    const found = run(times(40, (i) => (i % 2 ? test : reading(i))))
    assert.deepStrictEqual([found.at, patternOf(found)], [7, "identical"])
    for (const fault of [
      ran("get", {}, { status: 503 }, true),
      ran("get", {}, "Error: read ECONNRESET", true),
      ran("get", {}, "E: Could not get lock /var/lib/dpkg/lock", true),
      ran("get", {}, { error: { message: "Rate limit exceeded" } })
    ]) {
      assert.deepStrictEqual(
        [run(times(20, () => fault)).at, patternOf(run(times(20, () => fault)))],
        [8, "poll"]
      )
    }
    const edit = (i: number) => ran("edit", { path: `${i}`, new: `n${i}` }, "ok")
    assert.isUndefined(run(times(40, (i) => (i % 2 ? test : edit(i)))).at)
  })
})

describe("a cycle", () => {
  const lap = (period: number) => (i: number) =>
    ran("look", { about: nameOf(i % period) }, `${nameOf(i % period)} as before`)

  it("of identical calls is blocked after three laps, or earlier at nine calls", () => {
    for (const [period, at] of [
      [2, 6],
      [3, 9],
      [4, 9],
      [9, 21]
    ] as const) {
      const found = run(times(60, lap(period)))
      assert.deepStrictEqual([found.at, patternOf(found)], [at, "cycle"])
    }
  })

  it("of parallel calls is found in any order of their ends", () => {
    const steps = times(40, (i) => ({ ...lap(4)((i * 3) % 4), turn: Math.floor(i / 2) }))
    assert.isDefined(run(steps).at)
  })

  it("with outcomes that differ in numbers only nudges", () => {
    const found = run(
      times(40, (i) => ran(i % 2 ? "set" : "check", {}, `revision ${i} of ${i % 2 ? "this" : "that"}`)),
      LoopDetector.make({ findings: { nudge: 99 } })
    )
    assert.isUndefined(found.at)
    assert.include(patterns(found), "cycle")
  })

  it("ends when another call is requested", () => {
    const { state } = run(times(60, lap(3)))
    assert.strictEqual(LoopDetector.before(detector, state, { turn: 99, ...reading(0) })._tag, "Ok")
  })
})

describe("soft evidence", () => {
  const told = (steps: ReadonlyArray<Step>) => {
    const found = run(steps)
    assert.isUndefined(found.at)
    return patterns(found).findIndex((pattern) => pattern !== undefined)
  }

  it("includes the same error in other words", () => {
    const errors = [
      "Error: cannot open the database file: permission denied for user",
      "Error: permission denied for user: database file cannot be opened",
      "Error: the database file cannot be opened, permission was denied for this user",
      "Error: cannot open database file (permission denied for the user)"
    ]
    assert.strictEqual(
      told(times(8, (i) => ran("bash", { command: `do ${nameOf(i)}` }, errors[i % 4] ?? ""))),
      5
    )
  })

  it("includes a structured result that is independent of the arguments", () => {
    const users = [
      { id: 1, name: "Ann" },
      { id: 2, name: "Bob" }
    ]
    assert.strictEqual(told(times(8, (i) => ran("list", { page: i }, { users }))), 4)
    assert.strictEqual(told(times(8, (i) => ran("list", { page: i }, { users: [], total: 0 }))), -1)
  })

  it("does not include a test that fails again after each edit", () => {
    const test = ran("run_tests", {}, "1 failed: expected 41 to equal 42 in the invoice test", true)
    const edit = (i: number) => ran("edit", { path: `${i}`, new: `n${i}` }, "ok")
    assert.strictEqual(told(times(20, (i) => (i % 2 ? test : edit(i)))), -1)
  })

  it("includes a long result that is independent of the arguments", () => {
    const page = "one page of customers with their orders and addresses, always the first"
    assert.strictEqual(told(times(8, (i) => ran("list", { page: i }, page))), 4)
  })

  it("excludes short answers to different arguments", () => {
    assert.strictEqual(told(times(12, (i) => ran("delete_mail", { id: i }, "ok"))), -1)
  })
})

describe("the nature of a tool", () => {
  const natures = (tool: string, hints: LoopDetector.Hints | undefined, nature?: LoopDetector.ToolNature) => {
    const of = LoopDetector.make(nature === undefined ? {} : { tools: { [tool]: { nature } } })
    return run(
      times(9, () => ({ ...ran(tool, {}, "ok"), hints })),
      of
    ).at
  }

  it("is taken from annotations, then the option, then the name", () => {
    assert.strictEqual(natures("get_it", { readOnlyHint: false }, "read"), 3)
    assert.strictEqual(natures("wipe", { readOnlyHint: true }, "act"), 5)
    assert.strictEqual(natures("wipe", { destructiveHint: true, idempotentHint: true }), 5)
    assert.strictEqual(natures("get_it", {}, "act"), 3)
    assert.strictEqual(natures("get_it", undefined, "pause"), undefined)
    assert.strictEqual(natures("wait_for_it", undefined), undefined)
    assert.strictEqual(natures("update_wait", undefined), 5)
  })
})

describe("parallel calls", () => {
  it("lead to the same state in any order of their ends", () => {
    const call = fc.record({
      tool: fc.constantFrom("read_file", "bash", "sleep"),
      arguments: fc.record({ of: fc.constantFrom("a", "b", "c") }),
      result: fc.constantFrom("one", "two", "Error: three", ""),
      failed: fc.boolean()
    })
    const turn = fc
      .array(call, { minLength: 1, maxLength: 8 })
      .chain((calls) => fc.tuple(fc.constant(calls), fc.shuffledSubarray(calls, { minLength: calls.length })))
    const after = (turns: ReadonlyArray<ReadonlyArray<Step>>) =>
      turns.reduce(
        (state, calls, turn) =>
          calls.reduce((state, step) => LoopDetector.observe(detector, state, { turn, ...step }), state),
        LoopDetector.initial
      )
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 12 }), (turns) => {
        const one = after(turns.map(([calls]) => calls))
        assert.deepStrictEqual(after(turns.map(([, calls]) => calls)), one)
      })
    )
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
        times(9, () => wipe)
      ),
      1
    )
    assert.strictEqual(
      first(
        { reads: same },
        times(9, () => grep)
      ),
      1
    )
    const waiting = times(9, () => ran("bash", { command: "wait; date" }, "Monday"))
    assert.strictEqual(first({ waits: same }, waiting), 1)
    assert.strictEqual(
      first(
        { cycle: { block: 4 } },
        times(60, (i) => ran("look", { n: i % 2 }, "ok"))
      ),
      8
    )
    assert.strictEqual(
      first(
        { failures: same },
        times(9, () => ran("get", {}, "no", true))
      ),
      1
    )
    const searching = times(9, (i) => ran("search", { query: nameOf(i) }, "an index of all the old pages"))
    assert.strictEqual(first({ mode: "soft", findings: same }, searching), 2)
    const refused = LoopDetector.make({ refusals: 1 })
    const { state } = run(
      times(9, () => wipe),
      refused
    )
    const after = LoopDetector.refused(refused, state, { ...wipe, turn: 9 })
    assert.strictEqual(LoopDetector.before(refused, after, { ...wipe, turn: 10 })._tag, "Stop")
    const early = LoopDetector.make({ text: { nudge: 20, block: 20 }, repetition: "cut" })
    const answer = LoopDetector.read(LoopDetector.noText, "I will now look at the file. ".repeat(4))
    assert.strictEqual(LoopDetector.text(early, answer)._tag, "Stop")
  })

  describe("of a tool's identity", () => {
    const by = (identity: NonNullable<LoopDetector.ToolOptions["identity"]>) =>
      LoopDetector.make({ tools: { get_candle: { identity } } })
    const field = (args: unknown, name: string): unknown =>
      Predicate.hasProperty(args, name) ? args[name] : undefined
    const minute = (i: number) => `2026-01-01T00:0${i}:00Z`
    const steps = times(9, (i) => ran("get_candle", { symbol: "x", timestamp: minute(i) }, { open: 1 }))

    it("distinguish times and ids", () => {
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

    it("ignore the order of fields and undefined fields", () => {
      let i = 0
      const turned = by(() =>
        i++ % 2 ? { a: 1, b: { c: minute(2), d: 3 } } : { b: { d: 3, e: undefined, c: minute(2) }, a: 1 }
      )
      assert.strictEqual(run(steps, turned).at, 5)
    })

    it("are rejected when they are not JSON, because all values of that type would be equal", () => {
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
        assert.throws(
          ask,
          Options.InvalidOption,
          /tools\.get_candle\.identity must be a function that returns JSON/
        )
        assert.throws(ask, Options.InvalidOption, what)
      }
    })
  })

  it("adapt the missing number of a ladder, for a tool and for all", () => {
    for (const options of [{ acts: { nudge: 4 } }, { tools: { wipe: { same: { nudge: 4 } } } }]) {
      const late = run(
        times(9, () => wipe),
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

  it("are rejected when they are out of range", () => {
    assert.throws(
      () => LoopDetector.make({ acts: { nudge: Number.NaN } }),
      Options.InvalidOption,
      /acts\.nudge/
    )
    assert.throws(
      () => LoopDetector.make({ acts: { nudge: 4, block: 3 } }),
      Options.InvalidOption,
      /acts\.nudge/
    )
    assert.throws(() => LoopDetector.make({ reads: { block: 0 } }), Options.InvalidOption, /reads\.block/)
    assert.throws(() => LoopDetector.make({ refusals: 0 }), Options.InvalidOption, /refusals/)
    assert.throws(
      () => LoopDetector.make({ tools: { x: { same: { block: Number.NaN } } } }),
      Options.InvalidOption,
      /tools\.x/
    )
  })

  it("throw when the identity function throws", () => {
    const broken = LoopDetector.make({
      tools: {
        grep: {
          identity: () => {
            throw new Error("broken")
          }
        }
      }
    })
    const ask = () => LoopDetector.before(broken, LoopDetector.initial, { turn: 0, ...grep })
    assert.throws(ask, "broken")
  })

  it("include the host's wording, with the default as fallback", () => {
    const german = LoopDetector.make({
      wording: (step, { tool, count }) => `${step}: ${tool} schon ${count}-mal`
    })
    const told = run(
      times(9, () => wipe),
      german
    ).verdicts.map((verdict) => ("message" in verdict ? verdict.message : ""))
    assert.deepStrictEqual(told.slice(2), ["Nudge: wipe schon 2-mal", "Block: wipe schon 3-mal"])
    const broken = LoopDetector.make({
      wording: () => {
        throw new Error("no words")
      }
    })
    const messages = (of: LoopDetector.LoopDetector) =>
      run(
        times(9, () => wipe),
        of
      ).verdicts.map((verdict) => ("message" in verdict ? verdict.message : ""))
    assert.deepStrictEqual(messages(broken), messages(detector))
    const answer = LoopDetector.text(
      german,
      LoopDetector.read(LoopDetector.noText, "I will try again, and again. ".repeat(99))
    )
    assert.match("message" in answer ? answer.message : "", /^Nudge: undefined schon \d+-mal$/)
  })
})

describe("the state", () => {
  const Json = Schema.toCodecJson(LoopDetector.State)

  it("has at most 8 KB of JSON after 400 calls, and survives storage", () => {
    let state = LoopDetector.initial
    for (let i = 0; i < 400; i++) {
      const words = names.map((name) => `${name}${"abcdefghij".slice(i % 7)}`).join(" ")
      const step = ran(
        `tool_${i}`,
        { of: `${i} ${words}` },
        `${i} ${i % 3 ? "" : "Error: "}${words}`,
        i % 2 > 0
      )
      state = LoopDetector.observe(detector, state, { turn: i < 380 ? i : 380, ...step })
    }
    const stored = JSON.stringify(Schema.encodeUnknownSync(Json)(state))
    assert.isAtMost(stored.length, 8_192)
    assert.strictEqual(stored, JSON.stringify(state))
    assert.deepStrictEqual(Schema.decodeUnknownSync(Json)(JSON.parse(stored)), state)
    assert.strictEqual(state.calls, 400)
  })

  it("accepts arguments and results of any type", () => {
    const endless: Record<string, unknown> = {}
    endless["self"] = endless
    const deep = Array.from({ length: 50_000 }).reduce<unknown>((inner) => [inner], 0)
    for (const value of [endless, deep, undefined, null, Symbol("s"), 1n, () => 1, Number.NaN, "\u{1f600}"]) {
      assert.isDefined(run(times(9, () => ran("f", value, value))).at)
    }
  })
})
