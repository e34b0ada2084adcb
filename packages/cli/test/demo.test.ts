/** Runs the demo like a user: real files, real HTTP on this machine, and separate processes where they matter. */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import type { Summary } from "#cli/demo/Summary"
import { outlast as start } from "./process.ts"
import type { Run } from "./process.ts"
import { outlast } from "./run.ts"

/** Returns the JSON, which is all of standard output. */
const summaryOf = ({ stdout }: Run): Summary => JSON.parse(stdout)

let folder = ""
const file = async (name: string, content: string) => {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-test-"))
})
afterAll(() => rm(folder, { recursive: true }))

describe("outlast demo", () => {
  it("dies mid-stream on the AI SDK, and does the same job with Outlast", { timeout: 60_000 }, async () => {
    const run = await start(["demo", "--json"])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.strictEqual(run.stderr, "")
    const { targets, without, ...summary } = summaryOf(run)
    // The SDK's own retries get over the rate limit: its second and third request are one turn.
    assert.deepStrictEqual(without, {
      outcome: "failed",
      error: "Failed to process successful response (terminated)",
      requests: 4,
      toolCalls: 4,
      jobVerified: false
    })
    assert.deepInclude(summary, { outcome: "completed", toolCalls: 6, jobVerified: true })
    assert.isAtLeast(summary.attempts, 8)
    assert.isAtLeast(summary.switches, 2)
    assert.isAtLeast(summary.waits, 2)
    assert.isAbove(summary.costUsd, 0)
    assert.strictEqual(targets.length, 3)
  })

  it(
    "shows both runs in 80 columns, with labels above the server's column",
    { timeout: 60_000 },
    async () => {
      const run = await outlast(["demo"])
      assert.strictEqual(run.exitCode, 0, run.all)
      const lines = run.stdout.trimEnd().split("\n")
      for (const line of lines) assert.isAtMost(line.length, 80, line)
      assert.notInclude(run.stdout, "\u001b[")
      const at = lines.findIndex((line) =>
        line.includes("Without Outlast: the AI SDK with its default retries")
      )
      assert.strictEqual(lines[at + 1], "  A model of the SDK has one key of one provider.")
      const [heading = "", first = ""] = lines.slice(at + 2)
      assert.match(heading, /the agent +│ the servers: provider, key, answer/)
      assert.strictEqual(first.indexOf("│"), heading.indexOf("│"))
      const without = lines.slice(at, lines.indexOf("  The agent died; the job is not done.")).join("\n")
      assert.match(without, /429 retry-after: 3\n +3\.\d\ds .* 200\n[^]*200, reset mid-stream\n[^]*✗ Failed/)
      assert.include(run.stdout, "With Outlast: the same program and faults, another model")
    }
  )

  it("puts both columns under each other in 50 columns", { timeout: 60_000 }, async () => {
    const plan = await file("short.json", JSON.stringify({ answers: [{ text: "Done." }], faults: [] }))
    const run = await outlast(["demo", "--plan", plan], { env: { COLUMNS: "50" } })
    const lines = run.stdout.trimEnd().split("\n")
    for (const line of lines) assert.isAtMost(line.length, 50, line)
    assert.match(
      run.stdout,
      / {9}the agent\n {9}│ the servers: provider, key, answer\n +0\.\d\ds {2}│ anthropic …ey-1 200\n/
    )
    assert.match(run.stdout, /→ anthropic\/claude-sonnet-4-5#key-1\n/, "no word is broken")
  })

  it("detects a job that was not done: a corrupted edit is not verified", { timeout: 60_000 }, async () => {
    const plan = await file(
      "corrupted.json",
      JSON.stringify({
        answers: [
          {
            toolCalls: [
              {
                name: "edit_file",
                params: { path: "src/cart.mjs", find: "(1 - percent)", replace: "(1 - per" }
              }
            ]
          },
          // Changing the test instead of the code does not help.
          {
            toolCalls: [
              { name: "edit_file", params: { path: "test/cart.test.mjs", find: "850", replace: "-14000" } }
            ]
          },
          { text: "All tests pass." }
        ],
        faults: []
      })
    )
    const run = await outlast(["demo", "--json", "--plan", plan])
    assert.strictEqual(run.exitCode, 1, run.all)
    assert.deepInclude(summaryOf(run), { outcome: "completed", toolCalls: 2, jobVerified: false })
  })

  it(
    "ends although the edited code never does, and gives it nothing of our environment",
    { timeout: 60_000 },
    async () => {
      const edit = (find: string, replace: string) => ({
        toolCalls: [{ name: "edit_file", params: { path: "src/cart.mjs", find, replace } }]
      })
      const plan = await file(
        "thief.json",
        JSON.stringify({
          answers: [
            edit(
              "export const total",
              "if (process.env.SECRET_OF_THE_HOST) while (true) {}\nexport const total"
            ),
            edit("(1 - percent)", "(1 - percent / 100)"),
            { text: "Done." }
          ],
          faults: []
        })
      )
      const run = await start(["demo", "--json", "--plan", plan], { env: { SECRET_OF_THE_HOST: "x" } })
      assert.deepInclude(summaryOf(run), { outcome: "completed", jobVerified: true })
    }
  )

  it("reports a failed run, and exits with 1", { timeout: 60_000 }, async () => {
    const plan = await file(
      "dead.json",
      JSON.stringify({ faults: [{ times: "always", fault: { type: "status", status: 401 } }] })
    )
    const run = await outlast(["demo", "--json", "--plan", plan])
    assert.strictEqual(run.exitCode, 1)
    assert.deepInclude(summaryOf(run), { outcome: "failed", jobVerified: false })
    assert.include((await outlast(["demo", "--plan", plan])).stdout.replaceAll(/\n +/g, " "), "Set key-3")
  })

  const misuse: ReadonlyArray<
    readonly [what: string, args: () => Promise<ReadonlyArray<string>>, says: RegExp]
  > = [
    ["a provider without its key", async () => ["--provider", "anthropic"], /set ANTHROPIC_API_KEY/],
    ["an unknown provider", async () => ["--provider", "acme"], /anthropic/],
    ["a plan that is not there", async () => ["--plan", join(folder, "nowhere.json")], /cannot be read/],
    ["a plan that is not JSON", async () => ["--plan", await file("bad.json", "{")], /is not JSON/],
    [
      "a plan that is no plan",
      async () => ["--plan", await file("no.json", '{"faults":[{"fault":{"type":"boom"}}]}')],
      /faults/
    ],
    ["a plan that is a list", async () => ["--plan", await file("list.json", "[]")], /cannot be used/],
    ["a plan for a real provider", async () => ["--provider", "openai", "--seed", "1"], /leave them out/],
    ["a model of no provider", async () => ["--model", "gpt-5.1"], /names a model of --provider/],
    ["a plan and a seed", async () => ["--plan", await file("ok.json", "{}"), "--seed", "1"], /not both/],
    ["a seed that is no number", async () => ["--seed", "x"], /seed/]
  ]
  for (const [what, args, says] of misuse) {
    it(`reports ${what}`, { timeout: 60_000 }, async () => {
      const run = await outlast(["demo", ...(await args())])
      assert.notStrictEqual(run.exitCode, 0)
      assert.match(run.all, says)
      assert.notMatch(run.all, /\n\s+at .*\(.*:\d+:\d+\)/, "no stack trace for a user's mistake")
    })
  }

  it("prints a mistake with --json as one JSON object with a tag", { timeout: 60_000 }, async () => {
    const run = await outlast(["demo", "--json", "--plan", join(folder, "nowhere.json")])
    assert.deepStrictEqual([run.exitCode, run.stderr], [2, ""])
    const { error } = JSON.parse(run.stdout)
    assert.strictEqual(error._tag, "UsageError")
    assert.match(error.message, /cannot be read/)
  })

  it("exits with 2 when the key of a real provider is missing or empty", { timeout: 60_000 }, async () => {
    for (const [provider, variable] of [
      ["openai", "OPENAI_API_KEY"],
      ["google", "GOOGLE_GENERATIVE_AI_API_KEY"]
    ] as const) {
      const run = await outlast(["demo", "--provider", provider], { env: { [variable]: "" } })
      assert.strictEqual(run.exitCode, 2, run.all)
      assert.include(run.all, `set ${variable}`)
    }
  })
})
