/**
 * Publishes events without losing any while the broker is down or the process dies.
 *
 * `publish` returns when the event is safe, and says where: acknowledged by the broker, or committed to the store. An
 * event goes straight to the broker while that works and no event of its subject is stored. Otherwise it is stored, and
 * published in order when the broker is back. `publishIn` stores the event in the caller's own transaction.
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
import { Config, Context, Effect, Layer, Option, Stream } from "effect"
import type { Scope } from "effect"
import type { StoreError } from "@outlast/resilience"
import * as MissingService from "@outlast/resilience/MissingService"
import * as Options from "@outlast/resilience/Options"
import type { SqlClient } from "effect/sql"
import type { EventBus } from "../bus/EventBus.ts"
import type { NewEvent, TooLarge } from "../Event.ts"
import type { DeliveryStore } from "../store/DeliveryStore.ts"
import * as Drain from "./Drain.ts"
import type { Receipt } from "./Lanes.ts"
import * as Core from "./OutboxCore.ts"
import type { OutboxFull } from "./OutboxFull.ts"
import type { OutboxOptions } from "./OutboxOptions.ts"
import type { Service } from "./OutboxService.ts"
import * as Publish from "./Publish.ts"
import * as Sweep from "./Sweep.ts"
import * as Writer from "./Writer.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export { defaults } from "./OutboxOptions.ts"
export type { OutboxOptions } from "./OutboxOptions.ts"
export type { Receipt } from "./Lanes.ts"
export { InsideTransaction, type Service, type Status } from "./OutboxService.ts"

export class Outbox extends Context.Service<Outbox, Service>()("@outlast/delivery/outbox/Outbox") {}

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

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * Outbox.layerConfig({ publisher: Config.String("HOSTNAME") })
 * ```
 */
export const layerConfig = (
  options: Config.Wrap<OutboxOptions>
): Layer.Layer<Outbox, Config.ConfigError | StoreError.StoreError, EventBus | DeliveryStore> =>
  Layer.unwrap(Effect.map(Config.unwrap<OutboxOptions>(options), layer))

/** A closing outbox waits so long for its last commit. */
const closeWithin = "10 seconds"

/** An outbox for the enclosing scope. Throws an `InvalidOption` for an option that is not allowed. */
export const make = (
  options: OutboxOptions = {}
): Effect.Effect<Service, StoreError.StoreError, EventBus | DeliveryStore | Scope.Scope> =>
  Effect.gen(function* () {
    const core = yield* Core.make(module, options)
    const { breaker, bus, settings, state, store } = core
    const { broker, lanes, queue, settled } = state
    const drain = Drain.make(core)
    const writer = Writer.make(core, drain)
    const { begin, periodic, sweep } = Sweep.make(core, drain)

    yield* begin
    yield* Effect.forkScoped(writer.loop)
    yield* periodic.pipe(
      Effect.tap(core.onStoreSuccess),
      Effect.catchCause(core.onStoreFailure),
      Effect.delay(settings.sweepEvery),
      Effect.forever,
      Effect.forkScoped
    )
    yield* bus.status.pipe(
      Stream.runForEach((status) =>
        status === "down"
          ? Effect.void
          : Effect.andThen(
              breaker.reset(settings.circuitName),
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
    const isWritten = settled.until(() => queue.size === 0 && state.commit === 0)
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        state.closed = true
        return Effect.andThen(
          Effect.timeoutOption(isWritten, closeWithin),
          Effect.sync(() => {
            state.ended = true
            for (const pending of queue) pending.resume(Effect.fail(Core.isClosed()))
            queue.clear()
          })
        )
      })
    )

    return Outbox.of({
      ...Publish.make(core, writer, drain),
      status: Effect.gen(function* () {
        const { phase } = yield* breaker.state(settings.circuitName)
        const oldest = yield* store.oldest
        return { circuit: phase, backlog: state.load.events, oldest, dead: state.dead }
      }),
      flush: (within) =>
        Effect.suspend(() => {
          const limit = Options.duration(module, "flush.within", within)
          broker.pulse()
          // More subjects than lanes: a sweep finds the next ones.
          const isSettled: Effect.Effect<void, StoreError.StoreError> = Effect.flatMap(
            settled.until(() => lanes.size === 0 && queue.size === 0),
            () => (state.overflow ? Effect.andThen(sweep, isSettled) : Effect.void)
          )
          return Effect.flatMap(Effect.timeoutOption(isSettled, limit), (done) =>
            Option.isSome(done)
              ? Effect.succeed({ left: 0 })
              : Effect.map(store.totals, ({ events }) => ({ left: events }))
          )
        }),
      sweep,
      ready: Effect.match(store.probe, {
        onSuccess: () => true as const,
        onFailure: ({ message }) => message
      })
    })
  })
