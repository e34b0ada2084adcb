/**
 * The key is wrong, expired, revoked or may not do this.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id, never } from "./ReasonDefinition.ts"

/** Id of the rule for a key that is not configured. */
export const missingKey = "key/missing"

/** Id of the rule for a key whose function returned none. */
export const unloadedKey = "key/not-loaded"

/** Ids of the rules for a gateway or server that lacks its own key for the provider behind it. */
const unsetThere = ["auth/secret", "auth/variable"]

/** The key is wrong, expired, revoked or may not do this. */
export class Auth extends Schema.TaggedClass<Auth>(id("Auth"))("Auth", {
  /**
   * True when the provider says that the key will never work again (revoked, disabled). The key is then out until it
   * is reset.
   */
  permanent: Schema.Boolean
}) {}

export const auth: ReasonDefinition<Auth> = {
  label: "auth",
  samples: [new Auth({ permanent: false }), new Auth({ permanent: true })],
  happened: ({ rule, status, matched }) =>
    rule === missingKey
      ? "the key is not set"
      : rule === unloadedKey
        ? `the key could not be loaded${matched}`
        : unsetThere.includes(rule)
          ? `the server lacks its own key for the model${status}`
          : `the key was refused${status}`,
  advice: ({ rule, key }) =>
    rule === unloadedKey
      ? `Check the function that loads ${key}, or sign in again.`
      : unsetThere.includes(rule)
        ? "Set the secret at the server, or add a target at another endpoint."
        : `Set ${key} to a valid ${key === "the key" ? "one" : "key"}, or add another key.`,
  notice: () => "refused the key",
  nearest: ({ description }) => new AiError.AuthenticationError({ kind: "InvalidKey", description }),
  isTransient: never,
  needsPerson: true,
  isItsFault: always,
  wait: "field",
  remedies: ["key", "target"]
}
