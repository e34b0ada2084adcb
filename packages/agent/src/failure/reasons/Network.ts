/**
 * The connection failed or broke, possibly in the middle of an answer.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id } from "./ReasonDefinition.ts"

/** Id of the rule for a target that the user's own health check refused. */
export const unhealthy = "preflight/unhealthy"

/** Group of the rules for a proxy between the caller and the provider that refused the connection. */
export const proxy = "proxy/"

/** The connection failed or broke, possibly in the middle of an answer. */
export class Network extends Schema.TaggedClass<Network>(id("Network"))("Network", {}) {}

export const network: ReasonDefinition<Network> = {
  label: "network",
  samples: [new Network()],
  happened: ({ rule, status, matched }) => {
    if (rule === unhealthy) return "the health check says that it is not healthy"
    return rule.startsWith(proxy)
      ? `a proxy could not connect to the endpoint${status}`
      : `the connection failed or broke${matched}`
  },
  advice: ({ rule, endpoint }) => {
    if (rule === unhealthy)
      return "Wait until `isHealthy` succeeds with true for it, or add another target to the chain."
    return rule.startsWith(proxy)
      ? `Check that the proxy can reach ${endpoint}, or add a target that needs no proxy.`
      : `Check that ${endpoint} can be reached, or add a target at another endpoint.`
  },
  notice: () => "cannot be reached",
  nearest: ({ url, description }) =>
    new AiError.NetworkError({ reason: "TransportError", method: "POST", url, description }),
  isTransient: always,
  needsPerson: false,
  isItsFault: always,
  wait: "any",
  remedies: ["repeat", "target"]
}
