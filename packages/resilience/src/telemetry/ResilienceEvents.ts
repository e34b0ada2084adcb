/**
 * The one stream of what happened.
 *
 * Every package publishes its own union of events here, over the open base {@link ResilienceEvent}. Without a
 * layer events go nowhere, at no cost but their construction. There are two ways to read them:
 *
 * - {@link stream}, each reader in its own fiber behind a sliding buffer: a slow reader loses the oldest events,
 *   it never slows a call down. For logs, consoles, server-sent events.
 * - a handler ({@link tap}, {@link layerTap}, {@link layerHandler}), called in order in the fiber that
 *   publishes: it sees every event that is published, and must be short, for it holds up that fiber. For counters
 *   and windows, such as `Metrics` and `Alerts`.
 *
 * Neither can change what the caller sees: a handler that fails, throws or dies is logged and forgotten. What a
 * handler publishes is published like any other event, so a handler has to leave its own events alone.
 *
 * **What circuits publish** comes from a fiber of their own, so that no reader holds up a call: once each and in
 * order, from a queue of 1,024. Where handlers are slower than circuits, or more happens at once than it holds, some
 * are dropped before they are published. Failures and refusals, of which there is one for each call, take at most
 * half of the queue (what comes when it is full is dropped), so they never push out a transition; over 1,024 in all
 * the oldest go. Everything else is published in the fiber of the call or the ping.
 *
 * Layers that read are put over the layer that publishes to all, in a row, not side by side:
 *
 * **Example** (Printing what happens, and counting it)
 *
 * ```ts
 * const Telemetry = Alerts.layer().pipe(
 *   Layer.provideMerge(Metrics.layer()),
 *   Layer.provideMerge(ResilienceEvents.layer())
 * )
 *
 * ResilienceEvents.stream.pipe(
 *   Stream.runForEach((event) => Console.log(event._tag)),
 *   Effect.forkChild
 * )
 * ```
 *
 * It keeps no history and survives no restart.
 */
import { Context, Effect, Layer, PubSub, Stream } from "effect"
import type { Scope } from "effect"
import * as Options from "../Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** What every event has. Events are plain data without keys and prompts, safe to print and to store. */
export interface ResilienceEvent {
  readonly _tag: string
  /** Unix time in milliseconds. */
  readonly at: number
}

/** An event before somebody looks at the clock. */
export type NoTime<E extends ResilienceEvent> = E extends ResilienceEvent ? Omit<E, "at"> : never

/** What is done with an event, in the fiber that publishes it. */
export type Handler = (event: ResilienceEvent) => Effect.Effect<void>

export interface Service {
  readonly publish: (event: ResilienceEvent) => Effect.Effect<void>
  /** Events from the moment of subscription on. Ends with the layer. */
  readonly stream: Stream.Stream<ResilienceEvent>
  /** Hands every event to `handler` until the scope ends. */
  readonly tap: (handler: Handler) => Effect.Effect<void, never, Scope.Scope>
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** Where nobody listens. */
export const nowhere: Service = {
  publish: () => Effect.void,
  stream: Stream.empty,
  tap: () => Effect.void
}

/** Where events go; by default nowhere. */
export const ResilienceEvents: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/resilience/telemetry/ResilienceEvents",
  { defaultValue: () => nowhere }
)

/** Events that a subscriber has not read yet, at most. */
export const defaultCapacity = 1_024

/** Publishes one event. */
export const publish = (event: ResilienceEvent): Effect.Effect<void> =>
  Effect.flatMap(ResilienceEvents, (events) => events.publish(event))

/** The events of the surrounding layer. Ends at once where there is none. */
export const stream: Stream.Stream<ResilienceEvent> = Stream.unwrap(
  Effect.map(ResilienceEvents, (events) => events.stream)
)

/** Hands every event of the surrounding layer to `handler` until the scope ends: keep it short. */
export const tap = (handler: Handler): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(ResilienceEvents, (events) => events.tap(handler))

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/** A place that broadcasts to all readers. `capacity` (default 1,024) bounds the buffer of each reader of the stream. */
export const make = (
  options: { readonly capacity?: number | undefined } = {}
): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.suspend(() => {
    Options.fields(module, options, { capacity: Options.is.integer({ min: 1 }) })
    const { capacity = defaultCapacity } = options
    return Effect.map(
      Effect.acquireRelease(PubSub.sliding<ResilienceEvent>(capacity), PubSub.shutdown),
      (hub): Service => {
        // Replaced, not changed, so that a handler may come or go while an event is handed round.
        let handlers: ReadonlyArray<Handler> = []
        return {
          publish: (event) =>
            Effect.flatMap(PubSub.publish(hub, event), () =>
              handlers.length === 0
                ? Effect.void
                : Effect.forEach(handlers, (handler) => harmless(handler, event), { discard: true })
            ),
          stream: Stream.fromPubSub(hub),
          tap: (handler) => {
            isHandler(module, "handler", handler)
            // The same function may be handed in twice; each registration is its own.
            const own: Handler = (event) => handler(event)
            return Effect.acquireRelease(
              Effect.sync(() => {
                handlers = [...handlers, own]
              }),
              () =>
                Effect.sync(() => {
                  handlers = handlers.filter((other) => other !== own)
                })
            )
          }
        }
      }
    )
  })

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** Broadcasts events to all readers of {@link stream}. `capacity` (default 1,024) bounds each reader's buffer. */
export const layer = (options: { readonly capacity?: number | undefined } = {}): Layer.Layer<never> =>
  Layer.effect(ResilienceEvents, make(options))

/** Hands every event to `handler`, in order, in the fiber that publishes it: keep it short. */
export const layerHandler = (handler: Handler): Layer.Layer<never> => {
  isHandler(module, "handler", handler)
  return Layer.effect(
    ResilienceEvents,
    Effect.tap(make(), (events) => events.tap(handler))
  )
}

/**
 * What {@link layerHandler} does, for the events of the surrounding layer; where there is none it makes one.
 *
 * Layers that are merged side by side do not see each other: put it over the other one with
 * `Layer.provideMerge`, or only the last of them has events.
 */
export const layerTap = <E, R>(
  handler: Effect.Effect<Handler, E, R>
): Layer.Layer<never, E, Exclude<R, Scope.Scope>> => {
  Options.effect(module, "handler", handler)
  return Layer.effect(
    ResilienceEvents,
    Effect.gen(function* () {
      const outer = yield* ResilienceEvents
      const events = outer === nowhere ? yield* make() : outer
      const handle = yield* Effect.provideService(handler, ResilienceEvents, events)
      yield* events.tap(handle)
      return events
    })
  )
}

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const module = "ResilienceEvents"
const isHandler = Options.is.fn("(event) => Effect<void>")

/** A handler must not change what the caller sees, and neither must a logger that reports it. */
const harmless = (handler: Handler, event: ResilienceEvent): Effect.Effect<void> =>
  Effect.suspend(() => handler(event)).pipe(
    Effect.catchCause((cause) =>
      Effect.logWarning(`A handler of resilience events failed at ${event._tag}`, cause)
    ),
    Effect.catchCause(() => Effect.void)
  )
