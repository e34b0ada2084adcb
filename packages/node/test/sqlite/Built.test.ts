/** The worker thread as it is published: the bundled JavaScript, without the export condition of the sources. */
import { assert, it } from "vitest"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("../support/plain.mjs", import.meta.url))

it("runs from dist, and lets a program end that has not closed its client", () => {
  const folder = mkdtempSync(join(tmpdir(), "outlast-node-"))
  try {
    const output = execFileSync(process.execPath, [program, join(folder, "a.db")], {
      encoding: "utf8",
      timeout: 30_000
    })
    assert.strictEqual(output, '[{"a":"stored"}]\nnode/dist/index.js\n')
  } finally {
    rmSync(folder, { recursive: true })
  }
})
