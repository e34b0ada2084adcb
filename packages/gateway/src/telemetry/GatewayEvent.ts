/**
 * What the gateway says of each request: plain data, without keys and content. The events of the call machine
 * (`FailoverEvent`) tell of the attempts behind it.
 *
 * Durations are milliseconds.
 */
import { Metric } from "effect"
import { EventDefinition } from "@outlast/resilience"
import type { Wire } from "../wire/Wire.ts"

/**
 * - `answered`: the answer is complete
 * - `refused`: the request is at fault, says the gateway or the vendor
 * - `failed`: no target gave a complete answer
 * - `abandoned`: the caller left
 */
export type Outcome = "answered" | "refused" | "failed" | "abandoned"

export interface GatewayAnswered {
  readonly _tag: "GatewayAnswered"
  /** Unix time in milliseconds. */
  readonly at: number
  /** The name of a configured route; `other` for any other model. */
  readonly route: string
  readonly wire: Wire["name"]
  readonly outcome: Outcome
  /** Id of the target whose answer it is. */
  readonly target: string | undefined
  /** Requests that were sent to vendors. */
  readonly attempts: number
  /** The failure for which another model was left. */
  readonly switched: string | undefined
  /** From the whole request until its answer began; `undefined` where none did. */
  readonly begun: number | undefined
  /** From the whole request until the end of its answer. */
  readonly elapsed: number
  readonly costUsd: number | undefined
}

export type GatewayEvent = GatewayAnswered

/** The route of a request for a model that is no configured route. */
export const otherRoute = "other"

const boundaries = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600]

export const requests = Metric.counter("outlast_gateway_requests_total", {
  description: "Requests to the gateway, by outcome",
  incremental: true
})

export const switches = Metric.counter("outlast_gateway_switches_total", {
  description: "Requests to the gateway that another model answered than the first one asked",
  incremental: true
})

export const beginSeconds = Metric.histogram("outlast_gateway_begin_seconds", {
  description: "Time until an answer of the gateway began",
  boundaries
})

export const requestSeconds = Metric.histogram("outlast_gateway_request_seconds", {
  description: "Time until an answer of the gateway ended",
  boundaries
})

export const cost = Metric.counter("outlast_gateway_cost_usd_total", {
  description: "US dollars for requests to the gateway that were answered",
  incremental: true
})

const names = { route: ({ route }: GatewayAnswered) => route }
const wire = ({ wire }: GatewayAnswered) => wire
const { seconds } = EventDefinition
const inSeconds = (millis: number | undefined) => (millis === undefined ? undefined : millis / 1_000)

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<GatewayEvent> = {
  GatewayAnswered: {
    doc: "A request to the gateway has ended. One for each request in a wire format.",
    line: ({ attempts, elapsed, outcome, route, target, wire }) => ({
      level: outcome === "failed" ? "Warn" : "Info",
      text: `gateway: ${route} (${wire}) ${outcome} after ${seconds(elapsed)}`,
      detail: `: ${target ?? "no target"}, ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`
    }),
    metrics: [
      { metric: requests, names, words: { wire, outcome: ({ outcome }) => outcome } },
      {
        metric: switches,
        names,
        words: { wire },
        value: ({ switched }) => (switched === undefined ? undefined : 1)
      },
      { metric: beginSeconds, names, words: { wire }, value: ({ begun }) => inSeconds(begun) },
      {
        metric: requestSeconds,
        names,
        words: { wire },
        // A refusal is quick, and says nothing of the targets.
        value: ({ elapsed, outcome }) => (outcome === "answered" ? inSeconds(elapsed) : undefined)
      },
      // Nothing makes no series.
      { metric: cost, names, words: { wire }, value: ({ costUsd }) => costUsd || undefined }
    ]
  }
}
