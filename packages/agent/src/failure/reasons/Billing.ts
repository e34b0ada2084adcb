/**
 * The account has no money left: credit balance, insufficient quota, spending cap.
 */
import { Schema } from "effect"
import { AiError } from "effect/ai"
import type { ReasonDefinition } from "./ReasonDefinition.ts"
import { always, id, never } from "./ReasonDefinition.ts"

/** The account has no money left: credit balance, insufficient quota, spending cap. */
export class Billing extends Schema.TaggedClass<Billing>(id("Billing"))("Billing", {}) {}

export const billing: ReasonDefinition<Billing> = {
  label: "billing",
  samples: [new Billing()],
  happened: ({ status }) => `the account has no money or quota left${status}`,
  advice: ({ key }) => `Top up the account of ${key}, or add a key of another account.`,
  notice: "has no quota left",
  nearest: () => new AiError.QuotaExhaustedError({}),
  isTransient: never,
  needsPerson: true,
  isItsFault: always,
  wait: "reset",
  remedies: ["key", "target"]
}
