import { spawn } from "node:child_process"
import { closeSync, openSync } from "node:fs"
import { tmpdir } from "node:os"
import { Result } from "effect"
import { assert, describe, it } from "vitest"
import * as ErrorCase from "#cli/classify/cases/ErrorCase"
import { linesOf, main, outlast as start } from "./process.ts"
import { outlast } from "./run.ts"

const directory = tmpdir()

describe("a command line that cannot be run", { timeout: 60_000 }, () => {
  const misuse: ReadonlyArray<readonly [args: ReadonlyArray<string>, says: RegExp]> = [
    [["classify", "--nope"], /^outlast classify: .*--nope/m],
    [["classify", "a", "b"], /^outlast classify: .*"b"/m],
    [["classify", directory], /^outlast classify: The file .* cannot be read: it is a directory$/m],
    [["classify", "/nowhere.jsonl"], /cannot be read: the file does not exist$/m],
    [["explain", "--status", "abc"], /^outlast explain: .*--status/m],
    [["explain", "--status", "4.5"], /^outlast explain: .*--status/m],
    [["explain", "--status", "429", "extra"], /^outlast explain: .*"extra"/m],
    [["explain", "--error", directory], /cannot be read: it is a directory$/m],
    [["demo", "--provider", "nope"], /^outlast demo: .*--provider/m],
    [["nope"], /^outlast: .*"nope"/m],
    [["--nope"], /^outlast: .*--nope/m]
  ]
  for (const [args, says] of misuse) {
    it(`is reported on standard error with exit code 2: ${args.join(" ").replace(directory, "DIRECTORY")}`, async () => {
      const run = await outlast(args)
      assert.strictEqual(run.exitCode, 2, run.all)
      assert.match(run.stderr, says)
      assert.isAtMost(run.stderr.trim().split("\n").length, 4)
      assert.notMatch(run.stderr, /\n\s+at /)
      assert.strictEqual(run.stdout, "")
    })
  }

  it("is answered with the usage", async () => {
    const { exitCode, stderr, stdout } = await start(["classify", "--nope"])
    assert.deepStrictEqual([exitCode, stdout], [2, ""])
    assert.match(stderr, /^Usage: outlast classify \[flags\]/m)
    assert.match(stderr, /^See outlast classify --help\.$/m)
  })

  it("requested help goes to standard output", async () => {
    const run = await outlast(["classify", "--help"])
    assert.strictEqual(run.exitCode, 0)
    assert.include(run.stdout, "USAGE")
    assert.strictEqual(run.stderr, "")
  })
})

describe("output that cannot be written", { timeout: 60_000 }, () => {
  for (const args of [["classify"], ["explain"], ["classify", "--score"]]) {
    it(`ends ${args.join(" ")} with one line and exit code 1`, async ({ skip }) => {
      if (process.platform !== "linux") return skip("There is no /dev/full.")
      const full = openSync("/dev/full", "w")
      const child = spawn(process.execPath, [main, ...args], {
        stdio: ["pipe", full, "pipe"]
      })
      let stderr = ""
      child.stderr?.on("data", (chunk) => (stderr += chunk))
      child.stdin?.end('{"status":429,"expected":"rate_limit"}\n')
      const exitCode = await new Promise((resolve) => child.on("close", resolve))
      closeSync(full)
      assert.match(stderr, /^outlast: the output cannot be written: ENOSPC: no space left on device.*\n$/)
      assert.strictEqual(exitCode, 1)
    })
  }
})

describe('"-" as standard input', { timeout: 60_000 }, () => {
  const input = '{"status":429,"message":"x"}\n'
  it("classify -", async () => {
    const run = await outlast(["classify", "-"], { input })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.lengthOf(linesOf(run), 1)
    assert.include(run.stdout, '"rate_limit"')
  })
  it("explain --error -", async () => {
    const run = await outlast(["explain", "--error", "-"], { input })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.include(run.stdout, "reason   rate_limit")
  })
})

describe("fields of a line", () => {
  const parse = (line: object) => ErrorCase.parse(JSON.stringify(line))
  it("headers may be absent or repeated", () => {
    const headers = { a: null, b: ["7", "8"], c: [], d: [null, 9], e: 1, f: "x" }
    assert.deepStrictEqual(Result.getOrThrow(parse({ headers })).headers, { b: "7", d: "9", e: "1", f: "x" })
    assert.isTrue(Result.isFailure(parse({ headers: { a: [["x"]] } })))
    assert.isTrue(Result.isFailure(parse({ headers: { a: {} } })))
  })
  it("a name in another case is a mistake, not an absent field", () => {
    for (const line of [{ Status: 429 }, { status: 429, MESSAGE: "x" }, { Cause_Chain: [] }]) {
      const read = parse(line)
      assert.match(
        Result.isFailure(read) ? read.failure : "",
        /has a field "\w+"\. Expected it in lower case: "/
      )
    }
    assert.isTrue(Result.isSuccess(parse({ status: 429, Note: "x", source: "y" })))
  })
})
