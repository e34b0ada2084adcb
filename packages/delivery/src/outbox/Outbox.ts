/**
 * Publishes events so that none is lost while the broker is down or the process dies.
 *
 * `publish` returns when the event is safe, and says where: acknowledged by the broker, or committed to the store. It
 * goes straight to the broker while that works and nothing of its subject is stored; otherwise it is stored, and
 * drained in order when the broker is back. `publishIn` stores the event in the caller's own transaction.
 *
 * **States.** `LaneState` has the rules of order for one subject, `Pressure` those of a full outbox, `Claims` those of
 * shared stores; this module carries them out. A circuit over the broker keeps an outage from costing every publish a
 * time limit.
 *
 * **How it composes.** Over an `EventBus` and a `DeliveryStore`. All that publishes in a process shares one layer: the
 * order holds for one layer, and for the backlogs that it takes over. One fiber of the layer commits, in groups, never
 * in the context of a caller.
 *
 * **What it does not do.** It does not deliver exactly once: a consumer sees an event again after a crash, a lost
 * acknowledgement or a paused process, always with the same id. It does not order events of several processes.
 *
 * **Example** (An event that survives an outage)
 *
 * ```ts
 * const program = Outbox.publish({ subject: "orders.created", body })
 * program.pipe(Effect.provide(Outbox.layer().pipe(Layer.provide([MemoryBus.layer(), DeliveryStore.layerMemory()]))))
 * ```
 */
// Longer than most: publishing, committing and draining share the state of one outbox.
import {
  Cause,
  Clock,
  Context,
  Duration,
  Effect,
  Exit,
  FiberSet,
  Latch,
  Layer,
  Option,
  Random,
  Semaphore,
  Stream
} from "effect"
import type { Scope } from "effect"
import { CircuitBreaker, CircuitRefused, ResilienceEvents, StoreError } from "@outlast/resilience"
import type { CircuitState } from "@outlast/resilience"
import * as MissingService from "@outlast/resilience/MissingService"
import * as Options from "@outlast/resilience/Options"
import * as Backoff from "@outlast/resilience/retry/Backoff"
import type { SqlClient } from "effect/sql"
import { BusError } from "../bus/BusError.ts"
import { EventBus } from "../bus/EventBus.ts"
import * as Event from "../Event.ts"
import type { NewEvent, OutboxEvent } from "../Event.ts"
import { TooLarge } from "../Event.ts"
import { Signal } from "../Signal.ts"
import { DeliveryStore } from "../store/DeliveryStore.ts"
import type { NewRow, Row } from "../store/DeliveryStore.ts"
import type { DeliveryEvent } from "../telemetry/DeliveryEvent.ts"
import * as Claims from "./Claims.ts"
import * as Growth from "./Growth.ts"
import type { LaneCell, Pending, Receipt, Step } from "./Lanes.ts"
import { isOfBroker, Lanes } from "./Lanes.ts"
import * as Lane from "./LaneState.ts"
import { OutboxFull } from "./OutboxFull.ts"
import type { OutboxOptions } from "./OutboxOptions.ts"
import { checks, defaults } from "./OutboxOptions.ts"
import * as Pressure from "./Pressure.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export { defaults } from "./OutboxOptions.ts"
export type { OutboxOptions } from "./OutboxOptions.ts"
export type { Receipt } from "./Lanes.ts"

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
   * Publishes an event. When it is interrupted on its way the event may be published or not: `PublishUndecided` says
   * so. Publishing it again with the same id is safe.
   *
   * Dies with {@link InsideTransaction} in a transaction of the store's client: use {@link Service.publishIn} there.
   */
  readonly publish: (event: NewEvent) => Effect.Effect<Receipt, OutboxFull | TooLarge | StoreError.StoreError>
  /**
   * Stores an event in the transaction of the `SqlClient`, which must be one of the store's database. It is published
   * after the commit, and never after a rollback. Outside a transaction it is one of its own.
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
}

export class Outbox extends Context.Service<Outbox, Service>()("@outlast/delivery/outbox/Outbox") {}

/** `publish` was called in a transaction of the store's own client: a mistake in the program. */
export class InsideTransaction extends Error {
  override readonly name = "InsideTransaction"
  constructor() {
    super(
      "Outbox.publish was called inside a transaction of its own SqlClient. Use Outbox.publishIn: it commits or rolls back with the transaction."
    )
  }
}

const module = "Outbox"
const provider = "Outbox.layer()"

/** Publishes with the {@link Outbox} of the environment. */
export const publish = (
  event: NewEvent
): Effect.Effect<Receipt, OutboxFull | TooLarge | StoreError.StoreError, Outbox> =>
  MissingService.use(Outbox, module, provider, (outbox) => outbox.publish(event))

/** Stores an event in the caller's transaction, with the {@link Outbox} of the environment. */
export const publishIn = (
  event: NewEvent
): Effect.Effect<
  { readonly id: string },
  OutboxFull | TooLarge | StoreError.StoreError,
  Outbox | SqlClient.SqlClient
> => MissingService.use(Outbox, module, provider, (outbox) => outbox.publishIn(event))

/** The layer of {@link make}. */
export const layer = (
  options: OutboxOptions = {}
): Layer.Layer<Outbox, StoreError.StoreError, EventBus | DeliveryStore> => Layer.effect(Outbox, make(options))

// -----------------------------------------------------------------------------
// The machine, carried out
// -----------------------------------------------------------------------------

/** Sweeps between two counts of everything. */
const sweepsPerCount = 12

/** Bytes in one commit, at most, unless a single event has more. */
const commitBytes = 8_388_608

/** Bytes that a broker's headers may take beside those of the event. */
const headerBytes = 1_024

/** A closing outbox waits so long for its last commit. */
const closeWithin = "10 seconds"

/** Answers with an error count as success: the broker is there. */
const classify: CircuitBreaker.Classify = (exit) => {
  if (Exit.isSuccess(exit)) return { counts: "success" }
  const failed = exit.cause.reasons.find(Cause.isFailReason)
  if (failed?.error instanceof BusError) return { counts: isOfBroker(failed.error) ? "failure" : "success" }
  return CircuitBreaker.classify(exit)
}

type PublishError = OutboxFull | StoreError.StoreError
type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** An outbox for the enclosing scope. Throws an `InvalidOption` for an option that is not allowed. */
export const make = (
  options: OutboxOptions = {}
): Effect.Effect<Service, StoreError.StoreError, EventBus | DeliveryStore | Scope.Scope> =>
  Effect.gen(function* () {
    Options.fields(module, options, checks)
    const {
      mode = defaults.mode,
      whenFull = defaults.whenFull,
      maxInFlight = defaults.maxInFlight,
      rejections: maxRejections = defaults.rejections,
      rejected: rejectedBackoff = defaults.rejected,
      retry: retryBackoff = defaults.retry,
      circuitName = defaults.circuitName,
      drainBatch = defaults.drainBatch,
      commitBatch = defaults.commitBatch,
      maxSubjects = defaults.maxSubjects,
      drainConcurrency = defaults.drainConcurrency
    } = options
    const cap: Pressure.Cap = {
      events: options.cap?.events ?? defaults.cap.events,
      bytes: options.cap?.bytes ?? defaults.cap.bytes
    }
    const waitForRoom = Duration.fromInputUnsafe(options.waitForRoom ?? defaults.waitForRoom)
    const sweepEvery = Duration.fromInputUnsafe(options.sweepEvery ?? defaults.sweepEvery)
    const lease = Duration.toMillis(options.lease ?? defaults.lease)
    const growthAfter = Duration.toMillis(options.growthAfter ?? defaults.growthAfter)
    Options.check(
      lease >= 2 * Duration.toMillis(sweepEvery),
      module,
      "lease",
      options.lease,
      "at least twice sweepEvery, so that one slow renewal does not lose it"
    )

    const bus = yield* EventBus
    const store = yield* DeliveryStore
    const telemetry = yield* ResilienceEvents.ResilienceEvents
    const breaker = yield* CircuitBreaker.make(options.circuit)
    const guard = breaker.execute(circuitName, { classify })
    const run = yield* FiberSet.makeRuntime<never>()
    const permits = Semaphore.makeUnsafe(drainConcurrency)

    // Not of `Random`: two processes with one seed would be taken for one.
    const holder = globalThis.crypto.randomUUID()
    let publisher = options.publisher ?? holder
    let owned: ReadonlyArray<string> = [publisher]
    let claims = Claims.none
    let overflow = false
    let closed = false
    let sweeps = 0
    let growth = Growth.calm
    let storeFailed = false

    const lanes = new Lanes()
    /** Events for the writer, in order. */
    const queue = new Set<Pending>()
    let commit = 0
    let waiting = 0
    /** Publishes on their way straight to the broker. */
    let going = 0
    let load = Pressure.none
    let dead = 0
    const counts = { published: 0, stored: 0, drained: 0, retried: 0, refused: 0 }

    const writable = Latch.makeUnsafe(false)
    /** Released when a wait for the broker may be over. */
    const broker = new Signal()
    /** Released when events have left the store. */
    const room = new Signal()
    /** Released when nothing is on its way. */
    const settled = new Signal()

    const tell = (event: DeliveryEvent): Effect.Effect<void> => telemetry.publish(event)
    const maxBytes = Effect.map(bus.maxPayload, (payload) =>
      Math.min(options.maxBytes ?? defaults.maxBytes, Math.max(1, payload - headerBytes))
    )
    const send = (event: OutboxEvent, brokerId: string) => guard(bus.publish(event, brokerId))
    const storeFirst = (): boolean => mode === "alwaysStore" || overflow

    const tidy = (cell: LaneCell): void => {
      lanes.tidy(cell)
      if (lanes.size === 0) settled.pulse()
    }

    const reduce = (events: number, bytes: number): void => {
      load = Pressure.add(load, -events, -bytes)
      if (Pressure.judge(cap, load, 0) === "room") room.pulse()
    }

    // ---------------------------------------------------------------------------
    // Into the store
    // ---------------------------------------------------------------------------

    /** Hands an event to the writer, whose lane counts it already; or says why not. */
    const enqueue = (pending: Pending): OutboxFull | undefined => {
      const what = Pressure.exceeded(cap, load, pending.row.bytes)
      if (what !== undefined && whenFull === "fail") {
        counts.refused++
        pending.at = "done"
        pending.lane.state = Lane.notCommitted(pending.lane.state, 1)
        tidy(pending.lane)
        return new OutboxFull({ what, limit: cap[what] })
      }
      load = Pressure.add(load, 1, pending.row.bytes)
      pending.at = "queued"
      queue.add(pending)
      writable.openUnsafe()
      return undefined
    }

    const takeBatch = (): ReadonlyArray<Pending> => {
      const batch: Array<Pending> = []
      let bytes = 0
      for (const pending of queue) {
        bytes += pending.row.bytes
        if (batch.length === commitBatch || (batch.length > 0 && bytes > commitBytes)) break
        batch.push(pending)
        queue.delete(pending)
        pending.at = "writing"
      }
      return batch
    }

    /** Makes the oldest events dead letters until what is counted fits the cap. */
    const shed = Effect.gen(function* () {
      let total = 0
      while (load.events > cap.events || load.bytes > cap.bytes) {
        const over = Math.min(1_000, Math.max(1, load.events - cap.events))
        const at = yield* Clock.currentTimeMillis
        const buried = yield* store.bury(
          { oldest: over },
          { reason: "shed", detail: "The outbox was full, and this was the oldest event.", at }
        )
        if (buried.events === 0) break
        total += buried.events
        dead += buried.events
        reduce(buried.events, buried.bytes)
      }
      if (total === 0) return
      yield* tell({ _tag: "EventsShed", at: yield* Clock.currentTimeMillis, events: total })
      yield* trimDead
    })

    const trimDead = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const letters = yield* store.trimDead(at)
      dead = Math.max(0, dead - letters)
      if (letters > 0) yield* tell({ _tag: "DeadLettersDropped", at, letters })
    })

    const writeBatch = (batch: ReadonlyArray<Pending>) =>
      Effect.flatMap(
        Effect.exit(
          Effect.andThen(
            whenFull === "shedOldest" ? shed : Effect.void,
            store.insert(
              publisher,
              batch.map(({ row }) => row)
            )
          )
        ),
        (exit) =>
          Effect.sync(() => {
            const perLane = new Map<LaneCell, number>()
            for (const pending of batch) {
              pending.at = "done"
              perLane.set(pending.lane, (perLane.get(pending.lane) ?? 0) + 1)
            }
            if (Exit.isSuccess(exit)) counts.stored += batch.length
            else
              reduce(
                batch.length,
                batch.reduce((sum, { row }) => sum + row.bytes, 0)
              )
            for (const [cell, events] of perLane) {
              if (Exit.isSuccess(exit) && !cell.state.draining && lanes.size > maxSubjects) {
                // Not to be remembered: a sweep finds it again when there is room.
                overflow = true
                cell.state = Lane.notCommitted(cell.state, events)
                tidy(cell)
              } else if (Exit.isSuccess(exit)) {
                const [begin, next] = Lane.committed(cell.state, events)
                cell.state = next
                if (begin) run(drain(cell))
              } else {
                cell.state = Lane.notCommitted(cell.state, events)
                tidy(cell)
              }
            }
            for (const pending of batch) {
              pending.resume(
                Exit.isSuccess(exit)
                  ? Effect.succeed<Step>({ id: pending.row.id, safe: "store" })
                  : Effect.failCause(exit.cause)
              )
            }
          })
      )

    /** The one writer. What arrives while it commits is the next group. */
    const writer = Effect.gen(function* () {
      while (true) {
        yield* writable.await
        // Everything that is runnable now joins the group.
        yield* Effect.yieldNow
        yield* Effect.uninterruptible(
          Effect.suspend(() => {
            const batch = takeBatch()
            if (queue.size === 0) writable.closeUnsafe()
            if (batch.length === 0) {
              return whenFull === "shedOldest" ? Effect.ignore(shed) : Effect.void
            }
            commit = batch.length
            return Effect.ensuring(
              writeBatch(batch),
              Effect.sync(() => {
                commit = 0
                if (queue.size === 0) settled.pulse()
              })
            )
          })
        )
      }
    })

    // ---------------------------------------------------------------------------
    // Publish
    // ---------------------------------------------------------------------------

    const undecided = ({ row }: Pending) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) =>
        tell({ _tag: "PublishUndecided", at, subject: row.subject, id: row.id })
      )

    /** The turn ends: the next that waits has it, or all that wait are stored in order. */
    const endTurn = (cell: LaneCell, end: Lane.TurnEnd, failed?: Pending): OutboxFull | undefined => {
      const [next, state] = Lane.turnEnded(cell.state, end)
      cell.state = state
      const refused = failed === undefined ? undefined : enqueue(failed)
      if (next === "none") {
        tidy(cell)
        return refused
      }
      for (const pending of cell.waiters) {
        cell.waiters.delete(pending)
        waiting--
        if (next === "go") {
          pending.at = "granted"
          pending.resume(Effect.succeed("turn"))
          break
        }
        const full = enqueue(pending)
        if (full !== undefined) pending.resume(Effect.fail(full))
      }
      return refused
    }

    const direct = (pending: Pending, restore: Restore): Effect.Effect<Receipt, PublishError> => {
      const { row, lane } = pending
      going++
      return Effect.flatMap(Effect.exit(restore(send(row, row.brokerId))), (exit) => {
        going--
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
        const isRejected = exit.cause.reasons.some(
          (reason) =>
            Cause.isFailReason(reason) &&
            reason.error instanceof BusError &&
            reason.error.reason === "rejected"
        )
        const again: Pending = isRejected ? { ...pending, row: { ...row, rejections: 1 } } : pending
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
          waiting--
          lane.state = Lane.leave(lane.state)
          break
        case "granted":
          endTurn(lane, "dropped")
          break
        case "queued":
          queue.delete(pending)
          reduce(1, pending.row.bytes)
          lane.state = Lane.notCommitted(lane.state, 1)
          break
        case "writing":
          return undecided(pending)
        default:
          return Effect.void
      }
      pending.at = "done"
      tidy(lane)
      return Effect.void
    }

    const wait = (pending: Pending, restore: Restore): Effect.Effect<Receipt, PublishError> => {
      let early: Effect.Effect<Step, PublishError> | undefined
      pending.resume = (next) => {
        early = next
      }
      const step = Effect.callback<Step, PublishError>((resume) => {
        if (early !== undefined) resume(early)
        else pending.resume = resume
      })
      return Effect.flatMap(
        Effect.onInterrupt(restore(step), () => abandon(pending)),
        (next) => (next === "turn" ? direct(pending, restore) : Effect.succeed(next))
      )
    }

    const enter = (row: NewRow): Effect.Effect<Receipt, PublishError> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          if (closed) return Effect.fail(isClosed())
          if (going + waiting + queue.size + commit >= maxInFlight) {
            counts.refused++
            return Effect.fail(new OutboxFull({ what: "inFlight", limit: maxInFlight }))
          }
          const lane = lanes.of(row.subject)
          const [arrival, next] = Lane.arrive(lane.state, storeFirst())
          lane.state = next
          const pending: Pending = { row, lane, at: "new", resume: () => {} }
          if (arrival === "go") return direct(pending, restore)
          if (arrival === "wait") {
            pending.at = "waiting"
            lane.waiters.add(pending)
            waiting++
            return wait(pending, restore)
          }
          const waits = wait(pending, restore)
          const refused = enqueue(pending)
          return refused === undefined ? waits : Effect.fail(refused)
        })
      )

    const isTight = (row: NewRow): boolean =>
      (storeFirst() || (lanes.has(row.subject) && Lane.mustStore(lanes.of(row.subject).state))) &&
      Pressure.judge(cap, load, row.bytes) !== "room"

    const untilRoom = (row: NewRow): Effect.Effect<void> => room.until(() => !isTight(row))

    const rowOf = (event: OutboxEvent): Effect.Effect<NewRow, TooLarge> =>
      Effect.flatMap(maxBytes, (limit) => {
        const bytes = Event.sizeOf(event)
        if (bytes > limit) return Effect.fail(new TooLarge({ subject: event.subject, bytes, limit }))
        return Effect.map(Clock.currentTimeMillis, (at) => ({
          ...event,
          brokerId: event.id,
          bytes,
          at,
          rejections: 0
        }))
      })

    const isClosed = () =>
      new StoreError.StoreError({
        reason: "unavailable",
        store: "outbox",
        detail: "the outbox is closed, its program is ending"
      })

    // ---------------------------------------------------------------------------
    // Out of the store
    // ---------------------------------------------------------------------------

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
    const backOff: Next = {
      _tag: "wait",
      millis: (failures, draw) => Backoff.delay(retryBackoff, failures, undefined, draw)
    }

    const untilProbe = (retryAfter: Duration.Duration): Next => ({
      _tag: "wait",
      // Whole milliseconds, at least one: timers know no parts of them.
      millis: () => Math.max(1, Math.ceil(Duration.toMillis(retryAfter)))
    })

    /** Publishes the rows in order, up to the first that is not acknowledged. */
    const sendAll = (
      rows: ReadonlyArray<Row>,
      acked: Array<Row>
    ): Effect.Effect<Next, StoreError.StoreError> =>
      Effect.gen(function* () {
        for (const row of rows) {
          const exit = yield* Effect.exit(send(row, row.brokerId))
          if (Exit.isSuccess(exit)) {
            acked.push(row)
            continue
          }
          if (Cause.hasInterrupts(exit.cause)) return yield* Effect.interrupt
          const error = exit.cause.reasons.find(Cause.isFailReason)?.error
          if (error instanceof BusError && error.reason === "rejected") return yield* onRejected(row, error)
          if (error instanceof CircuitRefused.CircuitRefused && error.retryAfter !== undefined) {
            return untilProbe(error.retryAfter)
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
        if (error.permanent !== true && rejections < maxRejections) {
          yield* store.rejected(row.seq, rejections)
          const millis = () => Backoff.delay(rejectedBackoff, rejections, undefined, 0.5)
          return { _tag: "wait", millis, ownTime: true }
        }
        yield* store.rejected(row.seq, rejections)
        const at = yield* Clock.currentTimeMillis
        const buried = yield* store.bury(
          { seqs: [row.seq] },
          { reason: "rejected", detail: error.message, at }
        )
        reduce(buried.events, buried.bytes)
        dead += buried.events
        yield* Effect.logWarning(`An event of \`${row.subject}\` is a dead letter: ${error.message}`)
        yield* tell({
          _tag: "EventDied",
          at,
          subject: row.subject,
          id: row.id,
          source: "outbox",
          reason: "rejected"
        })
        yield* trimDead
        return more
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
        if (!(yield* breaker.available(circuitName))) {
          const { retryAfter } = yield* breaker.state(circuitName)
          return retryAfter === undefined ? backOff : untilProbe(retryAfter)
        }
        cell.state = Lane.reading(cell.state)
        const rows = yield* store.head(owned, cell.subject, limit)
        const next = yield* Effect.ensuring(
          sendAll(rows, unremoved),
          // Also at an interruption, so that a stop repeats nothing.
          Effect.ignore(removed(unremoved))
        )
        if (next !== more || unremoved.length > 0) return next === more ? backOff : next
        const [isDone, state] = Lane.drained(cell.state, rows.length < limit)
        cell.state = state
        return isDone ? done : more
      })

    const removed = (rows: Array<Row>): Effect.Effect<void, StoreError.StoreError> =>
      Effect.suspend(() => {
        if (rows.length === 0) return Effect.void
        const taken = [...rows]
        return Effect.map(Effect.uninterruptible(store.remove(taken.map(({ seq }) => seq))), () => {
          rows.length = 0
          counts.drained += taken.length
          reduce(
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
          const before = counts.drained
          if (failures > 0) counts.retried++
          const next = yield* permits
            .withPermit(
              // After a failure one event shows whether the broker is back.
              drainOnce(cell, unremoved, failures > 0 ? 1 : drainBatch)
            )
            .pipe(
              Effect.tap(() => Effect.sync(() => void (storeFailed = false))),
              Effect.catch((error) => Effect.as(onStoreError(error), backOff))
            )
          if (next._tag === "done") return tidy(cell)
          if (next._tag === "more") {
            failures = 0
            continue
          }
          failures = counts.drained > before ? 1 : failures + 1
          const draw = yield* Random.next
          const sleep = Effect.sleep(Duration.millis(next.millis(failures, draw)))
          yield* next.ownTime === true ? sleep : Effect.raceFirst(sleep, broker.next)
        }
      })

    const onStoreError = (error: StoreError.StoreError): Effect.Effect<void> =>
      Effect.suspend(() => {
        if (storeFailed) return Effect.void
        storeFailed = true
        return Effect.andThen(
          Effect.logError("The outbox cannot use its store, and tries again", error),
          Effect.flatMap(Clock.currentTimeMillis, (at) =>
            tell({ _tag: "OutboxStoreFailed", at, reason: error.reason })
          )
        )
      })

    /** The store holds events of this subject. */
    const found = (subject: string): void => {
      if (lanes.size >= maxSubjects && !lanes.has(subject)) {
        overflow = true
        return
      }
      const cell = lanes.of(subject)
      const [begin, next] = Lane.found(cell.state)
      cell.state = next
      if (begin) run(drain(cell))
    }

    // ---------------------------------------------------------------------------
    // Leases, counts
    // ---------------------------------------------------------------------------

    const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

    const renew = Effect.gen(function* () {
      const held = yield* store.beat(holder)
      if (!held.includes(publisher)) {
        // Whoever took it drains what is stored under the old name.
        const lost = publisher
        publisher = globalThis.crypto.randomUUID()
        yield* store.hold(publisher, holder)
        yield* Effect.logWarning(`Another process took over the backlog of this one (${lost})`)
        yield* tell({ _tag: "LeaseLost", at: yield* Clock.currentTimeMillis, publisher: lost })
      }
      owned = [publisher, ...held.filter((id) => id !== publisher)]
    })

    const claim = Effect.gen(function* () {
      const others = yield* store.others(holder)
      const [lapsed, next] = Claims.observe(claims, others, yield* monotonic, lease)
      claims = next
      for (const seen of lapsed) {
        if (!(yield* store.claim(seen, holder))) continue
        owned = [...owned, seen.id]
        yield* tell({ _tag: "BacklogClaimed", at: yield* Clock.currentTimeMillis, publisher: seen.id })
      }
    })

    const look = Effect.gen(function* () {
      let known = 0
      let isOver = false
      for (const id of owned) {
        const subjects = yield* store.subjects(id, maxSubjects + 1)
        known += subjects.length
        for (const subject of subjects) {
          if (lanes.size >= maxSubjects && !lanes.has(subject)) {
            isOver = true
            break
          }
          if (!lanes.has(subject) || !lanes.of(subject).state.draining) found(subject)
        }
        if (subjects.length === 0 && id !== publisher && id !== "replay") {
          yield* store.forget(id, holder)
          owned = owned.filter((one) => one !== id)
        }
      }
      overflow = isOver || known > maxSubjects
    })

    const count = Effect.gen(function* () {
      const totals = yield* store.totals
      let queued = 0
      for (const { row } of queue) queued += row.bytes
      load = { events: totals.events + queue.size + commit, bytes: totals.bytes + queued }
      dead = totals.dead
    })

    const report = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const { refused, ...progress } = counts
      const isBusy = Object.values(progress).some((n) => n > 0) || load.events > 0
      Object.assign(counts, { published: 0, stored: 0, drained: 0, retried: 0, refused: 0 })
      if (refused > 0) yield* tell({ _tag: "OutboxRefused", at, events: refused })
      const first = load.events > 0 ? yield* store.oldest : Option.none<number>()
      const oldest = Option.match(first, { onNone: () => 0, onSome: (born) => Math.max(0, at - born) })
      if (isBusy || growth.backlog > 0) {
        const { events: backlog, bytes } = load
        yield* tell({ _tag: "OutboxProgress", at, ...progress, backlog, bytes, oldest, dead })
      }
      const [change, next] = Growth.look(growth, load.events, yield* monotonic, growthAfter)
      growth = next
      if (change === "raised") {
        yield* Effect.logWarning(`The outbox grows: ${load.events} events are waiting for the broker`)
        yield* tell({ _tag: "BacklogGrew", at, backlog: load.events, oldest })
      } else if (change === "cleared") {
        yield* tell({ _tag: "BacklogShrank", at, backlog: load.events })
      }
    })

    const sweep = Effect.gen(function* () {
      yield* renew
      yield* claim
      yield* look
      if (++sweeps % sweepsPerCount === 0) {
        yield* count
        yield* trimDead
      }
      yield* report
    })

    // ---------------------------------------------------------------------------
    // Life
    // ---------------------------------------------------------------------------

    yield* store.hold(publisher, holder)
    yield* Effect.addFinalizer(() => Effect.ignore(store.release(holder)))
    yield* count
    yield* claim
    yield* look

    yield* Effect.forkScoped(writer)
    yield* sweep.pipe(
      Effect.tap(() => Effect.sync(() => void (storeFailed = false))),
      Effect.catch(onStoreError),
      Effect.delay(sweepEvery),
      Effect.forever,
      Effect.forkScoped
    )
    yield* bus.status.pipe(
      Stream.runForEach((status) =>
        status === "down"
          ? Effect.void
          : Effect.andThen(
              breaker.reset(circuitName),
              Effect.sync(() => broker.pulse())
            )
      ),
      // A status that fails is no reason to stop: waits end by themselves.
      Effect.catchCause((cause) => Effect.logWarning("The status of the event bus ended", cause)),
      Effect.forkScoped
    )
    yield* breaker.transitions.pipe(
      Stream.runForEach(({ to }) => Effect.sync(() => (to === "closed" ? broker.pulse() : undefined))),
      Effect.forkScoped
    )
    const isWritten = settled.until(() => queue.size === 0 && commit === 0)
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        closed = true
        return Effect.andThen(
          Effect.timeoutOption(isWritten, closeWithin),
          Effect.sync(() => {
            for (const pending of queue) pending.resume(Effect.fail(isClosed()))
            queue.clear()
          })
        )
      })
    )

    return Outbox.of({
      publish: (given) =>
        Effect.suspend(() => {
          const event = Event.make(given)
          return Effect.flatMap(store.inTransaction, (inside) =>
            inside
              ? Effect.die(new InsideTransaction())
              : Effect.flatMap(rowOf(event), (row) =>
                  isTight(row)
                    ? Effect.andThen(Effect.timeoutOption(untilRoom(row), waitForRoom), enter(row))
                    : enter(row)
                )
          )
        }),
      publishIn: (given) =>
        Effect.suspend(() => {
          const event = Event.make(given)
          return Effect.flatMap(rowOf(event), (row): ReturnType<Service["publishIn"]> => {
            if (closed) return Effect.fail(isClosed())
            const what = Pressure.exceeded(cap, load, row.bytes)
            if (what !== undefined && whenFull === "fail") {
              counts.refused++
              return Effect.fail(new OutboxFull({ what, limit: cap[what] }))
            }
            const committed = Effect.sync(() => {
              load = Pressure.add(load, 1, row.bytes)
              counts.stored++
              if (closed) return
              found(row.subject)
              // The writer makes room.
              if (whenFull === "shedOldest" && load.events > cap.events) writable.openUnsafe()
            })
            return Effect.as(store.insertIn(publisher, row, committed), { id: row.id })
          })
        }),
      status: Effect.gen(function* () {
        const { phase } = yield* breaker.state(circuitName)
        const oldest = yield* store.oldest
        return { circuit: phase, backlog: load.events, oldest, dead }
      }),
      flush: (within) =>
        Effect.suspend(() => {
          const limit = Options.duration(module, "flush.within", within)
          broker.pulse()
          const isSettled = settled.until(() => lanes.size === 0 && queue.size === 0)
          return Effect.flatMap(Effect.timeoutOption(isSettled, limit), (done) =>
            Option.isSome(done)
              ? Effect.succeed({ left: 0 })
              : Effect.map(store.totals, ({ events }) => ({ left: events }))
          )
        }),
      sweep
    })
  })
