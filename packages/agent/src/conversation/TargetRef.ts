/**
 * Identifies a target: one combination of provider, model, key and endpoint that a call can be sent to.
 *
 * Safe to print: `key` is the name of the credential (an environment variable), never its value.
 */
import { Schema } from "effect"

export const TargetRef = Schema.Struct({
  /** Unique in a chain, e.g. `anthropic/claude-sonnet-4-5#ANTHROPIC_API_KEY`. */
  id: Schema.String,
  provider: Schema.String,
  model: Schema.String,
  /** Base URL without query and trailing slash; empty for a model without network. */
  endpoint: Schema.String,
  /** Name of the credential, e.g. `ANTHROPIC_API_KEY`; empty when none is needed. */
  key: Schema.String
})
export type TargetRef = typeof TargetRef.Type

/** Id of a target in events, errors and summaries. */
export const idOf = (ref: {
  readonly provider: string
  readonly model: string
  readonly key: string
}): string => `${ref.provider}/${ref.model}${ref.key === "" ? "" : `#${ref.key}`}`
