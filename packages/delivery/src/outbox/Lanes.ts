/** The lanes of an outbox with the publishes that wait in them, in the order that `LaneState` counts them. */
import type { Effect } from "effect"
import type { StoreError } from "@outlast/resilience"
import type { BusError } from "../bus/BusError.ts"
import type { NewRow } from "../store/DeliveryStore.ts"
import type { LaneState } from "./LaneState.ts"
import * as Lane from "./LaneState.ts"
import type { OutboxFull } from "./OutboxFull.ts"

/** Where an event is safe. */
export interface Receipt {
  readonly id: string
  readonly safe: "broker" | "store"
}

/**
 * One publish. `waiting` for the turn, `granted` it, `queued` for the writer, in the hands of the writer (`writing`), or
 * `done`.
 */
export interface Pending {
  readonly row: NewRow
  readonly lane: LaneCell
  at: "new" | "waiting" | "granted" | "queued" | "writing" | "done"
  /** Continues the fiber that waits, whose event is safe or refused. Set before it waits. */
  resume: (next: Effect.Effect<Receipt, OutboxFull | StoreError.StoreError>) => void
  /** Continues it when its turn has come. */
  go: () => void
}

/** How a publish that waited goes on: its turn has come, or it is safe. */
export type Step = "turn" | Receipt

export class LaneCell {
  readonly subject: string
  state: LaneState = Lane.empty
  /** Publishes that wait for the turn, in order. */
  readonly waiters = new Set<Pending>()

  constructor(subject: string) {
    this.subject = subject
  }
}

/** The lanes that have something to remember. */
export class Lanes {
  readonly #cells = new Map<string, LaneCell>()

  get size(): number {
    return this.#cells.size
  }

  of(subject: string): LaneCell {
    let cell = this.#cells.get(subject)
    if (cell === undefined) this.#cells.set(subject, (cell = new LaneCell(subject)))
    return cell
  }

  has(subject: string): boolean {
    return this.#cells.has(subject)
  }

  /** Forgets the lane where nothing is left of it. */
  tidy(cell: LaneCell): void {
    if (Lane.isIdle(cell.state)) this.#cells.delete(cell.subject)
  }
}

/** True when the whole broker is unavailable, and not only the stream of one subject. */
export const isOfBroker = (error: BusError): boolean =>
  error.reason === "unavailable" && error.scope !== "subject"
