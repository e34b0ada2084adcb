/**
 * The time from which cooldowns and their probes let a call go to each target of a chain. Pure; remembers what it has
 * worked out for the last sets of cooldowns.
 *
 * A cooldown changes the times of a few targets. The times of the others are taken over, so that a call that opens a
 * thousand cooldowns one after the other does not look at a thousand targets after each.
 */
import { Duration } from "effect"
import type { TargetView } from "./CallModel.ts"
import type { Cooldowns } from "./Cooldown.ts"
import * as Cool from "./Cooldown.ts"
import type { RecoveryPolicy } from "./RecoveryPolicy.ts"

type Targets = ReadonlyArray<TargetView>

interface Known {
  readonly policy: RecoveryPolicy<string>
  readonly targets: Targets
  readonly blocked: ReadonlyArray<number>
}

const known = new WeakMap<Cooldowns, Known>()

/** The targets that no cooldown keeps out at `now`, in order of preference. */
export const openAt = (
  policy: RecoveryPolicy<string>,
  cooldowns: Cooldowns,
  targets: Targets,
  now: number
): Targets => {
  if (Cool.isEmpty(cooldowns)) return targets
  const blocked = timesOf(policy, cooldowns, targets)
  return targets.filter((_, i) => !((blocked[i] ?? -Infinity) > now))
}

/** Monotonic milliseconds by index of the target, `-Infinity` for one that no cooldown covers. */
const timesOf = (
  policy: RecoveryPolicy<string>,
  cooldowns: Cooldowns,
  targets: Targets
): ReadonlyArray<number> => {
  const isSame = (entry: Known | undefined): entry is Known =>
    entry?.policy === policy && entry.targets === targets
  const last = known.get(cooldowns)
  if (isSame(last)) return last.blocked
  const { probe } = policy
  const margin = (length: number): number =>
    probe === false ? 0 : Math.min(Duration.toMillis(probe.atMost), probe.share * length)
  const at = ({ ref }: TargetView): number => Cool.blockedUntil(cooldowns, ref, margin)
  const change = Cool.takeChange(cooldowns)
  const before = change === undefined ? undefined : known.get(change.from)
  const isKnown = change !== undefined && isSame(before)
  const blocked = isKnown ? before.blocked.slice() : targets.map(at)
  if (isKnown) {
    const covered = coveredBy(targets)
    for (const id of change.ids) {
      for (const i of covered.get(id) ?? []) {
        const target = targets[i]
        if (target !== undefined) blocked[i] = at(target)
      }
    }
  }
  known.set(cooldowns, { policy, targets, blocked })
  return blocked
}

/** Indices of the targets that each scope covers, by its id. */
type Covered = ReadonlyMap<string, ReadonlyArray<number>>

const coverage = new WeakMap<Targets, Covered>()

const coveredBy = (targets: Targets): Covered => {
  const known = coverage.get(targets)
  if (known !== undefined) return known
  const covered = new Map<string, Array<number>>()
  targets.forEach(({ ref }, i) => {
    for (const scope of Cool.scopes) {
      const id = Cool.idOf(scope, ref)
      const indices = covered.get(id)
      if (indices === undefined) covered.set(id, [i])
      else indices.push(i)
    }
  })
  coverage.set(targets, covered)
  return covered
}
