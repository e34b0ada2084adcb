/**
 * The circuits of a breaker, by name. A circuit is created on first use and removed when idle. All changes go through
 * `move`, which publishes them. Internal to `CircuitBreaker`.
 *
 * State is read and written in one synchronous step, so that no lock is needed.
 */
import type { Cause, Fiber, Scope } from "effect"
import { Clock, Effect, MutableRef, Queue, Random, Ref, Stream } from "effect"
import { ResilienceEvents } from "../telemetry/ResilienceEvents.ts"
import * as Warnings from "../telemetry/Warnings.ts"
import * as Counts from "./CircuitCounts.ts"
import type { CircuitEvent, CircuitTransition } from "./CircuitEvent.ts"
import type { Classify } from "./CircuitOutcome.ts"
import * as Opening from "./CircuitOpening.ts"
import * as State from "./CircuitState.ts"

/** One circuit in this process. The state is an Effect `Ref`, changed in one synchronous step by `Circuits.move`. */
export class Cell {
  readonly circuit: string
  readonly ref: Ref.Ref<State.CircuitState> = Ref.makeUnsafe<State.CircuitState>(State.initial)
  /** False once the circuit was removed from the map. */
  known = true
  /** Number of calls that were let through and have not ended. */
  running = 0
  /** Short description of the last counted failure. Cleared when the circuit closes. */
  lastFailure: string | undefined

  constructor(circuit: string) {
    this.circuit = circuit
  }

  get state(): State.CircuitState {
    return this.ref.ref.current
  }
}

/** The options of an attempt, made by a module that has checked them: they are not checked again in each call. */
export class AttemptOptions {
  readonly classify: Classify
  readonly call: unknown

  constructor(classify: Classify, call: unknown) {
    this.classify = classify
    this.call = call
  }
}

export interface Circuits {
  /** Returns the cell of a circuit, created if necessary. */
  readonly of: (circuit: string, fiber: AnyFiber) => Cell
  /** Returns the state of a circuit without creating it. */
  readonly read: (circuit: string) => State.CircuitState
  readonly lastFailure: (circuit: string) => string | undefined
  readonly all: () => ReadonlyArray<Cell>
  /** Changes a circuit, and returns true if its state is new. All changes go through here. */
  readonly move: (cell: Cell, after: State.CircuitState, fiber: AnyFiber) => boolean
  /** Queues an event for the `ResilienceEvents` of a fiber, without waiting. */
  readonly publish: (event: CircuitEvent, fiber: AnyFiber) => void
  readonly transitions: Stream.Stream<CircuitTransition>
}

/** The fiber that makes a call. Supplies the clock, the random numbers and the event readers. */
export type AnyFiber = Fiber.Fiber<unknown, unknown>

/** Monotonic milliseconds, unaffected by changes of the wall clock. */
export const monotonic = (fiber: AnyFiber): number =>
  Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe()) / 1e6

/** Unix milliseconds, for events. */
export const wallTime = (fiber: AnyFiber): number => fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()

/** A random number from 0 inclusive to 1 exclusive. */
export const draw = (fiber: AnyFiber): number => fiber.getRef(Random.Random).nextDoubleUnsafe()

/** Number of events that a reader of transitions, or `ResilienceEvents`, may lag behind. */
const capacity = 1_024

/**
 * Creates the map of circuits. Beyond `limit` it removes circuits that hold no state, or were unused for `idle`
 * milliseconds.
 */
export const make = (limit: number, idle: number): Effect.Effect<Circuits, never, Scope.Scope> =>
  Effect.gen(function* () {
    const cells = new Map<string, Cell>()
    // One queue for each reader. In a shared hub the slowest reader would make the others lose events.
    const readers = new Set<Queue.Queue<CircuitTransition, Cause.Done>>()
    yield* Effect.addFinalizer(() => Effect.sync(() => readers.forEach((reader) => Queue.endUnsafe(reader))))
    const publish = yield* publisher
    let sweepAt = limit

    const forget = (cell: Cell): void => {
      cell.known = false
      cells.delete(cell.circuit)
    }

    // The cost is spread over the circuits added since the last sweep.
    const sweep = (now: number): void => {
      for (const cell of cells.values()) {
        if (cell.running === 0 && State.isForgettable(cell.state, now, idle)) forget(cell)
      }
      if (cells.size >= limit) {
        const oldest = [...cells.values()]
          .flatMap((cell) =>
            cell.running === 0 && cell.state.phase === "closed"
              ? [{ cell, at: Counts.lastAt(cell.state.counts) ?? cell.state.since }]
              : []
          )
          .toSorted((a, b) => a.at - b.at)
        for (const { cell } of oldest.slice(0, cells.size - limit + 1)) forget(cell)
      }
      sweepAt = Math.max(limit, 2 * cells.size)
    }

    const announce = (
      circuit: string,
      before: State.CircuitState,
      after: State.CircuitState,
      fiber: AnyFiber
    ) => {
      const isNewOpening = after.phase === "open" && after.generation !== before.generation
      if (after.phase === before.phase && !isNewOpening) return
      const event: CircuitTransition = {
        _tag: "CircuitTransition",
        at: wallTime(fiber),
        circuit,
        from: before.phase,
        to: after.phase,
        generation: after.generation,
        ...(after.phase === "open" ? { cause: after.cause, openFor: after.until - after.since } : {})
      }
      for (const reader of readers) Queue.offerUnsafe(reader, event)
      publish(event, fiber)
    }

    return {
      of: (circuit, fiber) => {
        const cell = cells.get(circuit)
        if (cell !== undefined) return cell
        if (cells.size >= sweepAt) sweep(monotonic(fiber))
        const made = new Cell(circuit)
        cells.set(circuit, made)
        return made
      },
      read: (circuit) => cells.get(circuit)?.state ?? State.initial,
      lastFailure: (circuit) => cells.get(circuit)?.lastFailure,
      all: () => [...cells.values()],
      move: (cell, after, fiber) => {
        const before = cell.state
        if (after === before) return false
        if (!cell.known) {
          // Removed while a call was in flight. The outcome still counts, unless the circuit was created again.
          if (cells.has(cell.circuit)) return false
          cell.known = true
          cells.set(cell.circuit, cell)
        }
        // As atomic as `Ref.modify`, at the cost of a property write.
        MutableRef.set(cell.ref.ref, after)
        if (after.phase === "closed" && after.generation !== before.generation) cell.lastFailure = undefined
        announce(cell.circuit, before, after, fiber)
        return true
      },
      publish,
      transitions: Stream.unwrap(
        Effect.map(
          Effect.acquireRelease(
            Effect.tap(Queue.sliding<CircuitTransition, Cause.Done>(capacity), (reader) =>
              Effect.sync(() => readers.add(reader))
            ),
            (reader) => Effect.sync(() => readers.delete(reader))
          ),
          Stream.fromQueue
        )
      )
    }
  })

/**
 * Publishes events to the `ResilienceEvents` of the fiber they came from, in order, from a separate fiber. No reader
 * can block a call, change its result, or see events in another order.
 */
const publisher: Effect.Effect<Circuits["publish"], never, Scope.Scope> = Effect.gen(function* () {
  const queue = yield* Queue.sliding<{ readonly isMany: boolean; readonly publish: Effect.Effect<void> }>(
    capacity
  )
  let many = 0
  yield* Queue.take(queue).pipe(
    Effect.flatMap(({ isMany, publish }) => {
      if (isMany) many--
      return Effect.ignoreCause(publish)
    }),
    Effect.forever,
    Effect.forkScoped({ startImmediately: true })
  )
  return (event, fiber) => {
    // One event for each call: in an outage these would push more important events out of the queue.
    const isMany = event._tag === "CircuitRefusal" || event._tag === "CircuitFailure"
    if (isMany && many >= capacity / 2) return
    if (isMany) many++
    const events = fiber.getRef(ResilienceEvents)
    const line = Opening.lineOf(event)
    const told = Effect.suspend(() => events.publish(event))
    // Uses the loggers of the call.
    const publish =
      line === undefined
        ? told
        : Effect.andThen(Effect.provideContext(Warnings.write(line), fiber.context), told)
    Queue.offerUnsafe(queue, { isMany, publish })
  }
})
