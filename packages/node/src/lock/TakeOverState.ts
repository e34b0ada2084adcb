/**
 * The rules of a takeover: whom to signal, with what, and when to give up. Pure.
 *
 * `asking` → SIGTERM → `terminating` → after the grace time SIGKILL → `killing` → after `afterKill` refused. The lock
 * is tried before each step, so a holder that releases it is signalled no more.
 *
 * A process is only signalled after its start time was compared, and only the process that was seen first. If another
 * process gets the lock meanwhile, this one is refused: of several that start at once, one runs.
 */
import type { Holder } from "./PidFile.ts"
import type { Verdict } from "./ProcessIdentity.ts"
import { isSame } from "./ProcessIdentity.ts"

export interface Limits {
  /** Milliseconds from SIGTERM to SIGKILL. */
  readonly grace: number
  /** Milliseconds from SIGKILL until the takeover is given up. */
  readonly afterKill: number
  /** Milliseconds for which a pid file may be missing or outdated: its new holder is about to write it. */
  readonly settle: number
}

export type State =
  | { readonly _tag: "Asking"; readonly until: number }
  | { readonly _tag: "Terminating"; readonly holder: Holder; readonly until: number }
  | { readonly _tag: "Killing"; readonly holder: Holder; readonly until: number }

/** Observation while another process has the lock. */
export interface Seen {
  readonly now: number
  /** Absent where the pid file is missing or cannot be read. */
  readonly holder: Holder | undefined
  /** About `holder`. */
  readonly verdict: Verdict
  /** The holder is this process itself. */
  readonly isSelf: boolean
}

/**
 * - `unidentified`: no pid file, or it names a process that has ended
 * - `self`: this process holds the lock
 * - `elsewhere`: the holder is in another PID namespace
 * - `noProc`: without `/proc` a process cannot be identified
 * - `overtaken`: another process got the lock meanwhile
 * - `survived`: the holder was killed and has not ended
 */
type Refusal = "unidentified" | "self" | "elsewhere" | "noProc" | "overtaken" | "survived"

export type Action =
  | { readonly _tag: "Wait" }
  | { readonly _tag: "Signal"; readonly holder: Holder; readonly signal: "SIGTERM" | "SIGKILL" }
  | { readonly _tag: "Refuse"; readonly why: Refusal; readonly holder: Holder | undefined }

export const begin = (now: number, { settle }: Limits): State => ({ _tag: "Asking", until: now + settle })

const wait: Action = { _tag: "Wait" }

/** The next action while the lock is held by another process. */
export const step = (limits: Limits, state: State, seen: Seen): readonly [Action, State] => {
  const { holder, now, verdict } = seen
  const refuse = (why: Refusal): readonly [Action, State] => [{ _tag: "Refuse", why, holder }, state]
  const settling = () => (now < state.until ? ([wait, state] as const) : refuse("unidentified"))
  if (state._tag === "Asking") {
    if (seen.isSelf) return refuse("self")
    if (holder === undefined || verdict === "ended") return settling()
    if (verdict === "elsewhere") return refuse("elsewhere")
    if (verdict === "unknown") return refuse("noProc")
    return [
      { _tag: "Signal", holder, signal: "SIGTERM" },
      { _tag: "Terminating", holder, until: now + limits.grace }
    ]
  }
  if (holder !== undefined && !isSame(holder, state.holder)) return refuse("overtaken")
  if (now < state.until) return [wait, state]
  if (state._tag === "Killing") return refuse("survived")
  // The start time is compared again: the process may have ended, and its id may belong to another one.
  if (holder === undefined || verdict !== "running") return refuse("unidentified")
  return [
    { _tag: "Signal", holder, signal: "SIGKILL" },
    { _tag: "Killing", holder, until: now + limits.afterKill }
  ]
}
