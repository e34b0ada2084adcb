/**
 * Checks that docs/internals/classification.md has the accuracy that the command prints.
 * `UPDATE_DOCS=1 npx vitest run packages/cli/test/accuracy.test.ts` writes it.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, it } from "vitest"
import { outlast } from "./run.ts"

const inProject = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))
const file = inProject("docs/internals/classification.md")

/** Output of `outlast classify --compare` for a set: the accuracy by provider, and the comparison with simpler rules. */
const compared = async (set: string): Promise<readonly [accuracy: string, comparison: string]> => {
  const run = await outlast(["classify", "--compare", inProject(`test/fixtures/corpus/${set}.jsonl`)])
  assert.strictEqual(run.exitCode, 0, run.stderr)
  const [accuracy = "", comparison = ""] = run.stdout.trim().split("\n\n")
  return [accuracy, comparison]
}

it(
  "docs/internals/classification.md has the accuracy that the command prints",
  { timeout: 60_000 },
  async () => {
    const tables = {
      unseen: (await compared("blind-7"))[1],
      accuracy: (await compared("public")).join("\n\n")
    }
    const text = readFileSync(file, "utf8")
    const wanted = Object.entries(tables).reduce((page, [mark, table]) => {
      assert.include(page, `<!-- ${mark} -->`)
      return page.replace(
        new RegExp(`<!-- ${mark} -->[\\s\\S]*<!-- /${mark} -->`),
        () => `<!-- ${mark} -->\n\n${table}\n\n<!-- /${mark} -->`
      )
    }, text)
    if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
    else assert.strictEqual(plain(text), plain(wanted))
  }
)

it("gives less than 95 % of the unseen errors their class of DECISION_037", { timeout: 60_000 }, async () => {
  const ours = async (set: string) => {
    const [, comparison] = await compared(set)
    const cells = /^\| DECISION_037 .*$/m.exec(comparison)?.[0].split("|") ?? []
    return Number(/[\d.]+/.exec(cells[5] ?? "")?.[0])
  }
  assert.isAtLeast(await ours("public"), 95)
  const unseen = [await ours("blind-7"), await ours("blind-6")]
  for (const share of unseen) {
    assert.isAtLeast(share, 80)
    assert.isBelow(share, 95)
  }
})

/** Removes the padding that the formatter adds to tables. */
const plain = (markdown: string): string => markdown.replace(/ +/g, " ").replace(/-{2,}/g, "-")
