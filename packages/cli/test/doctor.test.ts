/** Runs doctor like a user, on the modules of its own project. Only slow tests run in this process. */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { it as effect } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock, TestConsole } from "effect/testing"
import { Tool, Toolkit } from "effect/ai"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { Requirements } from "@outlast/agent/guard"
import * as Providers from "@outlast/providers"
import { Registry } from "@outlast/providers"
import * as Doctor from "#cli/doctor/Doctor"
import * as Findings from "#cli/doctor/Findings"
import * as Keys from "#cli/doctor/Keys"
import * as Loading from "#cli/doctor/Loading"
import * as NodeVersion from "#cli/doctor/NodeVersion"
import * as Offer from "#cli/doctor/Offer"
import type { Report } from "#cli/doctor/Report"
import { installed, outlast as start } from "./process.ts"
import type { Run } from "./process.ts"
import { outlast } from "./run.ts"

const root = fileURLToPath(new URL("../../..", import.meta.url))

/** A project with Outlast installed. */
let project = ""
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "outlast-doctor-"))
  await symlink(join(root, "node_modules"), join(project, "node_modules"))
  await writeFile(join(project, "package.json"), '{ "type": "module" }')
})
afterAll(() => rm(project, { recursive: true }))

const file = async (name: string, content: string) => {
  const path = join(project, name)
  await writeFile(path, content)
  return path
}

const imports = `
  import { Effect } from "effect"
  import { Tool, Toolkit } from "effect/ai"
  import { Requirements } from "@outlast/agent"
`

const key = "sk-ant-api03-Zk3vR8mQ1xT7"
const reportOf = ({ stdout }: Run): Report => JSON.parse(stdout)
const messagesOf = (run: Run) => reportOf(run).problems.map(({ message }) => message)
const toolsOf = (run: Run) =>
  reportOf(run).tools.map(({ name, offered, reason }) => [name, offered, reason] as const)

describe("outlast doctor", { timeout: 60_000 }, () => {
  it("lists the providers with a key, and finds no problem", async () => {
    const env = { OPENAI_API_KEY: key, ANTHROPIC_API_KEY: " " }
    const run = await outlast(["doctor", "--json"], { env })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.strictEqual(run.stderr, "")
    const { node, providers, tools, problems } = reportOf(run)
    assert.deepInclude(node, { version: process.versions.node, ok: true })
    assert.deepInclude(providers, {
      provider: "openai",
      constructors: ["OpenAi.model", "OpenAi.chatModel"],
      keys: [{ name: "OPENAI_API_KEY", set: true }],
      ready: true
    })
    assert.deepInclude(providers, {
      provider: "anthropic",
      constructors: ["Anthropic.model"],
      keys: [{ name: "ANTHROPIC_API_KEY", set: false }],
      ready: false
    })
    assert.deepStrictEqual(tools, [])
    assert.deepStrictEqual(problems, [])
    const inWords = await outlast(["doctor"], { env })
    assert.match(inWords.stdout, /^Node \d+\.\d+\.\d+, needed is >=22\.16\.$/m)
    assert.match(inWords.stdout, /^ {2}openai +OPENAI_API_KEY is set$/m)
    assert.match(inWords.stdout, /^ {2}anthropic +ANTHROPIC_API_KEY is not set$/m)
    assert.match(inWords.stdout, /^ {2}ai-sdk +needs no key unless you name one$/m)
    assert.match(inWords.stdout, /^No problems\.$/m)
  })

  it("only warns when no provider has a key", async () => {
    const run = await outlast(["doctor", "--strict"])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.include(
      run.stdout,
      "warning  No provider has a key. Set one of ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_GENERATIVE_AI_API_KEY;"
    )
  })

  it("warns about an impossible key without showing it", async () => {
    const env = { ANTHROPIC_API_KEY: ` "${key}"\n`, OPENAI_API_KEY: "sk-your-key-here" }
    for (const args of [["doctor"], ["doctor", "--json"]]) {
      const run = await outlast(args, { env })
      assert.strictEqual(run.exitCode, 0, run.all)
      assert.include(run.stdout, "ANTHROPIC_API_KEY has white space at its ends.")
      assert.include(run.stdout, "ANTHROPIC_API_KEY begins or ends with a quote.")
      assert.include(run.stdout, "OPENAI_API_KEY looks like a placeholder.")
      for (const part of [key.slice(0, 8), key.slice(-4), "your-key"]) assert.notInclude(run.all, part)
    }
  })

  it("lists all kinds of exports of a module, each once", async () => {
    const path = await file(
      "kinds.ts",
      `${imports}
      interface Config { readonly tools: unknown }
      const tool = (name: string, needs: Requirements.Requirements) =>
        Requirements.requires(Tool.make(name, {}), needs)
      export const a_plain = Tool.make("plain", {})
      export const b_issues = tool("issues", { env: ["GITHUB_TOKEN", "GITHUB_USER"] })
      export const c_kit = Toolkit.make(a_plain, b_issues, tool("mail", { env: ["MAIL_KEY"] }))
      export const d_extension = { name: "search", requires: { env: ["SEARCH_KEY"] } }
      export const e_list = [tool("listed", {}), { name: "also listed", requires: { env: ["GITHUB_TOKEN"] } }, 7, null]
      export const f_record = { x: Toolkit.make(tool("nested", {})), y: "y" }
      export const g_other: Config = { tools: "none" }
      export default c_kit
      export const h_layer = c_kit.toLayer({ plain: () => Effect.void, issues: () => Effect.void, mail: () => Effect.void })
      `
    )
    const run = await installed(["doctor", "--json", path], { env: { MAIL_KEY: "k", SEARCH_KEY: "" } })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.deepStrictEqual(toolsOf(run), [
      ["plain", true, null],
      ["issues", false, "GITHUB_TOKEN, GITHUB_USER are not set"],
      ["mail", true, null],
      ["search", false, "SEARCH_KEY is not set"],
      ["listed", true, null],
      ["also listed", false, "GITHUB_TOKEN is not set"],
      ["nested", true, null]
    ])
    assert.deepStrictEqual(new Set(reportOf(run).tools.map(({ file }) => file)), new Set([path]))
  })

  it("explains what is skipped, which is an error with --strict", async () => {
    const path = await file(
      "strict.mjs",
      `${imports}
      export const kit = Toolkit.make(
        Requirements.requires(Tool.make("issues", {}), { env: ["GITHUB_TOKEN"] }), Tool.make("plain", {}))`
    )
    const run = await installed(["doctor", path])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.include(run.stdout, `\n${path}\n  skipped  issues: GITHUB_TOKEN is not set\n  offered  plain\n`)
    const strict = await installed(["doctor", "--strict", path])
    assert.strictEqual(strict.exitCode, 1, strict.all)
    assert.include(strict.stdout, `error    ${path}: issues is skipped: GITHUB_TOKEN is not set.`)
    const met = await installed(["doctor", "--strict", path], { env: { GITHUB_TOKEN: "t" } })
    assert.strictEqual(met.exitCode, 0, met.all)
  })

  it("runs checks, sends their logs to standard error, and hides their secrets", async () => {
    const path = await file(
      "checks.js",
      `${imports}
      const tool = (name, check, env = []) => Requirements.requires(Tool.make(name, {}), { check, env })
      export default [
        tool("yes", Effect.succeed(true)),
        tool("no", Effect.as(Effect.logWarning("asked"), false)),
        tool("words", Effect.succeed("the server is away")),
        tool("fails", Effect.fail("x")),
        tool("gives up", Effect.interrupt),
        tool("odd", Effect.succeed(undefined)),
        tool("tells", Effect.sync(() => "refused: " + process.env.WEATHER), ["WEATHER", "SHORT"])
      ]`
    )
    const run = await installed(["doctor", "--json", path], {
      env: { WEATHER: "hunter2-hunter2", SHORT: "used" }
    })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.deepStrictEqual(toolsOf(run), [
      ["yes", true, null],
      ["no", false, "its check says no"],
      ["words", false, "the server is away"],
      ["fails", false, "its check failed"],
      ["gives up", false, "its check was interrupted"],
      ["odd", false, "its check gave neither true, false nor a text"],
      ["tells", false, "refused: [redacted]"]
    ])
    assert.include(run.stderr, "asked")
    assert.notInclude(run.all, "hunter2")
  })

  it("ends although a module has left a timer or a connection open", async () => {
    const path = await file(
      "open.mjs",
      `setInterval(() => {}, 1_000); export const a = { name: "a", requires: {} }`
    )
    const run = await start(["doctor", "--json", path])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.deepStrictEqual(toolsOf(run), [["a", true, null]])
  })

  it("reads manifests", async () => {
    const one = await file("one.json", '{ "name": "one", "requires": { "env": ["A_KEY"] }, "version": 3 }')
    const many = await file(
      "many.json",
      '[{ "name": "two", "requires": {} }, { "name": "three", "requires": { "env": ["A_KEY", "B_KEY"] } }]'
    )
    const run = await start(["doctor", "--json", one, many], { env: { A_KEY: "k" } })
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.deepStrictEqual(toolsOf(run), [
      ["one", true, null],
      ["two", true, null],
      ["three", false, "B_KEY is not set"]
    ])
  })

  it("reports the problem of each file, examines the others, and exits with 1", async () => {
    await mkdir(join(project, "folder.ts"))
    const bad: ReadonlyArray<readonly [path: string, says: RegExp]> = [
      [join(project, "nowhere.ts"), /^The file does not exist\.$/],
      [join(project, "folder.ts"), /^It is a directory\. Name the files in it\.$/],
      [await file("notes.md", ""), /^It is neither a module \(\.ts, \.js, \.mjs\) nor a manifest \(\.json\)/],
      [
        await file("none.ts", "export const a: number = 1"),
        /^It exports nothing to check\. Export a Toolkit/
      ],
      [
        await file("import.ts", 'import "./gone.ts"'),
        /gone\.ts.* Correct the import, or install the package\.$/
      ],
      [await file("enum.ts", "export enum A { B }"), /enum is not supported.* Use erasable syntax/],
      [
        await file("syntax.mjs", "export const = 1"),
        /^It cannot be loaded: .* Correct it, and check it again\.$/
      ],
      [
        await file("throws.mjs", 'throw new Error("no\\ndatabase")'),
        /loaded: no database\. Its top-level code/
      ],
      [
        await file("odd.mjs", "throw null"),
        /loaded: it threw a value that is not an Error\. Its top-level code/
      ],
      [
        await file("getter.mjs", 'export const a = { get tools() { throw new Error("x") } }'),
        /^Its export "a" throws when it is read\./
      ],
      [
        await file("field.mjs", 'export const a = { name: "a", requires: { envs: ["A"] } }'),
        /^"a" has wrong requirements: unknown field "envs"\. Known fields: "env" and "check"\.$/
      ],
      [
        await file("value.mjs", `export const a = { name: "a", requires: { env: ["A=${key}"] } }`),
        /"env" must be a list of names of variables, without their values\.$/
      ],
      [
        await file("check.mjs", 'export const a = { name: "a", requires: { check: () => true } }'),
        /"check" must be an Effect\.$/
      ],
      [
        await file("list.mjs", 'export const a = { name: "a", requires: ["A"] }'),
        /"requires" must be an object with "env" or "check"\.$/
      ],
      [join(project, "nowhere.json"), /^It cannot be read: the file does not exist\.$/],
      [await file("text.json", `{ "name": "${key}`), /^It is not JSON\. Expected \{ "name": "…"/],
      [await file("empty.json", "[]"), /^It is an empty list\./],
      [await file("number.json", "[7]"), /^Its entry 0 is not an object\./],
      [await file("nameless.json", '{ "requires": {} }'), /^It has no "name"\./],
      [await file("needless.json", '{ "name": "a" }'), /^It has no "requires"\./],
      [
        await file("code.json", '{ "name": "a", "requires": { "check": true } }'),
        /Name the module instead\.$/
      ],
      [await file("env.json", '{ "name": "a", "requires": { "env": "A" } }'), /"env" must be a list/]
    ]
    const good = await file("good.json", '[null, { "name": "good", "requires": {} }]')
    const paths = [...bad.map(([path]) => path), good]
    const run = await start(["doctor", "--json", ...paths], { env: { OPENAI_API_KEY: key } })
    assert.strictEqual(run.exitCode, 1, run.all)
    const { problems } = reportOf(run)
    assert.deepStrictEqual(
      problems.map(({ level, file }) => [level, file]),
      paths.map((path) => ["error", path])
    )
    for (const [index, [, says]] of bad.entries()) assert.match(problems[index]?.message ?? "", says)
    assert.deepStrictEqual(toolsOf(run), [["good", true, null]])
    assert.notInclude(run.all, key)
  })

  it("hides a key that the error of a module repeats", async () => {
    const secret = "plain words as a credential"
    const path = await file("echo.mjs", "throw new Error(`refused ${process.env.OPENAI_API_KEY}.`)")
    const run = await start(["doctor", "--json", path], { env: { OPENAI_API_KEY: secret } })
    assert.match(messagesOf(run)[0] ?? "", /^It cannot be loaded: refused \[redacted\]\. Its top-level code/)
    assert.notInclude(run.all, secret)
  })

  it("fails for a module that ends the process", async () => {
    const path = await file("ends.mjs", `export const a = { name: "a", requires: {} }; process.exit(0)`)
    const run = await start(["doctor", path])
    assert.strictEqual(run.exitCode, 1)
    assert.include(run.stderr, `outlast doctor: ${path} ends the process when it is loaded`)
  })

  it("reports uncaught failures of a module without its secrets", async () => {
    const secret = "plain words as a credential"
    const path = await file(
      "late.mjs",
      'export const a = { name: "a", requires: {} }; Promise.reject(new Error(`refused ${process.env.OPENAI_API_KEY}.`))'
    )
    const run = await start(["doctor", "--json", path], { env: { OPENAI_API_KEY: secret } })
    assert.strictEqual(run.exitCode, 1)
    assert.match(messagesOf(run)[0] ?? "", /without being caught: refused \[redacted\]\. Fix that/)
    assert.deepStrictEqual(toolsOf(run), [["a", true, null]])
    assert.notInclude(run.all, secret)
  })

  it("prints only its report on standard output", async () => {
    const path = await file(
      "prints.mjs",
      `console.log("noise"); process.stdout.write("more"); export const a = { name: "a", requires: {} }`
    )
    const run = await start(["doctor", "--json", path])
    assert.strictEqual(run.exitCode, 0, run.all)
    assert.deepStrictEqual(toolsOf(run), [["a", true, null]])
    assert.include(run.stderr, "noise")
    assert.include(run.stderr, "more")
  })

  it("resolves modules from the current directory, and reports mistakes in the command as such", async () => {
    // Loads an existing module that has nothing to check.
    const path = relative(process.cwd(), join(root, "packages/cli/src/doctor/Limit.ts"))
    const run = await start(["doctor", path, "nowhere.ts"])
    assert.include(run.stdout, `error    ${path}: It exports nothing to check.`)
    assert.include(run.stdout, "error    nowhere.ts: The file does not exist.")
    const misused = await outlast(["doctor", "--nope"])
    assert.strictEqual(misused.exitCode, 2)
    assert.match(misused.stderr, /^outlast doctor: .*--nope/m)
  })
})

describe("code that never ends", () => {
  const tool = (name: string, check: Effect.Effect<boolean>) =>
    Requirements.requires(Tool.make(name, {}), { check })

  effect.effect("a check is not met after 10 seconds, even if it cannot be interrupted", () =>
    Effect.gen(function* () {
      let interrupted = false
      const kit = Toolkit.make(
        tool(
          "hangs",
          Effect.onInterrupt(Effect.never, () => Effect.sync(() => (interrupted = true)))
        ),
        tool("stubborn", Effect.uninterruptible(Effect.never)),
        tool("slow", Effect.as(Effect.sleep("9 seconds"), true))
      )
      const { subjects } = Findings.ofModule({ kit })
      const fiber = yield* Effect.forkChild(Offer.examine(subjects, []))
      yield* TestClock.adjust("9999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      assert.isFalse(interrupted)
      yield* TestClock.adjust("1 millis")
      const reason = "its check did not end within 10 seconds"
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        { name: "hangs", offered: false, reason },
        { name: "stubborn", offered: false, reason },
        { name: "slow", offered: true, reason: null }
      ])
      assert.isTrue(interrupted)
    })
  )

  effect.effect("a module is not loaded after 10 seconds", () =>
    Effect.gen(function* () {
      const path = yield* Effect.promise(() => file("stuck.mjs", "await new Promise(() => {})"))
      const fiber = yield* Effect.forkChild(Loading.loadModule(pathToFileURL(path).href, []))
      yield* TestClock.adjust("9999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { mistakes } = yield* Fiber.join(fiber)
      assert.match(mistakes.join(), /^It was not loaded within 10 seconds\. Something at its top level waits/)
    })
  )
})

describe("Node", () => {
  it.each([
    ["24.0.0", ">=24", true],
    ["25.1.0", ">=24", true],
    ["23.11.9", ">=24", false],
    ["24.1.9", ">=24.2", false],
    ["24.10.0", ">=24.9.1", true],
    ["24.9.0", ">=24.9.1", false]
  ])("%s for %s", (version, needed, ok) => {
    const node = NodeVersion.of({ version, needed })
    assert.deepStrictEqual(node, { version, needed, ok })
    const problems = NodeVersion.problems(node).map(({ level, message }) => [level, message])
    const tooOld = `Node ${version} is too old: the packages need ${needed}. Install a newer Node.`
    assert.deepStrictEqual(problems, ok ? [] : [["error", tooOld]])
  })

  effect.effect("that is too old is an error, and said", () =>
    Effect.gen(function* () {
      const node = { version: "22.1.0", needed: ">=24" }
      assert.isFalse(yield* Doctor.run({ files: [], strict: false, json: false, node }))
      const [said] = yield* TestConsole.logLines
      assert.include(String(said), "error    Node 22.1.0 is too old: the packages need >=24.")
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it("is the version in the packages' engines", async () => {
    for (const name of await readdir(join(root, "packages"))) {
      const { engines } = JSON.parse(await readFile(join(root, "packages", name, "package.json"), "utf8"))
      // SQLite needs more.
      assert.deepStrictEqual(engines, { node: ["cli", "node"].includes(name) ? ">=22.16" : ">=22" }, name)
    }
  })
})

describe("keys", () => {
  it("every constructor of @outlast/providers is listed with its variables", () => {
    const made = Object.entries(Providers).flatMap(([module, exports]) =>
      Object.keys(exports).flatMap((name) => (/^(?:m|chatM)odel$/.test(name) ? [`${module}.${name}`] : []))
    )
    assert.sameMembers(
      Registry.providers.flatMap(({ constructors }) => constructors.map(({ name }) => name)),
      made
    )
    for (const { constructors, keys } of Registry.providers) {
      const of = (name: string): object => Object(Reflect.get(Providers, name.split(".")[0] ?? ""))
      for (const { name } of constructors) assert.deepStrictEqual(Object(of(name)).defaults?.keys ?? [], keys)
    }
  })

  const flaws = (value: string) => Keys.flaws(value).map((flaw) => flaw.split(".")[0])
  const spaced = "has white space at its ends"
  const quoted = "begins or ends with a quote"
  const broken = "has a line break inside, which no header can carry"
  const strange = "has a character that no header can carry"
  const placeholder = "looks like a placeholder"

  it.each<readonly [value: string, found: Array<string>]>([
    [`${key} `, [spaced]],
    [`${key}\n`, [spaced]],
    [`"${key}"`, [quoted]],
    [`${key}'`, [quoted]],
    [`“${key}”`, [quoted]],
    [` '${key}'`, [spaced, quoted]],
    [`${key}\n${key}`, [broken]],
    [`${key}…${key}`, [strange]],
    ['""', [quoted, placeholder]],
    ['" "', [quoted, placeholder]]
  ])("%j", (value, found) => {
    assert.deepStrictEqual(flaws(value), found)
  })

  it("distinguishes placeholders from keys", () => {
    for (const value of [
      "your-api-key",
      "YOUR_API_KEY_HERE",
      "sk-your-key-here",
      "<your key>",
      "[key]",
      "$OPENAI_API_KEY",
      "${OPENAI_API_KEY}",
      "{{ key }}",
      "%OPENAI_API_KEY%",
      "sk-xxxxxxxx",
      "sk-ant-...",
      "********",
      "00000000",
      "sk-1234567890",
      "changeme",
      "change-me",
      "TODO",
      "test",
      "api-key",
      "sk-test-key",
      "undefined",
      "insert your key",
      "ANTHROPIC_API_KEY"
    ]) {
      assert.deepStrictEqual(flaws(value), [placeholder], value)
    }
    for (const value of [
      key,
      "sk-proj-4fJ9tEstKeyXXXX2mQ8",
      "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
      "gsk_yourPQ93hTf7AbMv",
      "0123456789abcdef0123456789abcdef",
      "my9f3k2",
      // A value of this length is not a placeholder, and is not searched.
      "x".repeat(65)
    ]) {
      assert.deepStrictEqual(flaws(value), [], value)
    }
  })
})
