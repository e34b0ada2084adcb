/**
 * When too many failures are an alert, and when no longer. Pure.
 *
 * - **raised** with the failure that makes `failures` of them younger than `window`.
 * - **cleared** at the moment when fewer than `clearBelow` are younger than `window`. `clearBelow` is `failures`
 *   unless it is set: then an alert ends as soon as its own condition does. A lower one keeps a steady trickle at
 *   the threshold from raising and clearing again and again.
 *
 * A failure of exactly the age of the window no longer counts. Between raised and cleared further failures change
 * only when it will be cleared. It keeps the last `failures` times and nothing else; times are monotonic
 * milliseconds. It has no clock: {@link clearAt} says when to look again.
 */
export interface Spec {
  readonly failures: number
  /** Milliseconds. */
  readonly window: number
  /** From 1 to `failures`. */
  readonly clearBelow: number
}

export interface AlertWindow {
  /** Of the last failures, oldest first. */
  readonly times: ReadonlyArray<number>
  readonly raisedAt: number | undefined
}

export type Transition = "Raised" | "Cleared" | undefined

export const empty: AlertWindow = { times: [], raisedAt: undefined }

/** A failure, or only that time has passed. */
export const step = (
  spec: Spec,
  state: AlertWindow,
  event: "Failed" | "Woke",
  now: number
): readonly [Transition, AlertWindow] => {
  const all = event === "Failed" ? [...state.times, now] : state.times
  const times = all.filter((at) => now - at < spec.window).slice(-spec.failures)
  if (state.raisedAt === undefined) {
    return times.length >= spec.failures
      ? ["Raised", { times, raisedAt: now }]
      : [undefined, { times, raisedAt: undefined }]
  }
  return times.length < spec.clearBelow
    ? ["Cleared", { times, raisedAt: undefined }]
    : [undefined, { times, raisedAt: state.raisedAt }]
}

/** When it is cleared if nothing more fails; Infinity if it is not raised. */
export const clearAt = (spec: Spec, { times, raisedAt }: AlertWindow): number =>
  raisedAt === undefined ? Infinity : (times.at(-spec.clearBelow) ?? -Infinity) + spec.window

/** Whether nothing is left to remember. */
export const isForgotten = (spec: Spec, { times, raisedAt }: AlertWindow, now: number): boolean =>
  raisedAt === undefined && now - (times.at(-1) ?? -Infinity) >= spec.window
