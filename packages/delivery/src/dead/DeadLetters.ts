/**
 * Keeps events that could not be delivered, with the reason, so that they can be listed, replayed or removed.
 *
 * The outbox adds events that the broker rejected, or that were dropped to make room. `EventBus.subscribe` adds events
 * that no handler acknowledged. The store limits their number and age (option `deadLetters`) and removes the oldest.
 *
 * **Replay.** A replayed letter becomes an event of the outbox again, behind the stored events of its subject. One
 * transaction replays all selected letters. The event keeps its id, so that consumers can drop repetitions. It gets a
 * new broker id, because a broker does not deliver a repeated one. An outbox on the same store publishes it at its next
 * sweep. The letter stays as `replayed`, with its history. If delivery fails again, it is `dead` again.
 */
import { Clock, Context, Effect, Layer } from "effect"
import type { Option } from "effect"
import * as Options from "@outlast/resilience/Options"
import { ResilienceEvents } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import { DeliveryStore } from "../store/DeliveryStore.ts"
import type { Replayed } from "../store/DeliveryStore.ts"
import type { DeliveryEvent } from "../telemetry/DeliveryEvent.ts"
import * as Letter from "../store/DeadLetter.ts"
import type { DeadLetter, Filter, NewDeadLetter, Page } from "../store/DeadLetter.ts"

export interface Service {
  /** Lists dead letters page by page, newest first. */
  readonly list: (
    filter?: Filter,
    page?: Partial<Page>
  ) => Effect.Effect<ReadonlyArray<DeadLetter>, StoreError.StoreError>
  /** Finds a dead letter by its number, or the latest one of an event's id. */
  readonly show: (id: string) => Effect.Effect<Option.Option<DeadLetter>, StoreError.StoreError>
  /** Counts the dead letters that match a filter. */
  readonly count: (filter?: Filter) => Effect.Effect<number, StoreError.StoreError>
  /** Stores all matching letters as events again, or none. An empty filter matches all. */
  readonly replay: (
    filter: Filter,
    options?: ReplayOptions
  ) => Effect.Effect<ReadonlyArray<Replayed>, StoreError.StoreError>
  /** Removes all matching letters and returns their number. An empty filter matches all. */
  readonly purge: (filter: Filter) => Effect.Effect<number, StoreError.StoreError>
  /** Adds a dead letter. Returns false if its key exists; the existing letter stays unchanged. */
  readonly write: (letter: NewDeadLetter) => Effect.Effect<boolean, StoreError.StoreError>
}

export interface ReplayOptions {
  /** Maximum number of letters, oldest first. Default 10,000. */
  readonly limit?: number | undefined
  /** Name of the person or program that replays, for the history. Default `program`. */
  readonly by?: string | undefined
}

export const defaults = { limit: 10_000, by: "program", page: 100 } as const

/** Longest page of a list. */
export const maxPage = 10_000

export class DeadLetters extends Context.Service<DeadLetters, Service>()(
  "@outlast/delivery/dead/DeadLetters"
) {}

const module = "DeadLetters"
const { is } = Options

const filterChecks: Options.Checks<Filter> = {
  ids: is.list(is.text),
  subject: is.text,
  reason: is.oneOf(...Letter.reasons),
  since: is.number(),
  before: is.number(),
  replayed: is.flag
}

const pageChecks: Options.Checks<Partial<Page>> = {
  limit: is.integer({ min: 1, max: maxPage }),
  below: is.number()
}

/** The dead letters of a store. */
export const layer: Layer.Layer<DeadLetters, never, DeliveryStore> = Layer.effect(
  DeadLetters,
  Effect.gen(function* () {
    const store = yield* DeliveryStore
    const events = yield* ResilienceEvents.ResilienceEvents
    const tell = (event: DeliveryEvent): Effect.Effect<void> => events.publish(event)

    const trim = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const dropped = yield* store.trimDead(at)
      if (dropped > 0) {
        yield* tell({
          _tag: "DeadLettersDropped",
          at,
          letters: dropped
        })
      }
    })

    return DeadLetters.of({
      list: (filter = {}, page = {}) =>
        Effect.suspend(() => {
          Options.fields(module, filter, filterChecks)
          Options.fields(module, page, pageChecks)
          const { limit = defaults.page, below } = page
          return store.listDead(filter, { limit, below })
        }),
      show: (id) =>
        Effect.suspend(() => {
          is.text(module, "id", id)
          return store.showDead(id)
        }),
      count: (filter = {}) =>
        Effect.suspend(() => {
          Options.fields(module, filter, filterChecks)
          return store.countDead(filter)
        }),
      replay: (filter, options = {}) =>
        Effect.gen(function* () {
          Options.fields(module, filter, filterChecks)
          Options.fields<ReplayOptions>(module, options, { limit: is.integer({ min: 1 }), by: is.text })
          const { limit = defaults.limit, by = defaults.by } = options
          const at = yield* Clock.currentTimeMillis
          const replayed = yield* store.replayDead(filter, limit, { at, by })
          if (replayed.length > 0) {
            yield* tell({
              _tag: "DeadLettersReplayed",
              at,
              letters: replayed.length,
              by
            })
          }
          return replayed
        }),
      purge: (filter) =>
        Effect.gen(function* () {
          Options.fields(module, filter, filterChecks)
          const purged = yield* store.purgeDead(filter)
          if (purged > 0) {
            yield* tell({
              _tag: "DeadLettersPurged",
              at: yield* Clock.currentTimeMillis,
              letters: purged
            })
          }
          return purged
        }),
      write: (letter) =>
        Effect.gen(function* () {
          const isNew = yield* store.writeDead(letter)
          if (!isNew) return false
          yield* tell({
            _tag: "EventDied",
            at: letter.at,
            subject: letter.subject,
            id: letter.id,
            source: letter.source,
            reason: letter.reason
          })
          yield* trim
          return true
        })
    })
  })
)
