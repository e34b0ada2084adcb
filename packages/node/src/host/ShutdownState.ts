/**
 * The order and the time limits of a shutdown. Pure.
 *
 * `running` → `draining` (not ready, still serving) → each phase in order → `ended`. A phase ends when its steps have
 * ended, or at its limit. The whole shutdown has a limit, too: each phase leaves the later ones their share of
 * {@link reserve}, so that one phase that blocks does not use up the time of all others.
 */

/** The phases in order. See `Host.onShutdown` for what belongs where. */
export const phases = ["intake", "loops", "runs", "outbox", "processes", "last"] as const

export type Phase = (typeof phases)[number]

/** All times in milliseconds. */
export interface Plan {
  /** Time between "not ready" and the first phase. */
  readonly wait: number
  /** Longest time of all phases and the wait. */
  readonly total: number
  /** Longest time of each phase. */
  readonly limits: Readonly<Record<Phase, number>>
}

/** Milliseconds kept back for each later phase that has steps. */
export const reserve = 1_000

/**
 * - `done`: it has ended
 * - `failed`: it ended with an error or a defect
 * - `blocked`: it had not ended at its limit, and was left behind
 */
export type Result = "done" | "failed" | "blocked"

/** How a step ended. */
export interface StepEnd {
  readonly phase: Phase
  readonly name: string
  readonly result: Result
  /** Milliseconds that it took. */
  readonly took: number
}

export type State =
  | { readonly _tag: "Running" }
  | { readonly _tag: "Draining"; readonly endsAt: number }
  | {
      readonly _tag: "Stopping"
      readonly phase: Phase
      readonly endsAt: number
      readonly ends: ReadonlyArray<StepEnd>
    }
  | { readonly _tag: "Ended"; readonly ends: ReadonlyArray<StepEnd> }

export type Event =
  /** A signal, or a call of `Host.shutdown`. */
  | { readonly _tag: "Asked"; readonly now: number }
  /** The wait is over. */
  | { readonly _tag: "Waited"; readonly now: number; readonly withSteps: ReadonlySet<Phase> }
  | {
      readonly _tag: "PhaseEnded"
      readonly now: number
      readonly ends: ReadonlyArray<StepEnd>
      /** Phases that have steps: a step may be registered while the shutdown runs. */
      readonly withSteps: ReadonlySet<Phase>
    }

export type Action =
  | { readonly _tag: "Wait"; readonly millis: number }
  | { readonly _tag: "Run"; readonly phase: Phase; readonly limit: number }
  | { readonly _tag: "End"; readonly ends: ReadonlyArray<StepEnd> }
  /** The shutdown is under way already. */
  | { readonly _tag: "Ignore" }

export const initial: State = { _tag: "Running" }

export const step = (plan: Plan, state: State, event: Event): readonly [Action, State] => {
  switch (state._tag) {
    case "Running": {
      if (event._tag !== "Asked") return [{ _tag: "Ignore" }, state]
      return [
        { _tag: "Wait", millis: Math.min(plan.wait, plan.total) },
        { _tag: "Draining", endsAt: event.now + plan.total }
      ]
    }
    case "Draining": {
      if (event._tag !== "Waited") return [{ _tag: "Ignore" }, state]
      return next(plan, -1, state.endsAt, [], event)
    }
    case "Stopping": {
      if (event._tag !== "PhaseEnded") return [{ _tag: "Ignore" }, state]
      return next(plan, phases.indexOf(state.phase), state.endsAt, [...state.ends, ...event.ends], event)
    }
    case "Ended":
      return [{ _tag: "Ignore" }, state]
  }
}

const next = (
  plan: Plan,
  index: number,
  endsAt: number,
  ends: ReadonlyArray<StepEnd>,
  { now, withSteps }: { readonly now: number; readonly withSteps: ReadonlySet<Phase> }
): readonly [Action, State] => {
  const phase = phases.find((phase, i) => i > index && withSteps.has(phase))
  if (phase === undefined)
    return [
      { _tag: "End", ends },
      { _tag: "Ended", ends }
    ]
  const limit = limitOf(plan, phase, endsAt - now, withSteps)
  return [
    { _tag: "Run", phase, limit },
    { _tag: "Stopping", phase, endsAt, ends }
  ]
}

/** Time of a phase: its own limit, less where later phases would be left without their share. */
const limitOf = ({ limits }: Plan, phase: Phase, left: number, withSteps: ReadonlySet<Phase>): number => {
  const later = phases.slice(phases.indexOf(phase) + 1).filter((phase) => withSteps.has(phase))
  const kept = later.reduce((sum, phase) => sum + Math.min(reserve, limits[phase]), 0)
  // With too little time for all, those that are left share it.
  const least = Math.max(0, left) / (later.length + 1)
  return Math.max(0, Math.min(limits[phase], Math.max(left - kept, least)))
}
