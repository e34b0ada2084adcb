/**
 * The circuits that a breaker knows, by name: made on first use, forgotten when idle, and changed in one place, which
 * says so to those who watch. Internal to `CircuitBreaker`.
 *
 * State is read and written without a pause between, which in one process is as good as a lock.
 */
import type { Cause, Fiber, Scope } from "effect"
import { Clock, Effect, MutableRef, Queue, Random, Ref, Stream } from "effect"
import { ResilienceEvents } from "../telemetry/ResilienceEvents.ts"
import * as Warnings from "../telemetry/Warnings.ts"
import type { Classify } from "./CircuitBreaker.ts"
import * as Counts from "./CircuitCounts.ts"
import type { CircuitEvent, CircuitTransition } from "./CircuitEvent.ts"
import * as Opening from "./CircuitOpening.ts"
import * as State from "./CircuitState.ts"

/** One circuit in this process. Its state is an Effect `Ref`, changed in one synchronous step by `Circuits.move`. */
export class Cell {
  readonly circuit: string
  readonly ref: Ref.Ref<State.CircuitState> = Ref.makeUnsafe<State.CircuitState>(State.initial)
  /** It was not forgotten. */
  known = true
  /** Calls that it let through and that have not ended. */
  running = 0
  /** What the last counted failure was, in a few words; none since it closed. */
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
  /** The circuit's place, made if need be. */
  readonly of: (circuit: string, fiber: AnyFiber) => Cell
  /** The circuit's state; reading makes nothing. */
  readonly read: (circuit: string) => State.CircuitState
  readonly lastFailure: (circuit: string) => string | undefined
  readonly all: () => ReadonlyArray<Cell>
  /** The one place where a circuit changes. Says whether it did. */
  readonly move: (cell: Cell, after: State.CircuitState, fiber: AnyFiber) => boolean
  /** Hands an event to the `ResilienceEvents` of a fiber, without waiting. */
  readonly publish: (event: CircuitEvent, fiber: AnyFiber) => void
  readonly transitions: Stream.Stream<CircuitTransition>
}

/** The clock, the chance and the readers of events are those of the fiber that makes a call. */
export type AnyFiber = Fiber.Fiber<unknown, unknown>

/** Milliseconds of a clock that nobody sets. */
export const monotonic = (fiber: AnyFiber): number =>
  Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe()) / 1e6

/** Unix milliseconds, for events. */
export const wallTime = (fiber: AnyFiber): number => fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()

/** A number from 0, below 1. */
export const draw = (fiber: AnyFiber): number => fiber.getRef(Random.Random).nextDoubleUnsafe()

/** Transitions that a reader, and events that `ResilienceEvents`, may be behind. */
const capacity = 1_024

/** Forgets circuits beyond `limit` that lose nothing by it, or that were not used for `idle` milliseconds. */
export const make = (limit: number, idle: number): Effect.Effect<Circuits, never, Scope.Scope> =>
  Effect.gen(function* () {
    const cells = new Map<string, Cell>()
    // A queue for each reader: in one hub for all, the slowest would take from the others.
    const readers = new Set<Queue.Queue<CircuitTransition, Cause.Done>>()
    yield* Effect.addFinalizer(() => Effect.sync(() => readers.forEach((reader) => Queue.endUnsafe(reader))))
    const publish = yield* publisher
    let sweepAt = limit

    const forget = (cell: Cell): void => {
      cell.known = false
      cells.delete(cell.circuit)
    }

    // Its cost is spread over the circuits that were added since the last time.
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
          // Forgotten while a call was under way: what the call found out still counts, unless it was made anew.
          if (cells.has(cell.circuit)) return false
          cell.known = true
          cells.set(cell.circuit, cell)
        }
        // As atomic as `Ref.modify`, at the cost of one property.
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
 * Hands events to the `ResilienceEvents` of the fiber they came from, in order, from a fiber of its own: no
 * observer can hold up a call, change its result, or see events in another order.
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
    // One for each call: in an outage they would push out what matters more.
    const isMany = event._tag === "CircuitRefusal" || event._tag === "CircuitFailure"
    if (isMany && many >= capacity / 2) return
    if (isMany) many++
    const events = fiber.getRef(ResilienceEvents)
    const line = Opening.lineOf(event)
    const told = Effect.suspend(() => events.publish(event))
    // With the loggers of the call.
    const publish =
      line === undefined
        ? told
        : Effect.andThen(Effect.provideContext(Warnings.write(line), fiber.context), told)
    Queue.offerUnsafe(queue, { isMany, publish })
  }
})
