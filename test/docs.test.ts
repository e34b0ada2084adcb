/**
 * Checks the documents against the code: tables of policies, names of fields, quoted examples.
 * `UPDATE_DOCS=1 npx vitest run test/docs.test.ts` writes the tables.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { Duration } from "effect"
import { Yaml } from "effect/encoding"
import { assert, it } from "vitest"
import { Presets, RecoveryPolicy } from "@outlast/agent"
import { Host } from "@outlast/node"
import { Registry } from "@outlast/providers"
import { FaultPlan } from "@outlast/testing"
import { sections } from "../scripts/figures/page.ts"

const backoffOf = ({ then, attempts, backoff }: RecoveryPolicy.Row): string =>
  then === "retry" && attempts > 1 && backoff._tag === "Exponential"
    ? `${attempts}: ${Duration.format(backoff.initial)} ×${backoff.factor}, cap ${Duration.format(backoff.cap)}`
    : then

const cooldownOf = ({ cooldown }: RecoveryPolicy.Row): string => {
  if (cooldown === undefined) return "none"
  if (cooldown.initial === "forever") return `${cooldown.scope}: until reset`
  const first = Duration.format(cooldown.initial)
  const cap = Duration.format(cooldown.cap)
  const length = first === cap ? first : `${first} ×${cooldown.factor}, cap ${cap}`
  return `${cooldown.scope}: ${cooldown.retryAfter === "not-before" ? "what the server says, else " : ""}${length}`
}

const tableOf = (policy: RecoveryPolicy.RecoveryPolicy<string>): string =>
  [
    "| class | attempts here | cooldown | worth waiting for |",
    "|---|---|---|---|",
    ...Object.entries(policy.rows).map(
      ([name, row]) =>
        `| ${name} | ${backoffOf(row)} | ${cooldownOf(row)} | ${row.worthWaiting ? "yes" : "no"} |`
    )
  ].join("\n")

const constructors = [
  "| constructor | wire format | default key |",
  "|---|---|---|",
  ...Registry.providers.flatMap(({ constructors, keys }) =>
    constructors.map(({ name, speaks }) => {
      const names = keys.map((key) => `\`${key}\``).join(", ")
      return `| \`${name}\` | ${speaks} | ${names === "" ? "none" : names} |`
    })
  ),
  "| `ForeignModel.target` (`@outlast/agent`) | any `effect/ai` layer | the layer's own |"
].join("\n")

/** Document, mark of its table, the table. */
const tables: ReadonlyArray<readonly [string, string, string]> = [
  ["lookup/failures.md", "policy", tableOf(RecoveryPolicy.interactive)],
  // `interactive` and `background` have the table of docs/lookup/failures.md.
  ...Object.entries({
    codebuddy: Presets.codebuddy,
    decision037: Presets.decision037,
    s11: Presets.s11,
    nexo: Presets.nexo,
    claw0: Presets.claw0
  }).map(([name, { policy }]) => ["lookup/presets.md", name, tableOf(policy)] as const),
  ["lookup/providers.md", "constructors", constructors]
]

for (const [doc, mark, table] of tables) {
  it(`docs/${doc} has the table of the code: ${mark}`, () => {
    const file = fileURLToPath(new URL(`../docs/${doc}`, import.meta.url))
    const text = readFileSync(file, "utf8")
    const [open, close] = [`<!-- ${mark} -->`, `<!-- /${mark} -->`]
    assert.include(text, open)
    const [before = "", rest = ""] = text.split(open)
    const wanted = `${before}${open}\n\n${table}\n\n${close}${rest.split(close)[1]}`
    if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
    else assert.strictEqual(plain(text), plain(wanted))
  })
}

const { truncation, probe } = RecoveryPolicy.interactive

/** Document, name of the record, its fields. */
const documented: ReadonlyArray<readonly [string, string, ReadonlyArray<string>]> = [
  ["lookup/policy.md", "a policy", Object.keys(RecoveryPolicy.interactive)],
  ["lookup/policy.md", "a row", Object.keys(RecoveryPolicy.base)],
  ["lookup/policy.md", "a cooldown", Object.keys(RecoveryPolicy.steady("key", "1 second"))],
  ["lookup/policy.md", "the ladder and probes", Object.keys({ ...truncation, ...probe })],
  ["do/testing.md", "an answer", Object.keys(FaultPlan.Answer.fields)],
  ["do/testing.md", "a step", Object.keys({ ...FaultPlan.Step.fields, ...FaultPlan.When.fields })],
  [
    "do/testing.md",
    "a fault",
    FaultPlan.Fault.members.flatMap(({ fields }) => [fields.type.literal, ...Object.keys(fields)])
  ]
]

for (const [doc, of, fields] of documented) {
  it(`docs/${doc} names every field of ${of}`, () => {
    const text = readFileSync(new URL(`../docs/${doc}`, import.meta.url), "utf8")
    for (const field of fields) assert.include(text, `\`${field}\``)
  })
}

/** Documents, with the test that runs their code blocks. */
const quotes: Readonly<Record<string, string>> = {
  "understand/composition.md": "packages/resilience/test/retry/Composition.test.ts"
}

for (const [doc, source] of Object.entries(quotes)) {
  it(`the code in docs/${doc} is that of ${source}`, () => {
    const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")
    const words = (code: string) => code.replace(/\s+/g, " ").trim()
    const code = words(read(source))
    // The block with the imports is the page's own.
    const blocks = [...read(`docs/${doc}`).matchAll(/```ts\n(?!import)([\s\S]*?)```/g)].map(
      ([, block = ""]) => block
    )
    assert.isNotEmpty(blocks)
    for (const part of blocks.flatMap((block) => block.split("\n\n"))) assert.include(code, words(part))
  })
}

it("docs/do/host.md has the files of examples/host, and the limits of the code", () => {
  const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")
  const doc = read("docs/do/host.md")
  for (const file of ["kubernetes.yaml", "agent.service"]) assert.include(doc, read(`examples/host/${file}`))
  for (const [phase, limit] of Object.entries(Host.defaults.limits)) {
    assert.match(
      doc,
      new RegExp(`\\| \`${phase}\` +\\| [^|]+ \\| ${Duration.format(limit).replace("s", " s")} `)
    )
  }
  // What kills the program must leave it its time.
  const total = Duration.toSeconds(Host.defaults.total)
  const manifest = Yaml.parse(read("examples/host/kubernetes.yaml"))
  const grace = /terminationGracePeriodSeconds: (\d+)/.exec(
    JSON.stringify(manifest).replaceAll('"', "").replaceAll(":", ": ")
  )
  assert.isAbove(Number(grace?.[1]), total)
  const stop = /TimeoutStopSec=(\d+)/.exec(read("examples/host/agent.service"))
  assert.isAbove(Number(stop?.[1]), total)
})

const root = fileURLToPath(new URL("..", import.meta.url))
const pages = globSync(["*.md", "llms.txt", "docs/**/*.md", "packages/*/README.md"], { cwd: root })

/** Paths, from the root, that a page links to. Links to the web and inside the page are left out. */
const linksOf = (page: string): ReadonlyArray<string> =>
  [...readFileSync(join(root, page), "utf8").matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)].map(([, path = ""]) =>
    join(dirname(page), path)
  )

it("docs/internals/figures.md gives each command a date, a time and a script that exists", () => {
  const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(
    readFileSync(new URL("../package.json", import.meta.url), "utf8")
  )
  const found = sections()
  assert.isNotEmpty(found)
  for (const { name, measured, minutes, command } of found) {
    assert.match(measured, /^Measured \d{4}-\d\d-\d\d/, name)
    assert.isAbove(minutes, 0, name)
    assert.property(scripts, command[1] ?? "", name)
  }
})

it("docs/internals/figures.md names rows that the benches have", () => {
  const tracked: Readonly<Record<string, Readonly<Record<string, number>>>> = JSON.parse(
    readFileSync(new URL("../bench/figures.json", import.meta.url), "utf8")
  )
  const rows = sections().flatMap(({ command, figures }) => {
    const bench = command.includes("--json") ? tracked[command[3] ?? ""] : undefined
    return bench === undefined ? [] : figures.map(({ row }) => ({ row, isTracked: row in bench }))
  })
  assert.isNotEmpty(rows)
  assert.deepStrictEqual(
    rows.filter(({ isTracked }) => !isTracked),
    []
  )
})

it("every link of a page leads to a file", () => {
  const broken = pages.flatMap((page) =>
    linksOf(page)
      .filter((path) => !existsSync(join(root, path)))
      .map((path) => `${page}: ${path}`)
  )
  assert.deepStrictEqual(broken, [])
})

it("every path in code of a page of the internals leads to a file", () => {
  const missing = globSync("docs/internals/**/*.md", { cwd: root }).flatMap((page) =>
    [
      ...readFileSync(join(root, page), "utf8").matchAll(
        /`((?:packages|test|scripts|examples|bench)\/[\w/.-]+)`/g
      )
    ]
      .map(([, path = ""]) => path)
      .filter((path) => !existsSync(join(root, path)))
      .map((path) => `${page}: ${path}`)
  )
  assert.deepStrictEqual(missing, [])
})

it("the index links every page", () => {
  const linked = linksOf("docs/README.md")
  const missing = pages.filter(
    (page) =>
      page.startsWith("docs/") &&
      page !== "docs/README.md" &&
      !linked.includes(page) &&
      !linked.includes(dirname(page))
  )
  assert.deepStrictEqual(missing, [])
})

/** The shelves of the index, without the sentences between the lists, and with paths from the root. */
const shelves = (): string => {
  const index = readFileSync(join(root, "docs/README.md"), "utf8")
  return index
    .slice(index.indexOf("\n## Learn"))
    .split("\n")
    .flatMap((line) => {
      if (line.startsWith("## ")) return ["", line, ""]
      const [, link = "", path, rest = ""] = /^(?:-|\d\.) (\[.+?\])\((.+?)\)(.*)$/.exec(line) ?? []
      return path === undefined ? [] : [`- ${link}(${join("docs", path)})${rest}`]
    })
    .join("\n")
}

it("llms.txt has the shelves of the index (UPDATE_DOCS=1 writes them)", () => {
  const file = join(root, "llms.txt")
  const text = readFileSync(file, "utf8")
  assert.include(text, "\n\n## Learn")
  const wanted = `${text.slice(0, text.indexOf("\n\n## Learn") + 1)}${shelves()}\n`
  if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
  else assert.strictEqual(text, wanted)
})

/** Removes the padding that the formatter adds to tables. */
const plain = (markdown: string): string =>
  markdown
    .replace(/ +/g, " ")
    .replace(/-{3,}/g, "---")
    .replaceAll("| ---", "|---")
    .replaceAll("--- |", "---|")
