/** The messages for wrong use of the command: on standard error, without a stack, with a non-zero exit code. */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { outlast as start } from "./process.ts"
import { outlast } from "./run.ts"

let folder = ""

const files = {
  "list.json": "[1, 2]",
  "status.json": `{ "status": "many" }`,
  "faults.json": `{ "faults": 3 }`,
  "fault.json": `{ "faults": [{ "fault": { "type": "timeout" } }] }`,
  "bytes.jsonl": "\u0000\u0001"
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-wrong-use-"))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
})
afterAll(() => rm(folder, { recursive: true }))

const emptyFlag = (command: string, flag: string) =>
  `outlast ${command}: Missing value for flag --${flag}. Expected a text that is not empty`
const emptyFile = (command: string) =>
  `outlast ${command}: Invalid value for argument <file>: "". Expected a text that is not empty`
const errorFields =
  "the fields id, provider, status, code, headers, body, message and cause_chain, all optional"

/** FOLDER is the folder of the files. */
const rows: ReadonlyArray<readonly [args: ReadonlyArray<string>, exitCode: number, message: string]> = [
  [["demo", "--model", ""], 2, emptyFlag("demo", "model")],
  [["demo", "--plan", ""], 2, emptyFlag("demo", "plan")],
  [
    ["demo", "--plan", "FOLDER/none.json"],
    2,
    "outlast demo: The plan FOLDER/none.json cannot be read: the file does not exist"
  ],
  [["demo", "--plan", "FOLDER"], 2, "outlast demo: The plan FOLDER cannot be read: it is a directory"],
  [
    ["demo", "--plan", "FOLDER/faults.json"],
    2,
    `outlast demo: The plan FOLDER/faults.json cannot be used. This is not a fault plan.\nExpected array\n  at ["faults"]`
  ],
  [
    ["demo", "--plan", "FOLDER/fault.json"],
    2,
    `outlast demo: The plan FOLDER/fault.json cannot be used. This is not a fault plan.\nExpected a fault: status, reset, cut, stall, stream-error, slow, garbage, finish or repeat\n  at ["faults"][0]["fault"]`
  ],
  [["demo", "--seed", "seven"], 2, `outlast demo: Invalid value for flag --seed: "seven". Expected a number`],
  [["explain", "--error", ""], 2, emptyFlag("explain", "error")],
  [["explain", "--status", "429", "--provider", ""], 2, emptyFlag("explain", "provider")],
  [
    ["explain", "--status", "429x"],
    2,
    `outlast explain: Invalid value for flag --status: "429x". Expected a number`
  ],
  [
    ["explain", "--status", "42"],
    2,
    `outlast explain: The error has a wrong "status". Expected an HTTP status from 100 to 599, or null.`
  ],
  [
    ["explain", "--error", "FOLDER/list.json"],
    2,
    `outlast explain: The error is a list. Expected an object with ${errorFields}.`
  ],
  [["classify", ""], 2, emptyFile("classify")],
  [
    ["classify", "FOLDER/status.json"],
    1,
    `Line 1 has a wrong "status". Expected an HTTP status from 100 to 599, or null.\n1 of 1 line could not be read.`
  ],
  [["guard", ""], 2, emptyFile("guard")],
  [["guard", "--score", ""], 2, emptyFlag("guard", "score")],
  [["doctor", ""], 2, emptyFile("doctor")],
  [["compact", ""], 2, emptyFile("compact")],
  [["compact", "FOLDER/list.json", "--out", ""], 2, emptyFlag("compact", "out")],
  [
    ["compact", "FOLDER/bytes.jsonl", "--window", "many"],
    2,
    `outlast compact: Invalid value for flag --window: "many". Expected a number`
  ]
]

describe("a wrong use", { timeout: 120_000 }, () => {
  it.each(rows)("%j exits with %i and a reason", async (args, exitCode, message) => {
    const run = await outlast(args.map((arg) => arg.replace("FOLDER", folder)))
    const usage = run.stderr.indexOf("\nUsage: ")
    const said = (usage === -1 ? run.stderr : run.stderr.slice(0, usage)).trimEnd()
    assert.strictEqual(said.replaceAll(folder, "FOLDER"), message)
    assert.strictEqual(run.exitCode, exitCode)
    assert.strictEqual(run.stdout, "")
  })

  it("doctor names a missing file", async () => {
    const run = await start(["doctor", join(folder, "none")])
    assert.include(run.all, `${join(folder, "none")}: The file does not exist.`)
    assert.strictEqual(run.exitCode, 1)
  })
})
