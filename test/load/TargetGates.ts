/**
 * Gates of the right target at the right time: a vendor is used again soon after its outage, the vendor that is down
 * costs neither callers nor itself, and a late first token is not waited for.
 */
import type { Gate, Measured } from "./Gates.ts"
import { quantile } from "./Report.ts"
import { seconds } from "./Table.ts"
import type { OutageKind, OutageMinutes } from "./Worlds.ts"
import { outageBegin } from "./Worlds.ts"

const minutes: ReadonlyArray<OutageMinutes> = [1, 5, 15, 60]
const quick: ReadonlyArray<OutageKind> = [500, 503, 529, "reset"]
const silent: ReadonlyArray<OutageKind> = ["hang"]

/** Outages of the first of two vendors, from a minute before to ten minutes after. */
const situations = (kinds: ReadonlyArray<OutageKind>, rates: ReadonlyArray<string>): Gate["situations"] =>
  kinds.flatMap((kind) =>
    minutes.flatMap((length) =>
      rates.map((rate) => ({
        world: `outage-${length}m-${kind}` as const,
        chain: "one-bad" as const,
        arrivals: `${rate} for ${60 * (1 + length + 10)}s`,
        answers: "stream" as const
      }))
    )
  )

const rates = ["12/min", "1/min"]

const endOf = ({ world }: Measured): number => world.main.outages?.[0]?.to ?? 0

/** Milliseconds from the end of the outage to the first call that the vendor answers. */
const returned = (measured: Measured): number => {
  const end = endOf(measured)
  const call = measured.log.calls.find(({ start, vendor }) => start >= end && vendor === 0)
  return call === undefined ? Infinity : call.start - end
}

/** Milliseconds after which a vendor that is down should be known to be down, at one call a minute. */
const knownAfter = 150_000

/** Requests of the calls that find out that the vendor is down. */
const findingOut = 6

export const returnGates: ReadonlyArray<Gate> = [
  {
    name: "return: soon after an outage that fails at once",
    situations: situations(quick, ["12/min"]),
    unit: "from the end of the outage to the first call that the vendor answers",
    measure: returned,
    limit: { atMost: 15_000 },
    shown: seconds,
    tolerated: 0.05
  },
  {
    name: "return: soon after an outage without an answer",
    situations: situations(silent, ["12/min"]),
    unit: "from the end of the outage to the first call that the vendor answers",
    measure: returned,
    limit: { atMost: 60_000 },
    shown: seconds
  },
  {
    name: "return: with the next call, at one call a minute",
    situations: situations([...quick, ...silent], ["1/min"]),
    unit: "calls from 10 s after the outage on that another vendor answers first",
    measure: (measured) => {
      const calls = measured.log.calls.filter(({ start }) => start >= endOf(measured) + 10_000)
      const first = calls.findIndex(({ vendor }) => vendor === 0)
      return first === -1 ? calls.length : first
    },
    limit: { atMost: 0 },
    shown: String
  },
  {
    name: "return: few requests to a vendor that is down",
    situations: situations([...quick, ...silent], rates),
    unit: "requests in the outage - one per 10 s",
    measure: (measured) => {
      const end = endOf(measured)
      const requests = measured.log.byVendor[0]?.filter((at) => at >= outageBegin && at < end) ?? []
      return requests.length - (end - outageBegin) / 10_000
    },
    limit: { atMost: findingOut },
    shown: (n) => n.toFixed(1)
  },
  {
    name: "return: no caller waits for a vendor that is down",
    situations: situations([...quick, ...silent], rates),
    unit: `longest wait of a call from ${seconds(knownAfter)} after the begin of the outage on`,
    measure: ({ log }) =>
      Math.max(
        ...log.calls
          .filter(({ start }) => start >= outageBegin + knownAfter)
          .map(({ start, end = Infinity, last }) => end - start - last)
      ),
    limit: { atMost: 2_000 },
    shown: seconds
  }
]

const situation = { chain: "one-bad", arrivals: "1/s for 600s", answers: "stream" } as const
/** Half as many late first tokens as the share of hedges allows. */
const rare: Gate["situations"] = [{ ...situation, world: "slow-first-token-rare" }]
/** Twice as many as the share allows. */
const many: Gate["situations"] = [{ ...situation, world: "slow-first-token" }]
const lateAfter = 15_000
/** Hedges of the default policy that no call has paid for. */
const reserve = 3

export const hedgeGates: ReadonlyArray<Gate> = [
  {
    name: "hedge: a late first token is not waited for",
    situations: rare,
    unit: "p99 of the first token",
    measure: ({ log }) =>
      quantile(
        log.calls.map(({ firstToken = Infinity }) => firstToken).sort((a, b) => a - b),
        0.99
      ),
    limit: { atMost: lateAfter },
    shown: seconds
  },
  {
    name: "hedge: half of twice as many late first tokens are not waited for",
    situations: many,
    unit: "calls whose first token comes after 15 s / calls",
    measure: ({ log }) =>
      log.calls.filter(({ firstToken = Infinity }) => firstToken > lateAfter).length / log.calls.length,
    limit: { atMost: 0.075 },
    shown: (n) => n.toFixed(3)
  },
  {
    name: "hedge: few more requests for late first tokens",
    situations: [...rare, ...many],
    unit: "(requests - reserve) / calls",
    measure: ({ log, report }) => report.requestsPerCall - reserve / log.calls.length,
    limit: { atMost: 1.05 },
    shown: (n) => n.toFixed(3)
  },
  {
    name: "hedge: one request per call in a healthy world",
    situations: (["one-bad", "both-bad", "three-keys"] as const).flatMap((chain) =>
      ["4/s for 150s", "200 at once"].map(
        (arrivals) => ({ world: "healthy", chain, arrivals, answers: "stream" }) as const
      )
    ),
    unit: "requests / calls",
    measure: ({ report }) => report.requestsPerCall,
    limit: { atMost: 1 },
    shown: (n) => n.toFixed(3)
  }
]
