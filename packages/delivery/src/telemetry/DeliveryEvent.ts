/**
 * Events that delivery publishes on `ResilienceEvents`: plain data, without bodies and headers.
 *
 * Single events are not published: an outbox takes thousands a second. {@link OutboxProgress} has their counts.
 */
import { Metric } from "effect"
import type { Warnings } from "@outlast/resilience"
import { EventDefinition } from "@outlast/resilience"

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

/** The store failed in the background; the outbox tries again. Once, until {@link OutboxStoreBack}. */
interface OutboxStoreFailed extends OfDelivery {
  readonly _tag: "OutboxStoreFailed"
  readonly reason: string
}

/** A sweep has used the store again after {@link OutboxStoreFailed}. */
interface OutboxStoreBack extends OfDelivery {
  readonly _tag: "OutboxStoreBack"
}

/** An event cannot become a dead letter: they are at their cap. Once, until one is written again. */
interface DeadLettersFull extends OfDelivery {
  readonly _tag: "DeadLettersFull"
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
  | OutboxStoreBack
  | DeadLettersFull
  | DeadLettersReplayed
  | DeadLettersPurged
  | DeadLettersDropped

// -----------------------------------------------------------------------------
// Definitions
// -----------------------------------------------------------------------------

const counter = (name: string, description: string) =>
  Metric.counter(`outlast_${name}`, { description, incremental: true })
const gauge = (name: string, description: string) => Metric.gauge(`outlast_${name}`, { description })

export const published = counter("outbox_published_total", "Events that the broker acknowledged at once")
export const stored = counter("outbox_stored_total", "Events that were stored")
export const drained = counter("outbox_drained_total", "Stored events that the broker acknowledged")
export const retried = counter("outbox_retried_total", "Attempts to drain a subject after one that failed")
export const shed = counter("outbox_shed_total", "Events that made room in a full outbox")
export const refused = counter("outbox_refused_total", "Events that a full outbox refused")
export const undecided = counter("outbox_undecided_total", "Publishes that were interrupted on their way")
export const backlog = gauge("outbox_backlog", "Stored events")
export const backlogBytes = gauge("outbox_backlog_bytes", "Size of the stored events")
export const oldest = gauge("outbox_oldest_seconds", "Age of the oldest stored event")
export const growing = gauge("outbox_growing", "1 while the backlog has grown for a while, else 0")
export const storeLost = gauge("outbox_store_lost", "1 while the outbox cannot use its store, else 0")
export const deadLetters = gauge("dead_letters", "Dead letters that were not replayed")
export const died = counter("dead_letters_total", "Events that became dead letters")
export const dropped = counter("dead_letters_dropped_total", "Dead letters that were too old or too many")
export const replayed = counter("dead_letters_replayed_total", "Dead letters that were replayed")

const { named, seconds, silent } = EventDefinition
const warn = (text: string): Warnings.Line => ({ level: "Warn", text })
const info = (text: string): Warnings.Line => ({ level: "Info", text })
/** A count of nothing makes no series. */
const some = (count: number): number | undefined => (count === 0 ? undefined : count)
const letters = (count: number): string => (count === 1 ? "1 dead letter" : `${count} dead letters`)
const events = (count: number): string => (count === 1 ? "1 event" : `${count} events`)

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<DeliveryEvent> = {
  OutboxProgress: {
    doc: "A sweep of the outbox while something happens. Counts are those since the last one.",
    // A sweep follows another every few seconds.
    line: silent,
    metrics: [
      { metric: published, value: (event) => some(event.published) },
      { metric: stored, value: (event) => some(event.stored) },
      { metric: drained, value: (event) => some(event.drained) },
      { metric: retried, value: (event) => some(event.retried) },
      { metric: backlog, value: (event) => event.backlog },
      { metric: backlogBytes, value: (event) => event.bytes },
      { metric: oldest, value: (event) => event.oldest / 1_000 },
      { metric: deadLetters, value: (event) => event.dead }
    ]
  },
  EventDied: {
    doc: "An event became a dead letter.",
    line: ({ reason, source, subject }) => warn(`✗ an event of ${subject} is dead (${reason}, ${source})`),
    metrics: [
      { metric: died, names: { source: ({ source }) => source }, words: { reason: ({ reason }) => reason } }
    ]
  },
  EventsShed: {
    doc: "Events made room for newer ones: the outbox was full. They are dead letters.",
    line: (event) => warn(`✗ the outbox is full: ${events(event.events)} made room`),
    metrics: [{ metric: shed, value: (event) => event.events }]
  },
  OutboxRefused: {
    doc: "Events were refused because the outbox is full. At most once in each sweep.",
    line: (event) => warn(`✗ the outbox is full: ${events(event.events)} refused`),
    metrics: [{ metric: refused, value: (event) => event.events }]
  },
  PublishUndecided: {
    doc: "A publish was interrupted while its event was on its way: it may be published and stored, or neither.",
    line: ({ subject }) => warn(`  a publish of ${subject} was interrupted on its way`),
    metrics: [{ metric: undecided }]
  },
  BacklogClaimed: {
    doc: "The backlog of a process that is gone, or was paused, was taken over.",
    line: named(),
    metrics: []
  },
  LeaseLost: {
    doc: "Another process took over the backlog of this one, which was silent for longer than a lease.",
    line: named("Warn"),
    metrics: []
  },
  BacklogGrew: {
    doc: "The backlog has grown for a while: the broker is down, or too slow. Once, until `BacklogShrank`.",
    line: ({ backlog, oldest }) =>
      warn(`… the backlog grows: ${events(backlog)}, the oldest stored ${seconds(oldest)} ago`),
    metrics: [{ metric: growing, value: () => 1 }]
  },
  BacklogShrank: {
    doc: "The backlog has fallen to half of its peak.",
    line: ({ backlog }) => info(`  the backlog shrinks: ${events(backlog)}`),
    metrics: [{ metric: growing, value: () => 0 }]
  },
  OutboxStoreFailed: {
    doc: "The store failed in the background; the outbox tries again. Once, until `OutboxStoreBack`.",
    line: ({ reason }) => warn(`✗ the store of the outbox failed: ${reason}`),
    metrics: [{ metric: storeLost, value: () => 1 }]
  },
  OutboxStoreBack: {
    doc: "A sweep of the outbox has used its store again, after `OutboxStoreFailed`.",
    line: () => info("  the store of the outbox is back"),
    metrics: [{ metric: storeLost, value: () => 0 }]
  },
  DeadLettersFull: {
    doc: "An event cannot become a dead letter: they are at their cap. Once, until one is written again.",
    line: () => warn("✗ the dead letters are at their cap: an event waits, and its subject with it"),
    metrics: []
  },
  DeadLettersReplayed: {
    doc: "Dead letters were put back into the outbox.",
    line: (event) => info(`  ${letters(event.letters)} replayed`),
    metrics: [{ metric: replayed, value: (event) => event.letters }]
  },
  DeadLettersPurged: {
    doc: "Dead letters were removed by an operator.",
    line: (event) => info(`  ${letters(event.letters)} purged`),
    metrics: []
  },
  DeadLettersDropped: {
    doc: "Dead letters were too old, or too many: they are gone.",
    line: (event) => warn(`✗ ${letters(event.letters)} dropped`),
    metrics: [{ metric: dropped, value: (event) => event.letters }]
  }
}
