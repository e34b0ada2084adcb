/**
 * Which targets are out, until when and why. Pure.
 *
 * A cooldown covers a scope: a key, a key with a model, a model at an endpoint, an endpoint. An open one is
 * never lengthened by failures inside it. Each further one without a success between is longer, and a success
 * of a target clears all that cover it. Times are monotonic milliseconds.
 */
import { Duration } from "effect"
import type { ProviderFailure } from "../failure/ProviderFailure.ts"
import type { TargetRef } from "../failure/TargetRef.ts"
import type { CooldownRule, Scope } from "./RecoveryPolicy.ts"

/** A decision to keep a scope from being chosen. */
export interface Cooldown {
  readonly scope: Scope
  readonly target: TargetRef
  /** Infinity: until it is reset. */
  readonly until: number
  readonly failure: ProviderFailure
}

interface Entry {
  readonly until: number
  readonly failure: ProviderFailure
  readonly since: number
  /** Cooldowns since the last success. */
  readonly streak: number
}

/** All cooldowns of a chain, by scope. Bounded: a chain has finitely many scopes. */
export type Cooldowns = ReadonlyMap<string, Entry>

export const empty: Cooldowns = new Map()

const scopes: ReadonlyArray<Scope> = ["key", "key+model", "model", "endpoint"]

const scopeId = (scope: Scope, { id, provider, model, endpoint, key }: TargetRef): string => {
  // A target without a key of ours shares none with others.
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

/** Whether a cooldown of `scope` at `target` also covers `other`. */
export const covers = (scope: Scope, target: TargetRef, other: TargetRef): boolean =>
  scopeId(scope, target) === scopeId(scope, other)

/** What keeps a target out at `now`: of several the one that lasts longest. */
export interface Out {
  readonly until: number
  readonly failure: ProviderFailure
}

export const outOf = (cooldowns: Cooldowns, target: TargetRef, now: number): Out | undefined => {
  if (cooldowns.size === 0) return undefined
  let longest: Out | undefined
  for (const scope of scopes) {
    const entry = cooldowns.get(scopeId(scope, target))
    if (entry !== undefined && entry.until > now && entry.until > (longest?.until ?? now)) longest = entry
  }
  return longest
}

/** Whether a cooldown of exactly this scope is open. */
export const isOpen = (cooldowns: Cooldowns, scope: Scope, target: TargetRef, now: number): boolean =>
  (cooldowns.get(scopeId(scope, target))?.until ?? now) > now

/** How many cooldowns of a scope a target has had since its last success. */
export const streakOf = (cooldowns: Cooldowns, scope: Scope, target: TargetRef): number =>
  cooldowns.get(scopeId(scope, target))?.streak ?? 0

/** The length of the next cooldown in milliseconds, `streak` cooldowns after the last success. */
export const length = (rule: CooldownRule, streak: number): number =>
  rule.initial === "forever"
    ? Infinity
    : Math.min(Duration.toMillis(rule.cap), Duration.toMillis(rule.initial) * rule.factor ** streak)

/** Opens a cooldown, unless one of its scope is open. */
export const open = (cooldowns: Cooldowns, cooldown: Cooldown, now: number): Cooldowns => {
  if (isOpen(cooldowns, cooldown.scope, cooldown.target, now)) return cooldowns
  const id = scopeId(cooldown.scope, cooldown.target)
  const current = cooldowns.get(id)
  const { until, failure } = cooldown
  return new Map(cooldowns).set(id, { until, failure, since: now, streak: (current?.streak ?? 0) + 1 })
}

/**
 * Forgets what covers a target, because an attempt that began at `startedAt` has succeeded. A cooldown that
 * opened while that attempt was under way stays: the success says nothing about it.
 */
export const clear = (cooldowns: Cooldowns, target: TargetRef, startedAt: number): Cooldowns => {
  if (cooldowns.size === 0) return cooldowns
  const ids = scopes
    .map((scope) => scopeId(scope, target))
    .filter((id) => (cooldowns.get(id)?.since ?? Infinity) <= startedAt)
  if (ids.length === 0) return cooldowns
  const rest = new Map(cooldowns)
  for (const id of ids) rest.delete(id)
  return rest
}
