/**
 * Compiles a library that uses the packages as they are published, with `declaration: true`, and checks that its
 * declarations import only public names. Needs built packages; run by `npm run publint`.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")
/** Below the root, so that `effect` is found there, and the packed packages before the ones of the workspace. */
const home = join(root, ".cache", "consumer")
const packages = ["resilience", "agent", "providers", "testing", "node"]

/** Everything is inferred: TypeScript has to find a name for each type by itself. */
const library = `
import { Agent, Chain, Compaction, Direct, Failover, Order, RecoveryPolicy, Resilient, SafetyGuard } from "@outlast/agent"
import { Decision037Config, LiveConfig, OutlastConfig } from "@outlast/agent/config"
import { Nudge } from "@outlast/agent/recovery"
import { Presets } from "@outlast/agent/presets"
import { SqliteClient, StoreLock } from "@outlast/node"
import { Anthropic, OpenAi, toAiSdk } from "@outlast/providers"
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

rmSync(home, { recursive: true, force: true })
mkdirSync(home, { recursive: true })
for (const name of packages) {
  const [packed]: ReadonlyArray<{ readonly filename: string }> = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", home], {
      cwd: join(root, "packages", name),
      encoding: "utf8"
    })
  )
  if (packed === undefined) throw new Error(`npm packed nothing for ${name}.`)
  const folder = join(home, "node_modules", "@outlast", name)
  mkdirSync(folder, { recursive: true })
  execFileSync("tar", ["xzf", join(home, packed.filename), "-C", folder, "--strip-components=1"])
}
writeFileSync(join(home, "package.json"), JSON.stringify({ name: "consumer", type: "module" }))
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
