/**
 * Keeps the events of one subject in order on their way to the broker. Pure.
 *
 * A lane keeps the order of one subject within one publisher. Its rules:
 *
 * - **One turn.** A publish that goes straight to the broker holds the turn. Publishes that arrive meanwhile wait, in
 *   order, until it has ended: were they stored at once and the first one failed, it would be stored behind them.
 * - **Straight or stored.** A publish goes straight only when nothing of its subject is stored or being written.
 * - **Failure.** When the turn ends with a failure, its event is stored first and all that wait follow in order.
 * - **Backlog.** `stored` is true while the store may hold events of the lane. It becomes false only when a read found
 *   the end and nothing was committed since that read began (`stale`).
 *
 * The machine counts and decides; the shell keeps the events themselves in the same order. It knows no clock, no
 * broker and no store.
 */
export interface LaneState {
  /** A publish is on its way straight to the broker. */
  readonly turn: boolean
  /** Publishes that wait for the turn. */
  readonly waiting: number
  /** Events handed to the writer whose commit is not known yet. */
  readonly writing: number
  /** The store may hold events of this lane. */
  readonly stored: boolean
  /** Something was committed, or found in the store, since the last read began. */
  readonly stale: boolean
  /** A drain is under way. */
  readonly draining: boolean
}

export const empty: LaneState = {
  turn: false,
  waiting: 0,
  writing: 0,
  stored: false,
  stale: false,
  draining: false
}

/** The next step of a publish: go straight to the broker, wait for the turn, or be stored. */
export type Arrival = "go" | "wait" | "store"

/**
 * A publish arrives. `storeFirst` is true where the mode says so, or where the store may hold events of subjects that
 * are not known in memory.
 */
export const arrive = (lane: LaneState, storeFirst: boolean): readonly [Arrival, LaneState] => {
  if (lane.turn) return ["wait", { ...lane, waiting: lane.waiting + 1 }]
  if (storeFirst || mustStore(lane)) return ["store", { ...lane, writing: lane.writing + 1 }]
  return ["go", { ...lane, turn: true }]
}

/** True when an event that arrives now is behind stored ones. */
export const mustStore = (lane: LaneState): boolean => lane.stored || lane.writing > 0

/** A publish that waited was interrupted before its turn. */
export const leave = (lane: LaneState): LaneState => ({ ...lane, waiting: lane.waiting - 1 })

/**
 * How the turn ended: the broker acknowledged, the event has to be stored, or nothing more happens with it (its caller
 * was interrupted, or the outbox is full).
 */
export type TurnEnd = "acknowledged" | "failed" | "dropped"

/** The next step of waiting publishes: none, the first one goes, or all are stored in order. */
export type Next = "none" | "go" | "store"

/** The turn ends. After a failure the event itself is handed to the writer before those that wait. */
export const turnEnded = (lane: LaneState, end: TurnEnd): readonly [Next, LaneState] => {
  const writing = lane.writing + (end === "failed" ? 1 : 0)
  if (lane.waiting === 0) return ["none", { ...lane, turn: false, writing }]
  if (mustStore({ ...lane, writing })) {
    return ["store", { ...lane, turn: false, waiting: 0, writing: writing + lane.waiting }]
  }
  return ["go", { ...lane, waiting: lane.waiting - 1, writing }]
}

/** Records a commit of events of the lane. Returns true when a drain must begin. */
export const committed = (lane: LaneState, events: number): readonly [boolean, LaneState] =>
  found({ ...lane, writing: lane.writing - events })

/** A commit failed. The publishes of its events fail, too. */
export const notCommitted = (lane: LaneState, events: number): LaneState => ({
  ...lane,
  writing: lane.writing - events
})

/** The store holds events of the lane: a transaction's, another process's, or those of an earlier life. */
export const found = (lane: LaneState): readonly [boolean, LaneState] => [
  !lane.draining,
  { ...lane, stored: true, stale: true, draining: true }
]

/** The drain begins to read. */
export const reading = (lane: LaneState): LaneState => ({ ...lane, stale: false })

/** The drain has handled what it read. True: it is done, and publishes go straight again. */
export const drained = (lane: LaneState, reachedEnd: boolean): readonly [boolean, LaneState] =>
  reachedEnd && !lane.stale ? [true, { ...lane, stored: false, draining: false }] : [false, lane]

/** True when there is nothing to remember. */
export const isIdle = (lane: LaneState): boolean =>
  !lane.turn && lane.waiting === 0 && lane.writing === 0 && !lane.stored && !lane.draining
