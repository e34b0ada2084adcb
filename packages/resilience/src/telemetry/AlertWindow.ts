/**
 * Decides when repeated failures raise an alert, and when the alert is cleared. Pure.
 *
 * - **raised**: by the failure that makes `failures` of them younger than `window`.
 * - **cleared**: as soon as fewer than `clearBelow` failures are younger than `window`. By default `clearBelow` equals
 *   `failures`. A lower value keeps a steady trickle at the threshold from raising and clearing repeatedly.
 *
 * Several **witnesses** may report the same failures: a circuit, and the retry around it. Each witness is counted
 * separately, and the highest count decides, so that no failure counts twice.
 *
 * A failure exactly as old as the window no longer counts. While an alert is raised, further failures only delay its
 * end. The state holds the times of the last `failures` failures of each witness, in monotonic milliseconds. There is
 * no clock: {@link clearAt} returns the time of the next check.
 */
export interface Spec {
  readonly failures: number
  /** Milliseconds. */
  readonly window: number
  /** From 1 to `failures`. */
  readonly clearBelow: number
}

export interface AlertWindow {
  /** Times of the last failures by witness, oldest first. */
  readonly times: ReadonlyMap<string, ReadonlyArray<number>>
  readonly raisedAt: number | undefined
}

export type Transition = "Raised" | "Cleared" | undefined

export const empty: AlertWindow = { times: new Map(), raisedAt: undefined }

/** Processes a failure (`Failed`), or only the passing of time (`Woke`). */
export const step = (
  spec: Spec,
  state: AlertWindow,
  event: "Failed" | "Woke",
  now: number,
  witness = ""
): readonly [Transition, AlertWindow] => {
  const times = new Map<string, ReadonlyArray<number>>()
  let most = 0
  const keep = (of: string, all: ReadonlyArray<number>) => {
    const young = all.filter((at) => now - at < spec.window).slice(-spec.failures)
    if (young.length > 0) times.set(of, young)
    most = Math.max(most, young.length)
  }
  for (const [of, all] of state.times) keep(of, all)
  if (event === "Failed") keep(witness, [...(state.times.get(witness) ?? []), now])
  if (state.raisedAt === undefined) {
    return most >= spec.failures
      ? ["Raised", { times, raisedAt: now }]
      : [undefined, { times, raisedAt: undefined }]
  }
  return most < spec.clearBelow
    ? ["Cleared", { times, raisedAt: undefined }]
    : [undefined, { times, raisedAt: state.raisedAt }]
}

/** Returns the time at which the alert is cleared if nothing more fails. Infinity when no alert is raised. */
export const clearAt = (spec: Spec, { times, raisedAt }: AlertWindow): number =>
  raisedAt === undefined ? Infinity : latest(times, spec.clearBelow) + spec.window

/** True when no alert is raised and no failure is left in the window. */
export const isForgotten = (spec: Spec, { times, raisedAt }: AlertWindow, now: number): boolean =>
  raisedAt === undefined && now - latest(times, 1) >= spec.window

/** The latest time among the `nth` last failure of each witness. */
const latest = (times: AlertWindow["times"], nth: number): number => {
  let found = -Infinity
  for (const all of times.values()) found = Math.max(found, all.at(-nth) ?? -Infinity)
  return found
}
