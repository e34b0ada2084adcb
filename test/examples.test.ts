/**
 * Every example runs with one command and prints the expected output. The packages come from `dist`, as for users.
 */
import { spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "vitest"
import { says } from "./exampleOutputs.ts"

const folder = fileURLToPath(new URL("../examples/", import.meta.url))

const run = (file: string): Promise<{ readonly exitCode: number | null; readonly output: string }> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [file], { cwd: folder })
    let output = ""
    child.stdout.on("data", (chunk) => (output += chunk))
    child.stderr.on("data", (chunk) => (output += chunk))
    child.on("close", (exitCode) => resolve({ exitCode, output }))
  })

describe("examples", () => {
  const files = readdirSync(folder).filter((name) => name.endsWith(".ts"))
  for (const file of files) {
    it(file, { timeout: 120_000 }, async ({ skip }) => {
      const { exitCode, output } = await run(file)
      // An example that lacks a program says so. Where programs are required, that is a failure.
      const needs = /^This example needs [\w-]+ on the PATH\.\n$/.test(output)
      if (needs && process.env["OUTLAST_REQUIRE_SERVICES"] !== "1") return skip(output.trim())
      assert.strictEqual(exitCode, 0, output)
      assert.match(output, says[file] ?? /^ $/, output)
    })
  }

  it("each is a script of the workspace", () => {
    const { scripts } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"))
    assert.deepStrictEqual(Object.keys(scripts).sort(), files.map((name) => name.slice(0, -3)).sort())
  })
})
