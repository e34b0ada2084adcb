/**
 * The tables of the documents say what the code does. `UPDATE_DOCS=1 npx vitest run test/docs.test.ts` writes them.
 * Code in them is quoted from code that runs.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Duration } from "effect"
import { assert, it } from "vitest"
import { RecoveryPolicy } from "@outlast/agent"

const file = fileURLToPath(new URL("../docs/failures.md", import.meta.url))

const backoffOf = ({ then, attempts, backoff }: RecoveryPolicy.Row): string =>
  then === "retry" && attempts > 1 && backoff._tag === "Exponential"
    ? `${attempts}: ${Duration.format(backoff.initial)} ×${backoff.factor}, cap ${Duration.format(backoff.cap)}`
    : then

const cooldownOf = ({ cooldown, retryAfter }: RecoveryPolicy.Row): string => {
  if (cooldown === undefined) return "none"
  if (cooldown.initial === "forever") return `${cooldown.scope}: until reset`
  const first = Duration.format(cooldown.initial)
  const cap = Duration.format(cooldown.cap)
  const length = first === cap ? first : `${first} ×${cooldown.factor}, cap ${cap}`
  return `${cooldown.scope}: ${retryAfter === "not-before" ? "what the server says, else " : ""}${length}`
}

it("docs/failures.md has the rows of the default policy", () => {
  const rows = Object.entries<RecoveryPolicy.Row>(RecoveryPolicy.interactive.rows).map(
    ([name, row]) =>
      `| ${name} | ${backoffOf(row)} | ${cooldownOf(row)} | ${row.worthWaiting ? "yes" : "no"} |`
  )
  const table = [
    "| class | attempts here | cooldown | worth waiting for |",
    "|---|---|---|---|",
    ...rows
  ].join("\n")
  const text = readFileSync(file, "utf8")
  assert.match(text, /<!-- policy -->/)
  const wanted = text.replace(
    /<!-- policy -->[\s\S]*<!-- \/policy -->/,
    `<!-- policy -->\n\n${table}\n\n<!-- /policy -->`
  )
  if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
  else assert.strictEqual(plain(text), plain(wanted))
})

/** Whose code blocks are quoted from where they are run. */
const quotes: Readonly<Record<string, string>> = {
  "composition.md": "packages/resilience/test/retry/Composition.test.ts"
}

for (const [doc, source] of Object.entries(quotes)) {
  it(`the code in docs/${doc} is that of ${source}`, () => {
    const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")
    const words = (code: string) => code.replace(/\s+/g, " ").trim()
    const code = words(read(source))
    const blocks = [...read(`docs/${doc}`).matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block = ""]) => block)
    assert.isNotEmpty(blocks)
    for (const part of blocks.flatMap((block) => block.split("\n\n"))) assert.include(code, words(part))
  })
}

/** The formatter pads tables. */
const plain = (markdown: string): string =>
  markdown
    .replace(/ +/g, " ")
    .replace(/-{3,}/g, "---")
    .replaceAll("| ---", "|---")
    .replaceAll("--- |", "---|")
