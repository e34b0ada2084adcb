/**
 * The account has no money left, or is restricted: credit balance, insufficient quota, spending cap, fair usage. A
 * person has to act.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id, never } from "./ReasonDefinition.ts"

/** Ids of the rules for an account that is restricted until a person asks the provider to lift the restriction. */
const restricted = ["limit/fair-use", "vendor/restricted"]

/** The account has no money left, or is restricted until a person acts: quota, spending cap, fair usage. */
export class Billing extends Schema.TaggedClass<Billing>(id("Billing"))("Billing", {}) {}

export const billing: ReasonDefinition<Billing> = {
  label: "billing",
  samples: [new Billing()],
  happened: ({ rule, status }) =>
    restricted.includes(rule)
      ? `the account is restricted until the provider lifts it${status}`
      : `the account has no money or quota left${status}`,
  advice: ({ rule, key }) =>
    restricted.includes(rule)
      ? `Ask the provider to lift the restriction on the account of ${key}, or add a key of another account.`
      : `Top up the account of ${key}, or add a key of another account.`,
  notice: () => "has no quota left",
  nearest: () => new AiError.QuotaExhaustedError({}),
  isTransient: never,
  needsPerson: true,
  isItsFault: always,
  wait: "reset",
  remedies: ["key", "target"]
}
