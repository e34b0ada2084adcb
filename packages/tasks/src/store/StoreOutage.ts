/**
 * Repeats what a worker asks of its store until the store takes it: a task neither ends nor stands still because its
 * store was away, full, locked or read-only for a while.
 *
 * An outage begins with the first operation that fails, and ends when no operation waits any more. It is one event and
 * one line, however many tasks wait. Each operation repeats on its own, up to every two seconds. The first success of
 * any of them lets the others try at once. A worker that stops waits no longer: what could not be stored happens again
 * after its next start.
 */
import { Clock, Context, Effect, Latch, Layer, Option, Random } from "effect"
import { ResilienceEvents, StoreError as StoreErrors } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import type { TaskEvent } from "../telemetry/TaskEvent.ts"
import type { Service as Store } from "./TaskStore.ts"

type Fails = StoreError.StoreError

export interface Service {
  /** Repeats an operation while it fails with what `failureOf` calls an error of the store, until the worker stops. */
  readonly repeat: <A, E, R>(
    operation: Effect.Effect<A, E, R>,
    failureOf: (error: E) => Fails | undefined
  ) => Effect.Effect<A, E, R>
  /** The outage that operations wait for. */
  readonly current: () => Outage | undefined
  /** The worker stops: what waits is interrupted, and so is what fails from now on. */
  readonly stop: Effect.Effect<void>
}

export interface Outage {
  /** The latest error. */
  readonly error: Fails
  readonly since: number
}

export class StoreOutage extends Context.Service<StoreOutage, Service>()(
  "@outlast/tasks/store/StoreOutage"
) {}

/** Milliseconds before the first repeat, and the longest wait. */
const first = 100
const longest = 2_000

const make = (): Service => {
  let waiting = 0
  let outage: Outage | undefined
  const works = Latch.makeUnsafe()
  const stopped = Latch.makeUnsafe()
  const publish = ResilienceEvents.publishNow<TaskEvent>

  const begin = (error: Fails) =>
    Effect.gen(function* () {
      waiting++
      if (outage !== undefined) return
      outage = { error, since: yield* Clock.currentTimeMillis }
      yield* Effect.logWarning(`Tasks: ${error.message} The worker waits for its store.`)
      yield* publish({ _tag: "TaskStoreLost", reason: error.reason, message: error.message })
    })
  const end = Effect.gen(function* () {
    if (--waiting > 0 || outage === undefined) return
    const { since } = outage
    outage = undefined
    const after = (yield* Clock.currentTimeMillis) - since
    yield* Effect.logInfo(`Tasks: the store is back after ${Math.round(after / 1_000)} s.`)
    yield* publish({ _tag: "TaskStoreBack", after })
  })
  const succeeded = Effect.suspend(() => (waiting > 0 ? Latch.release(works) : Effect.void))

  return {
    current: () => outage,
    stop: Latch.open(stopped),
    repeat: (operation, failureOf) => {
      const again = Effect.gen(function* () {
        // Only the first success of another is news: an operation that alone does not fit waits its own time.
        let heeds = true
        for (let wait = first; ; wait = Math.min(longest, 2 * wait)) {
          const jittered = wait * (0.5 + 0.5 * (yield* Random.next))
          heeds = yield* Effect.raceAll([
            Effect.as(Effect.sleep(jittered), heeds),
            Effect.as(Latch.await(stopped), heeds),
            heeds ? Effect.as(Latch.await(works), false) : Effect.never
          ])
          const tried = yield* Effect.map(operation, Option.some).pipe(
            Effect.catch((error) => {
              const failure = failureOf(error)
              if (failure === undefined) return Effect.fail(error)
              if (Latch.isOpen(stopped)) return Effect.interrupt
              if (outage !== undefined) outage = { ...outage, error: failure }
              return Effect.succeedNone
            })
          )
          if (Option.isSome(tried)) return tried.value
        }
      })
      return operation.pipe(
        Effect.catch((error) => {
          const failure = failureOf(error)
          if (failure === undefined) return Effect.fail(error)
          if (Latch.isOpen(stopped)) return Effect.interrupt
          return Effect.acquireUseRelease(
            begin(failure),
            () => again,
            () => end
          )
        }),
        Effect.tap(succeeded)
      )
    }
  }
}

export const layer: Layer.Layer<StoreOutage> = Layer.sync(StoreOutage, make)

/** A store whose operations do not fail because of it. */
export type Patient = {
  readonly [K in keyof Store]: Store[K] extends (...args: infer A) => Effect.Effect<infer S, infer E>
    ? (...args: A) => Effect.Effect<S, Exclude<E, Fails>>
    : never
}

const isStoreError = <E>(error: E): Fails | undefined =>
  error instanceof StoreErrors.StoreError ? error : undefined

/** The operation, repeated as long as it fails with a `StoreError`. */
export const kept = <A, E, R>(outage: Service, operation: Effect.Effect<A, E, R>) =>
  // The type: a `StoreError` leads to a repeat or an interruption, and never to a failure.
  outage.repeat(operation, isStoreError) as Effect.Effect<A, Exclude<E, Fails>, R>

export const patient = (outage: Service, store: Store): Patient =>
  Object.fromEntries(
    Object.entries(store).map(([name, operation]) => [
      name,
      (...args: ReadonlyArray<never>) =>
        // The type: each member of a store takes arguments and returns an effect.
        kept(
          outage,
          (operation as (...args: ReadonlyArray<never>) => Effect.Effect<unknown, unknown>)(...args)
        )
    ])
    // The type: each name still has its own operation.
  ) as unknown as Patient
