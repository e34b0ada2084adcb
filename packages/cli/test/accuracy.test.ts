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

it(
  "docs/internals/classification.md has the accuracy that the command prints",
  { timeout: 60_000 },
  async () => {
    const run = await outlast(["classify", "--compare", inProject("test/fixtures/corpus/public.jsonl")])
    assert.strictEqual(run.exitCode, 0, run.stderr)
    const text = readFileSync(file, "utf8")
    assert.match(text, /<!-- accuracy -->/)
    const wanted = text.replace(
      /<!-- accuracy -->[\s\S]*<!-- \/accuracy -->/,
      () => `<!-- accuracy -->\n\n${run.stdout.trim()}\n\n<!-- /accuracy -->`
    )
    if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
    else assert.strictEqual(plain(text), plain(wanted))
  }
)

/** Removes the padding that the formatter adds to tables. */
const plain = (markdown: string): string => markdown.replace(/ +/g, " ").replace(/-{2,}/g, "-")
