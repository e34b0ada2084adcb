/**
 * Tracks which targets are out, until when and why. Pure.
 *
 * A cooldown covers a scope: a key, a key with a model, a model at an endpoint, or an endpoint. Failures inside an
 * open cooldown neither lengthen nor shorten it. Each further cooldown without a success between is longer. A success
 * of a target clears all cooldowns that cover it, and so does an operator's `reset`. Times are monotonic
 * milliseconds.
 *
 * **States of a target** (`stateOf`). `ready`; `cooling` until a time; `dead` until a reset.
 *
 * **Probes.** Shortly before its end a cooldown lets one attempt through: `blockedUntil`, then `beginProbe`. A success
 * clears the cooldown. After a failure (`failProbe`) it is not probed again and ends at its usual time. A probe that
 * was abandoned shows nothing (`endProbe`), so another may follow. Two kinds are never probed: a wait that the server
 * named, because a request inside that time can lengthen it, and a cooldown without end.
 *
 * **Limits.** This module reads no clock and chooses no lengths: `RecoveryPolicy` does.
 */
import { Duration, HashMap, Option } from "effect"
import { unreadChanges } from "./Bounds.ts"
import type { ReasonTag } from "../../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import type { CooldownRule, Scope } from "./RecoveryPolicy.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** A decision to keep a scope from being chosen. */
export interface Cooldown {
  readonly scope: Scope
  readonly target: TargetRef
  /** `Infinity`: until it is reset. */
  readonly until: number
  readonly failure: ProviderFailure
  /** True when the server named the length. Default false. */
  readonly named?: boolean | undefined
  /** True when single calls look whether the target is back: see `CooldownRule.looks`. Default false. */
  readonly looks?: boolean | undefined
  /** Consecutive cooldowns of the scope, this one included. Default: one more than the last one had. */
  readonly streak?: number | undefined
}

/** A cooldown that was opened. The entry stays after its end, because its streak counts for the next one. */
export interface Entry extends Cooldown {
  readonly since: number
  /** Consecutive cooldowns since the last success. */
  readonly streak: number
  readonly named: boolean
  readonly looks: boolean
  readonly probe: "none" | "running" | "done"
}

/**
 * All cooldowns of a chain by scope. Bounded, because a chain has finitely many scopes. A `HashMap`, because a call over
 * a thousand limited targets opens a thousand cooldowns one after the other.
 */
export type Cooldowns = HashMap.HashMap<string, Entry>

/** The availability of a target: ready, cooling until a time, or dead until a reset. */
export type TargetState =
  | { readonly _tag: "ready" }
  | { readonly _tag: "cooling"; readonly until: number; readonly reason: ReasonTag }
  | { readonly _tag: "dead"; readonly reason: ReasonTag }

export const empty: Cooldowns = HashMap.empty()

export const isEmpty = (cooldowns: Cooldowns): boolean => HashMap.isEmpty(cooldowns)

/** The entry of a scope (`idOf`), open or not. */
export const entryOf = (cooldowns: Cooldowns, id: string): Entry | undefined =>
  Option.getOrUndefined(HashMap.get(cooldowns, id))

// -----------------------------------------------------------------------------
// Scopes
// -----------------------------------------------------------------------------

export const scopes: ReadonlyArray<Scope> = ["key", "key+model", "model", "endpoint"]

/** Identifies a scope at a target. All targets that the scope covers share this id, which contains no secret. */
export const idOf = (scope: Scope, target: TargetRef): string => idsOf(target)[scope]

type Ids = Readonly<Record<Scope, string>>

/** A chain asks for the ids of its targets in every call, and a target never changes. */
const ids = new WeakMap<TargetRef, Ids>()

const idsOf = (target: TargetRef): Ids => {
  const known = ids.get(target)
  // Stryker disable next-line ConditionalExpression: only faster; the ids are the same each time.
  if (known !== undefined) return known
  const made = {
    key: written("key", target),
    "key+model": written("key+model", target),
    model: written("model", target),
    endpoint: written("endpoint", target)
  }
  // Stryker disable next-line CallExpression: only faster.
  ids.set(target, made)
  return made
}

const written = (scope: Scope, { id, provider, model, endpoint, key }: TargetRef): string => {
  // A target without a key of ours shares its key scope with no other target.
  if (key === "" && (scope === "key" || scope === "key+model")) return JSON.stringify([scope, id])
  switch (scope) {
    case "key":
      return JSON.stringify([scope, provider, key])
    case "key+model":
      return JSON.stringify([scope, provider, key, model, endpoint])
    case "model":
      return JSON.stringify([scope, provider, model, endpoint])
    case "endpoint":
      return JSON.stringify([scope, provider, endpoint])
  }
}

/** True when a cooldown of `scope` at `target` also covers `other`. */
export const covers = (scope: Scope, target: TargetRef, other: TargetRef): boolean =>
  idOf(scope, target) === idOf(scope, other)

/** Returns the entries of all scopes of a target, open or not. */
const entriesOf = (cooldowns: Cooldowns, target: TargetRef): ReadonlyArray<Entry> =>
  // Stryker disable next-line ConditionalExpression,ArrayDeclaration: only faster; an empty map has no entries.
  isEmpty(cooldowns) ? [] : scopes.flatMap((scope) => entryOf(cooldowns, idOf(scope, target)) ?? [])

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** The open cooldowns that cover a target. */
export const openOf = (cooldowns: Cooldowns, target: TargetRef, now: number): ReadonlyArray<Entry> =>
  entriesOf(cooldowns, target).filter(({ until }) => until > now)

/** The open cooldown that keeps a target out longest. */
export interface Out {
  readonly until: number
  readonly failure: ProviderFailure
}

export const outOf = (cooldowns: Cooldowns, target: TargetRef, now: number): Out | undefined => {
  // Stryker disable next-line ConditionalExpression: only faster; an empty map has no entries.
  if (isEmpty(cooldowns)) return undefined
  let longest: Out | undefined
  const ids = idsOf(target)
  for (const scope of scopes) {
    const entry = entryOf(cooldowns, ids[scope])
    if (entry !== undefined && entry.until > (longest?.until ?? now)) longest = entry
  }
  return longest
}

/** True when the target has not answered since a cooldown whose length the server did not name. */
export const isDoubted = (cooldowns: Cooldowns, target: TargetRef): boolean =>
  scopes.some((scope) => entryOf(cooldowns, idsOf(target)[scope])?.named === false)

/** True when single calls look whether the target is back, and it has not answered since. `by`: only while one does. */
export const isLookedAt = (cooldowns: Cooldowns, target: TargetRef, by?: "running"): boolean =>
  !isEmpty(cooldowns) &&
  scopes.some((scope) => {
    const entry = entryOf(cooldowns, idsOf(target)[scope])
    return entry?.looks === true && (by === undefined || entry.probe === by)
  })

/** The state of a target at `now`. */
export const stateOf = (cooldowns: Cooldowns, target: TargetRef, now: number): TargetState => {
  const out = outOf(cooldowns, target, now)
  if (out === undefined) return { _tag: "ready" }
  const reason = out.failure.reason._tag
  return out.until === Infinity ? { _tag: "dead", reason } : { _tag: "cooling", until: out.until, reason }
}

/** True when a cooldown of exactly this scope is open. */
export const isOpen = (cooldowns: Cooldowns, scope: Scope, target: TargetRef, now: number): boolean =>
  (entryOf(cooldowns, idOf(scope, target))?.until ?? now) > now

/**
 * Number of cooldowns of a scope since the target's last success; 0 once `forgetAfter` milliseconds have passed at `now`
 * since the end of the last one.
 */
export const streakOf = (
  cooldowns: Cooldowns,
  scope: Scope,
  target: TargetRef,
  now = 0,
  forgetAfter = Infinity
): number => {
  const entry = entryOf(cooldowns, idOf(scope, target))
  return entry === undefined || entry.until + forgetAfter <= now ? 0 : entry.streak
}

/**
 * Returns the length of the next cooldown in milliseconds, after `streak` cooldowns without a success. `named` is the
 * wait that the server named. A rule with `wins` starts from it. `isTrusted`: a target of the scope has answered lately.
 */
export const length = (rule: CooldownRule, streak: number, named?: number, isTrusted = false): number => {
  if (isTrusted && rule.trusted !== undefined) {
    return streak === 0 ? Duration.toMillis(rule.trusted) : length(rule, streak - 1, named)
  }
  const first = rule.retryAfter === "wins" ? (named ?? rule.initial) : rule.initial
  if (first === "forever") return Infinity
  return Math.min(Duration.toMillis(rule.cap), Duration.toMillis(first) * rule.factor ** streak)
}

// -----------------------------------------------------------------------------
// Opening and clearing
// -----------------------------------------------------------------------------

/**
 * Opens a cooldown, unless one of the same scope is open. Returns the same object when the same cooldown is opened again:
 * first where a call looks what it would leave, then for all calls.
 */
export const open = (cooldowns: Cooldowns, cooldown: Cooldown, now: number): Cooldowns => {
  const last = opened.get(cooldown)
  if (last?.before === cooldowns && last.now === now) return last.after
  const { scope, target, until, failure, named = false, looks = false } = cooldown
  const known = entryOf(cooldowns, idOf(scope, target))
  if (known !== undefined && known.until > now) return cooldowns
  const streak = cooldown.streak ?? (known?.streak ?? 0) + 1
  const entry: Entry = { scope, target, until, failure, named, looks, since: now, streak, probe: "none" }
  const after = adopt(cooldowns, entry)
  opened.set(cooldown, { before: cooldowns, now, after })
  return after
}

const opened = new WeakMap<
  Cooldown,
  { readonly before: Cooldowns; readonly now: number; readonly after: Cooldowns }
>()

/** Replaces the entry of a scope, for example with one from a store: opened before a restart, or by another process. */
export const adopt = (cooldowns: Cooldowns, entry: Entry): Cooldowns => {
  const id = idOf(entry.scope, entry.target)
  const next = HashMap.set(cooldowns, id, entry)
  changes.set(next, changeOf(cooldowns, id))
  return next
}

// -----------------------------------------------------------------------------
// Changes
// -----------------------------------------------------------------------------

/** What differs between two sets of cooldowns: a reader that knows `from` needs to look at these scopes only. */
export interface Change {
  readonly from: Cooldowns
  /** Ids of scopes. */
  readonly ids: ReadonlyArray<string>
}

const changes = new WeakMap<Cooldowns, Change | undefined>()

const changeOf = (before: Cooldowns, id: string): Change | undefined => {
  const unread = changes.get(before)
  if (unread === undefined) return { from: before, ids: [id] }
  return unread.ids.length < unreadChanges ? { from: unread.from, ids: [...unread.ids, id] } : undefined
}

/** Takes the change that led to these cooldowns, where it is known. It is given once: it holds the older cooldowns. */
export const takeChange = (cooldowns: Cooldowns): Change | undefined => {
  const change = changes.get(cooldowns)
  changes.delete(cooldowns)
  return change
}

/**
 * Clears the cooldowns that cover a target after an attempt that began at `startedAt` succeeded. A cooldown that
 * opened during that attempt stays: the success does not disprove it.
 */
export const clear = (cooldowns: Cooldowns, target: TargetRef, startedAt: number): Cooldowns => {
  const cleared = entriesOf(cooldowns, target).filter(({ since }) => since <= startedAt)
  // Stryker disable next-line ConditionalExpression: only faster; `reset` without a match returns the same map.
  return cleared.length === 0 ? cooldowns : reset(cooldowns, (entry) => cleared.includes(entry))
}

/** Removes the entries that an operator selects, whatever their state. */
export const reset = (cooldowns: Cooldowns, matches: (entry: Entry) => boolean): Cooldowns => {
  const rest = HashMap.filter(cooldowns, (entry) => !matches(entry))
  return HashMap.size(rest) === HashMap.size(cooldowns) ? cooldowns : rest
}

// -----------------------------------------------------------------------------
// Probes
// -----------------------------------------------------------------------------

/**
 * Returns the time from which a call may go to a target: the end of its cooldowns, or the first moment of a probe. A
 * cooldown may be probed within `margin(length)` milliseconds of its end, unless the server named it, it has no end, it
 * is looked at behind its end, or it has been probed. `-Infinity` for a target without cooldowns.
 */
export const blockedUntil = (
  cooldowns: Cooldowns,
  target: TargetRef,
  margin: (length: number) => number
): number => {
  // A loop without lists: this runs for each target in each call.
  const ids = idsOf(target)
  let blocked = -Infinity
  for (const scope of scopes) {
    const entry = entryOf(cooldowns, ids[scope])
    if (entry === undefined) continue
    const { since, until, named, looks, probe } = entry
    const isProbeable = probe === "none" && !named && !looks && until < Infinity
    blocked = Math.max(blocked, isProbeable ? until - margin(until - since) : until)
  }
  return blocked
}

/** True when none of the open cooldowns of a target has been probed. */
export const isUnprobed = (cooldowns: Cooldowns, target: TargetRef, now: number): boolean =>
  entriesOf(cooldowns, target).every(({ until, probe }) => until <= now || probe === "none")

/** Marks the cooldowns of a target as probed that are open or looked at, so that no other call probes it. */
export const beginProbe = (cooldowns: Cooldowns, target: TargetRef, now: number): Cooldowns =>
  marked(cooldowns, target, ({ until, looks }) => until > now || looks, "running")

/** Allows another probe, because this one was interrupted or not sent and showed nothing. */
export const endProbe = (cooldowns: Cooldowns, target: TargetRef, startedAt?: number): Cooldowns =>
  marked(cooldowns, target, isProbed(startedAt), "none")

/** Records a failed probe. The cooldowns are not probed again and end at their usual time. */
export const failProbe = (cooldowns: Cooldowns, target: TargetRef, startedAt?: number): Cooldowns =>
  marked(cooldowns, target, isProbed(startedAt), "done")

/** Ignores cooldowns that opened after the probe began. */
const isProbed =
  (startedAt = Infinity) =>
  ({ probe, since }: Entry): boolean =>
    probe === "running" && since <= startedAt

const marked = (
  cooldowns: Cooldowns,
  target: TargetRef,
  which: (entry: Entry) => boolean,
  probe: Entry["probe"]
): Cooldowns => {
  let next = cooldowns
  for (const entry of entriesOf(cooldowns, target)) if (which(entry)) next = adopt(next, { ...entry, probe })
  return next
}
