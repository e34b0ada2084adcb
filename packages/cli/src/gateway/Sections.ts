/** Sections of the status page of a gateway. Pure: the chains of its routes in, JSON out. */
import type { Activity } from "@outlast/agent"

/** A chain, with the state of its targets. */
export interface Chain {
  /** `undefined`: no route is configured. */
  readonly route: string | undefined
  readonly wire: string
  readonly targets: ReadonlyArray<Activity.ChainTarget>
}

/** Targets that are listed. */
export const maxTargets = 200

/** When a target is back: 0 for one that is ready, `Infinity` where that is not known. */
const backAt = ({ state, until }: Activity.ChainTarget): number =>
  state === "ready" ? 0 : (until ?? Infinity)

/**
 * The targets of all chains, those that are out longest first. A target of several chains is one line: as it is in the
 * chain where it is out longest, because one key is usually out everywhere.
 */
export const targets = (chains: ReadonlyArray<Chain>): ReadonlyArray<Activity.ChainTarget> => {
  const found = new Map<string, Activity.ChainTarget>()
  for (const { route, targets } of chains) {
    for (const target of targets) {
      // Without routes, a model that the vendor does not have is a mistake of the caller.
      if (route === undefined && target.reason === "ModelNotFound") continue
      const known = found.get(target.id)
      const [worse, other] =
        known === undefined || backAt(target) > backAt(known) ? [target, known] : [known, target]
      const answered = [worse.lastSuccessAt, other?.lastSuccessAt ?? null].filter((at) => at !== null)
      found.set(target.id, {
        ...worse,
        lastSuccessAt: answered.length === 0 ? null : Math.max(...answered)
      })
    }
  }
  const all = Array.from(found.values())
  return (all.length > maxTargets ? all.toSorted((a, b) => backAt(b) - backAt(a)) : all).slice(0, maxTargets)
}

/** The configured routes, in each format that was asked for: the targets that may be asked, and when one is back. */
export const routes = (chains: ReadonlyArray<Chain>) =>
  chains.flatMap(({ route, targets, wire }) => {
    if (route === undefined) return []
    const ready = targets.filter(({ state }) => state === "ready").map(({ id }) => id)
    const back = Math.min(...targets.map(backAt))
    return [{ route, wire, ready, until: back === 0 || back === Infinity ? null : back }]
  })
