/** The command behind `npm run failover-bench`: options, their effect, and the output. */
import { parseArgs } from "node:util"
import { Effect } from "effect"
import type { Result } from "./Bench.ts"
import * as Bench from "./Bench.ts"
import type { Situation } from "./Situations.ts"
import { situations } from "./Situations.ts"
import type { Way } from "./Ways.ts"
import { gatewayWays } from "./GatewayWays.ts"
import { pythonWays } from "./PythonWays.ts"
import { ways as allWays } from "./Ways.ts"

const usage = `Usage: npm run failover-bench -- [options]

Runs a crash test of LLM failover with default settings: 16 situations streamed, 11 of them also as whole answers.

  --full         in real time. Default: ${Bench.shortened} times as fast
  --only TEXT    only situations with this text in their name or description
  --runs N       all of it N times. Default 1
  --gateway      through the gateway, with the clients of the vendors and Python
  --help`

/** Bad input. The message names the input and the fix. */
class UsageError extends Error {}

interface Output {
  readonly out: (text: string) => void
  readonly error: (text: string) => void
}

/** The exit code: 0, 1 when a result is not a pass, 2 for bad input. */
export const run = async (args: ReadonlyArray<string>, { out, error }: Output): Promise<number> => {
  try {
    const { full, gateway, help, only, runs } = parsed(args)
    if (help) {
      out(usage)
      return 0
    }
    if (!/^[1-9]\d{0,2}$/.test(runs)) throw new UsageError(`--runs "${runs}": a whole number from 1 to 999.`)
    const chosen = situations.filter(({ about, name }) => `${name} ${about}`.includes(only))
    if (chosen.length === 0)
      throw new UsageError(`--only "${only}": no situation has this in its name or description.`)
    const python = gateway ? pythonWays() : []
    if (gateway && python.length === 0) out("Without python3: its client is left out.")
    const ways = gateway ? [...gatewayWays, ...python] : allWays
    const results: Array<Result> = []
    for (let n = 0; n < Number(runs); n++)
      results.push(
        ...(await Effect.runPromise(Bench.run(Bench.pairsOf(chosen, ways), full ? 1 : Bench.shortened)))
      )
    out(table(chosen, results, ways))
    for (const line of reasons(results)) out(line)
    return results.every(({ verdict }) => verdict.grade === "pass") ? 0 : 1
  } catch (problem) {
    if (!(problem instanceof UsageError)) throw problem
    error(`${problem.message}\n\n${usage}`)
    return 2
  }
}

const parsed = (args: ReadonlyArray<string>) => {
  try {
    return parseArgs({
      args: [...args],
      options: {
        full: { type: "boolean", default: false },
        gateway: { type: "boolean", default: false },
        only: { type: "string", default: "" },
        runs: { type: "string", default: "1" },
        help: { type: "boolean", default: false }
      }
    }).values
  } catch (problem) {
    throw new UsageError(problem instanceof Error ? problem.message : String(problem))
  }
}

/** Each item once, with its count unless all are equal. */
const counted = (items: ReadonlyArray<string>): ReadonlyArray<string> =>
  [...new Set(items)].map((item) => {
    const count = items.filter((other) => other === item).length
    return count === items.length ? item : `${count} × ${item}`
  })

const table = (
  chosen: ReadonlyArray<Situation>,
  results: ReadonlyArray<Result>,
  ways: ReadonlyArray<Way>
): string => {
  const rows = chosen.map(({ about, name }) => [
    name,
    about,
    ...ways.map((way) => {
      const of = results.filter((result) => result.way === way && result.situation.name === name)
      return counted(of.map(({ verdict }) => verdict.grade)).join(", ") || "-"
    })
  ])
  const passes = ways.map((way) => {
    const of = results.filter((result) => result.way === way)
    return `${of.filter(({ verdict }) => verdict.grade === "pass").length} of ${of.length}`
  })
  const head = ["", "situation", ...ways.map(({ name }) => name)]
  return [head, head.map(() => "---"), ...rows, ["", "pass", ...passes]]
    .map((cells) => `| ${cells.join(" | ")} |`.replace("|  |", "| |"))
    .join("\n")
}

/** Why results are not a pass. */
const reasons = (results: ReadonlyArray<Result>): ReadonlyArray<string> =>
  counted(
    results
      .filter(({ verdict }) => verdict.grade !== "pass")
      .map((result) => `${Bench.nameOf(result)}: ${result.verdict.grade}: ${result.verdict.why}`)
      .sort()
  )
