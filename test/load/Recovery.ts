/**
 * The success metrics of DECISION_037, read from the log of a run.
 *
 * - The recovery rate is the share of the calls with a failed request that were answered.
 * - The average number of retries is that of the answered ones among them.
 * - An opening of a circuit is a false positive when its server was not in an outage.
 */
import type { Log } from "./Report.ts"
import type { World } from "./World.ts"
import { serverOf } from "./World.ts"

export interface Recovery {
  /** Calls with a failed request. */
  readonly disturbed: number
  readonly recoveryRate: number
  readonly averageRetries: number
  readonly openings: number
  readonly falsePositives: number
}

/** `circuits` are the circuits of the servers, by their role. */
export const recoveryOf = (
  { calls, circuits }: Log,
  world: World,
  roles: Readonly<Record<string, "main" | "other">>
): Recovery => {
  const disturbed = calls.filter(({ answered, requests }) => requests > 1 || (requests === 1 && !answered))
  const recovered = disturbed.filter(({ answered }) => answered)
  const retries = recovered.reduce((sum, { requests }) => sum + requests - 1, 0)
  const opened = circuits.filter(({ to }) => to === "open")
  const isTrue = ({ at, circuit }: Log["circuits"][number]): boolean => {
    const role = roles[circuit]
    const outages = role === undefined ? [] : (serverOf(world, role).outages ?? [])
    return outages.some(({ from, to = Infinity }) => at >= from && at <= to)
  }
  return {
    disturbed: disturbed.length,
    recoveryRate: recovered.length / disturbed.length,
    averageRetries: retries / recovered.length,
    openings: opened.length,
    falsePositives: opened.filter((circuit) => !isTrue(circuit)).length
  }
}
