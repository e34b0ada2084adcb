/**
 * The connection can never work as configured: certificate, scheme, unsupported address.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id, never } from "./ReasonDefinition.ts"

/**
 * The rules of a redirect that was not followed. `matched` is the origin that it leads to, or what is
 * wrong with it.
 */
export const redirect = {
  /** To another scheme, host or port. */
  origin: "redirect/origin",
  /** It would repeat the request as a GET, has no end, or cannot be read. */
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
  happened: ({ rule, matched }) => {
    if (rule === redirect.origin)
      return `the endpoint redirects to another origin${matched}, where nothing was sent`
    if (rule === redirect.refused)
      return `the endpoint answered with a redirect that cannot be followed${matched}`
    return `the connection cannot work as configured${matched}`
  },
  advice: ({ rule, endpoint }) => {
    if (rule === redirect.origin)
      return "If you trust that origin with the key and the prompt, make it the base URL."
    if (rule === redirect.refused) return "Check the base URL: scheme, host, path and trailing slash."
    return `Check the address, scheme and certificates of ${endpoint}.`
  },
  notice: "cannot be reached",
  nearest: ({ url, description }) =>
    new AiError.NetworkError({ reason: "InvalidUrlError", method: "POST", url, description }),
  isTransient: never,
  needsPerson: true,
  isItsFault: always,
  wait: "field",
  remedies: ["target"]
}
