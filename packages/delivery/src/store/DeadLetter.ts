/** A dead letter: an event that could not be delivered and is kept, with the reason and its history. */
import type { OutboxEvent } from "../Event.ts"

/**
 * Reason why an event could not be delivered:
 *
 * - `rejected`: the broker rejected it several times, or permanently
 * - `shed`: the outbox was full, and it was the oldest
 * - `deliveries`: a consumer did not acknowledge it, however often it was delivered
 */
export type Reason = "rejected" | "shed" | "deliveries"

export const reasons: ReadonlyArray<Reason> = ["rejected", "shed", "deliveries"]

/** Earlier deaths and replays of the event, oldest first: at most {@link maxHistory}. */
export type Entry =
  | { readonly at: number; readonly what: "died"; readonly reason: Reason; readonly detail: string }
  | { readonly at: number; readonly what: "replayed"; readonly by: string; readonly brokerId: string }

/** Maximum number of entries in a history. The oldest are dropped. */
const maxHistory = 20

export interface NewDeadLetter extends OutboxEvent {
  /** Identifies what died, so that writing it twice leaves one: `outbox/<event id>`, or stream, sequence and consumer. */
  readonly key: string
  /** Where it died: `outbox`, or the consumer. */
  readonly source: string
  readonly reason: Reason
  readonly detail: string
  /** Rejections or deliveries. */
  readonly attempts: number
  /** When it died, in Unix milliseconds. */
  readonly at: number
}

export interface DeadLetter extends NewDeadLetter {
  /** Number of the dead letter in the store. */
  readonly number: number
  /** Replays so far. */
  readonly replays: number
  /** `dead`, or `replayed` while the last replay has not died. */
  readonly state: "dead" | "replayed"
  readonly history: ReadonlyArray<Entry>
}

/** Selects dead letters that match all given fields. Replayed ones match only with `replayed`. */
export interface Filter {
  /** Number, or id of the event. */
  readonly ids?: ReadonlyArray<string> | undefined
  /** A subject, or a pattern with `*` for one part and `>` for the rest. */
  readonly subject?: string | undefined
  readonly reason?: Reason | undefined
  /** Died at or after, in Unix milliseconds. */
  readonly since?: number | undefined
  /** Died before, in Unix milliseconds. */
  readonly before?: number | undefined
  /** Also those that were replayed and have not died again. Default false. */
  readonly replayed?: boolean | undefined
}

export interface Page {
  readonly limit: number
  /** Only letters with a smaller number: the next page. */
  readonly below?: number | undefined
}

/** The history with one more entry. */
export const append = (history: ReadonlyArray<Entry>, entry: Entry): ReadonlyArray<Entry> =>
  [...history, entry].slice(-maxHistory)

/** The broker's id of a replay. A broker drops an id that it has seen, so each replay has a new one. */
export const replayId = (letter: Pick<DeadLetter, "id" | "number" | "replays">): string =>
  `${letter.id}#replay-${letter.number}-${letter.replays + 1}`

/** The key of an event that died in the outbox. */
export const outboxKey = (id: string): string => `outbox/${id}`
