/**
 * Stores the events and dead letters of the outbox.
 *
 * An interface with two implementations, {@link layerMemory} for tests and {@link layerSql} over any `SqlClient` of
 * `effect/sql`, and one suite of tests for both. `Outbox` and `DeadLetters` use it; programs only provide it.
 *
 * Every operation is one statement or one transaction. Events are there after a crash once `insert` has returned, as far
 * as the database keeps what it has committed: see `docs/do/delivery.md`.
 */
import { Context } from "effect"
import type { Duration, Effect, Option } from "effect"
import * as Options from "@outlast/resilience/Options"
import { StoreError as StoreErrors } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import type { SqlClient } from "effect/sql"
import type { DeadLetter, Filter, NewDeadLetter, Page } from "./DeadLetter.ts"
import type { OutboxEvent } from "../Event.ts"
import type { Publisher } from "./Publisher.ts"

/** An event to store. */
export interface NewRow extends OutboxEvent {
  /** The id of the broker's message. */
  readonly brokerId: string
  /** Size in bytes, as it counts towards the cap. */
  readonly bytes: number
  /** Unix time in milliseconds. */
  readonly at: number
  /** Rejections that were counted before it was stored. */
  readonly rejections: number
  /** The broker's words at the last rejection; empty without one. */
  readonly refusal: string
}

/** A stored event. `seq` gives the order within a publisher and subject. */
export interface Row extends NewRow {
  readonly seq: number
}

interface Totals {
  readonly events: number
  readonly bytes: number
  readonly dead: number
}

/** Why stored events become dead letters. */
export interface Burial {
  readonly reason: DeadLetter["reason"]
  readonly detail: string
  /** Unix time in milliseconds. */
  readonly at: number
}

/** Limits of the dead letters. */
export interface DeadOptions {
  /**
   * Dead letters that are kept. Beyond it the oldest of those go that were replayed, or that made room in a full outbox.
   * Default 10,000.
   */
  readonly cap?: number | undefined
  /**
   * At the cap, with none that may go: refuse a further one, so that its event waits where it is (`fail`), or drop the
   * oldest (`shedOldest`). Default `fail`.
   */
  readonly whenFull?: "fail" | "shedOldest" | undefined
  /** How long one is kept. Default 30 days. */
  readonly ttl?: Duration.Input | undefined
}

export const deadDefaults = { cap: 10_000, whenFull: "fail", ttl: "30 days" } as const satisfies DeadOptions

const deadStore = "dead letters"

/** True for the error of {@link deadLettersFull}. The store itself works. */
export const isDeadLettersFull = ({ store }: StoreErrors.StoreError): boolean => store === deadStore

/** The error of a store whose dead letters are at their cap. */
export const deadLettersFull = (cap: number): StoreErrors.StoreError =>
  new StoreErrors.StoreError({
    reason: "full",
    store: deadStore,
    detail: `it has ${cap} of them, which is their cap, so this event waits. Replay or purge some (\`outlast dlq\`), or raise \`deadLetters.cap\``
  })

export const deadChecks: Options.Checks<DeadOptions> = {
  cap: Options.is.integer({ min: 1 }),
  whenFull: Options.is.oneOf("fail", "shedOldest"),
  ttl: Options.is.seconds(Options.is.duration({ min: "1 second" }))
}

/** The result of turning events into dead letters. */
interface Buried {
  /** Events that are dead letters now. */
  readonly events: number
  readonly bytes: number
  /** Subjects and ids of the first hundred of them, for events and logs. */
  readonly which: ReadonlyArray<{ readonly id: string; readonly subject: string }>
}

export interface Service {
  /** Writes one row, as an event would: fails while the store takes no writes. For `Host.ready`. */
  readonly probe: Effect.Effect<void, StoreError.StoreError>
  /** Stores all events, or none. An event whose id is stored already is skipped. */
  readonly insert: (
    publisher: string,
    rows: ReadonlyArray<NewRow>
  ) => Effect.Effect<void, StoreError.StoreError>
  /** Stores one event in the transaction of the caller's client, and runs `committed` after its commit. */
  readonly insertIn: (
    publisher: string,
    row: NewRow,
    committed: Effect.Effect<void>
  ) => Effect.Effect<void, StoreError.StoreError, SqlClient.SqlClient>
  /** True inside a transaction of the store's own client. */
  readonly inTransaction: Effect.Effect<boolean>
  /** The first events of a subject, in order. */
  readonly head: (
    publishers: ReadonlyArray<string>,
    subject: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Row>, StoreError.StoreError>
  readonly remove: (seqs: ReadonlyArray<number>) => Effect.Effect<void, StoreError.StoreError>
  /** Notes the number of rejections of an event, and the broker's words at the last one. */
  readonly rejected: (
    seq: number,
    rejections: number,
    refusal: string
  ) => Effect.Effect<void, StoreError.StoreError>
  /** Makes stored events dead letters: those named, or the oldest. Fails as `full` at the cap, unless they are shed. */
  readonly bury: (
    which: { readonly seqs: ReadonlyArray<number> } | { readonly oldest: number },
    why: Burial
  ) => Effect.Effect<Buried, StoreError.StoreError>
  /** Returns the subjects with stored events of a publisher, at most `limit`. */
  readonly subjects: (
    publisher: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreError.StoreError>
  /**
   * Counts everything. Costs time in a large store. A repeated event counts until something reads its subject, where the
   * store recognises repetitions only then (SQLite).
   */
  readonly totals: Effect.Effect<Totals, StoreError.StoreError>
  /** When the oldest stored event was published, in Unix milliseconds. */
  readonly oldest: Effect.Effect<Option.Option<number>, StoreError.StoreError>

  /** Makes `holder` the holder of a publisher, also if another process holds it. */
  readonly hold: (publisher: string, holder: string) => Effect.Effect<void, StoreError.StoreError>
  /** Raises the beat of all publishers of the holder, and returns them. */
  readonly beat: (holder: string) => Effect.Effect<ReadonlyArray<string>, StoreError.StoreError>
  /**
   * Returns publishers of other holders, including released ones and those with events but no row. Repeated events that
   * were not recognised yet count, as in `totals`.
   */
  readonly others: (holder: string) => Effect.Effect<ReadonlyArray<Publisher>, StoreError.StoreError>
  /** Takes a publisher over unless it has changed since it was seen. True: it is ours. */
  readonly claim: (seen: Publisher, holder: string) => Effect.Effect<boolean, StoreError.StoreError>
  /** Gives up all publishers of the holder: others may claim them at once. Forgets those without events. */
  readonly release: (holder: string) => Effect.Effect<void, StoreError.StoreError>
  /** Forgets a publisher that has no events. */
  readonly forget: (publisher: string, holder: string) => Effect.Effect<void, StoreError.StoreError>

  /** Writes a dead letter. One whose key is known is left as it is: false. Fails as `full` at the cap. */
  readonly writeDead: (letter: NewDeadLetter) => Effect.Effect<boolean, StoreError.StoreError>
  /** Dead letters, the newest first. */
  readonly listDead: (
    filter: Filter,
    page: Page
  ) => Effect.Effect<ReadonlyArray<DeadLetter>, StoreError.StoreError>
  /** Finds a dead letter by its number, or the latest one of an event's id. */
  readonly showDead: (id: string) => Effect.Effect<Option.Option<DeadLetter>, StoreError.StoreError>
  /** Stores dead letters again as events, in one transaction. */
  readonly replayDead: (
    filter: Filter,
    limit: number,
    by: { readonly at: number; readonly by: string }
  ) => Effect.Effect<ReadonlyArray<Replayed>, StoreError.StoreError>
  readonly purgeDead: (filter: Filter) => Effect.Effect<number, StoreError.StoreError>
  /** Counts the letters that {@link Service.purgeDead} would remove, or that a replay would take. */
  readonly countDead: (filter: Filter) => Effect.Effect<number, StoreError.StoreError>
  /** Removes dead letters that are too old, and those above the cap that may go; returns how many. */
  readonly trimDead: (now: number) => Effect.Effect<number, StoreError.StoreError>
}

export interface Replayed {
  readonly number: number
  readonly id: string
  readonly subject: string
  readonly brokerId: string
}

export class DeliveryStore extends Context.Service<DeliveryStore, Service>()(
  "@outlast/delivery/store/DeliveryStore"
) {}

/** The publisher under which replayed dead letters are stored. Any process may hold it. */
export const replayPublisher = "replay"
