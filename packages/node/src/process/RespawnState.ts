/**
 * When a process that died is started again. Pure.
 *
 * `starting` → `running` → (death) → `waiting` for the backoff → `starting` …
 *
 * A process that died more than `restarts` times within `window` opens the circuit: nothing is started for `open`. Then
 * one start is a probe. If it dies before `window` is over, the circuit opens again.
 */
import * as Backoff from "@outlast/resilience/Backoff"

/** All times in milliseconds. */
export interface Policy {
  /** Restarts within `window` before the circuit opens. */
  readonly restarts: number
  readonly window: number
  /** Delay before restart n of the window. */
  readonly backoff: Backoff.Backoff
  /** Time for which the circuit stays open. */
  readonly open: number
}

type Phase =
  | { readonly _tag: "Starting"; readonly since: number }
  | { readonly _tag: "Running"; readonly since: number }
  | { readonly _tag: "Waiting"; readonly until: number }
  | { readonly _tag: "Open"; readonly until: number }
  | { readonly _tag: "Stopped" }

export interface State {
  readonly phase: Phase
  /** Times of the deaths within the window: at most one more than `restarts`. */
  readonly deaths: ReadonlyArray<number>
  /** True for the life that was started after the circuit was open. */
  readonly isProbe: boolean
}

export type Event =
  /** The delay is over. */
  | { readonly _tag: "Woke"; readonly now: number }
  /** The handshake is done. */
  | { readonly _tag: "Ready"; readonly now: number }
  /** The process ended, did not start, or was killed for its health or its output. `draw` is a number in [0, 1). */
  | { readonly _tag: "Died"; readonly now: number; readonly draw: number }
  /** An operator asked for a restart. Earlier deaths no longer count. */
  | { readonly _tag: "Reset"; readonly now: number }
  | { readonly _tag: "Stopped" }

export type Action =
  | { readonly _tag: "Spawn" }
  | { readonly _tag: "Wait"; readonly millis: number }
  | { readonly _tag: "None" }

export const begin = (now: number): State => ({
  phase: { _tag: "Starting", since: now },
  deaths: [],
  isProbe: false
})

const none: Action = { _tag: "None" }
const spawn: Action = { _tag: "Spawn" }

export const step = (policy: Policy, state: State, event: Event): readonly [Action, State] => {
  const { phase } = state
  if (phase._tag === "Stopped") return [none, state]
  const isAlive = phase._tag === "Starting" || phase._tag === "Running"
  switch (event._tag) {
    case "Woke":
      return isAlive
        ? [none, state]
        : [spawn, { ...state, phase: { _tag: "Starting", since: event.now }, isProbe: phase._tag === "Open" }]
    case "Ready":
      return phase._tag === "Starting"
        ? [none, { ...state, phase: { _tag: "Running", since: event.now } }]
        : [none, state]
    case "Died":
      return isAlive ? died(policy, state, phase.since, event) : [none, state]
    case "Reset":
      return [isAlive ? none : spawn, begin(event.now)]
    case "Stopped":
      return [none, { ...state, phase: { _tag: "Stopped" } }]
  }
}

const died = (
  policy: Policy,
  state: State,
  since: number,
  { draw, now }: { readonly now: number; readonly draw: number }
): readonly [Action, State] => {
  const deaths = [...state.deaths.filter((at) => now - at < policy.window), now].slice(-(policy.restarts + 1))
  const failedProbe = state.isProbe && now - since < policy.window
  if (failedProbe || deaths.length > policy.restarts) {
    const phase = { _tag: "Open", until: now + policy.open } as const
    return [
      { _tag: "Wait", millis: policy.open },
      { phase, deaths, isProbe: false }
    ]
  }
  const millis = Backoff.delay(policy.backoff, deaths.length, undefined, draw)
  return [
    { _tag: "Wait", millis },
    { phase: { _tag: "Waiting", until: now + millis }, deaths, isProbe: false }
  ]
}
