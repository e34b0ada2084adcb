/** The way of one event: straight to the broker, behind others of its subject, or into the store. */
import { Cause, Clock, Effect, Exit } from "effect"
import type { StoreError } from "@outlast/resilience"
import { BusError } from "../bus/BusError.ts"
import * as Event from "../Event.ts"
import type { OutboxEvent } from "../Event.ts"
import { TooLarge } from "../Event.ts"
import type { NewRow } from "../store/DeliveryStore.ts"
import type { Drain } from "./Drain.ts"
import type { LaneCell, Pending, Receipt, Step } from "./Lanes.ts"
import * as Lane from "./LaneState.ts"
import type { Core } from "./OutboxCore.ts"
import { isClosed } from "./OutboxCore.ts"
import { OutboxFull } from "./OutboxFull.ts"
import * as Pressure from "./Pressure.ts"
import type { Service } from "./OutboxService.ts"
import { InsideTransaction } from "./OutboxService.ts"
import type { Writer } from "./Writer.ts"

type PublishError = OutboxFull | StoreError.StoreError
type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** `publish` and `publishIn` of an outbox. */
export const make = (
  { maxBytes, send, settings, state, store, tell }: Core,
  { enqueue }: Writer,
  { found }: Drain
): Pick<Service, "publish" | "publishIn"> => {
  const { cap, maxInFlight, whenFull } = settings
  const { counts, lanes, queue, room } = state

  const undecided = ({ row }: Pending) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      tell({ _tag: "PublishUndecided", at, subject: row.subject, id: row.id })
    )

  /** The turn ends: the next that waits has it, or all that wait are stored in order. */
  const endTurn = (cell: LaneCell, end: Lane.TurnEnd, failed?: Pending): PublishError | undefined => {
    const [next, lane] = Lane.turnEnded(cell.state, end)
    cell.state = lane
    const refused = failed === undefined ? undefined : enqueue(failed)
    if (next === "none") {
      state.tidy(cell)
      return refused
    }
    for (const pending of cell.waiters) {
      cell.waiters.delete(pending)
      state.waiting--
      if (next === "go") {
        pending.at = "granted"
        pending.go()
        break
      }
      const full = enqueue(pending)
      if (full !== undefined) pending.resume(Effect.fail(full))
    }
    return refused
  }

  const direct = (pending: Pending, restore: Restore): Effect.Effect<Receipt, PublishError> => {
    const { row, lane } = pending
    state.going++
    return Effect.flatMap(Effect.exit(restore(send(row, row.brokerId))), (exit) => {
      state.going--
      if (Exit.isSuccess(exit)) {
        pending.at = "done"
        counts.published++
        endTurn(lane, "acknowledged")
        return Effect.succeed<Receipt>({ id: row.id, safe: "broker" })
      }
      if (Cause.hasInterrupts(exit.cause)) {
        pending.at = "done"
        endTurn(lane, "dropped")
        return Effect.andThen(undecided(pending), Effect.interrupt)
      }
      const error = exit.cause.reasons.find(Cause.isFailReason)?.error
      const again: Pending =
        error instanceof BusError && error.reason === "rejected"
          ? { ...pending, row: { ...row, rejections: 1, refusal: error.message } }
          : pending
      const refused = endTurn(lane, "failed", again)
      return refused === undefined ? wait(again, restore) : Effect.fail(refused)
    })
  }

  /** Gives up a publish whose caller was interrupted. */
  const abandon = (pending: Pending): Effect.Effect<void> => {
    const { lane } = pending
    switch (pending.at) {
      case "waiting":
        lane.waiters.delete(pending)
        state.waiting--
        lane.state = Lane.leave(lane.state)
        break
      case "granted":
        endTurn(lane, "dropped")
        break
      case "queued":
        queue.delete(pending)
        state.reduce(1, pending.row.bytes)
        lane.state = Lane.notCommitted(lane.state, 1)
        break
      case "writing":
        return undecided(pending)
      default:
        return Effect.void
    }
    pending.at = "done"
    state.tidy(lane)
    return Effect.void
  }

  const wait = (pending: Pending, restore: Restore): Effect.Effect<Receipt, PublishError> => {
    let early: Effect.Effect<Step, PublishError> | undefined
    const turn = Effect.succeed<Step>("turn")
    pending.resume = (next) => {
      early = next
    }
    pending.go = () => {
      early = turn
    }
    const step = Effect.callback<Step, PublishError>((resume) => {
      if (early !== undefined) return resume(early)
      pending.resume = resume
      pending.go = () => resume(turn)
    })
    return Effect.flatMap(
      Effect.onInterrupt(restore(step), () => abandon(pending)),
      (next) => (next === "turn" ? direct(pending, restore) : Effect.succeed(next))
    )
  }

  /** A publish that may go straight to the broker: it has a turn to give back, however it ends. */
  const inTurn = (row: NewRow): Effect.Effect<Receipt, PublishError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => {
        const lane = lanes.of(row.subject)
        const [arrival, next] = Lane.arrive(lane.state, state.storeFirst())
        if (arrival === "store") return restore(enter(row))
        lane.state = next
        const pending: Pending = { row, lane, at: "new", resume: () => {}, go: () => {} }
        if (arrival === "go") return direct(pending, restore)
        pending.at = "waiting"
        lane.waiters.add(pending)
        state.waiting++
        return wait(pending, restore)
      })
    )

  /** Takes one step up to the commit: in an outage all events of the program come this way. */
  const enter = (row: NewRow): Effect.Effect<Receipt, PublishError> =>
    Effect.callback<Receipt, PublishError>((resume) => {
      if (state.closed) return resume(Effect.fail(isClosed()))
      if (state.going + state.waiting + queue.size + state.commit >= maxInFlight) {
        counts.refused++
        return resume(Effect.fail(new OutboxFull({ what: "inFlight", limit: maxInFlight })))
      }
      const lane = lanes.of(row.subject)
      const [arrival, next] = Lane.arrive(lane.state, state.storeFirst())
      if (arrival !== "store") return resume(inTurn(row))
      lane.state = next
      const pending: Pending = { row, lane, at: "new", resume, go: () => {} }
      const refused = enqueue(pending)
      if (refused !== undefined) return resume(Effect.fail(refused))
      return Effect.suspend(() => abandon(pending))
    })

  const isTight = (row: NewRow): boolean =>
    (state.storeFirst() || (lanes.has(row.subject) && Lane.mustStore(lanes.of(row.subject).state))) &&
    Pressure.judge(cap, state.load, row.bytes) !== "room"

  const untilRoom = (row: NewRow): Effect.Effect<void> => room.until(() => !isTight(row))

  /** The event as a row, and what is done with it. */
  const withRow = <A, E, R>(
    event: OutboxEvent,
    use: (row: NewRow) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | TooLarge, R> =>
    Effect.flatMap(maxBytes, (limit): Effect.Effect<A, E | TooLarge, R> => {
      const bytes = Event.sizeOf(event)
      if (bytes > limit) return Effect.fail(new TooLarge({ subject: event.subject, bytes, limit }))
      return Clock.clockWith((clock) =>
        use({
          id: event.id,
          subject: event.subject,
          body: event.body,
          headers: event.headers,
          brokerId: event.id,
          bytes,
          at: clock.currentTimeMillisUnsafe(),
          rejections: 0,
          refusal: ""
        })
      )
    })

  const enterWithRoom = (row: NewRow): Effect.Effect<Receipt, PublishError> =>
    isTight(row)
      ? Effect.andThen(Effect.timeoutOption(untilRoom(row), settings.waitForRoom), enter(row))
      : enter(row)

  return {
    publish: (given) =>
      Effect.suspend(() => {
        const event = Event.make(given)
        return Effect.flatMap(store.inTransaction, (inside) =>
          inside ? Effect.die(new InsideTransaction()) : withRow(event, enterWithRoom)
        )
      }),
    publishIn: (given) =>
      Effect.suspend(() => {
        const event = Event.make(given)
        return withRow(event, (row): ReturnType<Service["publishIn"]> => {
          if (state.closed) return Effect.fail(isClosed())
          const what = state.refusal(row.bytes)
          if (what !== undefined) return Effect.fail(new OutboxFull({ what, limit: cap[what] }))
          const { publisher } = state
          const committed = Effect.sync(() => {
            state.storedAs(publisher)
            state.load = Pressure.add(state.load, 1, row.bytes)
            counts.stored++
            if (state.closed) return
            found(row.subject)
            // The writer makes room.
            if (whenFull === "shedOldest" && state.load.events > cap.events) state.writable.openUnsafe()
          })
          return Effect.as(store.insertIn(publisher, row, committed), { id: row.id })
        })
      })
  }
}
