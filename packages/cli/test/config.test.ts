/** `outlast config`: files in three formats, problems with their place, and the published JSON Schemas. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { parse } from "#cli/config/SettingsFile"
import { schemaOf } from "#cli/config/ConfigCheck"
import { kinds } from "#cli/config/Kinds"
import { outlast } from "./run.ts"

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "outlast-config-"))
})
afterAll(() => rm(folder, { recursive: true }))

const written = async (name: string, text: string) => {
  const path = join(folder, name)
  await writeFile(path, text)
  return path
}

const yaml = `# For the nightly run
policy:
  preset: background
  deadline: 20 minutes
  limits:
    connect: 5 seconds
  rows:
    RateLimit:
      attempts: 8
guard:
  turns: 50
`
const toml = `[policy]
preset = "background"
deadline = "20 minutes"

[policy.limits]
connect = "5 seconds"

[policy.rows.RateLimit]
attempts = 8

[guard]
turns = 50
`
const json = JSON.stringify({
  $schema: "./node_modules/outlast/schema/outlast.schema.json",
  policy: {
    preset: "background",
    deadline: "20 minutes",
    limits: { connect: "5 seconds" },
    rows: { RateLimit: { attempts: 8 } }
  },
  guard: { turns: 50 }
})

describe("outlast config check", { timeout: 60_000 }, () => {
  it("reads the same settings from YAML, TOML and JSON", async () => {
    const files = [
      ["YAML", await written("ok.yaml", yaml)],
      ["TOML", await written("ok.toml", toml)],
      ["JSON", await written("ok.json", json)]
    ] as const
    for (const [format, file] of files) {
      const run = await outlast(["config", "check", file, "--json"])
      assert.deepStrictEqual([run.exitCode, run.stderr], [0, ""], run.all)
      assert.deepStrictEqual(JSON.parse(run.stdout), {
        file,
        format,
        kind: "outlast",
        settings: [
          "policy.preset",
          "policy.deadline",
          "policy.limits.connect",
          "policy.rows.RateLimit.attempts",
          "guard.turns"
        ]
      })
    }
    const run = await outlast(["config", "check", files[0][1]])
    assert.strictEqual(run.stdout, `${files[0][1]}: YAML, 5 settings, all of them valid\n`)
  })

  it("names the path of every problem, and quotes no value", async () => {
    const file = await written(
      "wrong.yaml",
      "policy:\n  maxAttemps: 3\n  deadline: sk-very-secret\nguard:\n  turns: 0\n"
    )
    const run = await outlast(["config", "check", file])
    assert.deepStrictEqual([run.exitCode, run.stdout], [1, ""])
    assert.match(run.stderr, /wrong\.yaml has 3 problems\.\n/)
    assert.match(
      run.stderr,
      /\n {2}policy\.maxAttemps: is not a field\. Did you mean maxAttempts\? Fields: preset, maxAttempts, /
    )
    assert.match(run.stderr, /\n {2}policy\.deadline: expected a time such as "30 seconds"/)
    assert.match(run.stderr, /\n {2}guard\.turns: expected a value between 1 and 1000000\n/)
    assert.notInclude(run.stderr, "secret")
    const { error } = JSON.parse((await outlast(["config", "check", file, "--json"])).stdout)
    assert.strictEqual(error._tag, "WrongSettings")
    assert.deepStrictEqual(error.problems.map(({ path }: { readonly path: string }) => path).sort(), [
      "guard.turns",
      "policy.deadline",
      "policy.maxAttemps"
    ])
  })

  it("reads the routes of a gateway, and names a mistake with the nearest word", async () => {
    const routes = (target: string) =>
      `[policy]\npreset = "interactive"\n\n[[routes.smart.targets]]\n${target}\nmodel = "gpt-5.1"\n`
    const good = await written("routes.toml", routes('provider = "openai"'))
    const checked = await outlast(["config", "check", good])
    assert.include(
      checked.stdout,
      "routes.toml: TOML with routes of a gateway, 2 settings, all of them valid"
    )
    assert.strictEqual(
      JSON.parse((await outlast(["config", "check", good, "--json"])).stdout).kind,
      "gateway"
    )
    const bad = await written("bad.toml", routes('provider = "opnai"\nkey = ["OPENAI_API_KEY"]'))
    const run = await outlast(["config", "check", bad])
    assert.strictEqual(run.exitCode, 1)
    assert.match(run.stderr, /\n {2}routes\.smart\.targets\[0\]\.key: is not a field\. Did you mean keys\?/)
    assert.match(
      run.stderr,
      /\n {2}routes\.smart\.targets\[0\]\.provider: expected .*\. Did you mean openai\?/
    )
    const url = await written(
      "url.json",
      '{"routes":{"a":{"targets":[{"provider":"compatible","model":"m"}]}}}'
    )
    assert.match(
      (await outlast(["config", "check", url])).stderr,
      /routes\.a\.targets\[0\]: .*baseUrl must be/
    )
    const other = await outlast(["config", "check", good, "--kind", "outlast"])
    assert.match(other.stderr, /routes: is not a field/)
  })

  it("takes DECISION_037's configuration as its document writes it", async () => {
    const file = await written(
      "decision.yaml",
      "retry:\n  maxNetworkRetries: 5\n  jitterPercent: 0.2\ncircuitBreaker:\n  cooldownMs: 300000\n"
    )
    assert.strictEqual((await outlast(["config", "check", file, "--kind", "decision037"])).exitCode, 0)
    assert.strictEqual((await outlast(["config", "check", file])).exitCode, 1)
  })

  it.each([
    ["JSON", '{\n  "policy": {\n    "maxAttempts": }\n}\n', "line 3, column 20"],
    ["YAML", "policy:\n  preset: background\n   deadline: 2 minutes\n", "line 3"],
    ["YAML", "policy:\n  preset: [background\n  deadline: }\nguard: {}\n", "line 2"],
    ["TOML", 'a = 1\nb = "two\nc = 3\n', "line 2"]
  ] as const)("names the line of a syntax error in %s", async (format, text, where) => {
    const file = await written(`syntax.${format.toLowerCase()}`, text)
    const run = await outlast(["config", "check", file])
    assert.strictEqual(run.exitCode, 2)
    assert.include(run.stderr, `is not ${format}: see ${where}`)
  })

  it("reports a missing file, and an unknown format", async () => {
    assert.match(
      (await outlast(["config", "check", join(folder, "no.yaml")])).stderr,
      /the file does not exist/
    )
    assert.match((await outlast(["config", "check", await written("a.ini", "")])).stderr, /unknown format/)
  })

  it("takes an empty file for no settings", () => {
    for (const format of ["JSON", "YAML", "TOML"] as const) {
      assert.deepStrictEqual(parse(" \n", format), parse("", format))
    }
    assert.deepInclude(parse("# nothing\n", "YAML"), { success: {} })
  })
})

describe("the published JSON Schemas", () => {
  it.each(kinds)("%s is the schema of the code: UPDATE_DOCS=1 writes it", async (kind) => {
    const path = new URL(`../schema/${kind}.schema.json`, import.meta.url)
    const text = `${JSON.stringify(schemaOf(kind), undefined, 2)}\n`
    if (process.env["UPDATE_DOCS"] === "1") await writeFile(path, text)
    else assert.deepStrictEqual(JSON.parse(await readFile(path, "utf8")), JSON.parse(text))
  })

  it("is printed by outlast config schema", { timeout: 60_000 }, async () => {
    const run = await outlast(["config", "schema", "--kind", "decision037"])
    assert.deepStrictEqual(JSON.parse(run.stdout), JSON.parse(JSON.stringify(schemaOf("decision037"))))
  })
})
