import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Result } from "effect"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { baselines } from "#cli/guard/Baselines"
import * as Trace from "#cli/guard/Trace"
import * as TraceScore from "#cli/guard/TraceScore"
import { linesOf, piped } from "./process.ts"
import { outlast } from "./run.ts"

const traces = fileURLToPath(new URL("../../../test/fixtures/traces", import.meta.url))

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-guard-"))
})
afterAll(() => rm(folder, { recursive: true }))

const file = async (name: string, lines: ReadonlyArray<unknown>) => {
  const path = join(folder, name)
  const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)))
  await writeFile(path, text.join("\n"))
  return path
}

const grep = { tool: "grep", arguments: { pattern: "a" }, result: "a.ts:1: a", failed: false }
const loop = Array.from({ length: 9 }, (_, turn) => ({ turn, ...grep }))
const found = ["north", "east", "south", "west", "red", "green", "blue", "old", "new"]
const honest = found.map((name, turn) => ({ turn, ...grep, result: `${name}.ts:1: a` }))

describe("outlast guard", { timeout: 60_000 }, () => {
  it("prints one verdict per trace", async () => {
    const bad = await file("loop.jsonl", loop)
    const good = await file("honest.jsonl", honest)
    const run = await outlast(["guard", "--json", bad, good])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.deepStrictEqual(
      linesOf(run).map((line): unknown => JSON.parse(line)),
      [
        { file: bad, verdict: "stop", at: 5, reason: "tool_loop" },
        { file: good, verdict: "ok", at: null, reason: null }
      ]
    )
    const inWords = await outlast(["guard", bad, good])
    assert.include(
      inWords.stdout,
      "stop at call 5 of 9 (tool_loop): grep was called with the same arguments 5"
    )
    assert.include(inWords.stdout, "honest.jsonl: ok, 9 calls")
  })

  it("reads standard input, and calls without turn or failed", async () => {
    const lines = loop.map(({ tool, arguments: args, result }) => ({ tool, arguments: args, result }))
    const input = lines.map((line) => JSON.stringify(line)).join("\r\n\n")
    const run = await outlast(["guard", "--json", "-"], { input })
    assert.deepInclude(JSON.parse(run.stdout), { file: "-", verdict: "stop", at: 5 })
  })

  it("reports bad lines with their file and number, and judges the others", async () => {
    const secret = "sk-very-secret"
    const path = await file("bad.jsonl", [
      `{"tool":"${secret}`,
      "[]",
      { tool: 7 },
      ...loop,
      { ...grep, turn: "x" }
    ])
    const run = await outlast(["guard", "--json", path])
    assert.strictEqual(run.exitCode, 1)
    assert.deepInclude(JSON.parse(run.stdout), { verdict: "stop", at: 5 })
    assert.match(run.stderr, /bad\.jsonl: Line 1 is not JSON\. Expected one object a line/)
    assert.match(run.stderr, /bad\.jsonl: Line 2 is not an object/)
    assert.match(run.stderr, /bad\.jsonl: Line 3 has a wrong "tool"/)
    assert.match(run.stderr, /bad\.jsonl: Line 13 has a wrong "turn"/)
    assert.match(run.stderr, /bad\.jsonl: 4 of 13 lines could not be read\./)
    assert.notInclude(run.stderr, secret)
  })

  it("gives no verdict on a file without readable lines", async () => {
    const run = await outlast(["guard", "--json", await file("prose.jsonl", ["no trace", "at all"])])
    assert.strictEqual(run.exitCode, 1)
    assert.strictEqual(run.stdout, "")
    assert.match(run.stderr, /prose\.jsonl: 2 of 2 lines could not be read\./)
  })

  it("reads a named pipe", async () => {
    const run = await piped(["guard", "--json"], loop)
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.deepInclude(JSON.parse(run.stdout), { verdict: "stop", at: 5 })
  })

  it("judges the other files when one cannot be read, and exits with 2", async () => {
    const bad = await file("loop.jsonl", loop)
    const good = await file("honest.jsonl", honest)
    const run = await outlast(["guard", "--json", bad, join(folder, "nowhere.jsonl"), folder, good])
    assert.strictEqual(run.exitCode, 2)
    assert.deepStrictEqual(
      linesOf(run).map((line): unknown => JSON.parse(line)),
      [
        { file: bad, verdict: "stop", at: 5, reason: "tool_loop" },
        { file: good, verdict: "ok", at: null, reason: null }
      ]
    )
    assert.match(run.stderr, /nowhere\.jsonl cannot be read: the file does not exist/)
    assert.include(run.stderr, `The file ${folder} cannot be read: it is a directory`)
  })

  it("reports mistakes in the command, and exits with 2", async () => {
    for (const [args, said] of [
      [["guard"], /Which traces\?/],
      [["guard", join(folder, "nowhere.jsonl")], /nowhere\.jsonl cannot be read: the file does not exist/],
      [["guard", "--score", folder, "a.jsonl"], /no other files/],
      [["guard", "--score", join(folder, "nowhere")], /labels\.json cannot be read: the file does not exist/]
    ] as const) {
      const run = await outlast(args)
      assert.strictEqual(run.exitCode, 2)
      assert.match(run.stderr, said)
    }
  })
})

describe("outlast guard --score", { timeout: 60_000 }, () => {
  it("prints precision, recall and every miss; a stop before `stopFrom` is false", async () => {
    for (const name of ["a.jsonl", "d.jsonl", "e.jsonl"]) await file(name, loop)
    for (const name of ["b.jsonl", "c.jsonl"]) await file(name, honest)
    const labels = [
      { file: "a.jsonl", label: "stop", stopFrom: 4 },
      { file: "b.jsonl", label: "ok" },
      { file: "c.jsonl", label: "stop", stopFrom: 3 },
      { file: "d.jsonl", label: "ok" },
      { file: "e.jsonl", label: "stop", stopFrom: 6 }
    ]
    await file("labels.json", [labels])
    const run = await outlast(["guard", "--score", folder])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.include(
      run.stdout,
      "5 traces: 3 loops, of which 1 stopped and 1 stopped too early; 2 honest, of which 1 stopped."
    )
    assert.include(run.stdout, "The model is informed about 2 loops, and in 1 honest traces.")
    assert.include(run.stdout, "Precision 0.333, recall 0.333.")
    assert.include(run.stdout, "Stopped 1 calls late in the median.")
    assert.include(run.stdout, "c.jsonl: stop, got ok")
    assert.match(run.stdout, /d\.jsonl: ok, got stop at call 5 \(tool_loop\)/)
    assert.match(run.stdout, /e\.jsonl: stop, got stop at call 5 \(tool_loop\)/)
    const json: unknown = JSON.parse((await outlast(["guard", "--score", folder, "--json"])).stdout)
    assert.deepNestedInclude(json, { premature: 1, told: 2, late: 1, "misses[0].file": "c.jsonl" })
    // a: 4 of 9 calls are saved. d: 4 honest calls are lost; e: 1 call before `stopFrom`.
    assert.deepNestedInclude(json, { saved: 4, savable: 14, lost: 5 })
  })

  it("prints what the modes and other agents' rules cost", async () => {
    await file("a.jsonl", loop)
    await file("b.jsonl", honest)
    await file("labels.json", [
      [
        { file: "a.jsonl", label: "stop", stopFrom: 4 },
        { file: "b.jsonl", label: "ok" }
      ]
    ])
    const run = await outlast(["guard", "--score", folder])
    assert.match(run.stdout, /strict +1\.000 +1\.000 +0 +0 +4\n/)
    // The fifth equal call in a row does not run, whatever its results.
    assert.match(run.stdout, /gemini-cli +0\.500 +1\.000 +1 +5 +5\n/)
    const json: unknown = JSON.parse((await outlast(["guard", "--score", folder, "--json"])).stdout)
    assert.deepNestedInclude(json, {
      "costs[1].rules": "soft",
      "costs[3].rules": "OpenHands",
      "costs[3].saved": 5
    })
  })

  it("requires labels", async () => {
    await file("a.jsonl", loop)
    for (const [labels, said] of [
      ["{", /is not JSON/],
      ["{}", /is not a list/],
      ["[]", /nothing to score/],
      ['[{"file":"a.jsonl","label":"stop"}]', /wrong entry 0: expected \{ "file"/],
      [
        '[{"file":"a.jsonl","label":"ok"},{"file":"./a.jsonl","label":"stop","stopFrom":3}]',
        /two entries for \.\/a\.jsonl, 0 and 1/
      ],
      ['[{"file":"a.jsonl","label":"stop","stopFrom":9}]', /wrong "stopFrom" of a\.jsonl: 9, of 9 calls/]
    ] as const) {
      await file("labels.json", [labels])
      const run = await outlast(["guard", "--score", folder])
      assert.strictEqual(run.exitCode, 2)
      assert.match(run.stderr, said)
    }
  })
})

describe("the stuck rules of other agents", () => {
  const call = (n: number, result: unknown = "ok", failed = false) => ({
    turn: 0,
    tool: "t",
    arguments: { n },
    result,
    failed
  })
  const at = (name: string, calls: ReadonlyArray<ReturnType<typeof call>>) =>
    baselines.find((baseline) => baseline.name === name)?.stopAt(calls)
  const many = (count: number, of: (i: number) => ReturnType<typeof call>) =>
    Array.from({ length: count }, (_, i) => of(i))

  it("stop after the published numbers of calls", () => {
    assert.strictEqual(
      at(
        "OpenHands",
        many(9, () => call(1))
      ),
      4
    )
    assert.strictEqual(
      at(
        "OpenHands",
        many(9, () => call(1, "Error: no"))
      ),
      3
    )
    assert.strictEqual(
      at(
        "OpenHands",
        many(9, (i) => call(i % 2))
      ),
      6
    )
    assert.isUndefined(
      at(
        "OpenHands",
        many(9, (i) => call(1, i))
      )
    )
    assert.isUndefined(
      at(
        "OpenHands",
        many(9, (i) => call(i % 3))
      )
    )
    assert.strictEqual(
      at(
        "gemini-cli",
        many(9, (i) => call(1, i))
      ),
      4
    )
    assert.strictEqual(
      at(
        "opencode",
        many(9, (i) => call(1, i))
      ),
      2
    )
    for (const { stopAt } of baselines) assert.isUndefined(stopAt(many(9, call)))
  })
})

describe("the labelled traces", () => {
  const scoreOf = async (rename?: string): Promise<TraceScore.Score> => {
    const labels = Result.getOrThrow(TraceScore.labels(await readFile(join(traces, "labels.json"), "utf8")))
    const files = (await readdir(traces)).filter((name) => name.endsWith(".jsonl"))
    assert.sameMembers(
      labels.map(({ file }) => file),
      files
    )
    const pairs = labels.map(async (label) => {
      const lines = (await readFile(join(traces, label.file), "utf8")).trim().split("\n")
      const calls = lines.map((line, index) => Result.getOrThrow(Trace.parse(line, index)))
      const renamed = calls.map((call) => ({ ...call, tool: rename ?? call.tool }))
      return [label, renamed] as const
    })
    return TraceScore.ofTraces(await Promise.all(pairs))
  }

  it("are judged as docs/internals/decisions/strict-loop-rules.md states, with tools of any name", async () => {
    const score = await scoreOf()
    assert.approximately(score.loops / score.traces, 0.5, 0.05)
    assert.isAtLeast(score.precision, 0.84)
    assert.isAtLeast(score.recall, 0.49)
    assert.isAtLeast(score.told / score.loops, 0.9)
    assert.strictEqual(score.falselyStopped, 0)
    const renamed = await scoreOf("tool_x")
    assert.approximately(renamed.precision, score.precision, 0.03)
    assert.approximately(renamed.recall, score.recall, 0.03)
    assert.approximately(renamed.told / renamed.loops, score.told / score.loops, 0.03)
  })
})
