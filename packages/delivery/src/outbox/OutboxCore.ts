/**
 * Shared state of the parts of one outbox: options, services, and present knowledge.
 *
 * `OutboxState` is plain mutable data of one process. Only synchronous steps change it, so a fiber never sees half a
 * change.
 */
import { Cause, Clock, Duration, Effect, Exit, FiberSet, Latch, Semaphore } from "effect"
import { CircuitBreaker, ResilienceEvents, StoreError } from "@outlast/resilience"
import * as Options from "@outlast/resilience/Options"
import { BusError } from "../bus/BusError.ts"
import { EventBus } from "../bus/EventBus.ts"
import type { OutboxEvent } from "../Event.ts"
import { Signal } from "../Signal.ts"
import { DeliveryStore, isDeadLettersFull } from "../store/DeliveryStore.ts"
import type { DeliveryEvent } from "../telemetry/DeliveryEvent.ts"
import type { LaneCell, Pending } from "./Lanes.ts"
import { isOfBroker, Lanes } from "./Lanes.ts"
import type { OutboxOptions } from "./OutboxOptions.ts"
import { checks, defaults } from "./OutboxOptions.ts"
import * as Pressure from "./Pressure.ts"

/** Bytes that a broker's headers may take beside those of the event. */
const headerBytes = 1_024

type Settings = ReturnType<typeof settingsOf>

/** The options with their defaults. Throws an `InvalidOption` for an option that is not allowed. */
const settingsOf = (module: string, options: OutboxOptions) => {
  Options.fields(module, options, checks)
  const sweepEvery = Duration.fromInputUnsafe(options.sweepEvery ?? defaults.sweepEvery)
  const lease = Duration.toMillis(options.lease ?? defaults.lease)
  Options.check(
    lease >= 2 * Duration.toMillis(sweepEvery),
    module,
    "lease",
    options.lease,
    "at least twice sweepEvery, so that one slow renewal does not lose it"
  )
  const cap: Pressure.Cap = {
    events: options.cap?.events ?? defaults.cap.events,
    bytes: options.cap?.bytes ?? defaults.cap.bytes
  }
  return {
    mode: options.mode ?? defaults.mode,
    cap,
    whenFull: options.whenFull ?? defaults.whenFull,
    waitForRoom: Duration.fromInputUnsafe(options.waitForRoom ?? defaults.waitForRoom),
    maxBytes: options.maxBytes ?? defaults.maxBytes,
    maxInFlight: options.maxInFlight ?? defaults.maxInFlight,
    rejections: options.rejections ?? defaults.rejections,
    rejected: options.rejected ?? defaults.rejected,
    retry: options.retry ?? defaults.retry,
    circuitName: options.circuitName ?? defaults.circuitName,
    drainConcurrency: options.drainConcurrency ?? defaults.drainConcurrency,
    drainBatch: options.drainBatch ?? defaults.drainBatch,
    commitBatch: options.commitBatch ?? defaults.commitBatch,
    sweepEvery,
    /** In milliseconds. */
    lease,
    maxSubjects: options.maxSubjects ?? defaults.maxSubjects,
    /** In milliseconds. */
    growthAfter: Duration.toMillis(options.growthAfter ?? defaults.growthAfter)
  }
}

class OutboxState {
  /** Publisher name under which this process stores events. Changes when another process takes the backlog. */
  publisher: string
  /** Publishers whose backlog this process drains, its own first. */
  owned: ReadonlyArray<string>
  /**
   * Former names of this process that another process holds, while events may be stored under them. Events of the
   * same subjects wait for them, so the order holds also across a lost lease.
   */
  readonly lost = new Set<string>()
  /** Names under which this process has stored events, without those whose events are gone. */
  readonly #names: Set<string>
  /** The store may hold events of subjects that have no lane. */
  overflow = false
  closed = false
  /** The writer has ended: what is handed to it now would wait forever. */
  ended = false
  /** A drain tests the broker behind a circuit that is not closed. */
  probing = false
  /** The store failed since the last sweep that worked, and that was reported. */
  storeFailed = false
  /** The dead letters were at their cap when an event should have become one, and that was reported. */
  deadFull = false
  /** Number and size of stored events, as this process counts them. */
  load = Pressure.none
  /** Dead letters that were not replayed. */
  dead = 0
  /** Publishes that wait for their turn. */
  waiting = 0
  /** Publishes on their way straight to the broker. */
  going = 0
  /** Events in the commit that is under way. */
  commit = 0
  /** Since the last report. */
  readonly counts = { published: 0, stored: 0, drained: 0, retried: 0, refused: 0 }
  readonly lanes = new Lanes()
  /** Events for the writer, in order. */
  readonly queue = new Set<Pending>()
  /** Open while the writer has work. */
  readonly writable = Latch.makeUnsafe(false)
  /** Released when a wait for the broker may be over. */
  readonly broker = new Signal()
  /** Released when events have left the store. */
  readonly room = new Signal()
  /** Released when nothing is on its way. */
  readonly settled = new Signal()
  readonly #settings: Settings

  constructor(settings: Settings, publisher: string) {
    this.#settings = settings
    this.publisher = publisher
    this.owned = [publisher]
    this.#names = new Set([publisher])
  }

  /** Sets the names that this process holds now. Events may still be stored under its own former names. */
  hold(publisher: string, others: ReadonlyArray<string>): void {
    this.publisher = publisher
    this.owned = [publisher, ...others]
    this.#names.add(publisher)
    this.#compare()
  }

  /** Events were stored under this name, which may be lost meanwhile. */
  storedAs(publisher: string): void {
    if (this.#names.has(publisher)) return
    this.#names.add(publisher)
    this.#compare()
  }

  /** No events are stored under a name that this process does not use anymore. */
  forget(publisher: string): void {
    this.owned = this.owned.filter((id) => id !== publisher)
    this.#names.delete(publisher)
    this.lost.delete(publisher)
  }

  /** A claimed backlog that another process takes back has no order with the events of this process. */
  #compare(): void {
    this.lost.clear()
    for (const id of this.#names) if (!this.owned.includes(id)) this.lost.add(id)
  }

  storeFirst(): boolean {
    return this.#settings.mode === "alwaysStore" || this.overflow
  }

  /** Forgets the lane where nothing is left of it. */
  tidy(cell: LaneCell): void {
    this.lanes.tidy(cell)
    if (this.lanes.size === 0) this.settled.pulse()
  }

  /** Events have left the store, or were not stored. */
  reduce(events: number, bytes: number): void {
    this.load = Pressure.add(this.load, -events, -bytes)
    if (Pressure.judge(this.#settings.cap, this.load, 0) === "room") this.room.pulse()
  }

  /** The limit that one more event of this size would exceed, where such an event is refused. Counts it. */
  refusal(bytes: number): "events" | "bytes" | undefined {
    if (this.#settings.whenFull !== "fail") return undefined
    const what = Pressure.exceeded(this.#settings.cap, this.load, bytes)
    if (what !== undefined) this.counts.refused++
    return what
  }
}

/** An error with which the broker has answered counts as success: the broker is there. */
const classify: CircuitBreaker.Classify = (exit) => {
  if (Exit.isSuccess(exit)) return { counts: "success" }
  const failed = exit.cause.reasons.find(Cause.isFailReason)
  if (failed?.error instanceof BusError) return { counts: isOfBroker(failed.error) ? "failure" : "success" }
  return CircuitBreaker.classify(exit)
}

export type Core = Effect.Success<ReturnType<typeof make>>

/** Throws an `InvalidOption` for an option that is not allowed. */
export const make = (module: string, options: OutboxOptions) =>
  Effect.gen(function* () {
    const settings = settingsOf(module, options)
    const bus = yield* EventBus
    const store = yield* DeliveryStore
    const telemetry = yield* ResilienceEvents.ResilienceEvents
    const breaker = yield* CircuitBreaker.make(options.circuit)
    const guard = breaker.execute(settings.circuitName, { classify })
    // Not of `Random`: two processes with one seed would have one name.
    const holder = globalThis.crypto.randomUUID()
    const state = new OutboxState(settings, options.publisher ?? holder)
    const tell = (event: DeliveryEvent): Effect.Effect<void> => telemetry.publish(event)
    // Registered before the drains, so it runs after they have removed what they published. Released earlier, another
    // process would publish that again.
    yield* Effect.addFinalizer(() => Effect.ignore(store.release(holder)))
    return {
      settings,
      state,
      bus,
      store,
      breaker,
      /** This process in the store: it holds publishers. */
      holder,
      /** Bounds the subjects that are drained at a time. */
      permits: Semaphore.makeUnsafe(settings.drainConcurrency),
      /** Runs a fiber of the layer. */
      run: yield* FiberSet.makeRuntime<never>(),
      tell,
      /** Size of the largest event that is accepted, in bytes. */
      maxBytes: Effect.map(bus.maxPayload, (payload) =>
        Math.min(settings.maxBytes, Math.max(1, payload - headerBytes))
      ),
      send: (event: OutboxEvent, brokerId: string) => guard(bus.publish(event, brokerId)),
      /**
       * Reports the first of consecutive failures of the store. A defect is one, too (e.g. a table that is missing for
       * a while): it must not end the fiber that works with the store. Dead letters at their cap are no failure of the
       * store, and are reported until one is written.
       */
      onStoreFailure: (cause: Cause.Cause<StoreError.StoreError>): Effect.Effect<void> =>
        Effect.gen(function* () {
          const error = cause.reasons.find(Cause.isFailReason)?.error
          const at = yield* Clock.currentTimeMillis
          if (error !== undefined && isDeadLettersFull(error)) {
            if (state.deadFull) return
            state.deadFull = true
            yield* Effect.logError("An event cannot become a dead letter, and its subject waits", error)
            return yield* tell({ _tag: "DeadLettersFull", at })
          }
          if (state.storeFailed) return
          state.storeFailed = true
          yield* Effect.logError("The outbox cannot use its store, and tries again", error ?? cause)
          yield* tell({ _tag: "OutboxStoreFailed", at, reason: error?.reason ?? "defect" })
        }),
      /** A sweep has read and written the store. */
      onStoreSuccess: Effect.gen(function* () {
        if (!state.storeFailed) return
        state.storeFailed = false
        yield* tell({ _tag: "OutboxStoreBack", at: yield* Clock.currentTimeMillis })
      }),
      /** Makes stored events dead letters; returns how many. */
      bury: (
        ...which: Parameters<DeliveryStore["Service"]["bury"]>
      ): Effect.Effect<number, StoreError.StoreError> =>
        Effect.map(store.bury(...which), ({ bytes, events }) => {
          state.reduce(events, bytes)
          state.dead += events
          state.deadFull = false
          return events
        }),
      /** Removes dead letters beyond their cap or age. */
      trimDead: Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        const letters = yield* store.trimDead(at)
        state.dead = Math.max(0, state.dead - letters)
        if (letters > 0) yield* tell({ _tag: "DeadLettersDropped", at, letters })
      })
    }
  })

export const isClosed = () =>
  new StoreError.StoreError({
    reason: "unavailable",
    store: "outbox",
    detail: "the outbox is closed, its program is ending"
  })
