/**
 * Events that delivery publishes on `ResilienceEvents`: plain data, without bodies and headers.
 *
 * Single events are not published: an outbox takes thousands a second. {@link OutboxProgress} has their counts.
 */
interface OfDelivery {
  /** Unix time in milliseconds. */
  readonly at: number
}

/** At each sweep of the outbox while something happens. Counts are those since the last one. */
interface OutboxProgress extends OfDelivery {
  readonly _tag: "OutboxProgress"
  /** Events that the broker acknowledged at once. */
  readonly published: number
  /** Events that were stored. */
  readonly stored: number
  /** Stored events that the broker acknowledged. */
  readonly drained: number
  /** Publishes of stored events after the first one failed. */
  readonly retried: number
  /** Stored events now, and their size. */
  readonly backlog: number
  readonly bytes: number
  /** Age of the oldest stored event in milliseconds; 0 without one. */
  readonly oldest: number
  /** Dead letters that were not replayed, as far as they were counted. */
  readonly dead: number
}

/** An event became a dead letter. */
interface EventDied extends OfDelivery {
  readonly _tag: "EventDied"
  readonly subject: string
  readonly id: string
  /** `outbox`, or the consumer. */
  readonly source: string
  readonly reason: "rejected" | "shed" | "deliveries"
}

/** Events made room for newer ones: the outbox was full. They are dead letters. */
interface EventsShed extends OfDelivery {
  readonly _tag: "EventsShed"
  readonly events: number
}

/** Events were refused because the outbox is full. At most once in each sweep; `events` counts since the last one. */
interface OutboxRefused extends OfDelivery {
  readonly _tag: "OutboxRefused"
  readonly events: number
}

/** A publish was interrupted while its event was on its way: it may be published and stored, or neither. */
interface PublishUndecided extends OfDelivery {
  readonly _tag: "PublishUndecided"
  readonly subject: string
  readonly id: string
}

/** The backlog of a process that is gone, or was paused, was taken over. */
interface BacklogClaimed extends OfDelivery {
  readonly _tag: "BacklogClaimed"
  readonly publisher: string
}

/** Another process took over the backlog of this one, which was silent for longer than a lease. */
interface LeaseLost extends OfDelivery {
  readonly _tag: "LeaseLost"
  readonly publisher: string
}

/** The backlog has grown for a while: the broker is down, or too slow. Once, until {@link BacklogShrank}. */
interface BacklogGrew extends OfDelivery {
  readonly _tag: "BacklogGrew"
  readonly backlog: number
  /** Age of the oldest stored event in milliseconds. */
  readonly oldest: number
}

/** The backlog has fallen to half of its peak. */
interface BacklogShrank extends OfDelivery {
  readonly _tag: "BacklogShrank"
  readonly backlog: number
}

/** The store failed in the background; the outbox tries again. Once for each outage. */
interface OutboxStoreFailed extends OfDelivery {
  readonly _tag: "OutboxStoreFailed"
  readonly reason: string
}

interface DeadLettersReplayed extends OfDelivery {
  readonly _tag: "DeadLettersReplayed"
  readonly letters: number
  readonly by: string
}

interface DeadLettersPurged extends OfDelivery {
  readonly _tag: "DeadLettersPurged"
  readonly letters: number
}

/** Dead letters were too old, or too many: they are gone. */
interface DeadLettersDropped extends OfDelivery {
  readonly _tag: "DeadLettersDropped"
  readonly letters: number
}

export type DeliveryEvent =
  | OutboxProgress
  | EventDied
  | EventsShed
  | OutboxRefused
  | PublishUndecided
  | BacklogClaimed
  | LeaseLost
  | BacklogGrew
  | BacklogShrank
  | OutboxStoreFailed
  | DeadLettersReplayed
  | DeadLettersPurged
  | DeadLettersDropped
