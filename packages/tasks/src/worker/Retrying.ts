/** Hears the waits of a call, for the status of its task. */
import { Effect } from "effect"
import type { FailoverEvent } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"

/** `attempt` is `undefined` when the call asks again. `nextIn` is milliseconds. */
type Hears = (attempt: number | undefined, reason: string, nextIn: number | undefined) => Effect.Effect<void>

/** Runs a call and says when it waits. The events go on to where they went. */
export const retrying = <A, E, R>(run: Effect.Effect<A, E, R>, hears: Hears): Effect.Effect<A, E, R> =>
  Effect.flatMap(ResilienceEvents.ResilienceEvents, (around) => {
    let reason = ""
    const heard = (event: ResilienceEvents.ResilienceEvent): Effect.Effect<void> => {
      if (!isOfCall(event)) return Effect.void
      switch (event._tag) {
        case "AttemptFailed":
          reason = event.reason
          return Effect.void
        case "CallWaiting":
          return hears(event.attempt + 1, reason === "" ? event.reason : reason, event.delay)
        case "AttemptStarted":
          return event.attempt > 1 ? hears(undefined, "", undefined) : Effect.void
        default:
          return Effect.void
      }
    }
    const service: ResilienceEvents.Service = {
      ...around,
      publish: (event) => Effect.andThen(around.publish(event), heard(event))
    }
    return Effect.provideService(run, ResilienceEvents.ResilienceEvents, service)
  })

const tags: ReadonlySet<string> = new Set(["AttemptFailed", "CallWaiting", "AttemptStarted"])

const isOfCall = (event: ResilienceEvents.ResilienceEvent): event is FailoverEvent.FailoverEvent =>
  tags.has(event._tag)
