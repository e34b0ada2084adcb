/**
 * Publishes stored events, subject by subject, in order.
 *
 * A drain is a fiber of one subject. It reads a batch, publishes it one event at a time, removes what was acknowledged,
 * and ends when the store has nothing more of its subject. Unavailability costs waiting time only. A rejection counts.
 */
import { Cause, Clock, Duration, Effect, Exit, Random } from "effect"
import { CircuitRefused } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import * as Backoff from "@outlast/resilience/Backoff"
import { BusError } from "../bus/BusError.ts"
import type { Row } from "../store/DeliveryStore.ts"
import { joined } from "./Joined.ts"
import type { LaneCell } from "./Lanes.ts"
import * as Lane from "./LaneState.ts"
import type { Core } from "./OutboxCore.ts"

/** How a drain goes on: it is done, reads on, or waits. */
type Next =
  | { readonly _tag: "done" }
  | { readonly _tag: "more" }
  | {
      readonly _tag: "wait"
      readonly millis: (failures: number, draw: number) => number
      readonly ownTime?: boolean
    }

const more: Next = { _tag: "more" }
const done: Next = { _tag: "done" }
const untilProbe = (retryAfter: Duration.Duration): Next => ({
  _tag: "wait",
  // Whole milliseconds, at least one: timers know no parts of them.
  millis: () => Math.max(1, Math.ceil(Duration.toMillis(retryAfter)))
})

export type Drain = ReturnType<typeof make>

export const make = (core: Core) => {
  const { breaker, permits, run, send, settings, state, store, tell } = core
  const { broker, counts, lanes } = state
  const remove = joined(store.remove)

  const backOff: Next = {
    _tag: "wait",
    millis: (failures, draw) => Backoff.delay(settings.retry, failures, undefined, draw)
  }

  /** What was logged last about each subject that its stream does not take. */
  const told = new Map<string, string>()

  /** Publishes the rows in order, up to the first that is neither acknowledged nor a dead letter. */
  const sendAll = (rows: ReadonlyArray<Row>, acked: Array<Row>): Effect.Effect<Next, StoreError.StoreError> =>
    Effect.gen(function* () {
      for (const row of rows) {
        // Its last rejection was counted, and the dead letter could not be written then.
        if (row.rejections >= settings.rejections) {
          yield* bury(row, row.refusal)
          continue
        }
        const exit = yield* Effect.exit(send(row, row.brokerId))
        if (Exit.isSuccess(exit)) {
          told.delete(row.subject)
          acked.push(row)
          continue
        }
        const error = exit.cause.reasons.find(Cause.isFailReason)?.error
        if (error instanceof BusError && error.reason === "rejected") {
          const next = yield* onRejected(row, error)
          // Behind a dead letter the others of the batch go on: a batch that is left early is no end of the backlog.
          if (next === more) continue
          return next
        }
        if (error instanceof CircuitRefused.CircuitRefused && error.retryAfter !== undefined) {
          return untilProbe(error.retryAfter)
        }
        if (
          error instanceof BusError &&
          error.scope === "subject" &&
          told.get(row.subject) !== error.message
        ) {
          told.set(row.subject, error.message)
          yield* Effect.logWarning(error.message)
        }
        if (error === undefined) {
          yield* Effect.logError(`The event bus died at an event of \`${row.subject}\``, exit.cause)
        }
        return backOff
      }
      return more
    })

  const onRejected = (row: Row, error: BusError): Effect.Effect<Next, StoreError.StoreError> =>
    Effect.gen(function* () {
      const rejections = row.rejections + 1
      yield* store.rejected(row.seq, rejections, error.message)
      if (error.permanent !== true && rejections < settings.rejections) {
        const millis = () => Backoff.delay(settings.rejected, rejections, undefined, 0.5)
        return { _tag: "wait", millis, ownTime: true }
      }
      yield* bury(row, error.message)
      return more
    })

  const bury = (row: Row, detail: string): Effect.Effect<void, StoreError.StoreError> =>
    Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      yield* core.bury({ seqs: [row.seq] }, { reason: "rejected", detail, at })
      yield* Effect.logWarning(`An event of \`${row.subject}\` is a dead letter: ${detail}`)
      yield* tell({
        _tag: "EventDied",
        at,
        subject: row.subject,
        id: row.id,
        source: "outbox",
        reason: "rejected"
      })
      yield* core.trimDead
    })

  const drainOnce = (
    cell: LaneCell,
    unremoved: Array<Row>,
    limit: number
  ): Effect.Effect<Next, StoreError.StoreError> =>
    Effect.gen(function* () {
      // Acknowledged rows that could not be removed come first: read again, they would be published twice.
      yield* removed(unremoved)
      // Nothing is read for a broker that takes nothing: with many subjects that would keep the store busy.
      const { phase, retryAfter } = yield* breaker.state(settings.circuitName)
      if (!(yield* breaker.available(settings.circuitName))) {
        return retryAfter === undefined ? backOff : untilProbe(retryAfter)
      }
      if (phase === "closed") return yield* readAndSend(cell, unremoved, limit)
      // One subject tests the broker; others would be read for nothing. They wake when the circuit closes.
      if (state.probing) return backOff
      state.probing = true
      const next = yield* Effect.ensuring(
        readAndSend(cell, unremoved, limit),
        Effect.sync(() => void (state.probing = false))
      )
      // The subject may have had no event to test with.
      if (next === done) broker.pulse()
      return next
    })

  const readAndSend = (
    cell: LaneCell,
    unremoved: Array<Row>,
    limit: number
  ): Effect.Effect<Next, StoreError.StoreError> =>
    Effect.gen(function* () {
      cell.state = Lane.reading(cell.state)
      const { owned } = state
      const isBehind = state.lost.size > 0 && (yield* store.head([...state.lost], cell.subject, 1)).length > 0
      // Another process publishes what this one stored earlier. The sweep tells when a lease ends.
      if (isBehind) return { _tag: "wait", millis: () => Duration.toMillis(settings.sweepEvery) }
      const rows = yield* store.head(owned, cell.subject, limit)
      const next = yield* Effect.ensuring(
        sendAll(rows, unremoved),
        // Also at an interruption, so that a stop repeats nothing.
        Effect.ignore(removed(unremoved))
      )
      if (next !== more || unremoved.length > 0) return next === more ? backOff : next
      const [isDone, lane] = Lane.drained(cell.state, rows.length < limit)
      cell.state = lane
      return isDone ? done : more
    })

  const removed = (rows: Array<Row>): Effect.Effect<void, StoreError.StoreError> =>
    Effect.suspend(() => {
      if (rows.length === 0) return Effect.void
      const taken = [...rows]
      return Effect.map(remove(taken.map(({ seq }) => seq)), () => {
        rows.length = 0
        counts.drained += taken.length
        state.reduce(
          taken.length,
          taken.reduce((sum, { bytes }) => sum + bytes, 0)
        )
      })
    })

  /** Publishes what is stored of a subject until nothing is left. */
  const drain = (cell: LaneCell): Effect.Effect<void> =>
    Effect.gen(function* () {
      const unremoved: Array<Row> = []
      let failures = 0
      while (true) {
        const { pulses } = broker
        if (failures > 0) counts.retried++
        const next = yield* permits
          .withPermit(
            // After a failure one event shows whether the broker is back.
            drainOnce(cell, unremoved, failures > 0 ? 1 : settings.drainBatch)
          )
          .pipe(
            // An interruption of this fiber is not caught here.
            Effect.catchCause((cause) => Effect.as(core.onStoreFailure(cause), backOff))
          )
        if (next._tag === "done") return state.tidy(cell)
        if (next._tag === "more") {
          failures = 0
          continue
        }
        failures++
        // The broker came back while the last attempt was still failing.
        if (next.ownTime !== true && broker.pulses !== pulses) continue
        const draw = yield* Random.next
        const sleep = Effect.sleep(Duration.millis(next.millis(failures, draw)))
        yield* next.ownTime === true ? sleep : Effect.raceFirst(sleep, broker.next)
      }
    })

  /** The store holds events of this subject. */
  const found = (subject: string): void => {
    if (lanes.size >= settings.maxSubjects && !lanes.has(subject)) {
      state.overflow = true
      return
    }
    const cell = lanes.of(subject)
    const [begin, next] = Lane.found(cell.state)
    cell.state = next
    if (begin) run(drain(cell))
  }

  return { drain, found }
}
