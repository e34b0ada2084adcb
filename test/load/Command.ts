/** The command behind `npm run simulate`: options, their effect, and the output. */
import { readFile } from "node:fs/promises"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { parseArgs } from "node:util"
import { Result, Schema } from "effect"
import * as Arrivals from "./Arrivals.ts"
import * as Chains from "./Chains.ts"
import * as Gates from "./Gates.ts"
import type { Options } from "./Policies.ts"
import { policies } from "./Policies.ts"
import { simulate } from "./Simulation.ts"
import { situations } from "./Situations.ts"
import * as Table from "./Table.ts"
import { World } from "./World.ts"
import * as Workers from "./Workers.ts"
import { worlds } from "./Worlds.ts"

const usage = `Usage: npm run simulate -- [options]

Without --world, --chain and --arrivals: all named situations.

  --policy NAME|FILE    ${Object.keys(policies).join(", ")};
                        or a module whose default export is a RecoveryPolicy or the options of Failover.layer
  --world NAME|FILE     ${Object.keys(worlds).join(", ")};
                        or a JSON file (docs/internals/load.md). Default flaky-30
  --chain CHAIN         ${Object.keys(Chains.chains).join(", ")};
                        or a list like "main*3, other". Default: the first four
  --arrivals PATTERN    "4/s for 150s", "12/min for 600s", "60 at once", "2500 by 64" (that many under way at any time), or phases:
                        "16/s for 60s, 60/s for 10s". Default: six patterns
  --stream              calls stream their answers. Default: whole answers
  --seeds N             from 1 to N. Default 5
  --gates               what the policy must hold, with pass or fail
  --only TEXT           only gates, or named situations, with this text in their name
  --json, --markdown    instead of a plain table
  --help`

/** Bad input. The message names the input and the fix. */
class UsageError extends Error {}

export interface Output {
  readonly out: (text: string) => void
  readonly error: (text: string) => void
}

/** The exit code: 0, 1 when a gate failed, 2 for bad input. */
export const run = async (args: ReadonlyArray<string>, { out, error }: Output): Promise<number> => {
  try {
    const options = parsed(args)
    if (options.help) {
      out(usage)
      return 0
    }
    const policy = await policyOf(options.policy)
    const seeds = seedsOf(options.seeds)
    if (options.gates) {
      const gates = named(Gates.gates, options.only)
      const verdicts =
        seeds.length === 1
          ? Gates.check(policy, seeds, gates)
          : await Workers.check({ policy: options.policy, gates: gates.map(({ name }) => name) }, seeds)
      out(options.json ? JSON.stringify(verdicts, undefined, 2) : shown(Gates.cells(verdicts), options))
      return verdicts.every(({ pass }) => pass) ? 0 : 1
    }
    const lines = await linesOf(options, policy, seeds)
    out(options.json ? JSON.stringify(lines, undefined, 2) : shown(Table.cells(lines), options))
    return 0
  } catch (problem) {
    if (!(problem instanceof UsageError)) throw problem
    error(`${problem.message}\n\n${usage}`)
    return 2
  }
}

type Parsed = ReturnType<typeof parsed>

const parsed = (args: ReadonlyArray<string>) => {
  try {
    return parseArgs({
      args: [...args],
      options: {
        policy: { type: "string", default: "interactive" },
        world: { type: "string" },
        chain: { type: "string" },
        arrivals: { type: "string" },
        seeds: { type: "string", default: "5" },
        stream: { type: "boolean", default: false },
        gates: { type: "boolean", default: false },
        only: { type: "string", default: "" },
        json: { type: "boolean", default: false },
        markdown: { type: "boolean", default: false },
        help: { type: "boolean", default: false }
      }
    }).values
  } catch (problem) {
    throw new UsageError(problem instanceof Error ? problem.message : String(problem))
  }
}

const shown = (rows: ReadonlyArray<ReadonlyArray<string>>, { markdown }: Parsed): string =>
  markdown ? Table.markdown(rows) : Table.plain(rows)

const linesOf = async (
  options: Parsed,
  policy: Options,
  seeds: ReadonlyArray<number>
): Promise<ReadonlyArray<Table.Line>> => {
  const { world, chain, arrivals } = options
  if (world === undefined && chain === undefined && arrivals === undefined && !options.stream) {
    return named(situations, options.only).flatMap((situation) => {
      const named = situation.policies?.map((name) => [`${situation.name}, ${name}`, policies[name]] as const)
      return (named ?? [[situation.name, policy] as const]).map(([name, policy]) => ({
        name,
        reports: seeds.map((seed) => simulate({ ...Gates.simulationOf(situation), policy, seed }))
      }))
    })
  }
  const of = await worldOf(world ?? "flaky-30")
  const answers = options.stream ? "stream" : "whole"
  const chains = chain === undefined ? Object.keys(Chains.chains).slice(0, 4) : [chain]
  const patterns = arrivals === undefined ? Arrivals.patterns : [arrivals]
  return chains.flatMap((chain) =>
    patterns.map((pattern) => ({
      name: `${chain}, ${pattern}`,
      reports: seeds.map((seed) =>
        simulate({ world: of, chain: chainOf(chain), arrivals: arrivalsOf(pattern), policy, seed, answers })
      )
    }))
  )
}

const named = <A extends { readonly name: string }>(
  all: ReadonlyArray<A>,
  only: string
): ReadonlyArray<A> => {
  const chosen = all.filter(({ name }) => name.includes(only))
  if (chosen.length > 0) return chosen
  throw new UsageError(`--only "${only}" is in none of these: ${all.map(({ name }) => name).join("; ")}.`)
}

const chainOf = (text: string): Chains.Chain => {
  const chain = Chains.parse(text)
  if (chain !== undefined) return chain
  throw new UsageError(`--chain "${text}": neither a name nor a list like "main*3, other".`)
}

const arrivalsOf = (text: string): Arrivals.Arrivals => {
  const arrivals = Arrivals.parse(text)
  if (arrivals !== undefined) return arrivals
  throw new UsageError(`--arrivals "${text}": write it like "4/s for 150s", "60 at once" or "2500 by 64".`)
}

const seedsOf = (text: string): ReadonlyArray<number> => {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new UsageError(`--seeds "${text}": a whole number from 1 to 9999.`)
  return Array.from({ length: Number(text) }, (_, i) => i + 1)
}

const worldOf = async (text: string): Promise<World> => {
  // The names are those of `worlds`.
  if (Object.hasOwn(worlds, text)) return worlds[text as keyof typeof worlds]
  if (!text.endsWith(".json"))
    throw new UsageError(`--world "${text}": no world of that name, and no .json file.`)
  const decoded = Schema.decodeUnknownResult(Schema.fromJsonString(World), {
    onExcessProperty: "error",
    errors: "all"
  })(await textOf(text))
  if (Result.isSuccess(decoded)) return decoded.success
  throw new UsageError(`--world "${text}" is not a world: ${decoded.failure.message}`)
}

const textOf = (path: string): Promise<string> =>
  readFile(path, "utf8").catch((problem: unknown) => {
    throw new UsageError(`--world "${path}" cannot be read: ${String(problem)}`)
  })

/** The options of `--policy`. */
export const policyOf = async (text: string): Promise<Options> => {
  // The names are those of `policies`.
  if (Object.hasOwn(policies, text)) return policies[text as keyof typeof policies]
  if (!/\.[cm]?[jt]s$/.test(text))
    throw new UsageError(`--policy "${text}": no policy of that name, and no module (.ts, .js).`)
  const module: unknown = await import(pathToFileURL(resolve(text)).href).catch((problem: unknown) => {
    throw new UsageError(`--policy "${text}" cannot be loaded: ${String(problem)}`)
  })
  const exported = isRecord(module) ? module["default"] : undefined
  if (!isRecord(exported))
    throw new UsageError(
      `--policy "${text}": export a RecoveryPolicy or the options of Failover.layer as default.`
    )
  // The module comes from the user. The trial run checks it.
  const options = ("rows" in exported ? { policy: exported } : exported) as Options
  try {
    simulate({ ...trial, policy: options })
  } catch (problem) {
    throw new UsageError(`--policy "${text}" cannot be used: ${String(problem)}`)
  }
  return options
}

/** A short simulation with a success and a failure, to check that a policy works at all. */
const trial = {
  world: worlds["flaky-50"],
  chain: Chains.chains["both-bad"],
  arrivals: { _tag: "AtOnce", calls: 20 },
  seed: 1
} as const

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null
