/**
 * When too many failures are an alert, and when no longer. Pure.
 *
 * - **raised** with the failure that makes `failures` of them younger than `window`.
 * - **cleared** at the moment when fewer than `clearBelow` are younger than `window`. `clearBelow` is `failures`
 *   unless it is set: then an alert ends as soon as its own condition does. A lower one keeps a steady trickle at
 *   the threshold from raising and clearing again and again.
 *
 * Several **witnesses** may tell of the same failures: a circuit, and the retry around it. Each counts for itself,
 * and the one with the most decides, so that no failure counts twice.
 *
 * A failure of exactly the age of the window no longer counts. Between raised and cleared further failures change
 * only when it will be cleared. It keeps the last `failures` times of each witness and nothing else; times are
 * monotonic milliseconds. It has no clock: {@link clearAt} says when to look again.
 */
export interface Spec {
  readonly failures: number
  /** Milliseconds. */
  readonly window: number
  /** From 1 to `failures`. */
  readonly clearBelow: number
}

export interface AlertWindow {
  /** Of the last failures by witness, oldest first. */
  readonly times: ReadonlyMap<string, ReadonlyArray<number>>
  readonly raisedAt: number | undefined
}

export type Transition = "Raised" | "Cleared" | undefined

export const empty: AlertWindow = { times: new Map(), raisedAt: undefined }

/** A failure, or only that time has passed. */
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

/** When it is cleared if nothing more fails; Infinity if it is not raised. */
export const clearAt = (spec: Spec, { times, raisedAt }: AlertWindow): number =>
  raisedAt === undefined ? Infinity : latest(times, spec.clearBelow) + spec.window

/** Whether nothing is left to remember. */
export const isForgotten = (spec: Spec, { times, raisedAt }: AlertWindow, now: number): boolean =>
  raisedAt === undefined && now - latest(times, 1) >= spec.window

/** The latest of all failures that are the `nth` last of their witness. */
const latest = (times: AlertWindow["times"], nth: number): number => {
  let found = -Infinity
  for (const all of times.values()) found = Math.max(found, all.at(-nth) ?? -Infinity)
  return found
}
