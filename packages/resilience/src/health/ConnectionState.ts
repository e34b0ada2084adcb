/**
 * What is known of one connection, and what follows from it. Pure.
 *
 * - **good**: calls pass. The monitor asks every `interval`; a call that fails brings the next question forward,
 *   to `cooldown` after the last one at the earliest.
 * - **unhealthy** (see `HealthWindow`): calls are refused. From `cooldown` on one call or ping may find out; the
 *   next one `cooldown` later, or at once if the first succeeded. Failures meanwhile do not move that moment.
 * - **dead**: calls are refused for good. Nothing leads out of it.
 *
 * A call or a ping without an outcome (interrupted, refused further in, could not be made) gives its permit back:
 * the next may find out at once. One that comes late, when another permit has been given since, changes nothing.
 *
 * It has no name, no clock, no fiber and no events: `ConnectionMonitor` is the shell around it. Times are
 * monotonic milliseconds.
 */
import * as Health from "./HealthWindow.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Spec {
  readonly window: Health.Spec
  /** Milliseconds. */
  readonly cooldown: number
  /** Milliseconds; Infinity: only an unhealthy connection is asked. */
  readonly interval: number
}

export interface Death {
  readonly at: number
  readonly reason: string
}

export interface ConnectionState {
  readonly window: Health.HealthWindow
  readonly death: Death | undefined
  /** While it is unhealthy: when one call or ping may find out. */
  readonly probeAt: number
  /** Counts the changes of `probeAt`: a permit is the generation that it made. */
  readonly generation: number
  readonly askedAt: number
  /** When the monitor asks next. */
  readonly askAt: number
  /** What readers of the events believe. */
  readonly announced: "healthy" | "unhealthy"
}

export type Event =
  | { readonly _tag: "Called"; readonly outcome: Health.Outcome }
  | { readonly _tag: "Pinged"; readonly outcome: Health.Outcome }
  /** Asked, without an outcome: the probe found it alive and there is no ping, or the ping could not be made. */
  | { readonly _tag: "Asked" }
  /** A call or a ping with this permit ended without an outcome. */
  | { readonly _tag: "GaveBack"; readonly permit: number }
  | { readonly _tag: "Died"; readonly reason: string }

/** Whether a call may be made. */
export type Admission =
  /** With a `permit` it is the one that finds out. */
  | { readonly _tag: "Admitted"; readonly permit: number | undefined }
  /** After `wait` milliseconds it is worth asking again. */
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

  // One good answer of an unhealthy connection: the next may be had at once.
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

/** Asks for a call or a ping; one that is admitted while it is unhealthy takes the permit to find out. */
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

/** The change of health that readers have not heard of yet, and the state in which they have. */
export const announce = (
  state: ConnectionState,
  now: number
): readonly ["healthy" | "unhealthy" | undefined, ConnectionState] => {
  const health = Health.isUnhealthy(state.window, now) ? "unhealthy" : "healthy"
  return health === state.announced || state.death !== undefined
    ? [undefined, state]
    : [health, { ...state, announced: health }]
}

/** When something happens by itself: the next question, or that failures have left the window. */
export const dueAt = (state: ConnectionState): number =>
  state.announced === "unhealthy" ? Math.min(state.askAt, state.window.unhealthyUntil) : state.askAt

const admitted: Admission = { _tag: "Admitted", permit: undefined }

const probing = (state: ConnectionState, probeAt: number): ConnectionState => ({
  ...state,
  probeAt,
  generation: state.generation + 1
})
