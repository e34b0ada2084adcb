/**
 * Which targets are out, until when and why. Pure.
 *
 * A cooldown covers a scope: a key, a key with a model, a model at an endpoint, an endpoint. An open one is
 * never lengthened or shortened by failures inside it. Each further one without a success between is longer, and
 * a success of a target clears all that cover it, as does an operator's `reset`. Times are monotonic milliseconds.
 *
 * **States of a target** (`stateOf`). `ready`; `cooling` until a time; `dead`, which only a reset ends.
 *
 * **Probes.** Shortly before its end a cooldown lets one attempt through: `mayProbe`, then `beginProbe`. Its success
 * clears; its failure (`failProbe`) means that this cooldown is not probed again, and it ends when it would have
 * ended; of a probe that was given up nothing is known (`endProbe`), so another may follow. Never probed is what the
 * server itself named, because a request inside that time can lengthen it, and what has no end.
 *
 * **What it does not do.** It decides no length: that is `RecoveryPolicy`. It reads no clock.
 */
import { Duration } from "effect"
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
  /** Infinity: until it is reset. */
  readonly until: number
  readonly failure: ProviderFailure
  /** Its length is what the server named. Default false. */
  readonly named?: boolean | undefined
}

/** One that was opened. It stays when its time is over: for its streak. */
export interface Entry extends Cooldown {
  readonly since: number
  /** Cooldowns since the last success. */
  readonly streak: number
  readonly named: boolean
  readonly probe: "none" | "running" | "done"
}

/** All cooldowns of a chain, by scope. Bounded: a chain has finitely many scopes. */
export type Cooldowns = ReadonlyMap<string, Entry>

/** What a target is to a call. */
export type TargetState =
  | { readonly _tag: "ready" }
  | { readonly _tag: "cooling"; readonly until: number; readonly reason: ReasonTag }
  | { readonly _tag: "dead"; readonly reason: ReasonTag }

export const empty: Cooldowns = new Map()

/** So long after its end a cooldown's streak is forgotten. 24 hours, as in OpenClaw. */
export const quiet = 24 * 60 * 60 * 1_000

// -----------------------------------------------------------------------------
// Scopes
// -----------------------------------------------------------------------------

export const scopes: ReadonlyArray<Scope> = ["key", "key+model", "model", "endpoint"]

/** What a scope at a target is called: the same for all targets that it covers. Nothing in it is secret. */
export const idOf = (scope: Scope, { id, provider, model, endpoint, key }: TargetRef): string => {
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
  idOf(scope, target) === idOf(scope, other)

/** What is known of the scopes of a target, open or not. */
const entriesOf = (cooldowns: Cooldowns, target: TargetRef): ReadonlyArray<Entry> =>
  cooldowns.size === 0 ? [] : scopes.flatMap((scope) => cooldowns.get(idOf(scope, target)) ?? [])

// -----------------------------------------------------------------------------
// Reading
// -----------------------------------------------------------------------------

/** The open cooldowns that cover a target. */
export const openOf = (cooldowns: Cooldowns, target: TargetRef, now: number): ReadonlyArray<Entry> =>
  entriesOf(cooldowns, target).filter(({ until }) => until > now)

/** What keeps a target out at `now`: of several the one that lasts longest. */
export interface Out {
  readonly until: number
  readonly failure: ProviderFailure
}

export const outOf = (cooldowns: Cooldowns, target: TargetRef, now: number): Out | undefined => {
  if (cooldowns.size === 0) return undefined
  let longest: Out | undefined
  for (const scope of scopes) {
    const entry = cooldowns.get(idOf(scope, target))
    if (entry !== undefined && entry.until > (longest?.until ?? now)) longest = entry
  }
  return longest
}

/** The state of a target at `now`. */
export const stateOf = (cooldowns: Cooldowns, target: TargetRef, now: number): TargetState => {
  const out = outOf(cooldowns, target, now)
  if (out === undefined) return { _tag: "ready" }
  const reason = out.failure.reason._tag
  return out.until === Infinity ? { _tag: "dead", reason } : { _tag: "cooling", until: out.until, reason }
}

/** Whether a cooldown of exactly this scope is open. */
export const isOpen = (cooldowns: Cooldowns, scope: Scope, target: TargetRef, now: number): boolean =>
  (cooldowns.get(idOf(scope, target))?.until ?? now) > now

/**
 * How many cooldowns of a scope a target has had since its last success. With `now`, none once {@link quiet} has
 * passed since the end of the last.
 */
export const streakOf = (
  cooldowns: Cooldowns,
  scope: Scope,
  target: TargetRef,
  now: number = -Infinity
): number => {
  const entry = cooldowns.get(idOf(scope, target))
  return entry === undefined || entry.until + quiet <= now ? 0 : entry.streak
}

/**
 * The length of the next cooldown in milliseconds, `streak` cooldowns after the last success. `named` is the wait that the
 * server named, with which a rule of `wins` begins.
 */
export const length = (rule: CooldownRule, streak: number, named?: number): number => {
  const first = rule.retryAfter === "wins" ? (named ?? rule.initial) : rule.initial
  if (first === "forever") return Infinity
  return Math.min(Duration.toMillis(rule.cap), Duration.toMillis(first) * rule.factor ** streak)
}

// -----------------------------------------------------------------------------
// Opening and clearing
// -----------------------------------------------------------------------------

/** Opens a cooldown, unless one of its scope is open. */
export const open = (cooldowns: Cooldowns, cooldown: Cooldown, now: number): Cooldowns => {
  const { scope, target, until, failure, named = false } = cooldown
  if (isOpen(cooldowns, scope, target, now)) return cooldowns
  const streak = streakOf(cooldowns, scope, target, now) + 1
  const entry: Entry = { scope, target, until, failure, named, since: now, streak, probe: "none" }
  return new Map(cooldowns).set(idOf(scope, target), entry)
}

/** Puts one in the place of what is known of its scope: from a store, where it was opened before or elsewhere. */
export const adopt = (cooldowns: Cooldowns, entry: Entry): Cooldowns =>
  new Map(cooldowns).set(idOf(entry.scope, entry.target), entry)

/**
 * Forgets what covers a target, because an attempt that began at `startedAt` has succeeded. A cooldown that
 * opened while that attempt was under way stays: the success says nothing about it.
 */
export const clear = (cooldowns: Cooldowns, target: TargetRef, startedAt: number): Cooldowns => {
  const cleared = entriesOf(cooldowns, target).filter(({ since }) => since <= startedAt)
  return cleared.length === 0 ? cooldowns : reset(cooldowns, (entry) => cleared.includes(entry))
}

/** Forgets what an operator points at, whatever its state. */
export const reset = (cooldowns: Cooldowns, matches: (entry: Entry) => boolean): Cooldowns => {
  const rest = new Map([...cooldowns].filter(([, entry]) => !matches(entry)))
  return rest.size === cooldowns.size ? cooldowns : rest
}

// -----------------------------------------------------------------------------
// Probes
// -----------------------------------------------------------------------------

/**
 * Whether one attempt may be sent to a target that is out, to see if it is back: each open cooldown that covers it
 * is within `margin(length)` milliseconds of its end, has an end that no server named, and was not probed. False
 * for a target that is not out: it needs none.
 */
export const mayProbe = (
  cooldowns: Cooldowns,
  target: TargetRef,
  now: number,
  margin: (length: number) => number
): boolean => {
  const opened = openOf(cooldowns, target, now)
  return (
    opened.length > 0 &&
    opened.every(
      ({ since, until, named, probe }) =>
        probe === "none" && !named && until !== Infinity && until - now <= margin(until - since)
    )
  )
}

/** Whether nobody has asked a target that is out whether it is back. */
export const isUnprobed = (cooldowns: Cooldowns, target: TargetRef, now: number): boolean =>
  entriesOf(cooldowns, target).every(({ until, probe }) => until <= now || probe === "none")

/** An attempt is sent to a target that is out: what covers it is not probed by anybody else. */
export const beginProbe = (cooldowns: Cooldowns, target: TargetRef, now: number): Cooldowns =>
  marked(cooldowns, target, ({ until }) => until > now, "running")

/** A probe was interrupted or not sent: nothing is known, and another may follow. */
export const endProbe = (cooldowns: Cooldowns, target: TargetRef, startedAt?: number): Cooldowns =>
  marked(cooldowns, target, isProbed(startedAt), "none")

/** A probe failed: these cooldowns are not probed again. They end when they would have ended. */
export const failProbe = (cooldowns: Cooldowns, target: TargetRef, startedAt?: number): Cooldowns =>
  marked(cooldowns, target, isProbed(startedAt), "done")

/** A probe that began at `startedAt`, and ends late, says nothing of a cooldown that opened since. */
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
  const entries = entriesOf(cooldowns, target).filter(which)
  if (entries.length === 0) return cooldowns
  const next = new Map(cooldowns)
  for (const entry of entries) next.set(idOf(entry.scope, target), { ...entry, probe })
  return next
}
