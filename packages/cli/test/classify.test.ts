import { spawn } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Result } from "effect"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import * as ErrorCase from "#cli/classify/cases/ErrorCase"
import * as Comparison from "#cli/classify/Comparison"
import * as Decision from "#cli/classify/cases/Decision"
import * as Score from "#cli/classify/Score"
import * as Verdict from "#cli/classify/Verdict"
import { linesOf, main, outlast as start, piped } from "./process.ts"
import { outlast } from "./run.ts"

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-classify-"))
})
afterAll(() => rm(folder, { recursive: true }))

const file = async (name: string, content: string) => {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}

const limited = {
  id: "a",
  provider: "openai",
  status: 429,
  headers: { "Retry-After": "20" },
  message: "Slow down"
}

const given = (fields: object): ErrorCase.Case => Result.getOrThrow(ErrorCase.parse(JSON.stringify(fields)))

describe("outlast classify", { timeout: 60_000 }, () => {
  it("prints one verdict per line, in order", async () => {
    const run = await start(["classify"], {
      input: `${JSON.stringify(limited)}\r\n\n{"status":401,"message":"no"}\n  \n{"status":503}`
    })
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.strictEqual(run.stderr, "")
    const [first, second, third, ...none] = linesOf(run).map((line): unknown => JSON.parse(line))
    assert.deepNestedInclude(first, { id: "a", reason: "rate_limit", retryAfterMs: 20_000 })
    assert.sameMembers(Object.keys(Object(first)), ["id", "reason", "retryAfterMs", "evidence"])
    assert.deepNestedInclude(second, { id: null, reason: "auth", retryAfterMs: null, "evidence.depth": 0 })
    assert.deepNestedInclude(third, { reason: "overloaded", "evidence.signal": "status" })
    assert.deepStrictEqual(none, [])
  })

  it("reports bad lines with their number, counts them, and processes the others", async () => {
    const secret = "sk-very-secret"
    const path = await file(
      "bad.jsonl",
      [
        JSON.stringify(limited),
        `{"message":"${secret}`,
        "[]",
        "",
        '{"status":"429"}',
        '{"headers":["x"]}',
        '{"cause_chain":[{"name":7}]}',
        '{"message":7}',
        `{"body":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
        '{"status":500}'
      ].join("\n")
    )
    const run = await outlast(["classify", path])
    assert.strictEqual(run.exitCode, 1)
    assert.lengthOf(linesOf(run), 2)
    assert.match(run.stderr, /^Line 2 is not JSON\. Expected one object a line/m)
    assert.match(run.stderr, /^Line 3 is a list\. Expected an object/m)
    assert.match(run.stderr, /^Line 5 has a wrong "status"\. Expected an HTTP status/m)
    assert.match(run.stderr, /^Line 6 has a wrong "headers"/m)
    assert.match(run.stderr, /^Line 7 has a wrong "cause_chain"/m)
    assert.match(run.stderr, /^Line 8 has a wrong "message"/m)
    assert.match(run.stderr, /^Line 9 has a wrong "body"/m)
    assert.match(run.stderr, /^7 of 9 lines could not be read\.$/m)
    assert.notInclude(run.stderr, secret)
  })

  it("reads a named pipe", async () => {
    const run = await piped(["classify"], [limited, { status: 503 }])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.lengthOf(linesOf(run), 2)
  })

  it("reports a missing file, and exits with 2", async () => {
    const run = await outlast(["classify", join(folder, "nowhere.jsonl")])
    assert.strictEqual(run.exitCode, 2)
    assert.match(run.stderr, /nowhere\.jsonl cannot be read/)
    assert.notMatch(run.stderr, /\n\s+at /)
  })

  it("ends without an error when its reader closes the pipe", async () => {
    const path = await file("many.jsonl", `${JSON.stringify(limited)}\n`.repeat(20_000))
    const child = spawn(process.execPath, [main, "classify", path])
    let stderr = ""
    child.stderr.on("data", (chunk) => (stderr += chunk))
    child.stdout.once("data", () => child.stdout.destroy())
    await new Promise((resolve) => child.on("close", resolve))
    assert.strictEqual(stderr, "")
  })
})

describe("outlast classify --score", { timeout: 60_000 }, () => {
  const labelled = [
    { ...limited, expected: "rate_limit", retry_after_ms: 20_000 },
    { ...limited, id: "b", expected: "overloaded", alt: ["rate_limit"], retry_after_ms: 5_000 },
    { id: "c", status: 401, message: "no", expected: "billing", alt: [] }
  ]
  const input = labelled.map((line) => JSON.stringify(line)).join("\n")

  it("prints accuracy, waits, confusion and every miss with its evidence", async () => {
    const run = await outlast(["classify", "--score", await file("labelled.jsonl", input)])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    assert.match(run.stdout, /\| all +\| +3 \| +33\.3 % \| +66\.7 % \|/)
    assert.match(run.stdout, /\| openai +\| +2 \| +50\.0 % \| 100\.0 % \|/)
    assert.include(run.stdout, "Waits: 1 of 2 read as labelled; 0 read where none is labelled.")
    assert.match(
      run.stdout,
      /b: overloaded \(or rate_limit\), got rate_limit; wait 5000 ms, got 20000 ms; does key,/
    )
    assert.match(run.stdout, /c: billing, got auth \[.*depth 0\]/)
    assert.include(run.stdout, "Decisions: 66.7 % right beside another key and target, 100.0 % right alone.")
  })

  it("prints the same as one JSON object", async () => {
    const run = await outlast(["classify", "--score", "--compare", "--json"], { input })
    const found: unknown = JSON.parse(run.stdout)
    assert.deepNestedInclude(found, {
      overall: { cases: 3, strict: 1, lenient: 2 },
      waits: { right: 1, wrong: 1, madeUp: 0 },
      "confusion.overloaded.rate_limit": 1,
      "misses[0].id": "b",
      "misses[1].got.reason": "auth",
      "comparison[0].name": "HTTP status only"
    })
  })

  it("finds a wait wrong that differs by a second, and right where only the rounding differs", async () => {
    const input = [19_000, 19_999, 20_000, 20_001, 21_000].map((wait) => ({
      ...limited,
      id: `${wait}`,
      expected: "rate_limit",
      retry_after_ms: wait
    }))
    const run = await outlast(["classify", "--score", "--json"], {
      input: input.map((line) => JSON.stringify(line)).join("\n")
    })
    const found: { readonly misses: ReadonlyArray<{ readonly id: string }> } = JSON.parse(run.stdout)
    assert.deepNestedInclude(found, { waits: { right: 3, wrong: 2, madeUp: 0 } })
    assert.deepStrictEqual(
      found.misses.map(({ id }) => id),
      ["19000", "21000"]
    )
  })

  it("judges decisions by the actions of a case, or else by its label", async () => {
    const refused = { status: 400, message: "no", expected: "format" }
    const input = [
      { ...refused, id: "default" },
      { ...refused, id: "said", right: ["compact"] },
      { status: 401, message: "no", expected: "rate_limit", id: "reason" }
    ]
    const run = await outlast(["classify", "--score"], {
      input: input.map((line) => JSON.stringify(line)).join("\n")
    })
    assert.include(run.stdout, "Decisions: 66.7 % right beside another key and target, 33.3 % right alone.")
    assert.notMatch(run.stdout, /default:/)
    assert.match(run.stdout, /said: format; does target, alone stop, not compact \[/)
    assert.match(
      run.stdout,
      /reason: rate_limit, got auth; does key, alone stop, not repeat or key or target \[/
    )
  })

  it("rejects unknown actions", async () => {
    const run = await outlast(["classify", "--score"], { input: '{"expected":"auth","right":["pray"]}' })
    assert.match(run.stderr, /has a wrong "right"\. Expected a list of one or more of repeat, key, target, /)
  })

  it("requires a label on every line", async () => {
    const run = await outlast(["classify", "--score"], { input: '{"status":500}\n{"expected":"boom"}' })
    assert.strictEqual(run.exitCode, 1)
    assert.match(run.stderr, /Line 1 has a wrong "expected"\. Expected one of auth, billing/)
    assert.match(run.stderr, /No labelled case/)
    assert.match(run.stderr, /2 of 2 lines/)
  })
})

describe("a case", () => {
  it("becomes the error that a client would have thrown, without other fields of the line", () => {
    const fields = {
      id: "x",
      status: 500,
      code: 1311,
      headers: { a: "b" },
      body: { error: 1 },
      message: "m",
      cause_chain: [
        { name: "A", message: "outer", code: null },
        { name: "B", message: "inner", code: "EPIPE" }
      ]
    }
    assert.deepStrictEqual(ErrorCase.errorOf(given({ ...fields, expected: "auth", note: "rate limit" })), {
      message: "m",
      statusCode: 500,
      code: "1311",
      responseHeaders: { a: "b" },
      responseBody: '{"error":1}',
      cause: { name: "A", message: "outer", cause: { name: "B", message: "inner", code: "EPIPE" } }
    })
    const bare = given({ message: "what is this" })
    const noted = given({ message: "what is this", expected: "auth", note: "rate limit", source: "429" })
    assert.deepStrictEqual(Verdict.make(noted), Verdict.make(bare))
  })
})

/** True when the rule gives this class for one error. */
const said = (fields: object, expected: string, rule: string): boolean => {
  const labelled = Result.getOrThrow(ErrorCase.labelled(JSON.stringify({ ...fields, expected })))
  const rows = Comparison.add(Comparison.empty, labelled, Verdict.failureOf(labelled.case).reason)
  const row = rows.find(({ name }) => name === rule)
  assert.isDefined(row)
  return row?.rule.strict === 1
}

describe("a simpler rule", () => {
  const cases: ReadonlyArray<
    readonly [rule: string, fields: object, expected: string, right: boolean, why: string]
  > = [
    ["HTTP status only", { status: 429, message: "no money" }, "billing", false, "reads no text"],
    ["CodeBuddy, failover", { message: "read ECONNRESET" }, "network", true, "speaks its own words"],
    ["CodeBuddy, failover", { message: "rate_limit_error" }, "rate_limit", false, "wants a word's end"],
    ["CodeBuddy, recovery", { message: "request aborted" }, "network", false, "takes it for a cancel"],
    ["DECISION_037", { message: "token limit per minute: 429" }, "rate_limit", false, "overflow first"],
    ["DECISION_037", { message: "unexpected token" }, "format", true, "either side of a format"],
    ["learn-claude-code s11", { status: 529, message: "" }, "overloaded", true, "sees the status"],
    ["nexo-rs", { message: "socket hang up" }, "network", false, "retries no network blip"],
    ["claw0", { message: "failed to generate" }, "unknown", false, "finds rate in generate"]
  ]
  for (const [rule, fields, expected, right, why] of cases) {
    it(`${rule}: ${why}`, () => assert.strictEqual(said(fields, expected, rule), right))
  }
})

const fixtures: ReadonlyArray<readonly [file: string, strict: number, lenient: number, right: number]> = [
  ["public.jsonl", 0.98, 0.99, 0.99],
  // The rules were extended with this file in view. The test keeps what was gained.
  ["blind-2.jsonl", 0.92, 0.98, 0.99],
  // Errors that the rules were not written for.
  ["afterwards.jsonl", 0.97, 0.99, 0.97]
]
for (const [file, strict, lenient, right] of fixtures) {
  it(`${file} is classified with the promised accuracy`, async () => {
    const path = fileURLToPath(new URL(`../../../test/fixtures/corpus/${file}`, import.meta.url))
    const lines = (await readFile(path, "utf8")).trim().split("\n")
    const { overall, waits, decisions } = lines.reduce((score, line) => {
      const labelled = Result.getOrThrow(ErrorCase.labelled(line))
      return Score.add(
        score,
        labelled,
        Verdict.make(labelled.case),
        Decision.of(Verdict.failureOf(labelled.case))
      )
    }, Score.empty)
    assert.strictEqual(overall.cases, lines.length)
    assert.isAtLeast(overall.strict / overall.cases, strict)
    assert.isAtLeast(overall.lenient / overall.cases, lenient)
    assert.isAtLeast(decisions.beside / overall.cases, right)
    assert.strictEqual(waits.wrong, 0)
  })
}
