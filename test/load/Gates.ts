/**
 * Requirements for the rules of a chain under load, as data. `npm run simulate -- --gates` checks a policy against them
 * and prints the worst case of each.
 *
 * A gate compares with two baselines under the same outcomes of attempts: one attempt per call (`no-retry`), and the
 * policy itself without circuits and budget.
 */
import { Duration } from "effect"
import { RecoveryPolicy } from "@outlast/agent"
import * as Arrivals from "./Arrivals.ts"
import type { ChainName } from "./Chains.ts"
import { chains } from "./Chains.ts"
import type { Options } from "./Policies.ts"
import { policies, unprotected } from "./Policies.ts"
import type { Log, Report } from "./Report.ts"
import { peakOf, report } from "./Report.ts"
import type { Simulation } from "./Simulation.ts"
import { disturbanceEnd, logOf } from "./Simulation.ts"
import type { Situation } from "./Situations.ts"
import { hedgeGates, returnGates } from "./TargetGates.ts"
import { crowding, shortSurge, surge } from "./Situations.ts"
import { seconds } from "./Table.ts"
import type { WorldName } from "./Worlds.ts"
import type { World } from "./World.ts"
import { worlds } from "./Worlds.ts"

/** One simulation of a gate, and its baselines. */
export interface Measured {
  readonly world: World
  readonly log: Log
  readonly report: Report
  readonly options: Options
  /** The report of the same calls under another policy. */
  readonly under: (other: "no-retry" | "unprotected") => Report
}

export interface Gate {
  readonly name: string
  readonly situations: ReadonlyArray<Omit<Situation, "name">>
  /** The measured quantity, for the output. */
  readonly unit: string
  readonly measure: (measured: Measured) => number
  readonly limit:
    | { readonly atLeast: number | ((options: Options) => number) }
    | { readonly atMost: number | ((options: Options) => number) }
  readonly shown: (n: number) => string
  /** The share of the runs that may miss the limit. Default 0. */
  readonly tolerated?: number
}

export interface Verdict {
  readonly gate: string
  readonly pass: boolean
  readonly wanted: string
  /** The worst of all situations and seeds. */
  readonly worst: string
  /** The same as a number, and whether a lower one is worse. */
  readonly value: number
  readonly lowerIsWorse: boolean
  readonly where: string
  readonly failed: number
  readonly of: number
  readonly tolerated: number
}

// -----------------------------------------------------------------------------
// The gates
// -----------------------------------------------------------------------------

/** Fewer calls than the table's, so that twenty seeds take minutes. */
const patterns = ["1/s for 120s", "4/s for 150s", "20/s for 30s", "60 at once", "200 at once", "640 by 64"]
const flakyChains: ReadonlyArray<ChainName> = ["one-target", "three-keys", "both-bad", "one-bad"]

const everywhere = (world: WorldName, of: ReadonlyArray<ChainName> = flakyChains): Gate["situations"] =>
  of.flatMap((chain) => patterns.map((arrivals) => ({ world, chain, arrivals })))

const ratio = (n: number): string => n.toFixed(3)
const goodput = ({ report }: Measured): number => report.goodput

/** A partly healthy world, the required share of the unprotected goodput, and the situations. */
const flaky: ReadonlyArray<readonly [WorldName, number, Gate["situations"]]> = [
  ["flaky-10", 0.97, everywhere("flaky-10")],
  ["flaky-30", 0.97, everywhere("flaky-30")],
  ["flaky-40", 0.97, everywhere("flaky-40")],
  ["flaky-50", 0.95, everywhere("flaky-50")],
  ["overloaded-10", 0.97, [{ world: "overloaded-10", chain: "both-bad", arrivals: "2500 by 64" }]]
]

/** The calls that began in the outage, and their requests. */
const requestsInOutage = (
  { log }: Measured,
  from: number
): { readonly calls: number; readonly requests: number } => {
  const calls = log.calls.filter(({ start }) => start >= from)
  return { calls: calls.length, requests: calls.reduce((sum, call) => sum + call.requests, 0) }
}

/** Milliseconds from a call to its end, without its last attempt. */
const longestWait = (calls: Log["calls"]): number =>
  Math.max(...calls.map(({ start, end = Infinity, last }) => end - start - last))

const outageRates = ["1/s", "4/s", "20/s"]

const recoveries: Gate["situations"] = (["one-target", "three-keys", "both-bad"] as const).flatMap((chain) =>
  outageRates.map((rate) => ({ world: "outage", chain, arrivals: `${rate} for 240s` }) as const)
)

/** Far more calls at once than the servers take. */
const limiting: Gate["situations"] = (["one-target", "two-keys", "both-bad"] as const).flatMap((chain) =>
  [
    ["shedding-429", "80 at once"],
    ["shedding-429", shortSurge],
    ["shedding-429-slow", "80 at once"]
  ].map(([world, arrivals]) => ({ world, chain, arrivals }) as Gate["situations"][number])
)

const flapping: Gate["situations"] = ["2/s for 60s", "5/s for 40s", "10/s for 20s"].map((arrivals) => ({
  world: "flapping",
  chain: "two-keys-and-other",
  arrivals
}))

export const gates: ReadonlyArray<Gate> = [
  ...flaky.map(([world, , situations]): Gate => ({
    name: `${world}: as good as without any retry`,
    situations,
    unit: "answered / answered with one attempt",
    measure: ({ report, under }) => report.goodput / under("no-retry").goodput,
    limit: { atLeast: 1 },
    shown: ratio
  })),
  ...flaky.map(([world, share, situations]): Gate => ({
    name: `${world}: as good as without circuits and budget`,
    situations,
    unit: "answered / answered without circuits and budget",
    measure: ({ report, under }) => report.goodput / under("unprotected").goodput,
    limit: { atLeast: share },
    shown: ratio
  })),
  {
    name: "one of two vendors is bad",
    situations: (["flaky-30", "flaky-50", "down", "down-503", "down-reset"] as const).flatMap((world) =>
      everywhere(world, ["one-bad"])
    ),
    unit: "answered / calls",
    measure: goodput,
    limit: { atLeast: 0.999 },
    shown: ratio
  },
  ...(["down", "down-503", "down-reset", "limited-silent"] as const).map((world): Gate => ({
    name: `${world}: few requests in a total outage, cold`,
    situations: outageRates.map((rate) => ({ world, chain: "one-target", arrivals: `${rate} for 60s` })),
    unit: "requests - 1.7 × calls",
    measure: (measured) => {
      const { calls, requests } = requestsInOutage(measured, 0)
      return requests - 1.7 * calls
    },
    limit: { atMost: 25 },
    shown: (n) => n.toFixed(1)
  })),
  {
    name: "few requests in a total outage, after a minute of successes",
    situations: outageRates.map((rate) => ({
      world: "down-later",
      chain: "one-target",
      arrivals: `${rate} for 120s`
    })),
    unit: "requests - 1.7 × calls",
    measure: (measured) => {
      const { calls, requests } = requestsInOutage(measured, 60_000)
      return requests - 1.7 * calls
    },
    limit: { atMost: 25 },
    shown: (n) => n.toFixed(1)
  },
  {
    name: "few requests of a burst into a total outage",
    situations: (["down", "down-503", "down-reset", "limited-silent"] as const).flatMap((world) =>
      ["60 at once", "200 at once"].map((arrivals) => ({ world, chain: "one-target", arrivals }) as const)
    ),
    unit: "requests / calls",
    measure: ({ report }) => report.requestsPerCall,
    limit: { atMost: 2.6 },
    shown: (n) => n.toFixed(2)
  },
  {
    name: "soon back after an outage of 60 s",
    situations: recoveries,
    unit: "until 95 % of new calls succeed",
    measure: ({ report }) => report.recovery ?? Infinity,
    limit: { atMost: 15_000 },
    shown: seconds
  },
  {
    name: "soon back after an outage of two vendors together",
    // At higher rates calls queue behind each other when a circuit closes.
    situations: [{ world: "outage-503", chain: "both-bad", arrivals: "1/s for 240s" }],
    unit: "longest wait of a call that began after the outage",
    measure: ({ log }) => longestWait(log.calls.filter(({ start }) => start >= 120_000)),
    limit: { atMost: 30_000 },
    shown: seconds
  },
  {
    name: "a server that sheds recovers from a surge",
    situations: [{ world: "shedding", chain: "one-target", arrivals: surge }],
    unit: "until 95 % of new calls succeed",
    measure: ({ report }) => report.recovery ?? Infinity,
    limit: { atMost: 30_000 },
    shown: seconds
  },
  {
    name: "two vendors that shed answer a surge",
    situations: (["shedding-1s", "shedding-5s"] as const).map((world) => ({
      world,
      chain: "both-bad",
      arrivals: shortSurge
    })),
    unit: "answered / calls",
    measure: goodput,
    limit: { atLeast: 0.99 },
    shown: ratio
  },
  {
    name: "one target that is crowded answers a surge",
    situations: crowding.map((world) => ({ world, chain: "one-target", arrivals: shortSurge })),
    unit: "answered / calls",
    measure: goodput,
    limit: { atLeast: 1 },
    shown: ratio
  },
  {
    name: "40 overloaded targets and a good one last",
    situations: ["1/s for 60s", "4/s for 60s"].map((arrivals) => ({
      world: "down-503",
      chain: "last-of-41",
      arrivals
    })),
    unit: "answered / calls",
    measure: goodput,
    limit: { atLeast: 0.5 },
    shown: ratio
  },
  {
    name: "servers that answer 429 without a wait: calls are answered",
    situations: limiting,
    unit: "answered / calls",
    measure: goodput,
    limit: { atLeast: 0.99 },
    shown: ratio
  },
  {
    name: "servers that answer 429 without a wait: few requests",
    situations: limiting,
    unit: "requests / calls",
    measure: ({ report }) => report.requestsPerCall,
    limit: { atMost: 5 },
    shown: (n) => n.toFixed(2)
  },
  {
    name: "two vendors that fail in turn: calls are answered",
    situations: flapping,
    unit: "answered / calls",
    measure: goodput,
    limit: { atLeast: 1 },
    shown: ratio
  },
  {
    name: "two vendors that fail in turn: no call waits for long",
    situations: flapping,
    unit: "longest wait",
    measure: ({ log }) => longestWait(log.calls),
    limit: { atMost: 60_000 },
    shown: seconds
  },
  {
    name: "no herd after an outage of a server that sheds",
    situations: [{ world: "shedding-outage", chain: "one-target", arrivals: "16/s for 240s" }],
    unit: "most requests in a second after the outage",
    measure: ({ log }) => peakOf(log.requests.filter((at) => at >= 120_000)),
    limit: { atMost: 40 },
    shown: String
  },
  {
    name: "no herd after a short outage, without a circuit",
    situations: [{ world: "shedding-short-outage", chain: "one-target", arrivals: "16/s for 180s" }],
    unit: "most requests in a second after the outage",
    // About three times what the server takes. Each success pays for 1.5 retries, new calls come, and waiting calls
    // go one by one.
    measure: ({ log }) => peakOf(log.requests.filter((at) => at >= 80_000)),
    limit: { atMost: 65 },
    shown: String
  },
  ...(
    [
      ["all calls are answered", "answered", ({ report }) => report.answered, { atLeast: 60 }, String],
      ["no call takes longer", "longest call", ({ report }) => report.longest, { atMost: 6_000 }, seconds],
      ["few requests", "most of a call", ({ report }) => report.maxRequestsPerCall, { atMost: 3 }, String]
    ] satisfies ReadonlyArray<readonly [string, string, Gate["measure"], Gate["limit"], Gate["shown"]]>
  ).map(([name, unit, measure, limit, shown]): Gate => ({
    name: `burst into a rate limit: ${name}`,
    situations: (["limit-20", "limit-20-late"] as const).map((world) => ({
      world,
      chain: "one-target",
      arrivals: "60 at once"
    })),
    unit,
    measure,
    limit,
    shown
  })),
  {
    name: "keys that share one limit: all calls are answered",
    situations: (["two-keys", "three-keys"] as const).map((chain) => ({
      world: "limit-10-shared",
      chain,
      arrivals: "100 at once"
    })),
    unit: "answered",
    measure: ({ report }) => report.answered,
    limit: { atLeast: 100 },
    shown: String
  },
  {
    name: "a vendor that hangs is avoided from the second call on",
    situations: (["whole", "stream"] as const).map((answers) => ({
      world: "hanging",
      chain: "one-bad",
      arrivals: "6 by 1",
      answers
    })),
    unit: "longest wait",
    measure: ({ log }) => longestWait(log.calls.slice(1)),
    limit: { atMost: 2_000 },
    shown: seconds
  },
  {
    name: "a health check that hangs: the call is answered",
    situations: (["one-target", "one-bad"] as const).map((chain) => ({
      world: "health-check-hangs",
      chain,
      arrivals: "1 at once"
    })),
    unit: "answered",
    measure: ({ report }) => report.answered,
    limit: { atLeast: 1 },
    shown: String
  },
  {
    name: "a health check that hangs: within the deadline",
    situations: (["one-target", "one-bad", "last-of-31"] as const).map((chain) => ({
      world: "health-check-hangs",
      chain,
      arrivals: "1 at once"
    })),
    unit: "longest call",
    measure: ({ report }) => report.longest,
    limit: { atMost: ({ policy = RecoveryPolicy.interactive }) => Duration.toMillis(policy.deadline) },
    shown: seconds
  },
  {
    name: "two calls at once: the presets open at the fifth failure",
    situations: [
      { world: "down", chain: "one-target", arrivals: "2 at once", policies: ["nexo"] },
      // The circuit of this preset counts only rate limits.
      { world: "limited-silent", chain: "one-target", arrivals: "2 at once", policies: ["decision037"] }
    ],
    unit: "failed requests before the circuit opened",
    measure: ({ report }) => report.failuresToOpen ?? Infinity,
    limit: { atMost: 5 },
    shown: (n) => (n === Infinity ? "never opened" : String(n))
  },
  {
    name: "a circuit that slow calls opened stays open while probes are slow",
    situations: [
      { world: "slow", chain: "one-target", arrivals: "1/s for 600s", policies: ["slow-circuits"] }
    ],
    unit: "times closed",
    measure: ({ report }) => report.closed,
    limit: { atMost: 0 },
    shown: String
  },
  ...returnGates,
  ...hedgeGates
]

// -----------------------------------------------------------------------------
// The runner
// -----------------------------------------------------------------------------

/** A situation as a simulation, without the fields that differ from run to run. */
export const simulationOf = ({
  world,
  chain,
  arrivals,
  answers
}: Omit<Situation, "name">): Omit<Simulation, "policy" | "seed"> => {
  const parsed = Arrivals.parse(arrivals)
  if (parsed === undefined) throw new Error(`No pattern of arrivals: "${arrivals}".`)
  return { world: worlds[world], chain: chains[chain], arrivals: parsed, answers }
}

/** Each gate with its worst case. */
export const check = (
  options: Options,
  seeds: ReadonlyArray<number>,
  of: ReadonlyArray<Gate> = gates
): ReadonlyArray<Verdict> => {
  // Several gates share a run.
  const logs = new Map<string, { readonly log: Log; readonly report: Report }>()
  const run = (simulation: Simulation, name: string) => {
    const known = logs.get(name)
    if (known !== undefined) return known
    const log = logOf(simulation)
    const made = { log, report: report(log, disturbanceEnd(simulation)) }
    logs.set(name, made)
    return made
  }
  const measuredOf = (
    situation: Omit<Situation, "name">,
    policy: string,
    own: Options,
    seed: number
  ): Measured => {
    const where = whereOf(situation, seed)
    const simulation = { ...simulationOf(situation), seed }
    return {
      ...run({ ...simulation, policy: own }, `${where} ${policy}`),
      world: simulation.world,
      options: own,
      under: (other) => {
        const policy = other === "no-retry" ? policies["no-retry"] : unprotected(own)
        return run({ ...simulation, policy }, `${where} ${other}`).report
      }
    }
  }
  return of.map((gate): Verdict => {
    const isMost = "atMost" in gate.limit
    const limit = "atMost" in gate.limit ? gate.limit.atMost : gate.limit.atLeast
    const bound = typeof limit === "function" ? limit(options) : limit
    const results = gate.situations.flatMap((situation) =>
      seeds.flatMap((seed) =>
        (situation.policies ?? [undefined]).map((name) => {
          const measured = measuredOf(
            situation,
            name ?? "",
            name === undefined ? options : policies[name],
            seed
          )
          const suffix = name === undefined ? "" : `, ${name}`
          return { value: gate.measure(measured), where: `${whereOf(situation, seed)}${suffix}` }
        })
      )
    )
    const { tolerated = 0 } = gate
    const isFailed = (value: number) => (isMost ? value > bound : value < bound)
    const worst = results.reduce((a, b) => ((isMost ? b.value > a.value : b.value < a.value) ? b : a))
    const failed = results.filter(({ value }) => isFailed(value)).length
    return {
      gate: gate.name,
      pass: failed <= tolerated * results.length,
      wanted: `${gate.unit} ${isMost ? "≤" : "≥"} ${gate.shown(bound)}`,
      worst: gate.shown(worst.value),
      value: worst.value,
      lowerIsWorse: !isMost,
      where: worst.where,
      failed,
      of: results.length,
      tolerated
    }
  })
}

/** The verdicts of some seeds and of further ones as those of all. */
export const merged = (
  some: ReadonlyArray<Verdict>,
  further: ReadonlyArray<Verdict>
): ReadonlyArray<Verdict> =>
  some.map((one) => {
    const other = further.find(({ gate }) => gate === one.gate)
    if (other === undefined) return one
    const isWorse = one.lowerIsWorse ? other.value < one.value : other.value > one.value
    const failed = one.failed + other.failed
    const of = one.of + other.of
    return { ...(isWorse ? other : one), pass: failed <= one.tolerated * of, failed, of }
  })

const whereOf = ({ world, chain, arrivals, answers }: Omit<Situation, "name">, seed: number): string =>
  [world, chain, arrivals, ...(answers === undefined ? [] : [answers]), `seed ${seed}`].join(", ")

export const cells = (verdicts: ReadonlyArray<Verdict>): ReadonlyArray<ReadonlyArray<string>> => [
  ["", "gate", "wanted", "worst", "failed", "where"],
  ...verdicts.map(({ gate, pass, wanted, worst, failed, of, where }) => [
    pass ? "pass" : "FAIL",
    gate,
    wanted,
    worst,
    `${failed} of ${of}`,
    where
  ])
]
