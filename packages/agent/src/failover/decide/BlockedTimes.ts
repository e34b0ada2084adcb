/**
 * The time from which cooldowns and their probes let a call go to each target of a chain. Pure; remembers what it has
 * worked out for the last sets of cooldowns.
 *
 * A cooldown changes the times of a few targets. The times of the others are taken over, so that a call that opens a
 * thousand cooldowns one after the other does not look at a thousand targets after each.
 */
import { Duration } from "effect"
import type { TargetRef } from "../../conversation/TargetRef.ts"
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
  return targets.filter((_, i) => !((blocked[i] ?? now) > now))
}

/** The time from which cooldowns and their probes let a call go to a target, in monotonic milliseconds. */
export const opensAt = (
  { probe }: Pick<RecoveryPolicy<string>, "probe">,
  cooldowns: Cooldowns,
  target: TargetRef
): number => {
  const margin = (length: number): number =>
    probe === false ? 0 : Math.min(Duration.toMillis(probe.atMost), probe.share * length)
  return Cool.blockedUntil(cooldowns, target, margin)
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
  const at = ({ ref }: TargetView): number => opensAt(policy, cooldowns, ref)
  const change = Cool.takeChange(cooldowns)
  const before = change === undefined ? undefined : known.get(change.from)
  // Stryker disable next-line ConditionalExpression: the first is for the types; without a change `before` is not known.
  const isKnown = change !== undefined && isSame(before)
  const blocked = isKnown ? before.blocked.slice() : targets.map(at)
  if (isKnown) {
    const covered = coveredBy(targets)
    for (const id of change.ids) covered.get(id)?.forEach(([target, i]) => void (blocked[i] = at(target)))
  }
  known.set(cooldowns, { policy, targets, blocked })
  return blocked
}

/** The targets that each scope covers with their indices, by its id. */
type Covered = ReadonlyMap<string, ReadonlyArray<readonly [TargetView, number]>>

const coverage = new WeakMap<Targets, Covered>()

const coveredBy = (targets: Targets): Covered => {
  const known = coverage.get(targets)
  if (known !== undefined) return known
  const covered = new Map<string, Array<readonly [TargetView, number]>>()
  targets.forEach((target, i) => {
    const { ref } = target
    for (const scope of Cool.scopes) {
      const id = Cool.idOf(scope, ref)
      const others = covered.get(id)
      if (others === undefined) covered.set(id, [[target, i]])
      else others.push([target, i])
    }
  })
  coverage.set(targets, covered)
  return covered
}
