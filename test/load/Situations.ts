/** Named situations: the table that `npm run simulate` prints for a policy. */
import type { ChainName } from "./Chains.ts"
import type { PolicyName } from "./Policies.ts"
import type { WorldName } from "./Worlds.ts"

export interface Situation {
  readonly name: string
  readonly world: WorldName
  readonly chain: ChainName
  readonly arrivals: string
  readonly answers?: "whole" | "stream"
  /** The policies of this situation. Default: the policy of the table. */
  readonly policies?: ReadonlyArray<PolicyName>
}

const flaky = (chain: ChainName): Situation => ({
  name: `30 % fail, ${chain}`,
  world: "flaky-30",
  chain,
  arrivals: "4/s for 150s"
})

const hanging = (answers: "whole" | "stream"): Situation => ({
  name: `first vendor hangs, ${answers}`,
  world: "hanging",
  chain: "one-bad",
  arrivals: "6 by 1",
  answers
})

/** Calls at 0.8 of the capacity of `shedding`, for ten seconds at three times its capacity. */
export const surge = "16/s for 60s, 60/s for 10s, 16/s for 120s"

/** Calls at three times the capacity of `shedding-1s`, then at half of it. */
export const shortSurge = "80/s for 4s, 15/s for 15s"

const shedding = (world: "shedding-1s" | "shedding-5s"): Situation => ({
  name: `surge at two vendors, ${world}`,
  world,
  chain: "both-bad",
  arrivals: shortSurge
})

/** More calls than the one target takes at once: a call needs more attempts than a target gives it when it is idle. */
export const crowding = ["limit-10-shared", "shedding-1s", "shedding-5s"] as const

const limiting = (chain: "one-target" | "two-keys" | "both-bad"): Situation => ({
  name: `surge, 429 without a wait, ${chain}`,
  world: "shedding-429",
  chain,
  arrivals: shortSurge
})

const sharedLimit = (chain: "two-keys" | "three-keys"): Situation => ({
  name: `one limit, ${chain}`,
  world: "limit-10-shared",
  chain,
  arrivals: "100 at once"
})

export const situations: ReadonlyArray<Situation> = [
  flaky("one-target"),
  flaky("three-keys"),
  flaky("both-bad"),
  flaky("one-bad"),
  {
    name: "10 % overloaded, 64 calls at once",
    world: "overloaded-10",
    chain: "both-bad",
    arrivals: "2500 by 64"
  },
  { name: "burst into a rate limit", world: "limit-20", chain: "one-target", arrivals: "60 at once" },
  {
    name: "the same, closed for a second",
    world: "limit-20-late",
    chain: "one-target",
    arrivals: "60 at once"
  },
  sharedLimit("two-keys"),
  sharedLimit("three-keys"),
  hanging("whole"),
  hanging("stream"),
  { name: "health check hangs", world: "health-check-hangs", chain: "one-target", arrivals: "1 at once" },
  {
    name: "two calls, five failures",
    world: "down",
    chain: "one-target",
    arrivals: "2 at once",
    policies: ["nexo", "decision037"]
  },
  {
    name: "slow server, slow probes",
    world: "slow",
    chain: "one-target",
    arrivals: "1/s for 600s",
    policies: ["slow-circuits"]
  },
  { name: "30 limited, one good", world: "limited", chain: "last-of-31", arrivals: "100 by 1" },
  { name: "100 limited, one good", world: "limited", chain: "last-of-101", arrivals: "100 by 1" },
  { name: "40 overloaded, one good", world: "down-503", chain: "last-of-41", arrivals: "4/s for 60s" },
  { name: "down, cold", world: "down", chain: "one-target", arrivals: "4/s for 60s" },
  { name: "down after a minute", world: "down-later", chain: "one-target", arrivals: "4/s for 120s" },
  { name: "down, burst", world: "down", chain: "one-target", arrivals: "200 at once" },
  { name: "outage of a minute", world: "outage", chain: "one-target", arrivals: "4/s for 240s" },
  {
    name: "outage of two vendors together",
    world: "outage-503",
    chain: "both-bad",
    arrivals: "4/s for 240s"
  },
  { name: "hangs for a minute", world: "outage-hang", chain: "one-target", arrivals: "4/s for 240s" },
  { name: "surge at a server that sheds", world: "shedding", chain: "one-target", arrivals: surge },
  shedding("shedding-1s"),
  shedding("shedding-5s"),
  ...crowding.map((world) => ({
    name: `surge at one target, ${world}`,
    world,
    chain: "one-target" as const,
    arrivals: shortSurge
  })),
  limiting("one-target"),
  limiting("two-keys"),
  limiting("both-bad"),
  {
    name: "two vendors fail in turn",
    world: "flapping",
    chain: "two-keys-and-other",
    arrivals: "5/s for 40s"
  },
  {
    name: "outage at a server that sheds",
    world: "shedding-outage",
    chain: "one-target",
    arrivals: "16/s for 240s"
  },
  {
    name: "short outage at a server that sheds",
    world: "shedding-short-outage",
    chain: "one-target",
    arrivals: "16/s for 180s"
  },
  { name: "surge at a server that queues", world: "queueing", chain: "one-target", arrivals: surge },
  { name: "mixed failures", world: "mixed", chain: "one-bad", arrivals: "4/s for 150s" }
]
