/**
 * One stream of events for every retry, circuit, health change and alert.
 *
 * Every package publishes its own union of events here, over the open base {@link ResilienceEvent}. Without a layer,
 * events are discarded. There are two ways to read them:
 *
 * - {@link stream}: each reader runs in its own fiber behind a sliding buffer. A slow reader loses the oldest events
 *   and never slows a call down. Use it for logs, consoles and server-sent events.
 * - a handler ({@link tap}, {@link layerTap}, {@link layerHandler}): called in order, in the fiber that publishes. A
 *   handler sees every published event. Keep it short, because it blocks that fiber. Use it for counters and windows,
 *   such as `Metrics` and `Alerts`.
 *
 * Neither can change the result of a call. A handler that fails, throws or dies is logged and ignored. Events published
 * by a handler reach all handlers, so a handler must skip its own events.
 *
 * **Circuit events** are published from a separate fiber, once each and in order, so that no reader blocks a call.
 * Their queue holds 1,024 events; when it is full, the oldest are dropped. Failures and refusals, one for each call,
 * take at most half of the queue, so they never push out a transition. All other events are published in the fiber of
 * the call or the ping.
 *
 * Provide reading layers on top of the layer of the events, one after the other, not merged side by side:
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
 * **Limits.** The stream keeps no history, and nothing survives a restart.
 */
import { Clock, Context, Effect, Layer, PubSub, Stream } from "effect"
import type { Scope } from "effect"
import * as Options from "../Options.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** The fields of every event. Events are plain data without keys and prompts, safe to print and to store. */
export interface ResilienceEvent {
  readonly _tag: string
  /** Unix time in milliseconds. */
  readonly at: number
}

/** An event without its time, which is added when it is published. */
export type NoTime<E extends ResilienceEvent> = E extends ResilienceEvent ? Omit<E, "at"> : never

/** Processes an event in the fiber that publishes it. */
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

/** The default service, which discards events. */
export const nowhere: Service = {
  publish: () => Effect.void,
  stream: Stream.empty,
  tap: () => Effect.void
}

/** The current destination of events. Default: {@link nowhere}. */
export const ResilienceEvents: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/resilience/telemetry/ResilienceEvents",
  { defaultValue: () => nowhere }
)

/** Number of events that a reader of the stream may lag behind before the oldest are dropped. */
export const defaultCapacity = 1_024

/** Publishes one event that has its time. */
export const publish = (event: ResilienceEvent): Effect.Effect<void> =>
  Effect.flatMap(ResilienceEvents, (events) => events.publish(event))

/** Publishes events of one union, each with the time of `clock`. Reads no clock where nothing listens. */
export const publisher =
  (events: Service, clock: Clock.Clock) =>
  <E extends ResilienceEvent = never>(event: NoTime<E>): Effect.Effect<void> =>
    events === nowhere
      ? Effect.void
      : // An event without its time, and its time, are an event: TypeScript does not see that of a generic one.
        events.publish({ ...event, at: clock.currentTimeMillisUnsafe() } as unknown as E)

/**
 * Publishes one event now, on the surrounding layer.
 *
 * **Example** (An event of a program)
 *
 * ```ts
 * ResilienceEvents.publishNow<MailSent>({ _tag: "MailSent", server: "smtp" })
 * ```
 */
export const publishNow = <E extends ResilienceEvent = never>(event: NoTime<E>): Effect.Effect<void> =>
  Effect.withFiber((fiber) => publisher(fiber.getRef(ResilienceEvents), fiber.getRef(Clock.Clock))<E>(event))

/** The events of the surrounding layer. Ends at once where there is none. */
export const stream: Stream.Stream<ResilienceEvent> = Stream.unwrap(
  Effect.map(ResilienceEvents, (events) => events.stream)
)

/** Hands every event of the surrounding layer to `handler` until the scope ends. Keep the handler short. */
export const tap = (handler: Handler): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(ResilienceEvents, (events) => events.tap(handler))

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

/**
 * Creates a service that broadcasts to all readers. `capacity` (default 1,024) bounds the buffer of each reader of the
 * stream.
 */
export const make = (
  options: { readonly capacity?: number | undefined } = {}
): Effect.Effect<Service, never, Scope.Scope> =>
  Effect.suspend(() => {
    Options.fields(module, options, { capacity: Options.is.integer({ min: 1 }) })
    const { capacity = defaultCapacity } = options
    return Effect.map(
      Effect.acquireRelease(PubSub.sliding<ResilienceEvent>(capacity), PubSub.shutdown),
      (hub): Service => {
        // Replaced, not mutated, so that a handler may be added or removed while an event is being delivered.
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
            // The same function may be registered twice. Each registration is separate.
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

/** Hands every event to `handler`, in order, in the fiber that publishes it. Keep the handler short. */
export const layerHandler = (handler: Handler): Layer.Layer<never> => {
  isHandler(module, "handler", handler)
  return Layer.effect(
    ResilienceEvents,
    Effect.tap(make(), (events) => events.tap(handler))
  )
}

/**
 * Adds a handler to the events of the surrounding layer, or creates them where there are none.
 *
 * Layers merged side by side do not see each other, and only the last of them gets events. Stack them with
 * `Layer.provideMerge`.
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

/** Neither a failing handler nor a failing logger may change the result of a call. */
const harmless = (handler: Handler, event: ResilienceEvent): Effect.Effect<void> =>
  Effect.suspend(() => handler(event)).pipe(
    Effect.catchCause((cause) =>
      Effect.logWarning(`A handler of resilience events failed at ${event._tag}`, cause)
    ),
    Effect.catchCause(() => Effect.void)
  )
