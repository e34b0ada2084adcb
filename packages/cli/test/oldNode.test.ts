/** The command on a Node that is too old for it. */
import { assert, it } from "vitest"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url))

const onNode = (version: string) => {
  const versions = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`
  return spawnSync(
    process.execPath,
    ["--import", `data:text/javascript,${encodeURIComponent(versions)}`, main, "--version"],
    { encoding: "utf8" }
  )
}

it.each(["18.20.8", "20.20.2", "22.15.1"])("says in one sentence that Node %s is too old", (version) => {
  const { status, stderr, stdout } = onNode(version)
  assert.strictEqual(
    stderr,
    `outlast needs Node 22.16 or newer, and this is Node ${version}. Install a newer one: https://nodejs.org\n`
  )
  assert.strictEqual(stdout, "")
  assert.strictEqual(status, 1)
})

it("runs on Node 22.16", () => {
  assert.match(onNode("22.16.0").stdout, /^outlast v\d/)
})
