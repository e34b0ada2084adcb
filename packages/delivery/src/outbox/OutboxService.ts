/** The interface of an outbox. */
import type { Duration, Effect, Option } from "effect"
import type { CircuitState, StoreError } from "@outlast/resilience"
import type { SqlClient } from "effect/sql"
import type { NewEvent, TooLarge } from "../Event.ts"
import type { Receipt } from "./Lanes.ts"
import type { OutboxFull } from "./OutboxFull.ts"

export interface Status {
  /** Phase of the circuit over the broker. */
  readonly circuit: CircuitState.Phase
  /** Stored events, as this process counts them. */
  readonly backlog: number
  /** When the oldest stored event was published, in Unix milliseconds. */
  readonly oldest: Option.Option<number>
  /** Dead letters that were not replayed, as of the last count. */
  readonly dead: number
}

export interface Service {
  /**
   * Publishes an event. After an interruption the event may be published or not, which `PublishUndecided` reports.
   * Publishing it again with the same id is safe.
   *
   * Dies with {@link InsideTransaction} in a transaction of the store's client: use {@link Service.publishIn} there.
   */
  readonly publish: (event: NewEvent) => Effect.Effect<Receipt, OutboxFull | TooLarge | StoreError.StoreError>
  /**
   * Stores an event in the open transaction of the `SqlClient`, which must belong to the store's database. The event is
   * published after the commit, and never after a rollback. Without an open transaction it gets its own.
   */
  readonly publishIn: (
    event: NewEvent
  ) => Effect.Effect<
    { readonly id: string },
    OutboxFull | TooLarge | StoreError.StoreError,
    SqlClient.SqlClient
  >
  readonly status: Effect.Effect<Status, StoreError.StoreError>
  /**
   * Waits until nothing of this publisher, its backlog included, is stored or on its way, at most for this time. `left`
   * is 0 then, and otherwise what the store holds.
   */
  readonly flush: (within: Duration.Input) => Effect.Effect<{ readonly left: number }, StoreError.StoreError>
  /** Renews the lease and looks for backlogs in the store now, as happens every `sweepEvery`. */
  readonly sweep: Effect.Effect<void, StoreError.StoreError>
  /**
   * For `Host.ready`: true, or why the store takes no events. Writes one row, because a full disk refuses nothing else.
   */
  readonly ready: Effect.Effect<true | string>
}

/** `publish` was called in a transaction of the store's own client: a mistake in the program. */
export class InsideTransaction extends Error {
  override readonly name = "InsideTransaction"
  constructor() {
    super(
      "Outbox.publish was called inside a transaction of its own SqlClient. Use Outbox.publishIn: it commits or rolls back with the transaction."
    )
  }
}
