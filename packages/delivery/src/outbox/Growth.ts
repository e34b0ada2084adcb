/**
 * When a backlog that grows is an alert, and when no longer. Pure.
 *
 * Raised when the backlog is not empty, and has been larger at each look than `after` milliseconds before without once
 * becoming smaller in between. Cleared when it has fallen to half of its peak, or is empty. Times are monotonic
 * milliseconds.
 */
export interface Growth {
  readonly backlog: number
  /** Since when it has not become smaller; Infinity while it is empty. */
  readonly since: number
  /** How large it was then. */
  readonly from: number
  readonly peak: number
  readonly raised: boolean
}

export const calm: Growth = { backlog: 0, since: Infinity, from: 0, peak: 0, raised: false }

export type Transition = "raised" | "cleared" | undefined

export const look = (
  growth: Growth,
  backlog: number,
  now: number,
  after: number
): readonly [Transition, Growth] => {
  const peak = Math.max(growth.peak, backlog)
  if (growth.raised) {
    return backlog * 2 <= peak ? ["cleared", start(backlog, now)] : [undefined, { ...growth, backlog, peak }]
  }
  if (backlog === 0 || backlog < growth.backlog || growth.since === Infinity) {
    return [undefined, start(backlog, now)]
  }
  const next = { ...growth, backlog, peak }
  return now - growth.since >= after && backlog > growth.from
    ? ["raised", { ...next, raised: true }]
    : [undefined, next]
}

const start = (backlog: number, now: number): Growth => ({
  backlog,
  since: backlog === 0 ? Infinity : now,
  from: backlog,
  peak: backlog,
  raised: false
})
