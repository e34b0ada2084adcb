/** An event bus that posts each event to an URL. */
import { Effect, Layer, Stream } from "effect"
import { BusError, EventBus } from "@outlast/delivery"

export const layer = (url: string) =>
  Layer.succeed(EventBus.EventBus, {
    publish: (event) =>
      Effect.tryPromise({
        try: async (signal) => {
          const response = await fetch(url, {
            method: "POST",
            headers: { "event-id": event.id },
            body: Buffer.from(event.body),
            signal: AbortSignal.any([signal, AbortSignal.timeout(2_000)])
          })
          await response.arrayBuffer()
          if (!response.ok) throw new Error(`HTTP ${response.status}`)
          return { duplicate: false }
        },
        catch: (error) =>
          new BusError({ reason: "unavailable", detail: String(error), subject: event.subject })
      }),
    deliveries: () => Stream.empty,
    status: Stream.concat(Stream.succeed("up" as const), Stream.never),
    maxPayload: Effect.succeed(Infinity)
  })
