/**
 * The state machine of one connection. Pure.
 *
 * - **good**: calls pass. The monitor checks every `interval`. A failed call brings the next check forward, but at
 *   least `cooldown` passes between two checks.
 * - **unhealthy** (see `HealthWindow`): calls are refused. After `cooldown` one call or ping is let through as a test.
 *   The next test follows `cooldown` later, or at once after a success. Other failures do not postpone it.
 * - **dead**: calls are refused. The state is final.
 *
 * A test without an outcome (interrupted, refused further inside, could not run) gives its permit back, and the next
 * test may start at once. A late outcome, after another permit was given, changes nothing.
 *
 * `ConnectionMonitor` is the shell around this machine, with names, clock, fibers and events. Times are monotonic
 * milliseconds.
 */
import * as Health from "./HealthWindow.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Spec {
  readonly window: Health.Spec
  /** Milliseconds. */
  readonly cooldown: number
  /** Milliseconds. Infinity: only an unhealthy connection is checked. */
  readonly interval: number
}

export interface Death {
  readonly at: number
  readonly reason: string
}

export interface ConnectionState {
  readonly window: Health.HealthWindow
  readonly death: Death | undefined
  /** Time at which an unhealthy connection lets a test through. */
  readonly probeAt: number
  /** Number of changes of `probeAt`. A permit is the generation that it created. */
  readonly generation: number
  readonly askedAt: number
  /** Time of the monitor's next check. */
  readonly askAt: number
  /** Health according to the last published event. */
  readonly announced: "healthy" | "unhealthy"
}

export type Event =
  | { readonly _tag: "Called"; readonly outcome: Health.Outcome }
  | { readonly _tag: "Pinged"; readonly outcome: Health.Outcome }
  /** A check without an outcome: the probe found it alive and there is no ping, or the ping could not run. */
  | { readonly _tag: "Asked" }
  /** The call or the ping with this permit ended without an outcome. */
  | { readonly _tag: "GaveBack"; readonly permit: number }
  | { readonly _tag: "Died"; readonly reason: string }

/** The answer to a call that wants to be made. */
export type Admission =
  /** The call may be made. With a `permit`, it tests the connection. */
  | { readonly _tag: "Admitted"; readonly permit: number | undefined }
  /** The call is refused. Another one may be admitted after `wait` milliseconds. */
  | { readonly _tag: "Refused"; readonly wait: number }
  | { readonly _tag: "Dead"; readonly death: Death }

export const initial: ConnectionState = {
  window: Health.empty,
  death: undefined,
  probeAt: -Infinity,
  generation: 0,
  askedAt: -Infinity,
  askAt: -Infinity,
  announced: "healthy"
}

// -----------------------------------------------------------------------------
// Transitions
// -----------------------------------------------------------------------------

export const step = (spec: Spec, state: ConnectionState, event: Event, now: number): ConnectionState => {
  if (state.death !== undefined) return state
  if (event._tag === "Died") return { ...state, death: { at: now, reason: event.reason } }
  if (event._tag === "GaveBack") return event.permit === state.generation ? probing(state, now) : state

  const wasUnhealthy = Health.isUnhealthy(state.window, now)
  const window =
    event._tag === "Asked" ? state.window : Health.step(spec.window, state.window, event.outcome, now)
  const unhealthy = Health.isUnhealthy(window, now)
  const next = { ...state, window, askedAt: event._tag === "Called" ? state.askedAt : now }

  // After one success of an unhealthy connection, the next test may start at once.
  if (event._tag !== "Asked" && event.outcome._tag === "Succeeded" && unhealthy) {
    return { ...probing(next, now), askAt: now }
  }
  if (event._tag === "Called") {
    if (event.outcome._tag === "Succeeded") return next
    const askAt = Math.min(state.askAt, Math.max(now, state.askedAt + spec.cooldown))
    return { ...(unhealthy && !wasUnhealthy ? probing(next, now + spec.cooldown) : next), askAt }
  }
  const pause = unhealthy ? Math.min(spec.cooldown, spec.interval) : spec.interval
  const isNews = event._tag === "Pinged" && unhealthy
  return { ...(isNews ? probing(next, now + spec.cooldown) : next), askAt: now + pause }
}

/**
 * Admits or refuses a call or a ping. While the connection is unhealthy, an admitted one takes the permit to test it.
 */
export const admit = (
  spec: Spec,
  state: ConnectionState,
  now: number
): readonly [Admission, ConnectionState] => {
  if (state.death !== undefined) return [{ _tag: "Dead", death: state.death }, state]
  if (!Health.isUnhealthy(state.window, now)) return [admitted, state]
  if (now >= state.probeAt) {
    const taken = probing(state, now + spec.cooldown)
    return [{ _tag: "Admitted", permit: taken.generation }, taken]
  }
  return [{ _tag: "Refused", wait: Math.min(state.probeAt, state.window.unhealthyUntil) - now }, state]
}

/** Returns a change of health that was not published yet, and the state after its publication. */
export const announce = (
  state: ConnectionState,
  now: number
): readonly ["healthy" | "unhealthy" | undefined, ConnectionState] => {
  const health = Health.isUnhealthy(state.window, now) ? "unhealthy" : "healthy"
  return health === state.announced || state.death !== undefined
    ? [undefined, state]
    : [health, { ...state, announced: health }]
}

/** Time of the next event without a call: a check, or the end of being unhealthy by age. */
export const dueAt = (state: ConnectionState): number =>
  state.announced === "unhealthy" ? Math.min(state.askAt, state.window.unhealthyUntil) : state.askAt

const admitted: Admission = { _tag: "Admitted", permit: undefined }

const probing = (state: ConnectionState, probeAt: number): ConnectionState => ({
  ...state,
  probeAt,
  generation: state.generation + 1
})
