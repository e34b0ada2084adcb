/**
 * Keeps the cooldowns of a chain and a `ChainStore` in sync.
 *
 * Calls read and change only the local cooldowns. Each change is reported with `changed`, which is synchronous. One
 * fiber does the rest in rounds. A round reads the store, merges it with the local records (`ChainRecord`), applies
 * the cooldowns that others opened, cleared or reset, and writes the records that the store lacks. A round follows
 * every local change, every hint of the store, and every `pollEvery`.
 *
 * **When the store is down**, chains use their local cooldowns. One event reports the outage (`ChainStoreDown`) and
 * one its end (`ChainStoreUp`). No cooldown is lost, even if the store lost its data: each round writes the missing
 * records. Building the layer waits for the first round, at most `timeout`, so that a restart begins with the stored
 * cooldowns. Closing it runs a last round, at most `timeout`, and waits at most as long again for the connection to
 * close.
 *
 * **Keys.** A cooldown of a key belongs to the key's value, identified by a fingerprint (see `ChainReplica`). A new
 * key under the same name is not dead. The fingerprint uses the value at the time when the layer was built.
 *
 * **Limits.** Probes are not shared: each process may send one. Records of other chains in the same store stay until
 * a day after their end.
 */
import { Clock, Deferred, Effect, Fiber, MutableRef, Queue, Stream } from "effect"
import type { Duration, Scope } from "effect"
import { ResilienceEvents } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import type { Now } from "./ChainRecord.ts"
import type { KeyedTarget } from "./ChainReplica.ts"
import { Replica, ownScopes } from "./ChainReplica.ts"
import type { ChainStore, Connection } from "./ChainStore.ts"
import { ChainStoreError } from "./ChainStore.ts"
import type { ChainStoreEvent } from "./ChainStoreEvent.ts"
import type { Cooldowns } from "../decide/Cooldown.ts"
import * as Cool from "../decide/Cooldown.ts"

export interface ChainSync {
  /**
   * Reports a change of the cooldowns from `before` to `after`. Call it right after the change, before anything else
   * can run. `startedAt` (monotonic milliseconds) is the start of the attempt or the reset that cleared them.
   * Cooldowns that others opened later stay.
   */
  readonly changed: (before: Cooldowns, after: Cooldowns, startedAt?: number) => void
}

/** Used by a chain whose cooldowns end with the process. */
export const none: ChainSync = { changed: () => {} }

export interface Options {
  readonly store: ChainStore
  readonly cooldowns: MutableRef.MutableRef<Cooldowns>
  /** Targets of the chain, with the values of their keys for the fingerprints. */
  readonly targets: ReadonlyArray<KeyedTarget>
  /**
   * Interval between two reads of the store, and between two attempts to reach it when it is down. Default 0.5
   * seconds.
   */
  readonly pollEvery?: Duration.Input | undefined
  /** Time limit of one operation of the store. Default 2 seconds. */
  readonly timeout?: Duration.Input | undefined
}

const defaults = { pollEvery: "500 millis", timeout: "2 seconds" } as const

const module = "ChainSync"

/** What the rounds of a chain share. */
interface Rounds {
  readonly store: ChainStore
  readonly replica: Replica
  readonly pollEvery: Duration.Duration
  readonly timeout: Duration.Duration
  readonly now: () => Now
  readonly publish: (event: ResilienceEvents.NoTime<ChainStoreEvent>) => Effect.Effect<void>
  /** An element ends the pause between two rounds. */
  readonly wake: Queue.Queue<void>
  readonly isClosing: () => boolean
}

const inTime = <A, R>(
  { timeout }: Rounds,
  operation: ChainStoreError["operation"],
  effect: Effect.Effect<A, ChainStoreError, R>
) =>
  Effect.timeoutOrElse(effect, {
    duration: timeout,
    orElse: () => Effect.fail(new ChainStoreError({ operation, cause: "it took too long" }))
  })

const round = (rounds: Rounds, connection: Connection): Effect.Effect<void, ChainStoreError> =>
  Effect.gen(function* () {
    const stored = yield* inTime(rounds, "load", connection.load)
    const { news, writes } = rounds.replica.meet(stored, rounds.now())
    yield* Effect.forEach(news, rounds.publish, { discard: true })
    for (const { id, expected, value } of writes) {
      const done = yield* inTime(rounds, "swap", connection.swap(id, expected, value))
      // Another process wrote first. The next round merges its value.
      if (!done) Queue.offerUnsafe(rounds.wake, undefined)
    }
  })

/** Rounds over one connection, until the chain closes or the store fails. Each runs `up`, which reports that it is up. */
const connected = (rounds: Rounds, up: Effect.Effect<void>): Effect.Effect<void, ChainStoreError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { store, pollEvery, wake } = rounds
      const connection = yield* inTime(rounds, "open", store.open)
      yield* Stream.runForEach(connection.changes, () => Queue.offer(wake, undefined)).pipe(
        Effect.ignoreCause,
        Effect.andThen(Effect.sleep(pollEvery)),
        Effect.forever,
        Effect.forkScoped
      )
      let isLast = false
      while (!isLast) {
        isLast = rounds.isClosing()
        yield* round(rounds, connection)
        yield* up
        if (!isLast) yield* Effect.raceFirst(Effect.sleep(pollEvery), Queue.take(wake))
      }
    })
  )

/**
 * Reads the store once, then continues in the background until the scope ends. An option out of its range is a
 * defect, an `InvalidOption`.
 */
export const make = (options: Options): Effect.Effect<ChainSync, never, Scope.Scope> =>
  Effect.gen(function* () {
    const pollEvery = Check.duration(module, "pollEvery", options.pollEvery ?? defaults.pollEvery, { min: 1 })
    const timeout = Check.duration(module, "timeout", options.timeout ?? defaults.timeout, { min: 1 })
    const events = yield* ResilienceEvents.ResilienceEvents
    const clock = yield* Clock.Clock
    const wake = yield* Queue.sliding<void>(1)
    const replica = new Replica(yield* ownScopes(options.targets), options.cooldowns)
    const firstRound = yield* Deferred.make<void>()
    const closed = yield* Deferred.make<void>()
    let isClosing = false
    let isDown = false

    const now = (): Now => ({
      wall: clock.currentTimeMillisUnsafe(),
      monotonic: Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
    })
    replica.note(Cool.empty, MutableRef.get(options.cooldowns), undefined, now())
    const publish = ResilienceEvents.publisher(events, clock)<ChainStoreEvent>
    /** Ends the first round. Publishes an outage, or its end, once. */
    const reached = (error: string | undefined) =>
      Effect.suspend(() => {
        Deferred.doneUnsafe(firstRound, Effect.void)
        if (isDown === (error !== undefined)) return Effect.void
        isDown = error !== undefined
        return publish(error === undefined ? { _tag: "ChainStoreUp" } : { _tag: "ChainStoreDown", error })
      })
    const { store } = options
    const rounds: Rounds = {
      store,
      replica,
      pollEvery,
      timeout,
      now,
      publish,
      wake,
      isClosing: () => isClosing
    }
    const fiber = Effect.suspend(() => connected(rounds, reached(undefined))).pipe(
      Effect.catchCause((cause) => {
        const failure = cause.reasons.find((reason) => reason._tag === "Fail")?.error
        // Local changes do not shorten the wait for a store that is down.
        const pause = Effect.raceFirst(Effect.sleep(pollEvery), Deferred.await(closed))
        return Effect.andThen(reached(failure?.message ?? "it broke"), pause)
      }),
      Effect.repeat({ until: () => isClosing }),
      Effect.forkDetach
    )
    yield* Effect.acquireRelease(fiber, (fiber) =>
      Effect.gen(function* () {
        isClosing = true
        Deferred.doneUnsafe(closed, Effect.void)
        Queue.offerUnsafe(wake, undefined)
        yield* Effect.timeoutOption(Fiber.await(fiber), timeout)
        // Do not wait longer for a store that ignores the interruption.
        yield* Effect.timeoutOption(Fiber.interrupt(fiber), timeout)
      })
    )
    yield* Effect.timeoutOption(Deferred.await(firstRound), timeout)

    return {
      changed: (before, after, startedAt) => {
        if (replica.note(before, after, startedAt, now())) Queue.offerUnsafe(wake, undefined)
      }
    }
  })
