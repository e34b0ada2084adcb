/**
 * Runs the examples and the demo on each runtime, from packed packages: `npm run runtimes`, or `npm run runtimes -- bun deno` for
 * some. Each runtime comes from npm. One that cannot be installed is skipped, with a line that says so.
 *
 * Node gets JavaScript for its oldest supported version, as a user's compiler makes it. In workerd runs a program of its own,
 * `runtimes/worker.ts`, because examples begin at the top level of a module.
 */
import { spawn } from "node:child_process"
import { copyFileSync, existsSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { rolldown } from "rolldown"
import { FakeProvider } from "@outlast/testing"
import { says } from "../test/exampleOutputs.ts"
import { installInto, packInto } from "./pack.ts"

const root = join(import.meta.dirname, "..")
const home = join(root, ".cache", "runtimes")
const app = join(home, "app")

/** Examples that need nothing but the packages. */
const examples = [
  "agent",
  "ai-sdk",
  "ai-sdk-agent",
  "ai-sdk-two-lines",
  "circuit-ref",
  "compaction",
  "compaction-only",
  "environments",
  "failover",
  "guard-only",
  "own-policy",
  "permissions",
  "property-timing",
  "restart",
  "service",
  "sqlite",
  "targets",
  "virtual-time"
] as const

type Example = (typeof examples)[number]

interface Runtime {
  readonly name: string
  /** The package of npm. */
  readonly from: string
  /** Its command, after the installation into a folder. */
  readonly command: (folder: string) => ReadonlyArray<string>
  /** Examples that it cannot run: all, or these. */
  readonly without?: "all" | ReadonlyArray<Example>
  /** What the command and SQLite say there, after their names. */
  readonly refused?: string
}

/** The Node that runs this program. */
const ownNode = `node@${process.versions.node}`

const node = (folder: string): ReadonlyArray<string> => [join(folder, "node_modules/node/bin/node")]

const runtimes: ReadonlyArray<Runtime> = [
  {
    name: "node-20",
    from: "node@20",
    command: node,
    without: "all",
    refused: "needs Node 22.16 or newer, and this is Node 20"
  },
  {
    name: "node-22.0",
    from: "node@22.0.0",
    command: node,
    // The HTTP server of @effect/platform-node, which `service` uses, needs 22.19.
    without: ["sqlite", "service"],
    refused: "needs Node 22.16 or newer, and this is Node 22.0.0"
  },
  { name: "node-22.16", from: "node@22.16.0", command: node },
  { name: "node-24", from: ownNode, command: () => [process.execPath] },
  { name: "bun", from: "bun@1.4.5", command: (folder) => [join(folder, "node_modules/.bin/bun")] },
  {
    name: "deno",
    from: "deno@2.9.6",
    command: (folder) => [join(folder, "node_modules/.bin/deno"), "run", "--allow-all"]
  }
]

/** Prints why a lock was not taken. */
const lock = `
import { Effect } from "effect"
import { StoreLock } from "@outlast/node"
const error = await Effect.runPromise(Effect.flip(Effect.scoped(StoreLock.acquire("a.lock"))))
console.log(error.message)
`

const asked = process.argv.slice(2)
const names = [...runtimes.map(({ name }) => name), "workerd"]
for (const name of asked)
  if (!names.includes(name)) throw new Error(`There is no runtime ${name}. Runtimes: ${names.join(", ")}`)
const isAsked = (name: string): boolean => asked.length === 0 || asked.includes(name)

/** The folder of a runtime, or `undefined` where it cannot be installed. */
const installed = (name: string, from: string): string | undefined => {
  const folder = join(home, name)
  try {
    if (!existsSync(join(folder, "node_modules"))) installInto(folder, [from])
    return folder
  } catch (error) {
    const { stderr } = error as { readonly stderr?: Buffer } // `execFileSync` adds it.
    const why = stderr?.toString().trim().split("\n")[0] ?? String(error)
    console.log(`${name}: skipped, because ${from} could not be installed (${why})`)
    return undefined
  }
}

/** Node 22 warns about its own SQLite. */
const ownWarning = /\(node:\d+\) ExperimentalWarning: SQLite[^\n]*\n\(Use [^\n]*\n/g

const run = (command: ReadonlyArray<string>, ...args: ReadonlyArray<string>) =>
  new Promise<{ readonly status: number | null; readonly output: string }>((resolve) => {
    const [program = "", ...first] = command
    const child = spawn(program, [...first, ...args], {
      cwd: app,
      env: { PATH: process.env["PATH"], NO_COLOR: "1", HOME: home },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: 120_000
    })
    let output = ""
    child.stdout.on("data", (chunk) => (output += chunk))
    child.stderr.on("data", (chunk) => (output += chunk))
    child.on("error", (error) => (output += error.message))
    child.on("close", (status) => resolve({ status, output: output.replaceAll(ownWarning, "") }))
  })

let hasFailed = false
const fail = (text: string): void => {
  hasFailed = true
  console.error(text)
}

const check = async ({ name, from, command: commandOf, without = [], refused }: Runtime): Promise<void> => {
  const folder = from === ownNode ? home : installed(name, from)
  if (folder === undefined) return
  const command = commandOf(folder)
  const expect = async (what: string, expected: RegExp, ...args: ReadonlyArray<string>): Promise<boolean> => {
    const { status, output } = await run(command, ...args)
    if (expected.test(output)) return true
    fail(`${name}: ${what} ends with ${status}: ${output.slice(0, 2_000)}`)
    return false
  }
  const outlast = join(app, "node_modules", "outlast", "dist", "main.js")
  if (refused === undefined) {
    await expect("outlast --version", /^outlast v\d/, outlast, "--version")
    await expect("outlast demo", /done: its tests pass/, outlast, "demo")
  } else {
    await expect("outlast --version", new RegExp(`^outlast ${refused}`), outlast, "--version")
  }
  if (without === "all") return console.log(`${name} (${from}): the command says that Node is too old`)
  if (without.includes("sqlite")) await expect("StoreLock", new RegExp(`SQLite ${refused}`), "lock.mjs")
  const queue: Array<Example> = examples.filter((example) => !without.includes(example))
  const count = queue.length
  let passed = 0
  const next = async (): Promise<void> => {
    for (let example = queue.shift(); example !== undefined; example = queue.shift())
      if (await expect(example, says[`${example}.ts`] ?? /^ $/, `${example}.mjs`)) passed++
  }
  await Promise.all(Array.from({ length: availableParallelism() }, next))
  const others = without.length === 0 ? "" : ` (not ${without.join(", ")})`
  const theCommand = refused === undefined ? "the demo" : "the command says that Node is too old"
  console.log(`${name} (${from}): ${passed} of ${count} examples${others}; ${theCommand}`)
}

/** Bundles a program into one file beside the packages. */
const bundle = async (input: string, file: string, external: (id: string) => boolean): Promise<void> => {
  const build = await rolldown({
    input,
    external,
    platform: "neutral",
    resolve: { conditionNames: ["workerd", "import", "default"], mainFields: ["module", "main"] },
    transform: { target: "node22" },
    logLevel: "warn"
  })
  await build.write({ file: join(app, file), format: "es", codeSplitting: false })
  await build.close()
}

/** What is used of Miniflare, which runs workerd. */
interface Workerd {
  readonly dispatchFetch: (url: string) => Promise<Response>
  readonly dispose: () => Promise<void>
}

const inWorkerd = async (): Promise<void> => {
  const from = "miniflare@4"
  const folder = installed("workerd", from)
  if (folder === undefined) return
  // Beside the packages, so that they are found.
  copyFileSync(join(import.meta.dirname, "runtimes", "worker.ts"), join(app, "worker.ts"))
  await bundle(join(app, "worker.ts"), "worker.mjs", (id) => id.startsWith("node:"))
  await using server = await FakeProvider.start({
    plan: {
      answers: [
        { toolCalls: [{ name: "time", params: { city: "Lisbon" } }] },
        { text: "In Lisbon it is ten past nine." }
      ],
      faults: [{ when: { provider: "anthropic" }, fault: { type: "status", status: 429 } }]
    }
  })
  const { Miniflare }: { readonly Miniflare: new (options: object) => Workerd } = createRequire(
    join(folder, "package.json")
  )("miniflare")
  const workerd = new Miniflare({
    modules: true,
    modulesRoot: app,
    scriptPath: join(app, "worker.mjs"),
    compatibilityDate: "2026-01-01",
    compatibilityFlags: ["nodejs_compat"]
  })
  try {
    const targets = new URLSearchParams({
      anthropic: server.baseUrl("anthropic"),
      openai: server.baseUrl("openai")
    })
    const output = await (await workerd.dispatchFetch(`http://worker/?${targets}`)).text()
    const expected = '{"status":"completed","text":"In Lisbon it is ten past nine.","turns":2,"toolCalls":1}'
    if (output !== expected) fail(`workerd: ${output.slice(0, 2_000)}`)
    else console.log(`workerd (${from}, nodejs_compat): an agent with a tool, two models and HTTP`)
  } finally {
    await workerd.dispose()
  }
}

const tarballs = packInto(join(home, "tarballs")).map(({ tarball }) => tarball)
installInto(app, [...tarballs, "effect@~4.1.0", "ai@^7.0.173"])
for (const example of examples) {
  const file = join(root, "examples", `${example}.ts`)
  await bundle(file, `${example}.mjs`, (id) => id !== file && !id.includes("@oxc-project"))
}
writeFileSync(join(app, "lock.mjs"), lock)
for (const runtime of runtimes) if (isAsked(runtime.name)) await check(runtime)
if (isAsked("workerd")) await inWorkerd()
if (hasFailed) process.exitCode = 1
