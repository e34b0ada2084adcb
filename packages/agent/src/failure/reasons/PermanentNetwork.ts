/**
 * The connection can never work as configured: certificate, scheme, unsupported address.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { proxy } from "./Network.ts"
import { always, id, never } from "./ReasonDefinition.ts"

/**
 * Ids of the rules for a redirect that was not followed. `matched` is the origin of its destination, or the problem
 * with the redirect.
 */
export const redirect = {
  /** The redirect leads to another scheme, host or port. */
  origin: "redirect/origin",
  /** The redirect would repeat the request as a GET, never ends, or cannot be read. */
  refused: "redirect/refused"
} as const

/** The connection can never work as configured: certificate, scheme, unsupported address. */
export class PermanentNetwork extends Schema.TaggedClass<PermanentNetwork>(id("PermanentNetwork"))(
  "PermanentNetwork",
  {}
) {}

export const permanentNetwork: ReasonDefinition<PermanentNetwork> = {
  label: "permanent_network",
  samples: [new PermanentNetwork()],
  happened: ({ rule, status, matched }) => {
    if (rule === redirect.origin)
      return `the endpoint redirects to another origin${matched}, where nothing was sent`
    if (rule === redirect.refused)
      return `the endpoint answered with a redirect that cannot be followed${matched}`
    if (rule.startsWith(proxy)) return `a proxy refused the connection to the endpoint${status}`
    return `the connection cannot work as configured${matched}`
  },
  advice: ({ rule, endpoint }) => {
    if (rule === redirect.origin)
      return "If you trust that origin with the key and the prompt, make it the base URL."
    if (rule === redirect.refused) return "Check the base URL: scheme, host, path and trailing slash."
    if (rule.startsWith(proxy))
      return `Check the address, the credentials and the rules of the proxy, or let ${endpoint} bypass it.`
    return `Check the address, scheme and certificates of ${endpoint}.`
  },
  notice: () => "cannot be reached",
  nearest: ({ url, description }) =>
    new AiError.NetworkError({ reason: "InvalidUrlError", method: "POST", url, description }),
  isTransient: never,
  needsPerson: true,
  isItsFault: always,
  wait: "field",
  remedies: ["target"]
}
