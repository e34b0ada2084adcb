/**
 * The one stream of what happened.
 *
 * Every package publishes its own union of events here, over the open base {@link ResilienceEvent}. Without a
 * layer events go nowhere, at no cost but their construction. `layer` keeps a sliding buffer for each
 * subscriber: a slow reader loses the oldest events, it never slows a call down.
 *
 * **Example** (Printing what happens)
 *
 * ```ts
 * ResilienceEvents.stream.pipe(
 *   Stream.runForEach((event) => Console.log(event._tag)),
 *   Effect.forkChild
 * )
 * ```
 */
import { Context, Effect, Layer, PubSub, Stream } from "effect"

/** What every event has. Events are plain data without keys and prompts, safe to print and to store. */
export interface ResilienceEvent {
  readonly _tag: string
  /** Unix time in milliseconds. */
  readonly at: number
}

export interface Service {
  readonly publish: (event: ResilienceEvent) => Effect.Effect<void>
  /** Events from the moment of subscription on. */
  readonly stream: Stream.Stream<ResilienceEvent>
}

/** Where events go; by default nowhere. */
export const ResilienceEvents: Context.Reference<Service> = Context.Reference<Service>(
  "@outlast/resilience/telemetry/ResilienceEvents",
  { defaultValue: () => ({ publish: () => Effect.void, stream: Stream.empty }) }
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

/** Broadcasts events to all readers of {@link stream}. `capacity` (default 1,024) bounds each reader's buffer. */
export const layer = (options: { readonly capacity?: number | undefined } = {}): Layer.Layer<never> =>
  Layer.effect(
    ResilienceEvents,
    Effect.map(
      Effect.acquireRelease(
        PubSub.sliding<ResilienceEvent>(options.capacity ?? defaultCapacity),
        PubSub.shutdown
      ),
      (hub) => ({ publish: (event) => PubSub.publish(hub, event), stream: Stream.fromPubSub(hub) })
    )
  )

/** Hands every event to `handle`, in order, in the fiber that publishes it: keep it short. */
export const layerHandler = (handle: (event: ResilienceEvent) => Effect.Effect<void>): Layer.Layer<never> =>
  Layer.succeed(ResilienceEvents, { publish: handle, stream: Stream.empty })
