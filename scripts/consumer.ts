/**
 * Uses the packages as they are published. Needs built packages; run by `npm run publint`.
 *
 * - Compiles a library with `declaration: true`, and checks that its declarations import only public names.
 * - Imports every public module in one process, and checks that what several of them export is one object.
 * - Runs the command line, a database in its worker thread, and the status page.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { unpackInto } from "./pack.ts"

const root = join(import.meta.dirname, "..")
const home = join(root, ".cache", "consumer")

/** Everything is inferred: TypeScript has to find a name for each type by itself. */
const library = `
import { Agent, Chain, Compaction, Direct, Failover, Order, RecoveryPolicy, Resilient, SafetyGuard } from "@outlast/agent"
import { Decision037Config, LiveConfig, OutlastConfig } from "@outlast/agent/config"
import { Nudge } from "@outlast/agent/recovery"
import { Presets } from "@outlast/agent/presets"
import { SqliteClient, StoreLock } from "@outlast/node"
import { toAiSdk } from "@outlast/ai-sdk"
import { Anthropic, OpenAi } from "@outlast/providers"
import { CircuitBreaker, Retry } from "@outlast/resilience"
import { Arbitraries, FakeProvider, FaultPlan, ScriptedModel, SimulatedFailure, Timeline, Timing } from "@outlast/testing"
import { Effect } from "effect"

export const claude = Anthropic.model("claude-sonnet-4-5", { keys: ["ANTHROPIC_API_KEY"] })
export const chain = [claude, OpenAi.model("gpt-5.1")] as const
export const policy = { ...RecoveryPolicy.interactive, maxAttempts: 3 }
export const rows = RecoveryPolicy.interactive.rows
export const steady = RecoveryPolicy.steady("model", "1 minute")
export const order = Order.inOrder
export const layer = Failover.layer(chain, { policy, order })
export const direct = Direct.layer(claude)
export const built = Failover.make(chain)
export const run = Agent.run({ prompt: "hello" })
export const guarded = SafetyGuard.run({ turns: 3 })(run)
export const compaction = Compaction.layer()
export const summarised = Compaction.layer({ summariser: { model: layer } })
export const configured = OutlastConfig.layerConfig(chain)
export const decoded = OutlastConfig.decode({})
export const resilience = Decision037Config.layer(chain, undefined)
export const live = LiveConfig.make({ policy: { maxAttempts: 3 } })
export const nudges = Nudge.defaults
export const presets = Presets
export const tools = Resilient.toolkit
export const breaker = CircuitBreaker.make()
export const retried = Retry
export const plan = FaultPlan
export const scripted = ScriptedModel
export const timeline = Timeline.record(run)
export const properties = [Timing.neverMoreThan("1 minute"), Timing.atLeastRetryAfter]
export const simulated = SimulatedFailure.make
export const worlds = { failure: Arbitraries.Failure, world: Arbitraries.World, policy: Arbitraries.Policy }
export const models = Arbitraries.models
export const server = FakeProvider.start({ plan: { answers: [] } })
export const served = toAiSdk
export const both = Effect.all([built, breaker])
export const settings = Chain.build
export const database = SqliteClient.layer({ filename: "a.db" })
export const lock = StoreLock.acquire("a.lock")
`

/** Everything that has files of its own at run time. */
const program = `
import { deepStrictEqual } from "node:assert"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { SqliteClient } from "@outlast/node"
import { Host } from "@outlast/node/host"
import { Ops } from "@outlast/node/ops"

const stored = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql\`CREATE TABLE t (a)\`
  yield* sql\`INSERT INTO t VALUES ('stored')\`
  return yield* sql\`SELECT a FROM t\`
}).pipe(Effect.provide(SqliteClient.layer({ filename: ":memory:" })))
const page = Effect.gen(function* () {
  const { page } = yield* Ops.Ops
  return yield* Effect.promise(() => fetch(\`http://127.0.0.1:\${page}/status.js\`).then(({ status }) => status))
}).pipe(
  Effect.provide(
    Ops.layer({ probes: false, metrics: false, page: { port: 0 } }).pipe(Layer.provide(Host.layer({ wait: 0 })))
  )
)
deepStrictEqual(await Effect.runPromise(Effect.all([stored, page])), [[{ a: "stored" }], 200])
`

/** Imports each module of `modules`, and compares what they export with what modules before them exported. */
const identity = `
const modules = JSON.parse(process.argv[1])
const differing = []
let compared = 0
for (const paths of Object.values(modules)) {
  const first = new Map()
  const compare = (name, value, path) => {
    const known = first.get(name)
    if (known === undefined) return void first.set(name, { value, path })
    compared++
    if (known.value !== value) differing.push(\`\${name} of \${path} is not the one of \${known.path}\`)
  }
  for (const path of paths) {
    const module = await import(path)
    const isLayer = !/\\/[A-Z]/.test(path)
    for (const [name, value] of Object.entries(module)) {
      if (!isLayer) compare(\`\${path.split("/").at(-1)}.\${name}\`, value, path)
      else for (const [member, own] of Object.entries(value)) compare(\`\${name}.\${member}\`, own, path)
    }
  }
}
console.log(JSON.stringify({ compared, differing }))
`

const modules = unpackInto(home)
writeFileSync(join(home, "library.ts"), library)
writeFileSync(
  join(home, "tsconfig.json"),
  JSON.stringify({
    compilerOptions: {
      module: "nodenext",
      target: "es2024",
      strict: true,
      declaration: true,
      skipLibCheck: true,
      types: ["node"],
      outDir: "out"
    },
    files: ["library.ts"]
  })
)

const isPublic = (specifier: string): boolean => {
  const [, name = "", subpath] = /^@outlast\/([\w-]+)(\/.+)?$/.exec(specifier) ?? []
  if (name === "") return !specifier.startsWith(".")
  const pkg: { readonly exports: Readonly<Record<string, unknown>> } = JSON.parse(
    readFileSync(join(home, "node_modules", "@outlast", name, "package.json"), "utf8")
  )
  return Object.hasOwn(pkg.exports, subpath === undefined ? "." : `.${subpath}`)
}

execFileSync(join(root, "node_modules", ".bin", "tsc"), ["-p", home], { stdio: "inherit" })
const declarations = readFileSync(join(home, "out", "library.d.ts"), "utf8")
const specifiers = new Set(
  [...declarations.matchAll(/(?:from|import\()\s*"([^"]+)"/g)].map(([, specifier = ""]) => specifier)
)
const closed = [...specifiers].filter((specifier) => !isPublic(specifier))
for (const specifier of closed)
  console.error(`A consumer's declarations import ${specifier}, which is not public.`)
if (closed.length > 0) process.exitCode = 1
else console.log(`A consumer's declarations import ${specifiers.size} modules, all public.`)

const node = (...args: ReadonlyArray<string>): string =>
  execFileSync(process.execPath, args, { cwd: home, encoding: "utf8" })

const { compared, differing }: { readonly compared: number; readonly differing: ReadonlyArray<string> } =
  JSON.parse(node("--input-type=module", "--eval", identity, JSON.stringify(modules)))
for (const line of differing) console.error(line)
if (differing.length > 0 || compared === 0) process.exitCode = 1
else console.log(`${compared} values that several public modules export are one object each.`)

node("--input-type=module", "--eval", program)
writeFileSync(join(home, "errors.jsonl"), '{"status":429}\n')
const outlast = join(home, "node_modules", "outlast", "dist", "main.js")
const { reason } = JSON.parse(node(outlast, "classify", join(home, "errors.jsonl")))
if (reason !== "rate_limit") throw new Error(`outlast classifies HTTP 429 as ${String(reason)}.`)
console.log(`${node(outlast, "--version").trim()} runs, and so do the database and the status page.`)
